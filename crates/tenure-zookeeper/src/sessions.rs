//! One session for all places that live equally long.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tenure_core::{Error, Op, Result, Ttl};
use tokio::sync::Mutex as AsyncMutex;

use crate::{dial::Dial, mine::Mine, session::Session, trouble};

/// The most sessions of one client: most programs have one ttl.
const MOST: usize = 8;

#[derive(Debug)]
pub(crate) struct Sessions {
    dial: Arc<Dial>,
    shortest: Duration,
    graves: String,
    mine: Arc<Mine>,
    slots: Mutex<BTreeMap<Duration, Arc<Slot>>>,
}

/// One session after the other, of the same time.
#[derive(Debug, Default)]
struct Slot(AsyncMutex<Option<Arc<Session>>>);

impl Sessions {
    pub(crate) fn new(dial: Arc<Dial>, shortest: Duration, graves: String, mine: Arc<Mine>) -> Self {
        Self { dial, shortest, graves, mine, slots: Mutex::default() }
    }

    /// The session of places that live so long; another one if the last has ended.
    pub(crate) async fn of(&self, ttl: Ttl, op: Op) -> Result<Arc<Session>> {
        let (time, slot) = self.slot(ttl.get());
        let mut current = slot.0.lock().await;
        if let Some(session) = current.as_ref().filter(|session| !session.has_ended()) {
            return Ok(session.clone());
        }
        *current = None;
        let session = Session::open(&self.dial, time, self.shortest, &self.graves, &self.mine)
            .await
            .map_err(|(address, trouble)| trouble::of_connecting(&address, trouble).in_op(op))?;
        *current = Some(session.clone());
        Ok(session)
    }

    /// Any session.
    pub(crate) async fn some(&self, op: Op) -> Result<Arc<Session>> {
        let time = self.lock().keys().next().copied();
        let ttl = time.and_then(|time| Ttl::new(time).ok()).unwrap_or_default();
        self.of(ttl, op).await
    }

    /// Where places of this time go: those of a time too many go where they die sooner rather than later.
    fn slot(&self, time: Duration) -> (Duration, Arc<Slot>) {
        let mut slots = self.lock();
        if slots.len() >= MOST && !slots.contains_key(&time) {
            let near = slots.range(..time).next_back().or_else(|| slots.iter().next());
            if let Some((time, slot)) = near {
                return (*time, slot.clone());
            }
        }
        (time, slots.entry(time).or_default().clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Duration, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks what the shortest session is that the servers have.
pub(crate) async fn shortest(dial: &Arc<Dial>) -> Result<Duration> {
    let ear = Arc::new(crate::ear::Ear::new(String::new()));
    let hello = crate::wire::Hello { seen: 0, timeout_ms: 1, session: 0, password: &[0; 16] };
    let found = dial.any(hello, &ear, CONNECT).await;
    let dialled = found.map_err(|(address, trouble)| trouble::of_connecting(&address, trouble))?;
    // Closed at once; whether that is heard matters little.
    drop(dialled.link.send(&crate::wire::Request::CloseSession));
    let shortest = Duration::from_millis(dialled.welcome.timeout_ms.unsigned_abs().into());
    if shortest > Ttl::MAX {
        return Err(Error::unsupported(Op::Connect, "the servers have no session shorter than a day"));
    }
    Ok(shortest)
}

/// How long one server may take when the engine is opened.
const CONNECT: Duration = Duration::from_secs(3);
