//! The lane's queue, run by a scheduler that tries other interleavings than a machine does.
//!
//! It is the same source file, with the scheduler's mutex in place of the machine's. The channel that carries the
//! baton is the real one, so each of its operations is one step here; what happens inside such a step is for the
//! channel's own tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../src/lane/queue.rs"]
mod queue;

mod sync {
    use std::ops::{Deref, DerefMut};

    pub(crate) use shuttle::sync::Mutex;
    use shuttle::sync::{
        MutexGuard,
        atomic::{AtomicBool, Ordering},
    };

    /// The scheduler switches before a mutex is freed. What follows a critical section may also come after what
    /// others do then, so there is a switch behind it too.
    pub(crate) struct Guard<'a, T>(Option<MutexGuard<'a, T>>);

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
        Guard(Some(mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)))
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().unwrap()
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.0 = None;
            if !std::thread::panicking() {
                AtomicBool::new(false).load(Ordering::SeqCst);
            }
        }
    }
}

use std::{
    future::Future,
    mem,
    pin::pin,
    sync::{Arc, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use shuttle::{
    Config, Runner,
    future::block_on,
    rand::{Rng, thread_rng},
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    sync::{Condvar, Mutex},
    thread::{self, JoinHandle},
};
use tenure_core::Moment;

use self::queue::{Baton, Driver, Entry, Queue, Relay, Then, Waiting};

const NOW: Moment = Moment::new(Duration::ZERO);
/// How many turns a place has after its first.
const TURNS: u16 = 2;
const SEED: u64 = 0x7e9a_11e5;

/// A lane whose engine is a dice.
struct Fake {
    queue: Queue<Self>,
    engine: Engine,
    /// Whether the driver was told that nobody waits any more.
    told: Mutex<bool>,
    news: Condvar,
    /// What the checks need. Not a mutex of the scheduler's, so that looking changes nothing.
    book: std::sync::Mutex<Book>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    /// Grants or fails, sooner or later.
    Answers,
    /// Grants nothing to a driver: it must be stopped.
    Busy,
}

#[derive(Default)]
struct Book {
    places: Vec<Place>,
    holders: usize,
    drivers: Vec<JoinHandle<()>>,
    driving: usize,
}

#[derive(Default)]
struct Place {
    next_turn: u16,
    vacated: usize,
    lost: bool,
}

struct Stint {
    place: usize,
    turn: u16,
}

#[derive(Clone, Debug)]
struct Failure;

impl Fake {
    fn new(engine: Engine) -> Arc<Self> {
        let (told, news) = (Mutex::new(false), Condvar::new());
        Arc::new(Self { queue: Queue::new(), engine, told, news, book: std::sync::Mutex::default() })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn granted(&self) -> Stint {
        let mut book = self.book();
        book.places.push(Place::default());
        Stint { place: book.places.len() - 1, turn: 0 }
    }

    fn is_lost(&self, stint: &Stint) -> bool {
        self.book().places[stint.place].lost
    }

    /// Whether the place was lost between the hand-over and the look of who got it.
    fn is_lost_meanwhile(&self, stint: &Stint) -> bool {
        let place = &mut self.book().places[stint.place];
        place.lost |= thread_rng().gen_bool(0.2);
        place.lost
    }

    /// Somebody has this turn in hand.
    fn seen(&self, stint: &Stint) {
        let place = &mut self.book().places[stint.place];
        assert!(stint.turn >= place.next_turn, "the turns of a place rise");
        assert!(stint.turn <= TURNS, "a place has so many turns");
        assert_eq!(place.vacated, 0, "a place that was given up is not handed on");
        place.next_turn = stint.turn + 1;
    }

    fn drive(self: &Arc<Self>) {
        let engine = self.engine;
        let mut book = self.book();
        book.driving += 1;
        assert_eq!(book.driving, 1, "one driver at a time");
        drop(book);
        let lane = self.clone();
        let driver = thread::spawn(move || match engine {
            Engine::Answers => lane.ask_until_answered(),
            Engine::Busy => lane.ask_in_vain(),
        });
        self.book().drivers.push(driver);
    }

    fn ask_until_answered(self: &Arc<Self>) {
        for _ in 0..thread_rng().gen_range(0..3) {
            thread::yield_now();
            if mem::take(&mut *sync::lock(&self.told)) && self.leaves() {
                return;
            }
        }
        self.book().driving -= 1;
        if thread_rng().gen_bool(0.8) {
            let stint = self.granted();
            Queue::arrived(self, stint);
        } else {
            Queue::failed(self, &Failure);
        }
    }

    fn ask_in_vain(self: &Arc<Self>) {
        loop {
            let mut told = self.told.lock().unwrap();
            while !mem::take(&mut *told) {
                told = self.news.wait(told).unwrap();
            }
            drop(told);
            if self.leaves() {
                return;
            }
        }
    }

    /// Whether the driver stops. It counts as gone before, since the next may start at once after.
    fn leaves(self: &Arc<Self>) -> bool {
        self.book().driving -= 1;
        let leaves = Queue::leave_if_deserted(self);
        if !leaves {
            self.book().driving += 1;
        }
        leaves
    }
}

impl Relay for Fake {
    type Stint = Stint;
    type Failure = Failure;

    fn queue(&self) -> &Queue<Self> {
        &self.queue
    }

    fn now(&self) -> Moment {
        NOW
    }

    fn next(&self, stint: &Stint, _: Moment) -> Option<Stint> {
        let fit = stint.turn < TURNS && !self.is_lost(stint);
        fit.then_some(Stint { place: stint.place, turn: stint.turn + 1 })
    }

    fn vacate(self: &Arc<Self>, stint: Stint, then: Then) {
        self.book().places[stint.place].vacated += 1;
        if then == Then::Ask {
            self.ask();
        }
    }

    fn ask(self: &Arc<Self>) {
        self.drive();
    }

    fn deserted(&self) {
        *sync::lock(&self.told) = true;
        self.news.notify_one();
    }
}

/// One task that comes a few times, and how long it waits.
fn visit(lane: &Arc<Fake>, times: usize) {
    for _ in 0..times {
        if thread_rng().gen_bool(0.2) {
            if let Some(driver) = Queue::try_enter(lane) {
                lead(lane, driver);
            }
            continue;
        }
        match Queue::enter(lane, 8) {
            Some(Entry::First(driver)) => lead(lane, driver),
            Some(Entry::Behind(waiting)) => follow(lane, waiting),
            None => panic!("eight may wait"),
        }
    }
}

fn lead(lane: &Arc<Fake>, driver: Driver<Fake>) {
    thread::yield_now(); // its own attempt
    match thread_rng().gen_range(0..4) {
        0 => drop(driver), // cancelled or refused
        1 => {
            let waiting = driver.wait().unwrap();
            lane.drive();
            follow(lane, waiting);
        }
        _ => {
            let stint = lane.granted();
            work(lane, driver.arrived(stint).unwrap());
        }
    }
}

fn follow(lane: &Arc<Fake>, mut waiting: Waiting<Fake>) {
    let patient = lane.engine == Engine::Answers && thread_rng().gen_bool(0.6);
    loop {
        let turn = if patient { Some(block_on(waiting.turn())) } else { wait_a_little(&mut waiting) };
        let Some(turn) = turn else { return };
        match turn.expect("whoever waits is told something") {
            Err(Failure) => return,
            Ok(baton) => {
                let stint = baton.stint().unwrap();
                if !lane.is_lost_meanwhile(stint) {
                    return work(lane, baton);
                }
                lane.seen(stint);
                waiting.again(baton);
            }
        }
    }
}

/// Polls a few times; whoever drops `waiting` then has been cancelled before, while or after it was handed
/// something.
fn wait_a_little(waiting: &mut Waiting<Fake>) -> Option<Option<Result<Baton<Fake>, Failure>>> {
    for _ in 0..thread_rng().gen_range(0..4) {
        if let Poll::Ready(turn) = pin!(waiting.turn()).poll(&mut Context::from_waker(Waker::noop())) {
            return Some(turn);
        }
        thread::yield_now();
    }
    None
}

fn work(lane: &Arc<Fake>, baton: Baton<Fake>) {
    let stint = baton.stint().unwrap();
    lane.seen(stint);
    let holders = mem::replace(&mut lane.book().holders, 1);
    assert_eq!(holders, 0, "one holds at a time");
    thread::yield_now();
    let mut book = lane.book();
    book.holders = 0;
    book.places[stint.place].lost |= thread_rng().gen_bool(0.2);
    drop(book);
    if thread_rng().gen_bool(0.5) {
        drop(baton);
    } else if let Some((lane, stint, then)) = baton.pass(NOW) {
        thread::yield_now();
        lane.vacate(stint, then);
    }
}

fn everybody_comes_and_goes(engine: Engine, tasks: usize, times: usize) {
    let lane = Fake::new(engine);
    let visits: Vec<_> = (0..tasks)
        .map(|_| {
            let lane = lane.clone();
            thread::spawn(move || visit(&lane, times))
        })
        .collect();
    for visit in visits {
        visit.join().unwrap();
    }
    loop {
        let Some(driver) = lane.book().drivers.pop() else { break };
        driver.join().unwrap();
    }
    let book = mem::take(&mut *lane.book());
    assert_eq!((book.holders, book.driving), (0, 0));
    for (nth, place) in book.places.iter().enumerate() {
        assert_eq!(place.vacated, 1, "place {nth} is given up once");
    }
    drop(Queue::try_enter(&lane).expect("the lane is at rest"));
    assert!(lane.queue().is_deserted());
    assert_eq!(lane.book().driving, 0, "nobody waits, so nobody asks");
    assert_eq!(Arc::strong_count(&lane), 1, "nothing is kept");
}

fn run(scheduler: impl Scheduler + 'static, engine: Engine, tasks: usize, times: usize) {
    let mut config = Config::new();
    config.failure_persistence = shuttle::FailurePersistence::Print;
    Runner::new(scheduler, config).run(move || everybody_comes_and_goes(engine, tasks, times));
}

#[test]
fn the_baton_is_never_doubled_nor_lost_at_random() {
    run(RandomScheduler::new_from_seed(SEED, 6_000), Engine::Answers, 3, 2);
    run(RandomScheduler::new_from_seed(SEED, 1_000), Engine::Answers, 5, 2);
}

#[test]
fn the_baton_is_never_doubled_nor_lost_with_few_switches_at_the_worst_points() {
    for depth in 1..=4 {
        run(PctScheduler::new_from_seed(SEED, depth, 1_500), Engine::Answers, 3, 2);
    }
}

#[test]
fn a_driver_that_nobody_waits_for_stops() {
    run(RandomScheduler::new_from_seed(SEED, 3_000), Engine::Busy, 3, 2);
    run(PctScheduler::new_from_seed(SEED, 3, 2_000), Engine::Busy, 3, 2);
}
