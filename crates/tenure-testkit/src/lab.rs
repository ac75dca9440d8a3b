use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tenure_core::{Clock, Engine, Error, Guarantees, Op, Result};

/// Which time a trial runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// A current-thread runtime with a paused clock: it leaps ahead whenever everybody waits.
    Virtual,
    /// A multi-thread runtime with the machine's clock.
    Real,
}

/// One kind of store and how to get at it: what a file `servers/<engine>.rs` gives to the suite.
pub struct Site {
    /// The first part of every trial's name.
    pub name: &'static str,
    /// What its engines declare; the trials are chosen by it.
    pub guarantees: Guarantees,
    /// What the suite can do to it beyond the verbs of an engine.
    pub abilities: Abilities,
    /// How long after the end of a lease it may take until the engine acts on it.
    pub grace: Duration,
    /// Opens a store for one trial. A server may be shared: every trial has keys of its own.
    pub build: Build,
}

/// Opens a store for one trial in the given time.
pub type Build = Box<dyn Fn(Time) -> BoxFuture<'static, Result<Arc<dyn Lab>>> + Send + Sync>;

/// What the suite can do to a store beyond the verbs of an engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Abilities {
    /// Its leases follow tokio's paused clock, so a trial takes no real time.
    pub virtual_time: bool,
    /// Its server can be killed and started again.
    pub restart: bool,
    /// It exists for the rules that restart a server, and is asked no others: where a server of its own for every trial
    /// would take too long, the other rules are asked of a shared one.
    pub only_restarts: bool,
    /// Another process can open it by [`Lab::url`].
    pub helper: bool,
    /// A client can be opened whose own clock is ahead of the others'.
    pub skew: bool,
    /// It has no list of its keys, so that only the line of a key that is named can be shown.
    pub unlisted: bool,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("name", &self.name)
            .field("guarantees", &self.guarantees)
            .field("abilities", &self.abilities)
            .finish_non_exhaustive()
    }
}

impl Site {
    /// The time its trials run in when they have no wish of their own.
    #[must_use]
    pub fn time(&self) -> Time {
        if self.abilities.virtual_time { Time::Virtual } else { Time::Real }
    }
}

/// One store, open for one trial.
///
/// Only `open` must be written; the rest is needed for the [`Abilities`] that a site declares.
#[async_trait]
pub trait Lab: fmt::Debug + Send + Sync + 'static {
    /// Opens another independent client of the store, as another process would.
    async fn open(&self) -> Result<Arc<dyn Engine>>;

    /// The clock that the trial measures with.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Opens a client whose own clock is ahead by so much. The store's clock stays as it is.
    async fn open_ahead(&self, _by: Duration) -> Result<Arc<dyn Engine>> {
        Err(Error::unsupported(Op::Connect, "this lab cannot set a client's clock"))
    }

    /// Kills the server without warning and starts it again on the same data.
    async fn restart(&self) -> Result<()> {
        Err(Error::unsupported(Op::Connect, "this lab cannot restart its server"))
    }

    /// What a helper process opens the same store with; see `servers::open`.
    fn url(&self) -> Option<String> {
        None
    }
}
