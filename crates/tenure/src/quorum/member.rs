//! The members of a quorum, and how those that were unreachable at first join later.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tenure_core::{Engine, EngineId, Error, ErrorKind, Failover, Floors, Guarantees, Moment, Op, Result};
use tokio::{runtime::Handle, sync::Notify};

use super::{ENGINE, QuorumSettings};
use crate::{
    client::limited,
    sync::{Mutex, lock},
};

/// The longest that opening a member may take.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// How long after a failure a member is left alone.
const OPEN_PAUSE: Duration = Duration::from_millis(250);

/// Opens a member, as often as it takes.
pub type OpenMember = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Engine>>> + Send + Sync>;

/// One of the engines that a [`Quorum`](crate::Quorum) asks, under the name that its verdicts are told by.
pub struct Member {
    name: String,
    source: Source,
}

enum Source {
    Open(Arc<dyn Engine>),
    Late(OpenMember),
}

impl Member {
    /// A member that is open.
    pub fn open(name: impl Into<String>, engine: Arc<dyn Engine>) -> Self {
        Self { name: name.into(), source: Source::Open(engine) }
    }

    /// A member that is opened by the quorum, at once and, if it cannot be reached then, again by later verbs.
    pub fn late(
        name: impl Into<String>,
        open: impl Fn() -> BoxFuture<'static, Result<Arc<dyn Engine>>> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), source: Source::Late(Box::new(open)) }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All members, and who of them may be counted.
pub(super) struct Roster {
    posts: Vec<Post>,
    settings: QuorumSettings,
    admitted: Mutex<Admitted>,
    /// A member was opened.
    pub(super) joined: Notify,
}

struct Post {
    name: String,
    open: Option<OpenMember>,
    state: Mutex<State>,
}

enum State {
    Open(Arc<dyn Engine>),
    Opening(Opening),
    /// It failed; not asked again before the moment.
    Shut(Error, Moment),
    /// It is open and must never be counted.
    Refused(Error),
}

type Opening = Shared<BoxFuture<'static, Result<Arc<dyn Engine>>>>;

#[derive(Default)]
struct Admitted {
    members: HashMap<EngineId, (usize, Guarantees)>,
    /// What the quorum promised when it was opened; whoever joins must keep it.
    terms: Option<Guarantees>,
}

impl Roster {
    pub(super) fn new(members: Vec<Member>, settings: QuorumSettings) -> Result<Arc<Self>> {
        let count = members.len();
        if count < 3 {
            return Err(Error::invalid(format!(
                "a quorum of {count} cannot lose a member; name three or five independent servers"
            )));
        }
        if count.is_multiple_of(2) {
            return Err(Error::invalid(format!(
                "a quorum of {count} survives no more failures than one of {}; name an odd number of members",
                count - 1
            )));
        }
        let now = settings.clock.now();
        let mut posts: Vec<Post> = Vec::with_capacity(count);
        let mut engines = Vec::new();
        for (i, Member { name, source }) in members.into_iter().enumerate() {
            if posts.iter().any(|post| post.name == name) {
                return Err(Error::invalid(format!(
                    "two members are called `{name}`; name each server once"
                )));
            }
            let (open, state) = match source {
                Source::Open(engine) => {
                    engines.push((i, engine.clone()));
                    (None, State::Open(engine))
                }
                Source::Late(open) => {
                    (Some(open), State::Shut(Error::unavailable(Op::Connect, "not opened yet"), now))
                }
            };
            posts.push(Post { name, open, state: Mutex::new(state) });
        }
        let (admitted, joined) = (Mutex::default(), Notify::new());
        let roster = Self { posts, settings, admitted, joined };
        for (i, engine) in &engines {
            roster.admit(*i, engine)?;
        }
        Ok(Arc::new(roster))
    }

    pub(super) fn len(&self) -> usize {
        self.posts.len()
    }

    /// More than half.
    pub(super) fn majority(&self) -> usize {
        self.posts.len() / 2 + 1
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.posts.iter().map(|post| post.name.as_str())
    }

    /// The member's engine if it is open and counts.
    pub(super) fn opened(&self, member: usize) -> Option<Arc<dyn Engine>> {
        match &*lock(&self.posts[member].state) {
            State::Open(engine) => Some(engine.clone()),
            State::Opening(_) | State::Shut(..) | State::Refused(_) => None,
        }
    }

    /// The least identity of the members known so far.
    pub(super) fn identity(&self) -> EngineId {
        let admitted = lock(&self.admitted);
        // A quorum that is open knows a majority.
        admitted.members.keys().copied().min().unwrap_or(EngineId::from_bytes([0; 16]))
    }

    /// Fixes what the quorum promises, by the members known so far.
    pub(super) fn agree(&self, terms: impl FnOnce(&[Guarantees]) -> Guarantees) -> Guarantees {
        let mut admitted = lock(&self.admitted);
        let known: Vec<_> = admitted.members.values().map(|(_, its)| its.clone()).collect();
        admitted.terms.insert(terms(&known)).clone()
    }

    /// The member's engine, opened now if need be. However many ask, it is opened once, and an opening that nobody
    /// waits for any more goes on.
    pub(super) async fn engine(self: &Arc<Self>, member: usize) -> Result<Arc<dyn Engine>> {
        let (opening, first) = {
            let mut state = lock(&self.posts[member].state);
            match &*state {
                State::Open(engine) => return Ok(engine.clone()),
                State::Refused(err) => return Err(err.clone()),
                State::Shut(err, until) if self.settings.clock.now() < *until => return Err(err.clone()),
                State::Opening(opening) => (opening.clone(), false),
                State::Shut(..) => {
                    let opening = Arc::clone(self).open(member).boxed().shared();
                    *state = State::Opening(opening.clone());
                    (opening, true)
                }
            }
        };
        if first && let Ok(runtime) = Handle::try_current() {
            runtime.spawn(opening.clone());
        }
        opening.await
    }

    async fn open(self: Arc<Self>, member: usize) -> Result<Arc<dyn Engine>> {
        let post = &self.posts[member];
        let Some(open) = &post.open else {
            return Err(Error::new(ErrorKind::Broken, Op::Connect, "an open member was opened again"));
        };
        let opened = match limited(OPEN_LIMIT, open()).await {
            Some(opened) => opened,
            None => Err(Error::unavailable(Op::Connect, format!("not open within {OPEN_LIMIT:?}"))),
        };
        let (state, answer) = match opened {
            Ok(engine) => match self.admit(member, &engine) {
                Ok(()) => (State::Open(engine.clone()), Ok(engine)),
                Err(err) => (State::Refused(err.clone()), Err(err)),
            },
            Err(err) => (State::Shut(err.clone(), self.settings.clock.now() + OPEN_PAUSE), Err(err)),
        };
        *lock(&post.state) = state;
        self.joined.notify_waiters();
        answer
    }

    /// Lets a member count, or says why it never can.
    fn admit(&self, member: usize, engine: &Arc<dyn Engine>) -> Result<()> {
        let name = &self.posts[member].name;
        let its = engine.guarantees();
        if its.engine == ENGINE {
            return Err(Error::invalid(format!("`{name}` is a quorum itself; name its members instead")));
        }
        if its.failover == Failover::MayForget {
            return Err(Error::invalid(format!(
                "`{name}` is a group of servers whose failover may forget who holds; name single servers"
            )));
        }
        if its.floors == Floors::Ignored && !self.settings.without_fences {
            return Err(Error::invalid(format!(
                "`{name}` ({}) cannot lift its numbers to a floor, so fences could go back; choose members that can, \
                 or set `without_fences` and let nobody check fences",
                its.engine
            )));
        }
        let mut admitted = lock(&self.admitted);
        if let Some(terms) = admitted.terms.as_ref().filter(|terms| !keeps(terms, &its)) {
            return Err(Error::invalid(format!(
                "`{name}` ({}) promises less than the quorum did when it was opened without it ({} locks, {} at least, \
                 fences {}); open the quorum again",
                its.engine, terms.modes, terms.crash, terms.fences
            )));
        }
        match admitted.members.entry(engine.identity()) {
            Entry::Vacant(free) => {
                free.insert((member, its));
                Ok(())
            }
            Entry::Occupied(taken) => Err(Error::invalid(format!(
                "`{name}` is the same server as `{}`; name each server once",
                self.posts[taken.get().0].name
            ))),
        }
    }
}

/// Whether a member that joins takes nothing away from what was promised.
fn keeps(terms: &Guarantees, its: &Guarantees) -> bool {
    let met = terms.meet(its);
    met.reach == terms.reach
        && met.crash == terms.crash
        && met.modes.shared == terms.modes.shared
        && met.fences == terms.fences
        && met.min_ttl == terms.min_ttl
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
