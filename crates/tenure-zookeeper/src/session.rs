//! A session: what places live with. It outlives its connections, and is kept up by a task of its own.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_core::{BootClock, Clock, Moment};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use crate::{
    beats::Beats,
    dial::{Dial, Dialled},
    ear::Ear,
    link::{Failure, Link, Trouble},
    mine::Mine,
    wire::{Hello, Request, code, read_children},
};

/// A part of the session's time: how often the leader is asked whether it still knows the session.
const BEAT: u32 = 6;
/// A part of the session's time: after so long without an answer another server is asked.
const SILENCE: u32 = 3;
/// How long to wait before all servers are asked again: a part of the session's time, but no longer than this.
const PAUSE: Duration = Duration::from_millis(250);

/// How often servers that are away are asked to close a session that was given up.
const MOST_BURIALS: u32 = 1000;

/// A handle; the session is closed when the last is dropped, and its places go with it.
pub(crate) struct Session {
    shared: Arc<Shared>,
}

struct Shared {
    id: i64,
    password: Vec<u8>,
    timeout: Duration,
    dial: Arc<Dial>,
    ear: Arc<Ear>,
    graves: String,
    /// `None` while there is no connection.
    link: watch::Sender<Option<Arc<Link>>>,
    beats: Mutex<Beats>,
    ended: AtomicBool,
    /// How many beats were wished for, and up to which they were given.
    wished: AtomicU64,
    wish: Notify,
    given: watch::Sender<(u64, Result<(), Failure>)>,
    closing: Notify,
    mine: Weak<Mine>,
}

impl Session {
    /// Opens a session of about this time: the server has the last word.
    ///
    /// `shortest` is the shortest session that the servers have, two ticks unless they are told otherwise.
    pub(crate) async fn open(
        dial: &Arc<Dial>,
        wanted: Duration,
        shortest: Duration,
        graves: &str,
        mine: &Arc<Mine>,
    ) -> Result<Arc<Self>, (tenure_core::Address, Trouble)> {
        let ear = Arc::new(Ear::new(graves.to_owned()));
        let Dialled { link, welcome, sent } =
            dial.any(hello(wanted, 0, 0, &[0; 16]), &ear, limit(wanted)).await?;
        let timeout = Duration::from_millis(welcome.timeout_ms.unsigned_abs().into());
        let shared = Arc::new(Shared {
            id: welcome.session,
            password: welcome.password,
            timeout,
            dial: dial.clone(),
            ear,
            graves: graves.to_owned(),
            link: watch::Sender::new(Some(link.clone())),
            // The leader asks twice a tick. A little more than that, for it may be late.
            beats: Mutex::new(Beats::new(timeout, shortest * 3 / 8, sent)),
            ended: AtomicBool::new(false),
            wished: AtomicU64::new(0),
            wish: Notify::new(),
            given: watch::Sender::new((0, Ok(()))),
            closing: Notify::new(),
            mine: Arc::downgrade(mine),
        });
        tokio::spawn(keep_up(shared.clone(), link));
        Ok(Arc::new(Self { shared }))
    }

