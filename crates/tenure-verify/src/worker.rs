//! A worker: a process of its own that goes for the locks, on which faults strike.
//!
//! It says what it does *before* it does it, and what it was told right after, each in one write of its own: a kill loses
//! nothing of it.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use futures_util::future::join_all;
use rustix::process::{Signal, getpid, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::Builder,
    sync::{Notify, mpsc},
    time::{sleep, timeout},
};

use crate::{
    clock::{nanos, now},
    history::{Event, KeyId, OpId, Register, Wanted, What, WorkerId},
    locks::{Held, Locks, Look, SleepyClock, Tenure, Wish},
    mutants,
    wire::{Ask, Order, Point, Reply, Request, Says, Spec},
};

/// How long a resource may take to answer. It is on the same machine, and takes longer only if the network holds it back.
const ANSWER: Duration = Duration::from_millis(250);
/// The longest pause between two wishes.
const REST: Duration = Duration::from_millis(8);
/// One wish in so many is of each special kind.
const ONE_IN: u32 = 6;

/// Runs this process as a worker: its orders come over stdin, its story goes to stdout.
#[must_use]
pub fn main() -> ExitCode {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => return failed(&err),
    };
    let code = match runtime.block_on(run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(&why),
    };
    // What is still on its way belongs to nobody.
    runtime.shutdown_background();
    code
}

fn failed(why: &dyn std::fmt::Display) -> ExitCode {
    say(&Says::Failed { why: why.to_string() });
    ExitCode::FAILURE
}

/// One line in one write.
pub(crate) fn say(says: &Says) {
    let line = serde_json::to_string(says).unwrap_or_default() + "\n";
    let mut out = io::stdout().lock();
    // An organiser that went away hears nothing more, and stdin ends us.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

async fn run() -> Result<(), String> {
    let mut lines = stdin();
    let gone = || "the organiser has gone".to_owned();
    let spec: Spec = serde_json::from_str(&lines.recv().await.ok_or_else(gone)?)
        .map_err(|err| format!("the organiser's words: {err}"))?;
    let orders = Arc::new(Orders::default());
    let locks = open(&spec, &orders).await?;
    say(&Says::Ready);
    let listener = {
        let orders = orders.clone();
        async move {
            while let Some(line) = lines.recv().await {
                if let Ok(order) = serde_json::from_str(&line) {
                    orders.take(order);
                }
            }
        }
    };
    let work = async {
        orders.go.notified().await;
        let spec = &spec;
        let one = |&id: &WorkerId| {
            let seed = spec.seed ^ (u64::from(id) << 20);
            let (locks, orders) = (locks.as_ref(), orders.as_ref());
            let rng = fastrand::Rng::with_seed(seed);
            async move { Worker { id, spec, locks, orders, rng, desk: None, ops: 0, jumps: 0 }.work().await }
        };
        join_all(spec.workers.iter().map(one)).await;
        // A worker that has finished lets go; one that cannot reach its engine does not wait for it for ever.
        let _ = timeout(spec.ttl * 2 + Duration::from_secs(2), locks.close()).await;
    };
    tokio::select! {
        () = listener => {}
        () = work => {}
    }
    say(&Says::Done);
    Ok(())
}

async fn open(spec: &Spec, orders: &Arc<Orders>) -> Result<Arc<dyn Locks>, String> {
    if let Some(name) = &spec.mutant {
        return mutants::open(name, spec, orders.clone()).await;
    }
    let clock = spec.sleepy.then(|| orders.clock.clone());
    let locks = Tenure::connect(&spec.url, spec.ttl, clock).await.map_err(|err| err.to_string())?;
    Ok(Arc::new(locks))
}

/// The lines of stdin. When it ends, so does this process: nobody is left to tell.
fn stdin() -> mpsc::UnboundedReceiver<String> {
    let (lines, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
        std::process::exit(1);
    });
    orders
}

/// What the organiser wants, as the tasks see it.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    go: Notify,
    end: AtomicBool,
    late: AtomicBool,
    trap: Mutex<Option<(Point, Option<KeyId>)>>,
    clock: SleepyClock,
    /// How often its clock has jumped.
    jumps: AtomicU32,
}

impl Orders {
    fn take(&self, order: Order) {
        match order {
            Order::Go => self.go.notify_one(),
            Order::End => self.end.store(true, Ordering::SeqCst),
            Order::Late => self.late.store(true, Ordering::SeqCst),
            Order::Trap { point, key } => *self.trap() = Some((point, key)),
            Order::NoTrap => *self.trap() = None,
            Order::Sleep { nanos } => {
                self.clock.sleep(nanos);
                self.jumps.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    fn trap(&self) -> std::sync::MutexGuard<'_, Option<(Point, Option<KeyId>)>> {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops this process if a trap is set here, and says so before.
    pub(crate) fn pass(&self, point: Point, (worker, op, key): (WorkerId, OpId, KeyId)) {
        let mut trap = self.trap();
        if !trap.is_some_and(|(at, on)| at == point && on.is_none_or(|on| on == key)) {
            return;
        }
        *trap = None;
        drop(trap);
        say(&Says::Stops { worker, op, key, point, at: now() });
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

/// One of the workers in this process.
struct Worker<'a> {
    id: WorkerId,
    spec: &'a Spec,
    locks: &'a dyn Locks,
    orders: &'a Orders,
    rng: fastrand::Rng,
    desk: Option<Desk>,
    ops: u32,
    jumps: u32,
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
    async fn work(&mut self) {
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
        say(&Says::Event(Event { at: now(), worker: self.id, op: stay.op, key: stay.key, what }));
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
        match held.look() {
            Look::Until(until) => {
                self.tell(stay, What::Believes { until });
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

/// One connection to the resources.
#[derive(Debug)]
struct Desk {
    from: tokio::io::Lines<BufReader<OwnedReadHalf>>,
    to: OwnedWriteHalf,
}

impl Desk {
    async fn open(spec: &Spec) -> Option<Self> {
        let (from, to) = UnixStream::connect(&spec.resource).await.ok()?.into_split();
        Some(Self { from: BufReader::new(from).lines(), to })
    }

    async fn ask(&mut self, request: &Request) -> Option<Reply> {
        let words = serde_json::to_string(request).ok()? + "\n";
        self.to.write_all(words.as_bytes()).await.ok()?;
        serde_json::from_str(&self.from.next_line().await.ok()??).ok()
    }
}
