use std::{fmt, sync::Arc, time::Duration};

use tenure_core::{
    Answered, Applied, Claim, ClaimId, Error, ErrorKind, Fence, Key, Moment, Op, Released, Result, Stamp,
};

use crate::{
    client::{Shared, limited, no_answer},
    hold::Hold,
    lane::{Baton, Lane, Then},
};

/// A held lock. Dropping it releases it in the background, at once where the engine is local.
///
/// It is kept alive for as long as the guard lives, unless it is [lost](Self::lost): the engine was out of reach
/// for too long, the machine slept, an operator broke the hold. A lost lock may be somebody else's already. The
/// [fence](Self::fence) is what lets the protected resource tell the two apart.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    tenancy: Arc<Tenancy>,
}

/// One stay in a lock: shared by the guards of one owner, given back by the last.
pub(crate) struct Tenancy {
    shared: Arc<Shared>,
    hold: Arc<Hold>,
    fence: Fence,
    since: Moment,
    /// `None` once it was given back.
    back: Option<Back>,
}

/// How a stay is given back.
pub(crate) enum Back {
    /// To the next task of the process, or through the lane to the engine.
    Lane(Baton<Lane>),
    /// To the engine.
    Engine,
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// Its lease could not be renewed in time, by this machine's own clock.
    Expired,
    /// The engine says it is gone: expired there, evicted, or forgotten.
    Gone,
}

impl Loss {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Expired => 1,
            Self::Gone => 2,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Self {
        if code == Self::Expired.code() { Self::Expired } else { Self::Gone }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease could not be renewed in time",
            Self::Gone => "the engine says it is gone",
        })
    }
}

impl Guard {
    pub(crate) fn new(tenancy: Arc<Tenancy>) -> Self {
        Self { tenancy }
    }

    pub(crate) fn tenancy(&self) -> &Arc<Tenancy> {
        &self.tenancy
    }

    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.tenancy.hold.claim.key
    }

    /// The claim that holds. Together with the fence it names this holder even where an engine was rebuilt and
    /// its numbers began again.
    #[must_use]
    pub fn claim_id(&self) -> ClaimId {
        self.tenancy.hold.claim.id
    }

    /// A number larger than that of every earlier holder of this key: show it to what the lock protects.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.tenancy.fence
    }

    /// What to show to a resource that checks: fence, claim and mode in one, see [`fence`](crate::fence).
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        stamp(&self.tenancy.hold, self.tenancy.fence)
    }

    /// How long the lock is safe without another renewal; nothing once it is lost. `None` if it lives as long as
    /// this process.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.tenancy.remaining()
    }

    /// Whether the lock is lost, by a look at the clock: true at the deadline even if nothing else runs.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.tenancy.loss().is_some()
    }

    /// Makes sure that the lock is held, before an effect.
    ///
    /// # Errors
    /// `Lost` if it is not.
    pub fn check(&self) -> Result<()> {
        self.tenancy.check()
    }

    /// Resolves when the lock is lost, not later than its deadline; never while it is held.
    ///
    /// # Cancel safety
    /// Nothing is missed between two calls.
    pub async fn lost(&self) -> Loss {
        self.tenancy.lost().await
    }

    /// Something to give away that sees the lock without keeping it.
    #[must_use]
    pub fn witness(&self) -> Witness {
        Witness {
            shared: self.tenancy.shared.clone(),
            hold: self.tenancy.hold.clone(),
            fence: self.tenancy.fence,
        }
    }

    /// Frees the lock and waits for the engine to confirm it, or hands it to the next task of this process that
    /// waits for it. The inner one of two guards of one owner only gives up its share.
    ///
    /// # Errors
    /// `Lost` if the lock was lost before: somebody else may have held it meanwhile. `Unavailable` if the engine
    /// did not answer; the release goes on in the background.
    /// # Cancel safety
    /// Dropping the future leaves the release running in the background.
    pub async fn release(self) -> Result<()> {
        match Arc::into_inner(self.tenancy) {
            Some(tenancy) => tenancy.release().await,
            None => Ok(()),
        }
    }
}

impl Tenancy {
    pub(crate) fn direct(shared: Arc<Shared>, hold: Arc<Hold>) -> Self {
        let (fence, since) = (Fence::new(hold.seq, 0), hold.granted);
        Self::new(shared, hold, fence, since, Back::Engine)
    }

    pub(crate) fn in_lane(shared: Arc<Shared>, baton: Baton<Lane>) -> Option<Self> {
        let stint = baton.stint()?;
        let (hold, fence, since) = (stint.hold.clone(), stint.fence(), stint.since);
        Some(Self::new(shared, hold, fence, since, Back::Lane(baton)))
    }

    fn new(shared: Arc<Shared>, hold: Arc<Hold>, fence: Fence, since: Moment, back: Back) -> Self {
        shared.observer.holds();
        Self { shared, hold, fence, since, back: Some(back) }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }

