//! One connection to one server, for as long as both live.
//!
//! A link ends with its connection: what a push may be believed for depends on the life of the server at its other end.
//! The driver sends requests in the order in which they were made and the server answers them one after the other, so
//! one that waits keeps all behind it waiting.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::TryStreamExt;
use tenure_core::{Address, Error, Op, Result};
use tokio::net::TcpStream;
use tokio_postgres::{
    Client, Config, NoTls, Row, SimpleQueryMessage, SimpleQueryRow, Statement, config::SslMode,
};

use crate::{
    ENGINE,
    arg::{self, Arg},
    facts::{Found, QUESTION},
    limits::{Limits, Usual, Way},
    news::News,
    schema::ShortWay,
    text,
    tls::Trust,
    trouble::{ends_link, no_connection},
    url::PostgresOptions,
    wire::Wire,
};

/// How long a connection may take to make.
const CONNECT: Duration = Duration::from_secs(3);
/// A connection that has left a request unanswered for so long, and nothing else answered since, is given up: behind
/// a dead route a new one may get through.
const SILENCE: Duration = Duration::from_millis(500);

/// A connection through a pooler on which a request is unanswered for so long is used no more.
const UNANSWERED: Duration = Duration::from_secs(20);

/// What every transaction must be like, whatever the database, its users and a pooler think. With the rows of a table
/// that is mostly empty counted at the wrong moment, a plan may read all of it; and to plan the same anew for every
/// value takes longer than to do it.
const TRANSACTION: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;SET LOCAL enable_seqscan=off;\
                           SET LOCAL plan_cache_mode=force_generic_plan;SET LOCAL synchronous_commit=";
/// The same for a session that is nobody else's.
const SESSION: &str = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;\
                       SET enable_seqscan=off;SET plan_cache_mode=force_generic_plan;SET synchronous_commit=";

pub(crate) struct Link {
    pub(crate) address: Address,
    client: Arc<Client>,
    /// Whose request is under way, if there is a pooler between, and whether all before it were answered. A pooler that has
    /// passed on two requests may take the answer to the first for the end of both (PgBouncer 1.18): if the client
    /// leaves then, the second answer goes to somebody else.
    turn: Option<Arc<tokio::sync::Mutex<bool>>>,
    /// What the server said of itself when it was connected.
    pub(crate) found: Found,
    /// Whether the server sees this very connection, so that there is no pooler between.
    pub(crate) direct: bool,
    /// What every transaction starts with.
    start: String,
    /// The limits of the session, if it is nobody else's.
    usual: Option<Usual>,
    /// What was prepared in the session, if it is nobody else's.
    statements: Mutex<HashMap<&'static str, Statement>>,
    wire: Arc<Wire>,
    /// How many requests are under way.
    under_way: AtomicUsize,
    /// When something was last answered, in microseconds since `born`.
    heard: AtomicU64,
    born: Instant,
    /// When the oldest request was sent that was given up unanswered, in microseconds since `born` and above zero;
    /// zero if something was answered since.
    silent_since: AtomicU64,
}

/// What a connection is used for: the channel that only this client is told on, whether it is to hear that, and more.
#[derive(Clone, Debug)]
pub(crate) struct Ear {
    pub(crate) channel: String,
    pub(crate) listens: bool,
    /// The limits of most verbs on this connection, where nobody asks for others.
    pub(crate) usual: Limits,
}

impl Link {
    /// Connects, and finds out who is there.
    pub(crate) async fn open(
        address: &Address,
        options: &PostgresOptions,
        trust: Option<&Trust>,
        news: &Arc<News>,
        ear: &Ear,
    ) -> Result<Arc<Self>> {
        let connect = Self::connect(address, options, trust, news, ear);
        tokio::time::timeout(CONNECT, connect).await.unwrap_or_else(|_| {
            let message = format!("{address} did not answer within {CONNECT:?}");
            Err(Error::unavailable(Op::Connect, message).with_engine(ENGINE).not_applied())
        })
    }

