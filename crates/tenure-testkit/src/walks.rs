//! Long random walks on memory and another engine side by side: every answer and every line must agree.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use tenure_core::{
    Answered, Attempt, BootClock, Claim, ClaimId, Crash, Engine, Evicted, Eviction, Filter, Held, Key, Mode,
    Note, Patience, Permits, Place, Renewal, Seq, Standing, Ttl, When,
};
use tenure_local::Memory;

use crate::{Failure, Result, ensure, ensure_eq};

/// No verb is sent so shortly before a lease ends: the two engines need not agree then.
const BEFORE: Duration = Duration::from_millis(200);

/// How exactly an engine counts time, and how long lines become.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The lease of those who lapse in a walk.
    pub short: Duration,
    /// No verb is sent so shortly after a lease ends: the two engines need not agree then.
    pub after: Duration,
    /// How many stand in line at most.
    pub crowd: usize,
}

impl Default for Pace {
    /// That of an engine that counts in milliseconds.
    fn default() -> Self {
        Self { short: Duration::from_millis(500), after: Duration::from_millis(20), crowd: 10 }
    }
}

/// Walks so many times, so many verbs each, on engines that are opened two for each walk, as two processes would. A
/// failure names the seed and the step that lead there again.
///
/// # Errors
/// The first disagreement.
pub async fn agree_with_memory<E: Engine>(
    walks: u64,
    steps: usize,
    open: impl AsyncFn() -> tenure_core::Result<Arc<E>>,
) -> Result {
    agree_with_memory_at(Pace::default(), walks, steps, open).await
}

/// The same with an engine that counts time so.
///
/// # Errors
/// The first disagreement.
pub async fn agree_with_memory_at<E: Engine>(
    pace: Pace,
    walks: u64,
    steps: usize,
    open: impl AsyncFn() -> tenure_core::Result<Arc<E>>,
) -> Result {
    let mut walking = Vec::new();
    for seed in 0..walks {
        let other: [Arc<dyn Engine>; 2] = [open().await?, open().await?];
        let first = Memory::new(Arc::new(BootClock));
        let memory: [Arc<dyn Engine>; 2] = [first.another(), first];
        walking.push(tokio::spawn(walk(pace, seed, steps, other, memory)));
    }
    for walk in walking {
        walk.await.map_err(|err| Failure::new(err.to_string()))??;
    }
    Ok(())
}

async fn walk(
    pace: Pace,
    seed: u64,
    steps: usize,
    other: [Arc<dyn Engine>; 2],
    memory: [Arc<dyn Engine>; 2],
) -> Result {
    let key = Key::new(format!("differential/{seed}"))?;
    let lapses = other[0].guarantees().crash == Crash::Lease;
    let mut walk = Walk {
        pace,
        key,
        lapses,
        rng: Rng::with_seed(seed),
        sort: (seed % 4) as u8,
        other,
        memory,
        known: Vec::new(),
        soon: Vec::new(),
    };
    for step in 0..steps {
        let wrong = |err: Failure| Failure::new(format!("seed {seed}, step {step}: {err}"));
        walk.wait_out().await.map_err(wrong)?;
        let started = Instant::now();
        let outcome = walk.step().await;
        if started.elapsed() > BEFORE && !walk.soon.is_empty() {
            // A machine this slow may have let a lease end between the two engines: there is nothing to compare.
            return Ok(());
        }
        outcome.map_err(wrong)?;
        if step % 4 == 0 || step + 1 == steps {
            walk.same_line().await.map_err(wrong)?;
        }
    }
    Ok(())
}

/// A claim with a place, whose process it belongs to, and its numbers on both.
#[derive(Clone)]
struct Known {
    claim: Claim,
    process: usize,
    other: Seq,
    memory: Seq,
    /// Whether it ever asked for a short lease.
    short: bool,
    evicted: bool,
}

struct Walk {
    pace: Pace,
    key: Key,
    /// Whether the other engine's places end with time unless they are renewed. Those of a session do not, show no
    /// lease, and may be promised for less than was asked for.
    lapses: bool,
    rng: Rng,
    /// What most claims of this walk are.
    sort: u8,
    other: [Arc<dyn Engine>; 2],
    memory: [Arc<dyn Engine>; 2],
    known: Vec<Known>,
    /// When short leases end: not before the first, and before the second.
    soon: Vec<(Instant, Instant)>,
}

