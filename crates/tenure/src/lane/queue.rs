//! Who is next among the tasks of one process: a queue of waiters and one baton. No I/O, no clock, no runtime,
//! so that a test can run it under a scheduler that tries every interleaving.

use std::{collections::BTreeMap, fmt, sync::Arc};

use tenure_core::Moment;
use tokio::sync::oneshot;

use super::sync::{Mutex, lock};

/// What a lane does with a place, seen from its queue.
pub(crate) trait Relay: Sized + Send + Sync + 'static {
    /// A turn on a place.
    type Stint: Send + 'static;
    /// Why no place could be had.
    type Failure: Clone + Send + 'static;

    fn queue(&self) -> &Queue<Self>;
    /// What time it is.
    fn now(&self) -> Moment;
    /// The next turn on the same place, from now; `None` if the place must be given up.
    fn next(&self, stint: &Self::Stint, now: Moment) -> Option<Self::Stint>;
    /// Nobody is handed the place: give it up, and ask for another if somebody waits.
    fn vacate(self: &Arc<Self>, stint: Self::Stint, then: Then);
    /// Somebody waits and nobody asks: ask.
    fn ask(self: &Arc<Self>);
    /// Nobody waits any more for what is being asked for.
    fn deserted(&self);
}

/// What follows when a place is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Rest,
    Ask,
}

pub(crate) struct Queue<R: Relay> {
    state: Mutex<State<R>>,
}

/// The baton, or why there is none.
type News<R> = Result<Baton<R>, <R as Relay>::Failure>;

struct State<R: Relay> {
    seat: Seat,
    tickets: u64,
    waiters: BTreeMap<u64, oneshot::Sender<News<R>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// No place, nobody asking.
    Vacant,
    /// Somebody asks for a place.
    Asked,
    /// There is a baton.
    Taken,
}

/// How a task got in.
pub(crate) enum Entry<R: Relay> {
    /// It is the first and asks for the place.
    First(Driver<R>),
    /// It waits behind others.
    Behind(Waiting<R>),
}

impl<R: Relay> Queue<R> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { seat: Seat::Vacant, tickets: 0, waiters: BTreeMap::new() }) }
    }

    /// Joins at the end. `None` if `max` are waiting already.
    pub(crate) fn enter(relay: &Arc<R>, max: usize) -> Option<Entry<R>> {
        let mut state = lock(&relay.queue().state);
        if state.seat != Seat::Vacant && state.waiters.len() >= max {
            return None;
        }
        let ticket = state.tickets;
        state.tickets += 1;
        if state.seat == Seat::Vacant {
            state.seat = Seat::Asked;
            return Some(Entry::First(Driver { relay: Some(relay.clone()), ticket }));
        }
        let (sender, news) = oneshot::channel();
        state.waiters.insert(ticket, sender);
        drop(state);
        Some(Entry::Behind(Waiting { relay: relay.clone(), ticket, news, served: false }))
    }

    /// Becomes the first, or nothing.
    pub(crate) fn try_enter(relay: &Arc<R>) -> Option<Driver<R>> {
        let mut state = lock(&relay.queue().state);
        (state.seat == Seat::Vacant).then(|| {
            state.seat = Seat::Asked;
            state.tickets += 1;
            Driver { relay: Some(relay.clone()), ticket: state.tickets - 1 }
        })
    }

    /// Hands a place that was asked for to the first waiter.
    pub(crate) fn arrived(relay: &Arc<R>, stint: R::Stint) {
        lock(&relay.queue().state).seat = Seat::Taken;
        if let Some((stint, then)) = Self::hand(relay, Ok(stint), relay.now()) {
            relay.vacate(stint, then);
        }
    }

    /// No place could be had: everybody who waits is told why.
    pub(crate) fn failed(relay: &Arc<R>, failure: &R::Failure) {
        let waiters = {
            let mut state = lock(&relay.queue().state);
            state.seat = Seat::Vacant;
            std::mem::take(&mut state.waiters)
        };
        for waiter in waiters.into_values() {
            let _ = waiter.send(Err(failure.clone()));
        }
    }

    /// Stops asking if nobody waits. False if somebody does.
    pub(crate) fn leave_if_deserted(relay: &Arc<R>) -> bool {
        let mut state = lock(&relay.queue().state);
        let deserted = state.waiters.is_empty();
        if deserted {
            state.seat = Seat::Vacant;
        }
        deserted
    }

    /// Whether nobody waits.
    pub(crate) fn is_deserted(&self) -> bool {
        lock(&self.state).waiters.is_empty()
    }

    /// Hands over to the first waiter that is still there. `Ok` is a turn that nobody has had, `Err` one that is
    /// over. Gives back what must be vacated.
    fn hand(relay: &Arc<R>, mut turn: Result<R::Stint, R::Stint>, now: Moment) -> Option<(R::Stint, Then)> {
        loop {
            let mut state = lock(&relay.queue().state);
            if state.waiters.is_empty() {
                state.seat = Seat::Vacant;
                let (Ok(stint) | Err(stint)) = turn;
                return Some((stint, Then::Rest));
            }
            let stint = match turn {
                Ok(fresh) => fresh,
                Err(over) => match relay.next(&over, now) {
                    Some(next) => next,
                    None => {
                        state.seat = Seat::Asked;
                        return Some((over, Then::Ask));
                    }
                },
            };
            let (_, waiter) = state.waiters.pop_first()?;
            // Waking a task may cost a system call, which is not for others to wait for.
            drop(state);
            match waiter.send(Ok(Baton { held: Some((relay.clone(), stint)) })) {
                Ok(()) => return None,
                // The waiter is gone. Its turn is burnt, so that a turn is handed out once and the bound counts all.
                Err(Ok(mut baton)) => turn = Err(baton.held.take()?.1),
                Err(Err(_)) => return None,
            }
        }
    }
}