    async fn connect(
        address: &Address,
        options: &PostgresOptions,
        trust: Option<&Trust>,
        news: &Arc<News>,
        ear: &Ear,
    ) -> Result<Arc<Self>> {
        let unreachable = |err: std::io::Error| {
            Error::unavailable(Op::Connect, format!("cannot connect to {address}"))
                .with_engine(ENGINE)
                .with_source(err)
                .not_applied()
        };
        let failed = |err| no_connection(address, err);
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let port = stream.local_addr().map_err(unreachable)?.port();
        let mut config = Config::new();
        config.user(&options.user).dbname(&options.database).application_name("tenure");
        if let Some(password) = &options.password {
            config.password(password);
        }
        let (news, channel) = (news.clone(), ear.channel.clone());
        let (client, wire) = match trust {
            None => {
                let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(failed)?;
                (client, Wire::start(connection, news, channel))
            }
            Some(trust) => {
                config.ssl_mode(SslMode::Require);
                let connector = trust.connector(address)?;
                let (client, connection) = config.connect_raw(stream, connector).await.map_err(failed)?;
                (client, Wire::start(connection, news, channel))
            }
        };
        let found = Found::read(&client.simple_query(QUESTION).await.map_err(failed)?);
        found.check(address)?;
        let direct = found.client_port() == Some(port);
        // A setting that would let the server forget what it has acknowledged is not for locks.
        let durable = found.durable_commit();
        let start = if direct {
            let limits = ear.usual.for_session();
            client.batch_execute(&format!("{SESSION}{durable};{limits}")).await.map_err(failed)?;
            String::new()
        } else {
            format!("{TRANSACTION}{durable};")
        };
        let link = Self {
            address: address.clone(),
            client: Arc::new(client),
            turn: (!direct).then(|| Arc::new(tokio::sync::Mutex::new(true))),
            found,
            direct,
            start,
            usual: direct.then(|| Usual::new(ear.usual)),
            statements: Mutex::default(),
            wire,
            under_way: AtomicUsize::new(0),
            heard: AtomicU64::new(0),
            born: Instant::now(),
            silent_since: AtomicU64::new(0),
        };
        if ear.listens {
            link.listen(&ear.channel).await.map_err(failed)?;
        }
        Ok(Arc::new(link))
    }

    /// Whether a request is worth sending on it.
    pub(crate) fn works(&self) -> bool {
        if self.wire.has_ended() || self.client.is_closed() {
            return false;
        }
        let since = self.silent_since.load(Ordering::Acquire);
        if since > 0 && self.age().saturating_sub(since) > SILENCE.as_micros() as u64 {
            self.end();
            return false;
        }
        true
    }

    /// Whether a request would be looked at at once, as far as anybody knows: a connection that nobody used for a
    /// while may be dead, and a request that was given up may still be at work in the server.
    pub(crate) fn is_idle(&self) -> bool {
        let heard = self.age().saturating_sub(self.heard.load(Ordering::Acquire));
        self.works()
            && self.under_way.load(Ordering::Acquire) == 0
            && self.silent_since.load(Ordering::Acquire) == 0
            && heard < SILENCE.as_micros() as u64
    }

    /// Gives the connection up. Whoever waits for news on it asks again.
    pub(crate) fn end(&self) {
        self.wire.end();
    }

