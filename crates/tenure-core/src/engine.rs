use std::fmt;

use async_trait::async_trait;

use crate::{
    Attempt, Claim, ClaimId, EngineId, Evicted, Eviction, Fact, Filter, Guarantees, Place, Released, Renewal,
    Result, Seq, Turn,
};

/// Where claims are granted: a server, a quorum of them, a directory, a map.
///
/// An engine reports facts. It does not sleep, retry, poll on a timer or decide that a lock is lost; all that
/// exists once, above. Every verb is idempotent in (key, claim id), so that a lost reply is asked again. Every
/// verb may be cancelled at any await by dropping its future: it then has happened or not, as with a lost reply.
/// A verb answers within a third of the claim's ttl or fails with `Unavailable`.
///
/// There are no default bodies, so that a wrapper must forward every verb.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// What this engine promises, in this topology. Must not change while the engine lives.
    fn guarantees(&self) -> Guarantees;

    /// Which engine this is, by an identity kept in the engine itself.
    fn identity(&self) -> EngineId;

    /// Tries once. Takes a place or keeps the one it has, refreshes its lease, and says whether it holds.
    ///
    /// - The place of a repeated attempt is the same place: one id has at most one, with one number.
    /// - A claim that waits (`Patience::Queue`) stays at its place when it is busy; one that does not
    ///   (`Patience::Try`) leaves nothing behind.
    /// - The number is drawn while nobody else can draw one for the key, is larger than every earlier number of
    ///   the key, and not below the claim's floor.
    /// - An attempt never changes the mode of the place it has, and never shortens its lease.
    /// - Places whose lease has ended are removed first, and those who now hold are told.
    async fn attempt(&self, claim: &Claim) -> Result<Attempt>;

    /// Resolves when another attempt is worth it, or the engine knows that the claim holds. A hint: it may be
    /// spurious, and it may never come. Called only after an attempt of this claim was answered `Busy`.
    async fn turn(&self, claim: &Claim) -> Turn;

    /// Prolongs the leases of many holds in as few round trips as the engine can, answering in their order.
    ///
    /// Names the claim id *and* the number, never creates a place, and raises the key's last number to the
    /// claim's floor. Where a hold has no lease, says whether the place is still there.
    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>>;

    /// Turns an exclusive hold into a shared one at the same place. Its number stays; those who now hold beside
    /// it are told. Repeating it changes nothing.
    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal>;

    /// Makes the claim neither hold nor wait, and touches no other claim; tells those who now hold.
    ///
    /// If an attempt of this claim may still be on its way, `answered` says so: the engine then refuses that
    /// attempt when it arrives, or where it cannot, lets its place lapse.
    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released>;

    /// Resolves with places that the engine learned to be gone before anybody asked (an expired session, an
    /// eviction). May never resolve. One caller at a time.
    async fn lost(&self) -> Vec<(ClaimId, Seq)>;

    /// The holders and waiters, in order, for people. Places that have expired are not shown.
    async fn line(&self, filter: &Filter) -> Result<Vec<Place>>;

    /// Breaks exactly the hold that an operator looked at.
    async fn evict(&self, eviction: &Eviction) -> Result<Evicted>;

    /// Looks at the engine itself: what an operator should know about its version and settings, and which of them
    /// make locks weaker than they could be. Asks the engine, so it fails when that cannot be reached.
    async fn examine(&self) -> Result<Vec<Fact>>;
}

/// A claim that holds, and the number of its place.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The claim. Its floor is what the key's last number is raised to.
    pub claim: &'a Claim,
    /// Its place.
    pub seq: Seq,
}

/// Whether every attempt of a claim was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// All were.
    All,
    /// One may still be under way.
    InDoubt,
}