/// The right to ask for the place. Dropped without a result, it passes the asking on.
pub(crate) struct Driver<R: Relay> {
    relay: Option<Arc<R>>,
    ticket: u64,
}

impl<R: Relay> Driver<R> {
    /// The place is there: the first turn is the driver's own.
    pub(crate) fn arrived(mut self, stint: R::Stint) -> Option<Baton<R>> {
        let relay = self.relay.take()?;
        lock(&relay.queue().state).seat = Seat::Taken;
        Some(Baton { held: Some((relay, stint)) })
    }

    /// Waits at the head of the queue while another asks.
    pub(crate) fn wait(mut self) -> Option<Waiting<R>> {
        let relay = self.relay.take()?;
        Some(Waiting::rejoin(relay, self.ticket))
    }
}

impl<R: Relay> Drop for Driver<R> {
    fn drop(&mut self) {
        if let Some(relay) = self.relay.take()
            && !Queue::leave_if_deserted(&relay)
        {
            relay.ask();
        }
    }
}

/// A place in the queue.
pub(crate) struct Waiting<R: Relay> {
    relay: Arc<R>,
    ticket: u64,
    news: oneshot::Receiver<News<R>>,
    /// The news was read, so that nothing of this is left in the queue.
    served: bool,
}

impl<R: Relay> Waiting<R> {
    fn rejoin(relay: Arc<R>, ticket: u64) -> Self {
        let (sender, news) = oneshot::channel();
        lock(&relay.queue().state).waiters.insert(ticket, sender);
        Self { relay, ticket, news, served: false }
    }

    /// Resolves with the baton, or with why there is none. `None` if the lane vanished.
    ///
    /// # Cancel safety
    /// A baton that arrived is kept until this is polled again or the `Waiting` is dropped, which passes it on.
    pub(crate) async fn turn(&mut self) -> Option<News<R>> {
        let news = (&mut self.news).await.ok();
        self.served = true;
        news
    }

    /// Goes back to its old place at the head, because the baton it got is worth nothing; then lets go of it.
    pub(crate) fn again(&mut self, baton: Baton<R>) {
        let (sender, news) = oneshot::channel();
        lock(&self.relay.queue().state).waiters.insert(self.ticket, sender);
        (self.news, self.served) = (news, false);
        drop(baton);
    }
}

impl<R: Relay> Drop for Waiting<R> {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        let deserted = {
            let mut state = lock(&self.relay.queue().state);
            let left = state.waiters.remove(&self.ticket);
            left.is_some() && state.waiters.is_empty() && state.seat == Seat::Asked
        };
        if deserted {
            self.relay.deserted();
        }
        // A baton that came too late is dropped with `news`, after the lock, and passes itself on.
    }
}

/// The right to hold, as a value: whoever drops it passes it on, so a cancelled waiter cannot lose it.
pub(crate) struct Baton<R: Relay> {
    held: Option<(Arc<R>, R::Stint)>,
}

impl<R: Relay> Baton<R> {
    pub(crate) fn stint(&self) -> Option<&R::Stint> {
        self.held.as_ref().map(|(_, stint)| stint)
    }

    /// Passes the baton on. What nobody took is for the caller to give up.
    pub(crate) fn pass(mut self, now: Moment) -> Option<(Arc<R>, R::Stint, Then)> {
        let (relay, stint) = self.held.take()?;
        let (stint, then) = Queue::hand(&relay, Err(stint), now)?;
        Some((relay, stint, then))
    }
}

impl<R: Relay> Drop for Baton<R> {
    fn drop(&mut self) {
        if let Some((relay, stint)) = self.held.take()
            && let Some((stint, then)) = Queue::hand(&relay, Err(stint), relay.now())
        {
            relay.vacate(stint, then);
        }
    }
}

impl<R: Relay> fmt::Debug for Baton<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Baton").finish_non_exhaustive()
    }
}