impl Walk {
    /// Waits until no lease is about to end.
    async fn wait_out(&mut self) -> Result {
        let mut waited = false;
        while let Some(end) = {
            let now = Instant::now();
            self.soon.retain(|(_, end)| *end + self.pace.after > now);
            self.soon.iter().filter(|(start, _)| *start < now + BEFORE).map(|(_, end)| *end).max()
        } {
            tokio::time::sleep_until((end + self.pace.after).into()).await;
            waited = true;
        }
        // Memory refuses an evicted id until it is released, others for one lease.
        while let Some(at) = self.known.iter().position(|known| waited && known.evicted) {
            let Known { claim, process, .. } = self.known.swap_remove(at);
            let other = self.other[process].release(&claim, Answered::All).await?;
            let memory = self.memory[process].release(&claim, Answered::All).await?;
            ensure_eq!(other, memory, "the release of the evicted");
        }
        Ok(())
    }

    /// Notes that this claim may have been given a short lease, or a grave for as long.
    fn may_end(&mut self, short: bool, sent: Instant) {
        if short {
            self.soon.push((sent + self.pace.short, Instant::now() + self.pace.short));
        }
    }

    async fn step(&mut self) -> Result {
        let crowded = self.known.len() >= self.pace.crowd;
        let dice = if crowded { 15 } else { self.rng.u8(0..16) };
        if self.known.is_empty() || dice < 6 {
            let fresh = self.newcomer()?;
            let process = self.rng.usize(..2);
            return self.attempt(fresh, process).await;
        }
        let at = self.rng.usize(..self.known.len());
        let mut known = self.known[at].clone();
        if self.rng.u8(0..4) == 0 {
            // Whatever lease it had, this verb asks for another.
            known.claim.ttl = self.ttl()?;
            known.short |= known.claim.ttl.get() == self.pace.short;
            self.known[at] = known.clone();
        }
        let sent = Instant::now();
        let off = u64::from(self.rng.u8(0..5) == 0);
        let shifted = |seq: Seq| Seq::new(seq.get() + off).unwrap_or_default();
        let [other, memory] = [self.other[known.process].clone(), self.memory[known.process].clone()];
        let held = |seq| Held { claim: &known.claim, seq: shifted(seq) };
        match dice {
            6..8 => self.attempt(known.claim.clone(), known.process).await?,
            8..10 => {
                let answers =
                    (other.renew(&[held(known.other)]).await?, memory.renew(&[held(known.memory)]).await?);
                ensure!(self.same(answers.0[0], answers.1[0]), "renew: {:?}, but {:?}", answers.0, answers.1);
            }
            10..12 => {
                // Only a hold is downgraded, and a hold of permits is refused.
                let line = memory.line(&Filter::Key(self.key.clone())).await?;
                let holds = |place: &&Place| place.id == known.claim.id && place.standing == Standing::Holds;
                if line.iter().find(holds).is_some() {
                    let answers = (
                        other.downgrade(held(known.other)).await.map_err(|err| err.kind()),
                        memory.downgrade(held(known.memory)).await.map_err(|err| err.kind()),
                    );
                    let same = match (answers.0, answers.1) {
                        (Ok(one), Ok(two)) => self.same(one, two),
                        (one, two) => one == two,
                    };
                    ensure!(same, "downgrade: {answers:?}");
                }
            }
            12 => {
                let when = if self.rng.bool() { When::Now } else { When::Gently };
                let evict =
                    |seq| Eviction { key: self.key.clone(), id: known.claim.id, seq: shifted(seq), when };
                let answers =
                    (other.evict(&evict(known.other)).await?, memory.evict(&evict(known.memory)).await?);
                ensure_eq!(answers.0, answers.1, "evict");
                self.known[at].evicted |= answers.0 != Evicted::Gone;
            }
            _ => {
                let answered = if self.rng.bool() { Answered::All } else { Answered::InDoubt };
                let answers = (
                    other.release(&known.claim, answered).await?,
                    memory.release(&known.claim, answered).await?,
                );
                ensure_eq!(answers.0, answers.1, "release");
                self.known.swap_remove(at);
            }
        }
        self.may_end(known.short, sent);
        Ok(())
    }

