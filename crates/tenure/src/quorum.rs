//! A quorum: an engine over engines, Redlock done right.

mod asks;
mod attempt;
mod chores;
mod claims;
mod look;
mod member;
mod numbers;
mod pending;
mod release;
mod renew;
mod settings;
mod turns;
mod verdict;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, Engine, EngineId, Error, Evicted, Eviction, Fact, Fences, Filter,
    Floors, Grade, Guarantees, Held, Modes, Moment, Op, Order, Place, Released, Renewal, Result, Seq, Turn,
    Wake,
};

use self::{
    chores::Chores,
    claims::Claims,
    member::Roster,
    numbers::Numbers,
    turns::Turns,
    verdict::{Miss, told},
};
pub use self::{
    member::{Member, OpenMember},
    settings::QuorumSettings,
};
use crate::sync::{Mutex, MutexGuard, lock};

const ENGINE: &str = "quorum";

/// A lock that a majority of independent engines must grant: it goes on while fewer than half of them are down.
///
/// Redlock is a quorum of Redis servers. Three, five or more members are asked at once, each within a time limit of
/// its own, and the round is won or lost as soon as that is certain; a member that answers later takes part in what
/// was won and is released from what was lost.
///
/// # What it promises
/// - Exclusive and shared locks; no semaphores, because no majority can count permits. Waiters come in any order.
/// - A fence that grows with every grant: before a grant counts, a majority has taken on its number, so that every
///   later majority has a member that gives a larger one.
/// - A member that restarted without its memory is not counted until every lease that it may have forgotten has
///   ended. That is why nobody may ask for more than [`QuorumSettings::max_ttl`], and why members that are only
///   Advisory alone, for lack of persistence, make a quorum that is Leased. An engine that may forget without
///   restarting must say in its grants that it remembers nothing (`Some(Duration::ZERO)`); it is then never counted.
/// - Members are single servers: a group with a failover of its own can forget and say nothing about it.
///
/// With [`QuorumSettings::without_fences`], members are welcome whose numbers follow an order of their own (etcd,
/// ZooKeeper). Holders are kept apart as well as with others, but the fence may be smaller than an earlier one, so
/// the quorum is graded Advisory.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use tenure::{BootClock, Client, Engine, Quorum, QuorumSettings, Settings};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let members = ["a", "b", "c"].map(|name| {
///     let engine: Arc<dyn Engine> = tenure_local::Memory::new(Arc::new(BootClock));
///     (name.to_owned(), engine)
/// });
/// let quorum = Quorum::new(members.into(), QuorumSettings::default())?;
/// let client = Client::new(quorum, Settings::default())?;
/// let guard = client.mutex("orders")?.acquire().await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
pub struct Quorum {
    inner: Arc<Inner>,
}

struct Inner {
    roster: Arc<Roster>,
    settings: QuorumSettings,
    guarantees: Guarantees,
    /// Whether numbers are lifted so that fences grow.
    fenced: bool,
    claims: Mutex<Claims>,
    numbers: Mutex<Numbers>,
    /// Until when each member is known not to count.
    quarantines: Mutex<Vec<Option<Moment>>>,
    turns: Turns,
    chores: Chores,
}

impl Quorum {
    /// Makes a quorum of members that are open.
    ///
    /// # Errors
    /// `Invalid` for fewer than three members, an even number of them, one that is named twice, and one that cannot be
    /// a member.
    pub fn new(members: Vec<(String, Arc<dyn Engine>)>, settings: QuorumSettings) -> Result<Arc<Self>> {
        settings.check()?;
        let members = members.into_iter().map(|(name, engine)| Member::open(name, engine)).collect();
        Ok(Self::over(Roster::new(members, settings.clone())?, settings))
    }

    /// Makes a quorum of members of which a minority may be unreachable now. They are opened as soon as they can be;
    /// one that turns out to be another member under a second name is never counted.
    ///
    /// # Errors
    /// As [`Quorum::new`]; `Unavailable` if no majority can be opened, with what each member said; whatever a member
    /// says that will not mend by itself, such as `Denied`.
    pub async fn open(members: Vec<Member>, settings: QuorumSettings) -> Result<Arc<Self>> {
        settings.check()?;
        let roster = Roster::new(members, settings.clone())?;
        let mut opening: FuturesUnordered<_> = (0..roster.len())
            .map(|member| {
                let roster = roster.clone();
                async move { (member, roster.engine(member).await) }
            })
            .collect();
        let mut said: Vec<Option<Result<()>>> = (0..roster.len()).map(|_| None).collect();
        let grace = tokio::time::sleep(settings.member_limit);
        tokio::pin!(grace);
        let mut waited = false;
        loop {
            let open = said.iter().filter(|said| matches!(said, Some(Ok(())))).count();
            if waited && open >= roster.majority() {
                break;
            }
            tokio::select! {
                biased;
                next = opening.next() => match next {
                    Some((member, answer)) => said[member] = Some(answer.map(drop)),
                    None => break,
                },
                () = &mut grace, if !waited => waited = true,
            }
        }
        let verdicts: Vec<_> = said
            .iter()
            .map(|said| match said {
                Some(Ok(())) => "open".to_owned(),
                Some(Err(err)) => Miss::Absent(err.clone()).to_string(),
                None => "not open yet".to_owned(),
            })
            .collect();
        let lasting = said.iter().flatten().filter_map(|said| said.as_ref().err());
        if let Some(err) = lasting.clone().find(|err| !err.is_retryable()) {
            let message = format!("a member cannot be used: {}", told(&roster, &verdicts));
            return Err(Error::new(err.kind(), Op::Connect, message).with_engine(ENGINE).not_applied());
        }
        let open = said.iter().filter(|said| matches!(said, Some(Ok(())))).count();
        if open < roster.majority() {
            let message = format!("{open} of {} are open: {}", roster.len(), told(&roster, &verdicts));
            return Err(Error::unavailable(Op::Connect, message).with_engine(ENGINE).not_applied());
        }
        Ok(Self::over(roster, settings))
    }

