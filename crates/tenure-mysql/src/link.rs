//! One connection to one server, for as long as both live.
//!
//! A verb that is given up must not leave half an answer to the next one. So what was sent is carried out to its end,
//! whoever still listens: by the verb itself, which costs no switch of tasks, or once it is dropped by a task of its
//! own. What deadlines can be believed depends on which server wrote them and when it was started, so a link ends with
//! its connection and knows the life of the server at its other end.

use std::{
    fmt,
    pin::Pin,
    sync::{
        self, Arc, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::{FutureExt, TryStreamExt, future::BoxFuture};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Either, Executor, MySqlConnection,
    error::BoxDynError,
    mysql::{MySqlArguments, MySqlConnectOptions, MySqlSslMode},
};
use tenure_core::{Address, Op, Result};
use tokio::{
    runtime::Handle,
    sync::{Mutex, OwnedMutexGuard, watch},
    time::timeout,
};

use crate::{
    answer::{Answer, Fields, nonsense},
    bell::Bells,
    facts::{ASK, Found},
    script::{Script, Value},
    trouble::{is_unprepared, no_answer, no_connection, verb_failed},
    url::{MysqlOptions, Tls},
};

/// How long a connection may take to make.
const CONNECT: Duration = Duration::from_secs(2);
/// A connection that has left a request unanswered for so long, and nothing else answered since, is given up: behind
/// a dead route a new one may get through.
const SILENCE: Duration = Duration::from_millis(250);
/// The most statements that the server is asked to keep for a connection: two with a doorbell to take and without, and one more.
const PREPARED: usize = 5;
/// How often a server is asked about itself: a second may begin meanwhile.
const ASKED: usize = 5;

/// What a session must be like, whatever the server's defaults. A row is locked for one verb only, so a second of
/// waiting for it means that something is wrong; it is also the least that can be asked for. Statements are short, and
/// idle connections hold nothing, so the server need not end them.
const SESSION: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', \
                       autocommit = 1, completion_type = 0, sql_safe_updates = 0, innodb_lock_wait_timeout = 1, \
                       wait_timeout = 86400; \
                       SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;";

/// Waits last longer than the statements that some servers allow. MySQL takes it for a comment.
const WAITS: &str = "/*M!100100 SET SESSION max_statement_time = 0 */;";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Verbs,
    Waits,
}

pub(crate) struct Link {
    pub(crate) address: Address,
    /// Whoever has a request under way has the connection; nobody, once it is over.
    conn: Arc<Mutex<Option<MySqlConnection>>>,
    pub(crate) found: Found,
    /// The doorbells that its session holds.
    pub(crate) bells: Bells,
    /// The texts of what may be sent without them the next time.
    sent: sync::Mutex<Vec<Arc<str>>>,
    state: Arc<State>,
    runtime: Handle,
}

/// What the connections of a client know together of the way to the server.
#[derive(Debug)]
pub(crate) struct Way {
    born: Instant,
    /// When the request was sent whose silence was the last to end a connection. Another one that nothing was heard on
    /// since then is as dead, or may be: it is not worth waiting to find out.
    silent: AtomicU64,
}

struct State {
    way: Arc<Way>,
    ended: watch::Sender<bool>,
    /// Whether statements are sent as text only.
    plain: AtomicBool,
    /// When the last answer came.
    heard: AtomicU64,
    /// When the oldest request was sent that was given up unanswered, in microseconds by `Way::age`; zero if something
    /// was answered since.
    silent_since: AtomicU64,
}

impl Link {
    /// Connects, finds out who is there, and refuses a server on which nothing can be granted.
    pub(crate) async fn open(options: &MysqlOptions, way: Arc<Way>, purpose: Purpose) -> Result<Arc<Self>> {
        let address = &options.address;
        let failed = |err| no_connection(options, err);
        let connecting = async {
            let mut conn = connect_options(options)?.connect().await.map_err(failed)?;
            run(&mut conn, SESSION.to_owned()).await.map_err(failed)?;
            if purpose == Purpose::Waits {
                run(&mut conn, WAITS.to_owned()).await.map_err(failed)?;
            }
            for _ in 0..ASKED {
                if let Some(found) = Found::read(&run(&mut conn, ASK.to_owned()).await.map_err(failed)?) {
                    return Ok((conn, found));
                }
            }
            Err(nonsense(Op::Connect))
        };
        let (conn, found) =
            timeout(CONNECT, connecting).await.map_err(|_| no_answer(Op::Connect, address))??;
        found.check(options)?;
        let state = Arc::new(State {
            ended: watch::Sender::new(false),
            plain: AtomicBool::new(false),
            heard: AtomicU64::new(way.age()),
            silent_since: AtomicU64::new(0),
            way,
        });
        Ok(Arc::new(Self {
            address: address.clone(),
            conn: Arc::new(Mutex::new(Some(conn))),
            found,
            bells: Bells::default(),
            sent: sync::Mutex::default(),
            state,
            runtime: Handle::current(),
        }))
    }