    pub(crate) fn id(&self) -> i64 {
        self.shared.id
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    pub(crate) fn ear(&self) -> &Ear {
        &self.shared.ear
    }

    /// The connection; waits a little for another if there is none.
    pub(crate) async fn link(&self) -> Result<Arc<Link>, Failure> {
        if self.has_ended() {
            return Err(Failure::Ended);
        }
        if let Some(link) = self.shared.link.borrow().clone() {
            return Ok(link);
        }
        let mut links = self.shared.link.subscribe();
        let connected = links.wait_for(|link| link.is_some() || self.has_ended());
        match timeout(self.shared.timeout / BEAT, connected).await {
            Ok(Ok(link)) => link.clone().ok_or(Failure::Ended),
            Ok(Err(_)) | Err(_) => Err(Failure::NotSent),
        }
    }

    /// A change was agreed to that was sent at this moment.
    pub(crate) fn agreed(&self, sent: Moment) {
        self.shared.beats().agreed(sent);
    }

    /// Whether a proof that the leader knows the session is due, for those who do not renew.
    pub(crate) fn runs_low(&self, from: Moment) -> bool {
        self.left(from) < self.shared.timeout / 2
    }

    /// How long after this moment the session is certain to live.
    pub(crate) fn left(&self, from: Moment) -> Duration {
        self.shared.beats().left(from)
    }

    /// Proves that the leader knows the session, and reads the evictions. Any number of callers share one trip that begins
    /// after they called.
    pub(crate) async fn beat(&self) -> Result<(), Failure> {
        // Many holds are renewed in several calls, one after the other in one breath: they are to wish together.
        tokio::task::yield_now().await;
        match self.try_beat().await {
            // Over a connection that had died unnoticed, as all have after a long pause: another one tells.
            Err(Failure::Gone | Failure::NotSent) => self.try_beat().await,
            given => given,
        }
    }

    async fn try_beat(&self) -> Result<(), Failure> {
        let shared = &self.shared;
        self.link().await?;
        let mine = shared.wished.fetch_add(1, Ordering::AcqRel) + 1;
        let mut given = shared.given.subscribe();
        shared.wish.notify_one();
        match given.wait_for(|(upto, _)| *upto >= mine).await {
            Ok(given) => given.1,
            Err(_) => Err(Failure::Ended),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(link) = self.shared.link.borrow().as_ref() {
            // Sent now; nobody waits for the answer.
            drop(link.send(&Request::CloseSession));
        }
        self.shared.ended.store(true, Ordering::Release);
        self.shared.closing.notify_one();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("timeout", &self.shared.timeout).finish_non_exhaustive()
    }
}

impl Shared {
    fn beats(&self) -> MutexGuard<'_, Beats> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change that changes nothing: that it is agreed to proves that the leader knows the session.
    fn proof(&self) -> Request<'_> {
        // Whoever watches it watches its children.
        Request::Set { path: &self.graves, data: &[] }
    }

    /// One beat over this connection: a proof, if somebody wishes for one, else a word through the leader.
    async fn beat(&self, link: &Link) {
        let wished = self.wished.load(Ordering::Acquire);
        let proves = wished > self.given.borrow().0;
        let sent = BootClock.now();
        let told = self.ear.told();
        let word = Request::Sync { path: &self.graves };
        let heard = link.send(&if proves { self.proof() } else { word });
        let graves = link.send(&Request::Children { path: &self.graves, watch: true });
        let outcome = timeout(self.timeout / SILENCE, async {
            match heard.answer().await {
                Ok(_) if proves => self.beats().agreed(sent),
                Ok(_) => self.beats().answered(sent),
                // Somebody deletes the nodes of tenure: that, too, was agreed to.
                Err(Failure::Code(code::NO_NODE)) => self.beats().agreed(sent),
                Err(failure) => return Err(failure),
            }
            match graves.answer().await {
                Err(Failure::Code(code::NO_NODE)) => Ok(Vec::new()),
                body => read_children(&body?).ok_or(Failure::Garbled),
            }
        });
        let outcome = match outcome.await {
            Ok(Ok(graves)) => {
                if let Some(mine) = self.mine.upgrade() {
                    mine.evicted(&graves);
                }
                self.ear.has_read(told);
                Ok(())
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::Gone),
        };
        match outcome {
            Ok(()) | Err(Failure::Code(_)) => {}
            // It hangs, or its server does, or the way from there to the leader.
            Err(_) => link.end(),
        }
        self.give(wished, outcome);
    }

    /// Resolves when somebody wishes for a beat and was not given it yet. Of many who wish together the first wakes the
    /// task and the others leave a word for later, when all have been served.
    async fn wished_for(&self) {
        while self.wished.load(Ordering::Acquire) <= self.given.borrow().0 {
            self.wish.notified().await;
        }
    }

    /// Tells those who wished for a beat, up to this one, what became of it.
    fn give(&self, upto: u64, outcome: Result<(), Failure>) {
        self.given.send_modify(|given| *given = (upto, outcome));
    }

    /// Another connection; `None` if the session has ended, was closed, or is given up: one that may have ended is not kept alive
    /// by somebody who does not hear that. Its places would stay, and nobody would believe in them.
    async fn reconnect(&self) -> Option<Arc<Link>> {
        let pause = (self.timeout / 32).min(PAUSE);
        loop {
            for _ in 0..self.dial.hosts.len() {
                if self.beats().left(BootClock.now()).is_zero() {
                    return None;
                }
                let hello = hello(self.timeout, self.ear.seen(), self.id, &self.password);
                let dialled = tokio::select! {
                    dialled = self.dial.one(hello, &self.ear, limit(self.timeout)) => dialled,
                    () = self.closing.notified() => return None,
                };
                match dialled {
                    Ok(Dialled { link, sent, .. }) => {
                        self.beats().reopened(sent);
                        return Some(link);
                    }
                    Err((_, Trouble::Expired)) => return None,
                    // The session may still live, and it is told by others if not.
                    Err(_) => {}
                }
            }
            if timeout(pause, self.closing.notified()).await.is_ok() {
                return None;
            }
        }
    }
}

impl Shared {
    /// Closes a session that was given up, if that can be done without keeping it alive: who cannot even connect to a
    /// server asks again, but after a word to one that was not answered the session must be let end.
    async fn bury(&self) {
        let pause = (self.timeout / 32).min(PAUSE);
        for _ in 0..MOST_BURIALS {
            let hello = hello(self.timeout, self.ear.seen(), self.id, &self.password);
            match self.dial.one(hello, &self.ear, limit(self.timeout)).await {
                Ok(dialled) => return drop(dialled.link.send(&Request::CloseSession)),
                Err((_, Trouble::Io(err))) if err.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(_) => return,
            }
            if timeout(pause, self.closing.notified()).await.is_ok() {
                return;
            }
        }
    }
}

/// Keeps a session up until it ends or is closed: a beat now and then, or when one is wished for, and another connection
/// when one has ended.
async fn keep_up(shared: Arc<Shared>, mut link: Arc<Link>) {
    loop {
        shared.beat(&link).await;
        loop {
            let next = async {
                tokio::select! {
                    () = shared.wished_for() => {}
                    () = shared.ear.evictions() => {}
                }
            };
            tokio::select! {
                // Not because somebody holds: a claim that comes after a long silence must know how long it can hold.
                _ = timeout(shared.timeout / BEAT, next) => {
                    // Whoever wishes in the same breath is counted in.
                    tokio::task::yield_now().await;
                    shared.beat(&link).await;
                }
                () = link.ended() => break,
                () = shared.closing.notified() => return,
            }
        }
        shared.link.send_replace(None);
        shared.ear.deafen();
        // Whoever wished for a beat meanwhile is told, and asks again.
        shared.give(shared.wished.load(Ordering::Acquire), Err(Failure::NotSent));
        shared.dial.avoid(&link.address);
        match shared.reconnect().await {
            Some(another) => {
                link = another;
                shared.link.send_replace(Some(link.clone()));
            }
            None => break,
        }
    }
    shared.ended.store(true, Ordering::Release);
    // Wakes those who wait for a connection.
    shared.link.send_replace(None);
    shared.give(u64::MAX, Err(Failure::Ended));
    shared.ear.deafen();
    if let Some(mine) = shared.mine.upgrade() {
        mine.ended(shared.id);
    }
    shared.bury().await;
}

/// How long one server may take to have us: there must be time left to ask another.
fn limit(timeout: Duration) -> Duration {
    (timeout / BEAT).max(Duration::from_millis(100))
}

fn hello(timeout: Duration, seen: i64, session: i64, password: &[u8]) -> Hello<'_> {
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    Hello { seen, timeout_ms, session, password }
}