    fn over(roster: Arc<Roster>, settings: QuorumSettings) -> Arc<Self> {
        let count = roster.len();
        let fenced = !settings.without_fences;
        let guarantees = roster.agree(|known| promise(known, known.len() < count, fenced));
        let quarantines = Mutex::new(vec![None; count]);
        let (claims, numbers) = (Mutex::default(), Mutex::default());
        let (turns, chores) = (Turns::default(), Chores::default());
        let inner =
            Inner { roster, settings, guarantees, fenced, claims, numbers, quarantines, turns, chores };
        Arc::new(Self { inner: Arc::new(inner) })
    }

    /// What a fenced quorum of such members promises.
    #[must_use]
    pub fn guarantees_over(member: &Guarantees) -> Guarantees {
        promise(std::slice::from_ref(member), false, true)
    }

    /// How many claims of this client have or may have a place.
    #[must_use]
    pub fn claims(&self) -> usize {
        self.inner.claims().len()
    }
}

/// What members of these guarantees can promise together.
fn promise(known: &[Guarantees], unknown: bool, fenced: bool) -> Guarantees {
    let met =
        known.iter().cloned().reduce(|a, b| a.meet(&b)).unwrap_or_else(|| unreachable!("a majority is open"));
    Guarantees {
        engine: ENGINE,
        // Advisory members become Leased: what makes them so is that a restart forgets, which the quarantine covers.
        grade: if fenced { Grade::Leased } else { Grade::Advisory },
        modes: Modes { shared: met.modes.shared, permits: false },
        order: Order::Any,
        wake: Wake::Poll,
        // Of a member that was not reached yet, the least is expected, so that it can join.
        fences: if unknown || !fenced { Fences::ClockBound } else { met.fences },
        floors: Floors::Ignored,
        min_ttl: met.min_ttl.max(settings::MIN_TTL),
        ..met
    }
}

impl Inner {
    fn now(&self) -> Moment {
        self.settings.clock.now()
    }

    fn wall_micros(&self) -> u64 {
        numbers::micros(self.settings.wall.now().get())
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        lock(&self.claims)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        lock(&self.numbers)
    }

    fn quarantined(&self, member: usize, until: Moment) {
        lock(&self.quarantines)[member] = Some(until);
    }

    fn quarantine_of(&self, member: usize) -> Option<Moment> {
        lock(&self.quarantines)[member]
    }

    /// Waits until a hold has fewer than a majority of its places left.
    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        let mut asked = vec![false; self.roster.len()];
        let mut news = FuturesUnordered::new();
        loop {
            let joined = self.roster.joined.notified();
            tokio::pin!(joined);
            joined.as_mut().enable();
            for (member, asked) in asked.iter_mut().enumerate().filter(|(_, asked)| !**asked) {
                if let Some(engine) = self.roster.opened(member) {
                    *asked = true;
                    news.push(async move { (member, engine.lost().await) });
                }
            }
            tokio::select! {
                biased;
                Some((member, gone)) = news.next() => {
                    asked[member] = false;
                    let lost = self.claims().gone(member, &gone, self.roster.majority());
                    if !lost.is_empty() {
                        return lost;
                    }
                }
                () = &mut joined => {}
            }
        }
    }
}

#[async_trait]
impl Engine for Quorum {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees.clone()
    }

    /// The least identity of the members known so far. It is the same for all who reach that member, whoever else is
    /// down; a hash over all would be another one for everybody who misses one. Two clients that each miss the least
    /// member of the other differ until it has joined.
    fn identity(&self) -> EngineId {
        self.inner.roster.identity()
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.inner.attempt(claim).await
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        let now = self.inner.now();
        self.inner.turns.busy(&claim.key, now, now + claim.ttl.get()).notified().await;
        Turn::Again
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        self.inner.renew(holds).await
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        self.inner.downgrade(hold).await
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.inner.release(claim, answered).await
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.inner.lost().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.inner.line(filter).await
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.inner.evict(eviction).await
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        self.inner.examine().await
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum").field("members", &self.inner.roster).finish_non_exhaustive()
    }
}