    /// Whether a request is worth sending on it.
    pub(crate) fn works(&self) -> bool {
        if self.state.has_ended() {
            return false;
        }
        let State { way, heard, silent_since, .. } = &*self.state;
        let since = silent_since.load(Ordering::Acquire);
        let silent = since > 0 && way.age().saturating_sub(since) > SILENCE.as_micros() as u64;
        if silent || heard.load(Ordering::Acquire) < way.silent.load(Ordering::Acquire) {
            self.end();
            return false;
        }
        true
    }

    /// Gives the connection up: the server undoes what was not finished on it.
    pub(crate) fn end(&self) {
        let since = self.state.silent_since.load(Ordering::Acquire);
        self.state.way.silent.fetch_max(since, Ordering::AcqRel);
        self.state.ended.send_replace(true);
    }

    /// Sends one statement of a script that may be used again and again: as text the first time, which is one trip, and
    /// from the third time on without its text. Where that is refused (the server has no room for it, a pooler knows
    /// nothing of it) it is sent as text for ever.
    pub(crate) async fn send_bound(
        &self,
        op: Op,
        script: &Script,
        values: &[(&str, Value<'_>)],
    ) -> Result<Answer> {
        if !self.state.plain.load(Ordering::Relaxed) && self.sent_before(script) {
            match self.request(op, Words::Bound(script.bound().clone(), script.arguments(values))).await {
                Err(err) if is_unprepared(&err) => self.state.plain.store(true, Ordering::Relaxed),
                answer => return answer,
            }
        }
        self.send(op, script.text(values)).await
    }

    /// Whether a script was sent on this connection before.
    fn sent_before(&self, script: &Script) -> bool {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let before = sent.iter().any(|text| Arc::ptr_eq(text, script.bound()));
        if !before {
            sent.push(script.bound().clone());
        }
        before
    }

    /// Sends statements and waits for their answers.
    pub(crate) async fn send(&self, op: Op, sql: String) -> Result<Answer> {
        self.request(op, Words::Text(sql)).await
    }

    async fn request(&self, op: Op, words: Words) -> Result<Answer> {
        let mut waiting = Waiting { state: &self.state, sent: self.state.way.age(), answered: false };
        let sent = AtomicBool::new(false);
        let answer = tokio::select! {
            biased;
            answer = self.ask(words, &sent) => answer,
            () = self.state.over() => None,
        };
        waiting.answered = true;
        match answer {
            Some(answer) => answer.map_err(|err| verb_failed(op, &self.address, err)),
            None if sent.into_inner() => Err(no_answer(op, &self.address)),
            None => Err(no_answer(op, &self.address).not_applied()),
        }
    }

    /// Carries statements out when it is their turn. `None` if the connection is gone by then.
    async fn ask(&self, words: Words, sent: &AtomicBool) -> Option<Result<Answer, sqlx::Error>> {
        let mut home = self.conn.clone().lock_owned().await;
        let conn = home.take()?;
        sent.store(true, Ordering::Relaxed);
        let work = carry_out(conn, home, words, self.state.clone()).boxed();
        Some(UnderWay { work: Some(work), state: &self.state, runtime: &self.runtime }.await)
    }
}

/// What is sent.
enum Words {
    Text(String),
    Bound(Arc<str>, Result<MySqlArguments, BoxDynError>),
}

/// Statements under way. Dropped before their answer came, they go on in a task of their own until it comes or the
/// connection is given up.
struct UnderWay<'a> {
    work: Option<BoxFuture<'static, Result<Answer, sqlx::Error>>>,
    state: &'a Arc<State>,
    runtime: &'a Handle,
}

impl Future for UnderWay<'_> {
    type Output = Result<Answer, sqlx::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let answer = std::task::ready!(work.poll_unpin(cx));
        self.work = None;
        Poll::Ready(answer)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let Some(work) = self.work.take().filter(|_| !self.state.has_ended()) else { return };
        let state = self.state.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                _ = work => {}
                () = state.over() => {}
            }
        });
    }
}

impl Link {
    /// Asks the server about itself once more.
    pub(crate) async fn examine(&self) -> Result<Found> {
        for _ in 0..ASKED {
            if let Some(found) = Found::read(&self.send(Op::Examine, ASK.to_owned()).await?) {
                return Ok(found);
            }
        }
        Err(nonsense(Op::Examine))
    }
}

