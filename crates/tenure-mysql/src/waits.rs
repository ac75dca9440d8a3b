//! Waiting for a turn, on connections that do nothing else.
//!
//! A few claims at a time each block in the server on the doorbell of the place ahead of them. For all others (beyond
//! that number, behind a place whose doorbell is gone, among permits) one connection looks at all their lines at once,
//! again and again with growing pauses, which changes no row and waits in the server too.
//!
//! What is found is a fact read from the tables, so it can be told as such: this place holds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_core::{Claim, ClaimId, Incarnation, Op, Result, Seat, Seq, Turn};
use tokio::{sync::Notify, time::timeout};

use crate::{
    answer::{Fields, nonsense},
    link::{Link, Purpose, Way},
    script::{Scripts, Value},
    url::MysqlOptions,
    words::{Hash, mode_numbers},
};

/// How many claims of a client block on a doorbell at a time; each takes a connection. One more is for all others.
pub(crate) const MOST_BELLS: usize = 3;
/// How long a doorbell is listened for before the line is looked at again, in seconds: an eviction rings none. It is
/// also how long the server takes to notice that a listener is gone.
const LISTEN: u64 = 1;
/// How long an answer to that may take.
const ANSWER: Duration = Duration::from_millis(LISTEN * 1000 + 1500);
/// How often a place ahead without a doorbell may be found one after the other: the one looked at may have just left.
const SILENT: u32 = 3;
/// The first and the longest pause between two looks, in microseconds.
const FIRST_PAUSE: u64 = 1_000;
pub(crate) const LONGEST_PAUSE: u64 = 50_000;
/// The most claims that are looked after by one statement.
const MOST_LOOKED_AT: usize = 200;

#[derive(Debug)]
pub(crate) struct Waits {
    options: Arc<MysqlOptions>,
    way: Arc<Way>,
    scripts: Arc<Scripts>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiters: HashMap<ClaimId, Waiter>,
    idle: Vec<Arc<Link>>,
    /// How many listen for a doorbell.
    listening: usize,
    /// Whether somebody looks after the rest.
    looking: bool,
    /// Whether there is a new one among the rest.
    fresh: bool,
}

#[derive(Debug)]
struct Waiter {
    question: Question,
    by: By,
    heard: Option<Turn>,
    wake: Arc<Notify>,
}

/// How a turn is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Nothing,
    Bell,
    /// `bell` if a doorbell would do, and only a connection for it is missing.
    Looks {
        bell: bool,
    },
}

/// A claim that waits.
#[derive(Clone, Copy, Debug)]
struct Question {
    hash: Hash,
    id: ClaimId,
    seq: Seq,
    mode: (u64, u32, u32),
}

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Holds,
    Waits,
    Gone,
}

impl Waits {
    pub(crate) fn new(options: Arc<MysqlOptions>, way: Arc<Way>, scripts: Arc<Scripts>) -> Arc<Self> {
        Arc::new(Self { options, way, scripts, state: Mutex::default() })
    }

    /// A claim was told that it waits at this place.
    pub(crate) fn expect(&self, claim: &Claim, seq: Seq) {
        let question =
            Question { hash: Hash::of(&claim.key), id: claim.id, seq, mode: mode_numbers(claim.mode) };
        let mut state = self.state();
        let fresh = || Waiter { question, by: By::Nothing, heard: None, wake: Arc::default() };
        let waiter = state.waiters.entry(claim.id).or_insert_with(fresh);
        waiter.question = question;
        // Whatever was heard before this answer is found again by the first look.
        waiter.heard = None;
    }

    /// Whether a claim was told to wait.
    pub(crate) fn knows(&self, id: ClaimId) -> bool {
        self.state().waiters.contains_key(&id)
    }

    /// A claim waits no longer.
    pub(crate) fn forget(&self, id: ClaimId) {
        self.state().waiters.remove(&id);
    }

