//! The connections of a client: a few for attempts and releases, one for renewals, which must not wait behind them.
//!
//! Nothing here runs by itself: a connection that ended is made anew by the next verb that needs it, so that how
//! often to try is decided above, once for all engines.

use std::sync::Arc;

use tenure_core::{Port, Result};

use crate::{
    link::{Link, Purpose, Way},
    url::MysqlOptions,
};

/// How many connections carry everything but renewals. Verbs of one key always share one, so that a release follows
/// the attempt it belongs to.
const WORKERS: usize = 3;

#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) options: Arc<MysqlOptions>,
    pub(crate) way: Arc<Way>,
    workers: [Port<Link>; WORKERS],
    renewals: Port<Link>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    /// The verbs of one key, by a byte of its hash.
    Key(u8),
    /// Renewals.
    Renewals,
}

impl Links {
    pub(crate) fn new(options: MysqlOptions) -> Self {
        let port = || Port::new(Link::works);
        let workers = std::array::from_fn(|_| port());
        Self { options: Arc::new(options), way: Way::new(), workers, renewals: port() }
    }

    /// The connection for this use, made if there is none.
    pub(crate) async fn get(&self, purpose: Use) -> Result<Arc<Link>> {
        let port = match purpose {
            Use::Key(byte) => &self.workers[usize::from(byte) % WORKERS],
            Use::Renewals => &self.renewals,
        };
        if let Some(link) = port.working() {
            return Ok(link);
        }
        let (options, way) = (self.options.clone(), self.way.clone());
        port.get(|| async move { Link::open(&options, way, Purpose::Verbs).await }).await
    }
}
