//! Which server to ask next, and what to say to it first.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure_core::{Address, BootClock, Clock, Moment, Result};
use tokio::time::timeout;

use crate::{
    ear::Ear,
    link::{Link, Trouble},
    tls::Trust,
    url::ZookeeperOptions,
    wire::{Hello, Welcome},
};

#[derive(Debug)]
pub(crate) struct Dial {
    /// In an order of this client's own, so that all of them spread over the servers.
    pub(crate) hosts: Vec<Address>,
    next: AtomicUsize,
    pub(crate) trust: Option<Trust>,
    pub(crate) options: ZookeeperOptions,
}

/// A connection, and when it was asked for.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) link: Arc<Link>,
    pub(crate) welcome: Welcome,
    pub(crate) sent: Moment,
}

impl Dial {
    pub(crate) async fn new(options: ZookeeperOptions) -> Result<Self> {
        let trust = match &options.tls {
            Some(tls) => Some(Trust::load(tls.ca.as_deref()).await?),
            None => None,
        };
        let mut hosts = options.hosts.clone();
        fastrand::shuffle(&mut hosts);
        Ok(Self { hosts, next: AtomicUsize::new(0), trust, options })
    }

    /// Asks the next server, for at most so long.
    pub(crate) async fn one(
        &self,
        hello: Hello<'_>,
        ear: &Arc<Ear>,
        limit: Duration,
    ) -> std::result::Result<Dialled, (Address, Trouble)> {
        let at = self.next.load(Ordering::Relaxed) % self.hosts.len();
        let address = &self.hosts[at];
        let sent = BootClock.now();
        let open = Link::open(address, self.trust.as_ref(), self.options.login.as_ref(), hello, ear);
        let opened = timeout(limit, open)
            .await
            .unwrap_or_else(|_| Err(Trouble::Io(std::io::ErrorKind::TimedOut.into())));
        match opened {
            Ok((link, welcome)) => Ok(Dialled { link, welcome, sent }),
            Err(trouble) => {
                self.avoid(address);
                Err((address.clone(), trouble))
            }
        }
    }

    /// Asks all servers, until one will have us.
    pub(crate) async fn any(
        &self,
        hello: Hello<'_>,
        ear: &Arc<Ear>,
        limit: Duration,
    ) -> std::result::Result<Dialled, (Address, Trouble)> {
        let mut left = self.hosts.len();
        loop {
            left -= 1;
            match self.one(hello, ear, limit).await {
                Err((_, Trouble::Io(_) | Trouble::Garbled)) if left > 0 => {}
                outcome => return outcome,
            }
        }
    }

    /// The next connection goes elsewhere, if there is an elsewhere.
    pub(crate) fn avoid(&self, address: &Address) {
        let at = self.next.load(Ordering::Relaxed);
        if self.hosts[at % self.hosts.len()] == *address {
            // If another session has moved on meanwhile, so be it.
            let _ = self.next.compare_exchange(at, at.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