    fn newcomer(&mut self) -> Result<Claim> {
        let sort = if self.rng.u8(0..3) == 0 { self.rng.u8(0..3) } else { self.sort.min(2) };
        let mode = match sort {
            0 => Mode::Shared,
            1 => {
                let of = self.rng.u32(3..=4);
                Mode::Permits(Permits::new(self.rng.u32(1..=of), of)?)
            }
            _ => Mode::Exclusive,
        };
        let patience = if self.rng.u8(0..4) == 0 { Patience::Try } else { Patience::Queue };
        let ttl = self.ttl()?;
        let note = Note::new("anna@host:1", "test");
        Ok(Claim { key: self.key.clone(), id: ClaimId::fresh(), mode, patience, ttl, floor: Seq::ZERO, note })
    }

    /// A lease that lasts as long as any walk, or rarely one that may end in it.
    fn ttl(&mut self) -> Result<Ttl> {
        let short = self.rng.u8(0..60) == 0 && self.lapses;
        Ok(Ttl::new(if short { self.pace.short } else { Duration::from_secs(self.rng.u64(60..3600)) })?)
    }

    async fn attempt(&mut self, claim: Claim, process: usize) -> Result {
        let sent = Instant::now();
        let other = self.other[process].attempt(&claim).await.map_err(|err| err.kind());
        let memory = self.memory[process].attempt(&claim).await.map_err(|err| err.kind());
        self.may_end(claim.ttl.get() == self.pace.short, sent);
        let seats = match (&other, &memory) {
            (Ok(Attempt::Granted(one)), Ok(Attempt::Granted(two))) => {
                ensure!(self.same_lease(one.ttl, two.ttl), "the lease of a grant: {one:?}, but {two:?}");
                Some((one.seat, two.seat))
            }
            (Ok(Attempt::Busy(one)), Ok(Attempt::Busy(two))) => {
                ensure!(self.same_lease(one.ttl, two.ttl), "the lease of a waiter: {one:?}, but {two:?}");
                ensure_eq!(one.ahead, two.ahead, "how many are ahead of a waiter");
                ensure_eq!(one.seat.is_some(), two.seat.is_some(), "whether a busy claim has a place");
                if one.blocker.is_some() && two.blocker.is_some() {
                    ensure_eq!(one.blocker, two.blocker, "the blocker");
                }
                one.seat.zip(two.seat)
            }
            (Err(one), Err(two)) if one == two => None,
            _ => return Err(Failure::new(format!("attempt ({}): {other:?}, but {memory:?}", claim.mode))),
        };
        let before = self.known.iter().position(|known| known.claim.id == claim.id);
        match (before, seats) {
            (Some(at), Some((other, memory))) => {
                // Another number on both if its place had lapsed.
                let known = &mut self.known[at];
                let same = (other.seq == known.other, memory.seq == known.memory);
                ensure_eq!(same.0, same.1, "whether it is the same place");
                ensure!(other.seq >= known.other && memory.seq >= known.memory, "numbers went back");
                (known.other, known.memory) = (other.seq, memory.seq);
            }
            (None, Some((other, memory))) => {
                let last = self.known.iter().map(|known| known.other).max().unwrap_or_default();
                ensure!(other.seq > last, "the number {} comes after {last}", other.seq);
                let short = claim.ttl.get() == self.pace.short;
                let (other, memory) = (other.seq, memory.seq);
                self.known.push(Known { claim, process, other, memory, short, evicted: false });
            }
            (_, None) => {}
        }
        Ok(())
    }

    fn same(&self, one: Renewal, two: Renewal) -> bool {
        match (one, two) {
            (Renewal::Renewed(one), Renewal::Renewed(two)) => self.same_lease(one, two),
            (one, two) => one == two,
        }
    }

    fn same_lease(&self, one: Option<Duration>, two: Option<Duration>) -> bool {
        one == two || (!self.lapses && one.is_some() && one < two)
    }

    async fn same_line(&self) -> Result {
        let filter = Filter::Key(self.key.clone());
        let [other, memory] = [self.other[0].line(&filter).await?, self.memory[0].line(&filter).await?];
        let view = |line: &[Place]| -> Vec<_> {
            line.iter().map(|place| (place.id, place.mode, place.standing, place.note.clone())).collect()
        };
        ensure_eq!(view(&other), view(&memory), "the line");
        for (one, two) in other.iter().zip(&memory).filter(|_| self.lapses) {
            let [one, two] = [one, two].map(|place| place.lease_left.unwrap_or_default());
            ensure!(one.abs_diff(two) < Duration::from_secs(5), "a lease of {one:?} and of {two:?}");
        }
        Ok(())
    }
}
