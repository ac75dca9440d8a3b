//! One worker: asks for a lock, works under it, gives it back, and says so.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::{sleep, timeout};

use super::{Orders, desk::Desk, say};
use crate::{
    clock::{nanos, now},
    history::{Event, KeyId, Nanos, OpId, Register, Wanted, What, WorkerId},
    locks::{Held, Locks, Look, Wish},
    wire::{Ask, Point, Reply, Request, Says, Spec},
};

/// How long a resource may take to answer. It is on the same machine, and takes longer only if the network holds it back.
const ANSWER: Duration = Duration::from_millis(250);
/// The longest pause between two wishes.
const REST: Duration = Duration::from_millis(8);
/// One wish in so many is of each special kind.
const ONE_IN: u32 = 6;

/// One of the workers in this process.
pub(super) struct Worker<'a> {
    pub(super) id: WorkerId,
    pub(super) spec: &'a Spec,
    pub(super) locks: &'a dyn Locks,
    pub(super) orders: &'a Orders,
    pub(super) rng: fastrand::Rng,
    pub(super) desk: Option<Desk>,
    pub(super) ops: u32,
    pub(super) jumps: u32,
}

/// Where a stay is.
#[derive(Clone, Copy)]
struct Stay {
    op: OpId,
    key: KeyId,
    mode: Wanted,
}

/// The lock is lost, or the resource has refused: nothing more is done under it.
struct Over;

