use std::{sync::Arc, time::Duration};

use tenure_core::{BootClock, Clock, Error, Fence, Note, Result, Ttl};

use crate::Around;

/// How a [`Client`](crate::Client) behaves where nothing else is said. The defaults are right for most.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// How long a place lives without being renewed. 15 s: long enough to sit out a short outage, short enough
    /// to wait for after a crash.
    pub ttl: Duration,
    /// Who waits and holds, for people: `user@host:pid` unless said otherwise.
    pub who: String,
    /// How many times in a row tasks of this process may hand a lock to each other before it goes to the end of
    /// the engine's line. At most 1,023; 0 turns hand-over off.
    pub turns: u16,
    /// For how long in a row they may do so.
    pub turn_time: Duration,
    /// How many tasks may wait for one key of this client; more are refused.
    pub max_waiters: usize,
    /// The clock that deadlines are counted by.
    pub clock: Arc<dyn Clock>,
    /// What stands around the background work: nothing, except in a simulation.
    pub around: Option<Arc<dyn Around>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl: Ttl::default().get(),
            who: who(),
            turns: 64,
            turn_time: Duration::from_millis(10),
            max_waiters: 100_000,
            clock: Arc::new(BootClock),
            around: None,
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        Ttl::new(self.ttl)?;
        if self.turns > Fence::MAX_TURN {
            return Err(Error::invalid(format!(
                "{} turns in a row are asked for; a fence counts at most {}",
                self.turns,
                Fence::MAX_TURN
            )));
        }
        if self.max_waiters == 0 {
            return Err(Error::invalid("max_waiters is 0, so that nobody could ever wait; allow at least 1"));
        }
        Ok(())
    }

    pub(crate) fn note(&self) -> Note {
        Note::new(&self.who, "")
    }
}

fn who() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let user = user.unwrap_or_else(|_| format!("uid{}", rustix::process::getuid().as_raw()));
    let system = rustix::system::uname();
    format!("{user}@{}:{}", system.nodename().to_string_lossy(), std::process::id())
}