impl Way {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { born: Instant::now(), silent: AtomicU64::new(0) })
    }

    /// The time, in microseconds above zero.
    fn age(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

impl State {
    fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Resolves when the connection is given up.
    async fn over(&self) {
        // It fails if the sender is gone, which is in `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A request that is under way is carried out.
        if let Some(conn) = self.conn.try_lock().ok().and_then(|mut conn| conn.take()) {
            self.runtime.spawn(timeout(CONNECT, conn.close()));
        }
    }
}

/// Carries statements out to their end, and puts the connection back if it is as before.
async fn carry_out(
    mut conn: MySqlConnection,
    mut home: OwnedMutexGuard<Option<MySqlConnection>>,
    words: Words,
    state: Arc<State>,
) -> Result<Answer, sqlx::Error> {
    let answer = match words {
        Words::Text(sql) => run(&mut conn, sql).await,
        Words::Bound(sql, values) => run_bound(&mut conn, sql, values).await,
    };
    let mut whole = match &answer {
        Ok(_) => true,
        // The statements after the refused one were not carried out, and those before are not committed.
        Err(sqlx::Error::Database(_)) => run(&mut conn, "ROLLBACK".to_owned()).await.is_ok(),
        Err(_) => false,
    };
    if let Err(err) = &answer {
        whole &= !crate::trouble::ends_link(err);
    }
    state.heard.store(state.way.age(), Ordering::Release);
    state.silent_since.store(0, Ordering::Release);
    if whole {
        *home = Some(conn);
    } else {
        state.ended.send_replace(true);
    }
    answer
}

/// Sends statements in one packet, and reads all their answers.
async fn run(conn: &mut MySqlConnection, sql: String) -> Result<Answer, sqlx::Error> {
    // Put together from constants, numbers and hexadecimal literals in `script.rs`.
    let mut stream = conn.fetch_many(sqlx::raw_sql(AssertSqlSafe(sql)));
    let mut answer = Answer::default();
    let mut rows = Vec::new();
    while let Some(item) = stream.try_next().await? {
        match item {
            Either::Right(row) => rows.push(Fields::read(&row)?),
            Either::Left(done) => {
                answer.sets.push(std::mem::take(&mut rows));
                answer.done.push((done.rows_affected(), done.last_insert_id()));
            }
        }
    }
    Ok(answer)
}

/// Sends one statement that selects nothing, with its values beside it.
async fn run_bound(
    conn: &mut MySqlConnection,
    sql: Arc<str>,
    values: Result<MySqlArguments, BoxDynError>,
) -> Result<Answer, sqlx::Error> {
    // The text of a script, and nothing else.
    let done =
        sqlx::query_with(AssertSqlSafe(sql), values.map_err(sqlx::Error::Encode)?).execute(conn).await?;
    Ok(Answer { sets: vec![Vec::new()], done: vec![(done.rows_affected(), done.last_insert_id())] })
}

fn connect_options(options: &MysqlOptions) -> Result<MySqlConnectOptions> {
    let mut connect = MySqlConnectOptions::new()
        .host(&options.address.host)
        .port(options.address.port)
        .username(&options.user)
        .database(&options.database)
        .statement_cache_capacity(PREPARED)
        .disable_statement_logging();
    if let Some(password) = &options.password {
        connect = connect.password(password);
    }
    secure(connect, options.tls.as_ref())
}

#[cfg(feature = "tls")]
fn secure(connect: MySqlConnectOptions, tls: Option<&Tls>) -> Result<MySqlConnectOptions> {
    Ok(match tls {
        None => connect.ssl_mode(MySqlSslMode::Disabled),
        Some(Tls { ca }) => {
            let connect = connect.ssl_mode(MySqlSslMode::VerifyIdentity);
            match ca {
                // Read here, so that a file that is not there is not taken for a server that is not.
                Some(ca) => connect.ssl_ca_from_pem(std::fs::read(ca).map_err(|err| {
                    let message = format!("cannot read {}", ca.display());
                    tenure_core::Error::invalid(message).in_op(Op::Connect).with_source(err)
                })?),
                None => connect,
            }
        }
    })
}

#[cfg(not(feature = "tls"))]
fn secure(connect: MySqlConnectOptions, tls: Option<&Tls>) -> Result<MySqlConnectOptions> {
    match tls {
        None => Ok(connect.ssl_mode(MySqlSslMode::Disabled)),
        Some(_) => Err(tenure_core::Error::unsupported(
            Op::Connect,
            "tls=verify is not compiled in; add the feature `tls` to the dependency on tenure",
        )),
    }
}

/// A request under way. Dropped unanswered, it starts the clock that ends a silent connection.
struct Waiting<'a> {
    state: &'a State,
    sent: u64,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let since = &self.state.silent_since;
            let _ = since.compare_exchange(0, self.sent, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = if self.state.has_ended() { ", ended" } else { "" };
        write!(f, "Link({}, life {:x}{ended})", self.address, self.found.incarnation())
    }
}