impl Worker<'_> {
    pub(super) async fn work(&mut self) {
        while !self.orders.end.load(Ordering::SeqCst) {
            self.once().await;
            let rest = self.up_to(REST);
            sleep(rest).await;
        }
    }

    fn up_to(&mut self, longest: Duration) -> Duration {
        longest.mul_f64(self.rng.f64())
    }

    fn tell(&self, stay: Stay, what: What) {
        self.tell_of(now(), stay, what);
    }

    fn tell_of(&self, at: Nanos, stay: Stay, what: What) {
        say(&Says::Event(Event { at, worker: self.id, op: stay.op, key: stay.key, what }));
    }

    fn wish(&mut self, op: OpId, key: KeyId) -> Wish {
        let spec = &self.spec.keys[key as usize];
        let mode = match spec.permits {
            Some(of) => Wanted::Permits { take: self.rng.u32(1..=of), of },
            None if spec.shared && self.rng.u32(..ONE_IN) == 0 => Wanted::Shared,
            None => Wanted::Exclusive,
        };
        // Whoever only tries asks again and again, which would do for a waiter what a lost wake-up does not.
        let patient = self.spec.mutant.as_deref() == Some("wake-only");
        let patience = match self.rng.u32(..ONE_IN) {
            0 if !patient => None,
            1 if !patient => Some(self.up_to(self.spec.stay * 4)),
            _ => Some(self.spec.patience),
        };
        Wish {
            who: (self.id, op, key),
            mode,
            patience,
            again: mode == Wanted::Exclusive && self.rng.u32(..ONE_IN) == 0,
        }
    }

    async fn once(&mut self) {
        let key = self.rng.u32(..self.spec.keys.len() as u32);
        self.ops += 1;
        let op = u64::from(self.id) << 32 | u64::from(self.ops);
        let wish = self.wish(op, key);
        let stay = Stay { op, key, mode: wish.mode };
        // Who only tries waits for nobody, but an engine that fails is asked again for a whole lease.
        let patience = nanos(wish.patience.unwrap_or(self.spec.ttl * 4 / 3));
        self.tell(stay, What::Asked { mode: wish.mode, patience });
        let held = match self.locks.ask(&self.spec.keys[key as usize], &wish).await {
            Ok(Some(held)) => held,
            Ok(None) => return self.tell(stay, What::NotGranted),
            Err(err) => return self.tell(stay, What::Failed { maybe: err.maybe, why: err.why }),
        };
        let fence = held.fence();
        match held.look() {
            Look::Until(until) => {
                // What was granted before a jump of the clock is over after it.
                self.jumps = self.orders.jumps.load(Ordering::SeqCst);
                self.tell(stay, What::Granted { fence, until });
                let _ = self.stay(stay, held.as_ref()).await;
            }
            // It was held, and was over before anybody could look.
            Look::Lost => {
                self.tell(stay, What::Granted { fence, until: Some(now()) });
                self.tell(stay, What::Lost);
            }
        }
        self.tell(stay, What::Left);
        self.tell(stay, What::ReleaseAsked);
        let freed = held.release().await;
        self.tell(stay, What::Released { freed });
    }

    /// Looks at the lock before anything is done under it.
    fn look(&mut self, stay: Stay, held: &dyn Held) -> Result<(), Over> {
        let jumps = self.orders.jumps.load(Ordering::SeqCst);
        if jumps != self.jumps {
            self.jumps = jumps;
            let is_held = matches!(held.look(), Look::Until(_));
            say(&Says::Slept { worker: self.id, op: stay.op, held: is_held, at: now() });
        }
        // What it sees was so already when it began to look, and may be over when it says so.
        let at = now();
        match held.look() {
            Look::Until(until) => {
                self.tell_of(at, stay, What::Believes { until });
                Ok(())
            }
            Look::Lost => {
                self.tell(stay, What::Lost);
                Err(Over)
            }
        }
    }

    /// What is done under a lock: both registers are read, some time passes, and both are written.
    async fn stay(&mut self, stay: Stay, held: &dyn Held) -> Result<(), Over> {
        // Where it was lost meanwhile, or its engine does not answer, the look that follows knows.
        if let Some(Ok(fence)) = held.again().await {
            self.tell(stay, What::Reentered { fence: Some(fence) });
        }
        if matches!(stay.mode, Wanted::Permits { .. }) {
            self.think(stay, held).await?;
            return self.think(stay, held).await;
        }
        let proof = held.proof();
        self.look(stay, held)?;
        let mut fenced = None;
        if proof.is_some() {
            self.ask(stay, held, Register::Fenced, Ask::Claim).await?;
            fenced = Some(self.ask(stay, held, Register::Fenced, Ask::Read).await?.version);
        }
        let plain = self.ask(stay, held, Register::Plain, Ask::Read).await?.version;
        self.think(stay, held).await?;
        if stay.mode == Wanted::Shared {
            return Ok(());
        }
        self.think(stay, held).await?;
        self.orders.pass(Point::BeforeWrite, (self.id, stay.op, stay.key));
        // Nothing is asked of the lock from here on: what is refused, the resource refuses.
        let late = self.orders.late.swap(false, Ordering::SeqCst);
        if let Some(base) = fenced {
            self.write(stay, held, Register::Fenced, base, late).await;
        }
        // The plain one is written whatever the fenced one says, as by somebody who has no such thing.
        self.write(stay, held, Register::Plain, plain, late).await;
        Ok(())
    }

    async fn think(&mut self, stay: Stay, held: &dyn Held) -> Result<(), Over> {
        let time = self.up_to(self.spec.stay / 2);
        sleep(time).await;
        held.refresh().await;
        self.look(stay, held)
    }

    async fn ask(
        &mut self,
        stay: Stay,
        held: &dyn Held,
        register: Register,
        ask: Ask,
    ) -> Result<Reply, Over> {
        let request = self.request(stay, held, register, ask, false);
        match self.send(&request).await {
            Some(reply) if reply.accepted => Ok(reply),
            _ => Err(Over),
        }
    }

    /// Writes. Whether it was taken is in the resource's own log; an answer that does not come is not waited for.
    async fn write(&mut self, stay: Stay, held: &dyn Held, register: Register, base: usize, late: bool) {
        let request = self.request(stay, held, register, Ask::Write { base, n: 1 }, late);
        let _ = self.send(&request).await;
    }

    fn request(&self, stay: Stay, held: &dyn Held, register: Register, ask: Ask, late: bool) -> Request {
        let stamp = held.proof();
        Request { worker: self.id, op: stay.op, key: stay.key, register, stamp, ask, late }
    }

    /// Asks a resource; none if it does not answer in time. Then its answer is not waited for on this connection again.
    async fn send(&mut self, request: &Request) -> Option<Reply> {
        let mut desk = match self.desk.take() {
            Some(desk) => desk,
            None => Desk::open(self.spec).await?,
        };
        let reply = timeout(ANSWER, desk.ask(request)).await.ok().flatten();
        if reply.is_some() {
            self.desk = Some(desk);
        }
        reply
    }
}