    /// Carries out a verb's statement as a transaction of its own, in one message, and takes its one value, if there is
    /// one. Statements of the same name are the same.
    pub(crate) async fn call(
        &self,
        limits: Limits,
        name: &'static str,
        sql: &str,
        args: &[Arg<'_>],
    ) -> Result<Option<String>, tokio_postgres::Error> {
        match self.usual.as_ref().map_or(Way::WithItsOwn, |usual| usual.way(limits)) {
            Way::Usual => {}
            Way::WithItsOwn => {
                let rows = self.run(limits, &arg::text(sql, args)).await?;
                return Ok(rows.first().and_then(|row| text::field(row, 0)).map(str::to_owned));
            }
            Way::Change(changing) => {
                self.send(&limits.for_session()).await?;
                changing.done(limits);
            }
        }
        let answer = async {
            let statement = self.prepared(name, sql, args).await?;
            match self.row(&statement, args).await? {
                Some(row) => row.try_get(0),
                None => Ok(None),
            }
        };
        self.watched(answer).await
    }

    /// Takes a key in the short way: its number, and the life of the server. Nothing if somebody is met, or if the session
    /// has other limits.
    pub(crate) async fn again(
        &self,
        limits: Limits,
        short: &ShortWay,
        args: &[Arg<'_>],
    ) -> Result<Option<(i64, i64)>, tokio_postgres::Error> {
        if !self.has(limits) {
            return Ok(None);
        }
        let answer = async {
            let statement = self.prepared(short.name, &short.alone, args).await?;
            match self.row(&statement, args).await? {
                Some(row) => Ok(Some((row.try_get(0)?, row.try_get(1)?))),
                None => Ok(None),
            }
        };
        self.watched(answer).await
    }

    /// Gives back a key in the short way. Not so if somebody is met, or if the session has other limits.
    pub(crate) async fn leave(
        &self,
        limits: Limits,
        short: &ShortWay,
        args: &[Arg<'_>],
    ) -> Result<bool, tokio_postgres::Error> {
        if !self.has(limits) {
            return Ok(false);
        }
        let answer = async {
            let statement = self.prepared(short.name, &short.alone, args).await?;
            Ok(self.client.execute_raw(&statement, args).await? > 0)
        };
        self.watched(answer).await
    }

    /// Whether the session is nobody else's and has these limits.
    fn has(&self, limits: Limits) -> bool {
        self.usual.as_ref().is_some_and(|usual| usual.has(limits))
    }

    /// The row that a statement returns, if there is one, once the server is done with it.
    async fn row(
        &self,
        statement: &Statement,
        args: &[Arg<'_>],
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        let mut rows = pin!(self.client.query_raw(statement, args).await?);
        let Some(row) = rows.try_next().await? else { return Ok(None) };
        // It may fail to commit after it has returned something.
        while rows.try_next().await?.is_some() {}
        Ok(Some(row))
    }

    /// The statement of a verb, made when it is first needed. Only where the session is nobody
    /// else's.
    async fn prepared(
        &self,
        name: &'static str,
        sql: &str,
        args: &[Arg<'_>],
    ) -> Result<Statement, tokio_postgres::Error> {
        let known = || self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statement) = known().get(name) {
            return Ok(statement.clone());
        }
        let kinds: Vec<_> = args.iter().map(Arg::kind).collect();
        let statement = self.client.prepare_typed(sql, &kinds).await?;
        known().insert(name, statement.clone());
        Ok(statement)
    }

    /// Runs statements as a transaction of their own, in one message.
    pub(crate) async fn run(
        &self,
        limits: Limits,
        verb: &str,
    ) -> Result<Vec<SimpleQueryRow>, tokio_postgres::Error> {
        let mut sql = self.start.clone();
        let usual = self.usual.as_ref().and_then(Usual::get);
        let usual = [usual.map(|usual| usual.wait), usual.map(|usual| usual.all)];
        for (name, limit, usual) in
            [("lock_timeout", limits.wait, usual[0]), ("statement_timeout", limits.all, usual[1])]
        {
            if usual != Some(limit) {
                // Writing to a string never fails.
                let _ = write!(sql, "SET LOCAL {name}={};", limit.as_millis().max(1));
            }
        }
        self.send(&(sql + verb)).await
    }

    /// Sends statements in one message, and takes the rows of all.
    pub(crate) async fn send(&self, sql: &str) -> Result<Vec<SimpleQueryRow>, tokio_postgres::Error> {
        let answer = self.watched(self.ask(sql)).await?;
        Ok(answer
            .into_iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            })
            .collect())
    }

    /// Sends statements: beside others if the server itself takes them in turn, and otherwise when it is their turn,
    /// which they have until they are answered, whoever still listens.
    async fn ask(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, tokio_postgres::Error> {
        let Some(turn) = &self.turn else { return self.client.simple_query(sql).await };
        let mut turn = turn.clone().lock_owned().await;
        let (client, sql) = (self.client.clone(), sql.to_owned());
        let (say, said) = tokio::sync::oneshot::channel();
        if std::mem::take(&mut *turn) {
            tokio::spawn(async move {
                // Every statement has a limit on the server that is shorter.
                if let Ok(answer) = tokio::time::timeout(UNANSWERED, client.simple_query(&sql)).await {
                    *turn = true;
                    // Nobody may want it any more.
                    let _ = say.send(answer);
                }
            });
        }
        match said.await {
            Ok(answer) => answer,
            // Nothing is answered on this connection any more. Whoever asks has a limit.
            Err(_) => std::future::pending().await,
        }
    }

    /// Takes an answer, or the lack of one, as news of the connection.
    async fn watched<T>(
        &self,
        request: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        let mut waiting = Waiting { link: self, sent: self.age(), answered: false };
        let answer = self.wire.ask(request).await;
        waiting.answered = true;
        match &answer {
            Err(err) if ends_link(err) => self.end(),
            _ => {
                self.heard.store(self.age(), Ordering::Release);
                self.silent_since.store(0, Ordering::Release);
            }
        }
        answer
    }

    /// Listens to a channel, for as long as the session at the other end is this one's own.
    pub(crate) async fn listen(&self, channel: &str) -> Result<(), tokio_postgres::Error> {
        self.send(&format!("LISTEN \"{channel}\"")).await.map(drop)
    }

    /// Which session is at the other end, and whether it listens to this channel and no other.
    pub(crate) async fn session(&self, channel: &str) -> Result<(String, bool), tokio_postgres::Error> {
        let rows =
            self.send("SELECT pg_backend_pid(),string_agg(c,' ') FROM pg_listening_channels() AS c").await?;
        let get = |at| rows.first().and_then(|row| text::field(row, at)).unwrap_or("").to_owned();
        Ok((get(0), get(1) == channel))
    }

    /// Asks the server about itself once more.
    pub(crate) async fn examine(&self) -> Result<Found, tokio_postgres::Error> {
        Ok(Found::read(&self.ask(QUESTION).await?))
    }

    fn age(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

/// A request under way. Dropped unanswered, it starts the clock that ends a silent connection.
struct Waiting<'a> {
    link: &'a Link,
    sent: u64,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.link.under_way.fetch_sub(1, Ordering::AcqRel);
        if !self.answered {
            let since = &self.link.silent_since;
            let _ = since.compare_exchange(0, self.sent, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({}{})", self.address, if self.works() { "" } else { ", ended" })
    }
}
