use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_core::{
    Claim, ClaimId, Clock, Crash, Engine, Guarantees, Key, Mode, Note, Patience, Permits, Seq, Ttl,
};

use crate::{Failure, Lab, Result, Site, Time};

/// What a rule gets: a fresh key, two independent clients of one store, and time.
#[derive(Debug)]
pub struct Cx {
    /// One client.
    pub a: Arc<dyn Engine>,
    /// Another one, as if in another process.
    pub b: Arc<dyn Engine>,
    /// A key nobody else uses.
    pub key: Key,
    /// What the engine declares.
    pub guarantees: Guarantees,
    /// The store.
    pub lab: Arc<dyn Lab>,
    /// Which time it runs in.
    pub time: Time,
    /// The mode of claims that exclude each other: `Exclusive`, or one permit of one.
    pub mutex: Mode,
    /// Whether its keys can be listed.
    pub listed: bool,
    pub(crate) grace: Duration,
}

impl Cx {
    /// The longest any wait of a rule may take, in the rule's own time.
    pub const LIMIT: Duration = Duration::from_secs(10);

    /// Opens a store of the site for one rule. The key is drawn from the process and a count, so trials that
    /// share a server never meet.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub async fn open(site: &Site, time: Time, mutex: Mode) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let lab = (site.build)(time).await?;
        let (a, b) = (lab.open().await?, lab.open().await?);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let key = Key::new(format!("conformance/{}/{count}", std::process::id()))?;
        let (guarantees, listed) = (site.guarantees.clone(), !site.abilities.unlisted);
        Ok(Self { a, b, key, guarantees, lab, time, mutex, listed, grace: site.grace })
    }

    /// A fresh claim of this mode on the trial's key that queues, with a lease that outlives the trial.
    #[must_use]
    pub fn claim(&self, mode: Mode) -> Claim {
        Claim {
            key: self.key.clone(),
            id: ClaimId::fresh(),
            mode,
            patience: Patience::Queue,
            ttl: Ttl::new(Duration::from_secs(60)).unwrap_or_default(),
            floor: Seq::ZERO,
            note: Note::new("tester@lab:1", "conformance"),
        }
    }

    /// A fresh claim that holds alone.
    #[must_use]
    pub fn exclusive(&self) -> Claim {
        self.claim(self.mutex)
    }

    /// A fresh claim that holds alone and does not wait.
    #[must_use]
    pub fn hasty_exclusive(&self) -> Claim {
        self.hasty(self.mutex)
    }

    /// A fresh shared claim.
    #[must_use]
    pub fn shared(&self) -> Claim {
        self.claim(Mode::Shared)
    }

    /// A fresh claim of some permits.
    ///
    /// # Errors
    /// Unless `0 < take <= of`.
    pub fn permits(&self, take: u32, of: u32) -> Result<Claim> {
        Ok(self.claim(Mode::Permits(Permits::new(take, of)?)))
    }

    /// A fresh claim that does not wait.
    #[must_use]
    pub fn hasty(&self, mode: Mode) -> Claim {
        Claim { patience: Patience::Try, ..self.claim(mode) }
    }

    /// A fresh claim that holds alone, with a lease that the trial can outlive.
    #[must_use]
    pub fn brief(&self) -> Claim {
        Claim { ttl: self.brief_ttl(), ..self.exclusive() }
    }

    /// The shortest lease that a trial can work with.
    #[must_use]
    pub fn brief_ttl(&self) -> Ttl {
        let ttl = match self.time {
            Time::Virtual => Duration::from_secs(9),
            Time::Real => Duration::from_millis(900).max(self.guarantees.min_ttl),
        };
        Ttl::new(ttl).unwrap_or_default()
    }

    /// Whether a claim is told how long its place lives, rather than that it lives with its process.
    #[must_use]
    pub fn leases(&self) -> bool {
        self.guarantees.crash != Crash::Process
    }

    /// Whether a place ends with time although its process lives.
    #[must_use]
    pub fn lapses(&self) -> bool {
        self.guarantees.crash == Crash::Lease
    }

    /// Lets so much time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets a lease end that was last refreshed before this call.
    pub async fn lapse(&self, claim: &Claim) {
        tokio::time::sleep(claim.ttl.get() + self.grace).await;
    }

    /// The clock that the trial measures with.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.lab.clock()
    }

    /// Asks a condition again and again until it is true.
    ///
    /// # Errors
    /// When the condition fails, or is not true within the limit; `what` says what did not come.
    pub async fn eventually<F>(
        &self,
        what: &str,
        limit: Duration,
        mut condition: impl FnMut() -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<bool>>,
    {
        let wait = async {
            while !condition().await? {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        };
        tokio::time::timeout(limit, wait)
            .await
            .unwrap_or_else(|_| Err(Failure::new(format!("within {limit:?} it never came that {what}"))))
    }

    /// Awaits something that must come.
    ///
    /// # Errors
    /// If it does not come within [`Cx::LIMIT`]; `what` says what did not.
    pub async fn within<T>(&self, what: &str, future: impl Future<Output = T>) -> Result<T> {
        let limit = Self::LIMIT;
        tokio::time::timeout(limit, future)
            .await
            .map_err(|_| Failure::new(format!("within {limit:?} it never came that {what}")))
    }
}