    /// Whether tasks of this process may hand the place to each other without the engine.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn is_in_lane(&self) -> bool {
        matches!(self.back, Some(Back::Lane(_)))
    }

    /// When the stay began.
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.hold.loss(self.shared.now())
    }

    pub(crate) fn remaining(&self) -> Option<Duration> {
        remaining(&self.shared, &self.hold)
    }

    pub(crate) fn check(&self) -> Result<()> {
        check(&self.shared, &self.hold, self.shared.now(), Op::Run)
    }

    pub(crate) async fn lost(&self) -> Loss {
        lost(&self.shared, &self.hold).await
    }

    pub(crate) async fn release(mut self) -> Result<()> {
        let now = self.shared.now();
        let before = check(&self.shared, &self.hold, now, Op::Release);
        let confirmed = match self.end(now) {
            Some(Back::Lane(baton)) => match baton.pass(now) {
                None => Ok(()),
                Some((lane, stint, Then::Ask)) => {
                    lane.give_up(stint, Then::Ask);
                    Ok(())
                }
                Some((_, _, Then::Rest)) => self.confirm().await,
            },
            Some(Back::Engine) => self.confirm().await,
            None => Ok(()),
        };
        before.and(confirmed)
    }

    /// Counts the stay and says how to give it back, once.
    fn end(&mut self, now: Moment) -> Option<Back> {
        let back = self.back.take()?;
        self.shared.observer.held(now.since(self.since));
        Some(back)
    }

    async fn confirm(&self) -> Result<()> {
        self.shared.watchdog.unwatch(&self.hold);
        let claim = &self.hold.claim;
        let mut backstop =
            Backstop { shared: &self.shared, claim: Some(claim.clone()), answered: self.hold.answered };
        let name = |err: Error| err.with_key(&claim.key).with_engine(self.shared.guarantees.engine);
        match limited(claim.ttl.renew_every(), std::pin::pin!(self.ask())).await {
            Some(Ok(released)) => {
                backstop.claim = None;
                match released {
                    Released::Freed => Ok(()),
                    Released::NotHeld => Err(name(lost_error(Loss::Gone, Op::Release))),
                }
            }
            Some(Err(err)) => Err(name(err)),
            None => Err(name(no_answer(Op::Release, claim.ttl))),
        }
    }
}

impl Tenancy {
    /// Asks the engine, and once more if that failed: a connection that died while it was idle is often found out by
    /// the release after it, and the next one gets through.
    async fn ask(&self) -> Result<Released> {
        let ask = || self.shared.engine.release(&self.hold.claim, self.hold.answered);
        let err = match ask().await {
            Err(err) if err.is_retryable() => err,
            answer => return answer,
        };
        match ask().await {
            // Whose reply was lost may have been freed by the first.
            Ok(Released::NotHeld) if err.applied() == Applied::Maybe => Ok(Released::Freed),
            answer => answer,
        }
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        if self.back.is_none() {
            return;
        }
        let now = self.shared.now();
        match self.end(now) {
            Some(Back::Lane(baton)) => {
                if let Some((lane, stint, then)) = baton.pass(now) {
                    lane.give_up(stint, then);
                }
            }
            Some(Back::Engine) => {
                self.shared.watchdog.unwatch(&self.hold);
                self.shared.cleaner.release(self.hold.claim.clone(), self.hold.answered);
            }
            None => {}
        }
    }
}

/// Leaves an unconfirmed release to the cleaner.
struct Backstop<'a> {
    shared: &'a Shared,
    claim: Option<Claim>,
    answered: Answered,
}

impl Drop for Backstop<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.shared.cleaner.release(claim, self.answered);
        }
    }
}

/// Sees a held lock without keeping it: for the work that runs under a guard somebody else has.
#[derive(Clone)]
pub struct Witness {
    shared: Arc<Shared>,
    hold: Arc<Hold>,
    fence: Fence,
}

impl Witness {
    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.hold.claim.key
    }

    /// As [`Guard::fence`].
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// As [`Guard::stamp`].
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        stamp(&self.hold, self.fence)
    }

    /// As [`Guard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        remaining(&self.shared, &self.hold)
    }

    /// As [`Guard::check`]. Once the guard is gone the answer means nothing: only the guard's own fence protects.
    ///
    /// # Errors
    /// `Lost` if the lock is lost.
    pub fn check(&self) -> Result<()> {
        check(&self.shared, &self.hold, self.shared.now(), Op::Run)
    }

    /// As [`Guard::lost`].
    pub async fn lost(&self) -> Loss {
        lost(&self.shared, &self.hold).await
    }
}

fn stamp(hold: &Hold, fence: Fence) -> Stamp {
    let claim = &hold.claim;
    Stamp::new(fence, claim.id, hold.mode()).expect("guards have places, and permits have no guard")
}

fn remaining(shared: &Shared, hold: &Hold) -> Option<Duration> {
    let now = shared.now();
    match hold.loss(now) {
        Some(_) => Some(Duration::ZERO),
        None => hold.deadline().map(|deadline| deadline.since(now)),
    }
}

fn check(shared: &Shared, hold: &Hold, now: Moment, op: Op) -> Result<()> {
    match hold.loss(now) {
        None => Ok(()),
        Some(loss) => {
            Err(lost_error(loss, op).with_key(&hold.claim.key).with_engine(shared.guarantees.engine))
        }
    }
}

async fn lost(shared: &Shared, hold: &Hold) -> Loss {
    loop {
        // Made before the question, so that a loss between the two is not missed.
        let told = hold.told();
        let now = shared.now();
        if let Some(loss) = hold.loss(now) {
            return loss;
        }
        // Timers stop in suspend, the clock does not: look at it at least once a second.
        let left = hold.deadline().map_or(Duration::MAX, |deadline| deadline.since(now));
        let _ = tokio::time::timeout(left.min(Duration::from_secs(1)), told).await;
    }
}

pub(crate) fn lost_error(loss: Loss, op: Op) -> Error {
    Error::new(ErrorKind::Lost, op, format!("{loss}; somebody else may hold it now")).not_applied()
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("key", self.key()).field("fence", &self.fence()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness")
            .field("key", self.key())
            .field("fence", &self.fence())
            .finish_non_exhaustive()
    }
}