    /// Nobody waits any longer.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.waiters.clear();
        state.idle.clear();
    }

    /// Resolves when something is known of a claim that was told to wait.
    pub(crate) async fn turn(self: &Arc<Self>, id: ClaimId) -> Turn {
        loop {
            let wake = {
                let mut state = self.state();
                let Some(waiter) = state.waiters.get_mut(&id) else { break };
                if let Some(turn) = waiter.heard.take() {
                    return turn;
                }
                let wake = waiter.wake.clone();
                if waiter.by == By::Nothing {
                    self.begin(&mut state, id);
                }
                wake
            };
            wake.notified().await;
        }
        // It was released meanwhile.
        std::future::pending().await
    }

    fn begin(self: &Arc<Self>, state: &mut State, id: ClaimId) {
        let by = if state.listening < MOST_BELLS { By::Bell } else { By::Looks { bell: true } };
        if let Some(waiter) = state.waiters.get_mut(&id) {
            waiter.by = by;
        }
        if by == By::Bell {
            state.listening += 1;
            tokio::spawn(self.clone().listen(id));
        } else {
            self.look_after_more(state);
        }
    }

    fn look_after_more(self: &Arc<Self>, state: &mut State) {
        state.fresh = true;
        if !std::mem::replace(&mut state.looking, true) {
            tokio::spawn(self.clone().look_out());
        }
    }

    /// Listens for one claim until it holds, is gone or forgotten, or there is nothing to hear.
    async fn listen(self: Arc<Self>, id: ClaimId) {
        let mut link = None;
        let mut silent = 0;
        let mut heard = None;
        while let Some(question) = self.question(id).filter(|_| silent < SILENT) {
            let Ok(current) = self.connect(link.take()).await else {
                silent = SILENT;
                break;
            };
            let answer = timeout(ANSWER, self.hear(&current, &question)).await;
            match answer {
                Ok(Ok((rings, Stands::Waits))) => silent = if rings { 0 } else { silent + 1 },
                Ok(Ok((_, stands))) => heard = stands.turn(&question, &current),
                Ok(Err(_)) | Err(_) => {
                    current.end();
                    silent = SILENT;
                }
            }
            link = Some(current);
            if heard.is_some() {
                break;
            }
        }
        let mut state = self.state();
        state.idle.extend(link.filter(|link| link.works()));
        state.listening -= 1;
        let looks = silent >= SILENT;
        if let Some(waiter) = state.waiters.get_mut(&id) {
            waiter.by = if looks { By::Looks { bell: false } } else { By::Nothing };
            if heard.is_some() {
                waiter.hear(heard);
            }
        }
        if looks {
            self.look_after_more(&mut state);
        }
        // There is room for one who has been waiting without.
        let wanting = state.waiters.values().filter(|waiter| waiter.by == By::Looks { bell: true });
        if let Some(next) = wanting.map(|waiter| waiter.question).min_by_key(|question| question.seq) {
            self.begin(&mut state, next.id);
        }
    }

    /// Looks after all who do not listen, until there are none.
    async fn look_out(self: Arc<Self>) {
        let mut link = None;
        let mut pause = FIRST_PAUSE;
        let mut answered = false;
        loop {
            let questions = {
                let mut state = self.state();
                if std::mem::take(&mut state.fresh) {
                    pause = FIRST_PAUSE;
                }
                let looked_at = |waiter: &&Waiter| matches!(waiter.by, By::Looks { .. });
                let mut questions: Vec<_> =
                    state.waiters.values().filter(looked_at).map(|waiter| waiter.question).collect();
                if questions.is_empty() {
                    state.looking = false;
                    state.idle.extend(link.filter(|link: &Arc<Link>| link.works()));
                    return;
                }
                questions.sort_unstable_by_key(|question| question.seq);
                questions
            };
            let looked = match self.connect(link.take()).await {
                Ok(current) => {
                    let limit = ANSWER + Duration::from_micros(pause);
                    let looked = timeout(limit, self.look(&current, pause, &questions)).await;
                    link = Some(current);
                    looked.ok().and_then(Result::ok)
                }
                Err(_) => None,
            };
            if looked.is_none() {
                if let Some(link) = link.take() {
                    link.end();
                }
                // Nobody looks any more until they are told to wait again. A connection that worked once and broke is
                // reason enough to ask at once; where none can be made, asking would go round in a circle.
                return self.give_up(answered);
            }
            answered = true;
            pause = (pause * 2).min(LONGEST_PAUSE);
            let mut state = self.state();
            for (id, turn) in looked.into_iter().flatten() {
                if let Some(waiter) = state.waiters.get_mut(&id) {
                    waiter.by = By::Nothing;
                    waiter.hear(Some(turn));
                }
            }
        }
    }

    /// Nobody looks any more after those who do not listen.
    fn give_up(&self, tell: bool) {
        let mut state = self.state();
        state.looking = false;
        for waiter in state.waiters.values_mut().filter(|waiter| matches!(waiter.by, By::Looks { .. })) {
            waiter.by = By::Nothing;
            if tell {
                waiter.hear(Some(Turn::Again));
            }
        }
    }

    /// Waits for the doorbell ahead of a claim: whether there was one, and how the claim stands then.
    async fn hear(&self, link: &Link, question: &Question) -> Result<(bool, Stands)> {
        let (mode, take, total) = question.mode;
        let mut sql = self.scripts.listen.text(&[
            ("h", Value::Bytes(&question.hash.0)),
            ("seq", Value::Number(question.seq.get())),
            ("mode", Value::Number(mode)),
            ("take", Value::Number(take.into())),
            ("total", Value::Number(total.into())),
            ("seconds", Value::Number(LISTEN)),
        ]);
        self.write_look(&mut sql, std::slice::from_ref(question));
        let answer = link.send(Op::Attempt, sql).await?;
        let mut rows = answer.rows();
        let rings = rows.next().ok_or_else(|| nonsense(Op::Attempt))?.is(0);
        Ok((rings, stands(rows.next().ok_or_else(|| nonsense(Op::Attempt))?)))
    }

    /// Looks at the lines of some claims after a pause, and says whose wait is over.
    async fn look(&self, link: &Link, pause: u64, questions: &[Question]) -> Result<Vec<(ClaimId, Turn)>> {
        let mut turns = Vec::new();
        let mut sql = self.scripts.pause.text(&[("micros", Value::Number(pause))]);
        for some in questions.chunks(MOST_LOOKED_AT) {
            self.write_look(&mut sql, some);
            let answer = link.send(Op::Attempt, std::mem::take(&mut sql)).await?;
            for row in answer.rows() {
                let at = row.number(0).and_then(|at| usize::try_from(at).ok());
                let question = at.and_then(|at| some.get(at)).ok_or_else(|| nonsense(Op::Attempt))?;
                turns.extend(stands(row).turn(question, link).map(|turn| (question.id, turn)));
            }
        }
        Ok(turns)
    }

    fn write_look(&self, sql: &mut String, questions: &[Question]) {
        let mut wanted = String::new();
        for (at, question) in questions.iter().enumerate() {
            if at > 0 {
                wanted.push_str(" UNION ALL ");
            }
            for (before, value) in [
                ("SELECT ", Value::Number(at as u64)),
                (" AS i, ", Value::Bytes(&question.hash.0)),
                (" AS h, ", Value::Bytes(&question.id.to_bytes())),
                (" AS id, ", Value::Number(question.seq.get())),
            ] {
                wanted.push_str(before);
                value.write(&mut wanted);
            }
            wanted.push_str(" AS seq");
        }
        self.scripts.look.write(sql, &[("wanted", Value::Sql(&wanted))]);
    }

    fn question(&self, id: ClaimId) -> Option<Question> {
        self.state().waiters.get(&id).map(|waiter| waiter.question)
    }

    /// The connection in use if it still works, one that is idle, or a new one.
    async fn connect(&self, link: Option<Arc<Link>>) -> Result<Arc<Link>> {
        let idle = || self.state().idle.pop();
        let mut next = link.or_else(idle);
        while let Some(link) = next {
            if link.works() {
                return Ok(link);
            }
            next = idle();
        }
        Link::open(&self.options, self.way.clone(), Purpose::Waits).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What this guards is changed in single steps, so a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    fn hear(&mut self, turn: Option<Turn>) {
        self.heard = turn;
        self.wake.notify_one();
    }
}

impl Stands {
    /// What there is to tell.
    fn turn(self, question: &Question, link: &Link) -> Option<Turn> {
        let incarnation = Incarnation(link.found.incarnation());
        match self {
            Self::Holds => Some(Turn::Holds(Seat { seq: question.seq, incarnation })),
            Self::Gone => Some(Turn::Again),
            Self::Waits => None,
        }
    }
}

/// Reads a row of look.sql.
fn stands(row: &Fields) -> Stands {
    match (row.is(1), row.is(2)) {
        (true, true) => Stands::Holds,
        (true, false) => Stands::Waits,
        (false, _) => Stands::Gone,
    }
}
