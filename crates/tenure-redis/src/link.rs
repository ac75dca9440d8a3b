//! One connection to one server, for as long as both live.
//!
//! The driver's own reconnecting connections hide that the server behind them has become another. What a push may be
//! believed for, and which lines must be given a new lease, depends on exactly that: so a link ends with its
//! connection, and knows the life of the server at its other end.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, RedisResult, Value, io::tcp::TcpSettings,
};
use tenure_core::{Address, Error, Op, Result};

use crate::{
    ENGINE,
    conn::Conn,
    facts::{Found, Memory},
    links::{Call, First, Replicas},
    news::News,
    trouble::no_connection,
    url::{Login, RedisOptions, Tls},
    wire::Hear,
};

/// A connection that has left a request unanswered for so long, and nothing else answered since, is given up: behind
/// a dead route a new one may get through.
const SILENCE: Duration = Duration::from_millis(250);
/// The kernel gives up a connection whose data nobody takes for so long.
pub(crate) const UNTAKEN: Duration = Duration::from_secs(5);

pub(crate) struct Link {
    pub(crate) address: Address,
    conn: Conn,
    /// The server's life: its run id, shortened.
    pub(crate) incarnation: u64,
    /// What the server forgets, and when.
    pub(crate) memory: Memory,
    /// What the server said of itself when it was connected.
    pub(crate) found: Found,
    ended: Arc<AtomicBool>,
    born: Instant,
    /// When the oldest request was sent that was given up unanswered, in microseconds since `born` and above zero;
    /// zero if something was answered since.
    silent_since: AtomicU64,
    news: Arc<News>,
}

impl Link {
    /// Connects, and finds out who is there.
    pub(crate) async fn open(
        address: &Address,
        options: &RedisOptions,
        news: &Arc<News>,
    ) -> Result<Arc<Self>> {
        let failed = |err| no_connection(Op::Connect, address, options.tls.is_some(), err);
        let ended = Arc::new(AtomicBool::new(false));
        let ear = Ear { news: news.clone(), ended: ended.clone() };
        let conn = Conn::open(address, options, Arc::new(ear)).await?;
        let found = Found::ask(&conn).await.map_err(failed)?;
        let link = Self {
            address: address.clone(),
            conn,
            incarnation: found.incarnation().ok_or_else(|| {
                let message = format!("{address} does not say its run id, which tenure needs");
                Error::unsupported(Op::Connect, message).with_engine(ENGINE)
            })?,
            memory: found.memory(),
            found,
            ended,
            born: Instant::now(),
            silent_since: AtomicU64::new(0),
            news: news.clone(),
        };
        Ok(Arc::new(link))
    }

    /// Whether a request is worth sending on it.
    pub(crate) fn works(&self) -> bool {
        if self.ended.load(Ordering::Acquire) {
            return false;
        }
        let since = self.silent_since.load(Ordering::Acquire);
        if since > 0 && self.age().saturating_sub(since) > SILENCE.as_micros() as u64 {
            self.end();
            return false;
        }
        true
    }

    /// Gives the connection up. Whoever waits for news on it asks again.
    pub(crate) fn end(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.news.interrupted();
        }
    }

    /// Runs a script, loading it if the server does not know it. Says how many replicas have what it wrote, if any
    /// are waited for. `asking` is how a cluster wants to be asked for a slot that is on its way.
    pub(crate) async fn run(
        &self,
        call: &Call<'_>,
        asking: bool,
        replicas: Option<Replicas>,
    ) -> RedisResult<(Value, u32)> {
        let by_name = self.command("EVALSHA", &call.script.sha, call);
        match self.run_once(by_name, call.first, asking, replicas).await {
            Err(err) if err.kind() == redis::ServerErrorKind::NoScript.into() => {
                let whole = self.command("EVAL", &call.script.code, call);
                Box::pin(self.run_once(whole, call.first, asking, replicas)).await
            }
            answer => answer,
        }
    }

    async fn run_once(
        &self,
        cmd: Cmd,
        first: First,
        asking: bool,
        replicas: Option<Replicas>,
    ) -> RedisResult<(Value, u32)> {
        if !asking && replicas.is_none() {
            return Ok((self.send_first(&cmd, first).await?, 0));
        }
        Box::pin(self.run_among(cmd, asking, replicas)).await
    }

    /// A command with another before it, behind it, or both.
    async fn run_among(
        &self,
        cmd: Cmd,
        asking: bool,
        replicas: Option<Replicas>,
    ) -> RedisResult<(Value, u32)> {
        // Commands are sent in the order in which they are first polled, so each of these follows the one before.
        let ask = async { if asking { self.send(&redis::cmd("ASKING")).await.map(drop) } else { Ok(()) } };
        let wait = async {
            let Some(Replicas { count, within }) = replicas else { return Ok(0) };
            let mut wait = redis::cmd("WAIT");
            wait.arg(count).arg(within.as_millis() as u64);
            Ok::<_, RedisError>(u32::from_redis_value(self.send(&wait).await?)?)
        };
        let (ask, answer, acknowledged) = futures_util::join!(ask, self.send(&cmd), wait);
        ask?;
        Ok((answer?, acknowledged?))
    }

    /// The command that runs a script. Its first argument ends with this server's life.
    fn command(&self, verb: &str, script: &str, call: &Call<'_>) -> Cmd {
        let size = |arg: &Arg<'_>| match arg {
            Arg::Bytes(bytes) => bytes.len(),
            Arg::Number(_) => 20,
        };
        let keys: usize = call.keys.iter().map(Vec::len).sum();
        let args: usize = call.args.iter().map(size).sum();
        let count = 4 + call.keys.len() + call.args.len();
        let mut cmd = Cmd::with_capacity(count, verb.len() + script.len() + keys + args + 32);
        cmd.arg(verb).arg(script).arg(call.keys.len()).arg(call.keys);
        let life = self.incarnation.to_be_bytes();
        match call.id {
            Some(id) => cmd.arg([&id.to_bytes()[..], &life].concat()),
            None => cmd.arg(&life),
        };
        for arg in call.args {
            match arg {
                Arg::Bytes(bytes) => cmd.arg(bytes),
                Arg::Number(number) => cmd.arg(number),
            };
        }
        cmd
    }

    /// Sends a command and waits for its answer.
    pub(crate) async fn send(&self, cmd: &Cmd) -> RedisResult<Value> {
        self.send_first(cmd, First::Caller).await
    }

    async fn send_first(&self, cmd: &Cmd, first: First) -> RedisResult<Value> {
        let mut waiting = Waiting { link: self, sent: self.age(), answered: false };
        let answer = match first {
            First::Caller => self.conn.ask(cmd).await,
            First::Next => self.conn.ask_and_be_answered_last(cmd).await,
        };
        waiting.answered = true;
        match &answer {
            Err(err) if err.is_io_error() => self.end(),
            Err(err) if matches!(crate::trouble::code(err), "READONLY" | "MASTERDOWN" | "NOAUTH") => {
                self.end()
            }
            _ => self.silent_since.store(0, Ordering::Release),
        }
        answer
    }

    /// Asks the server about itself once more.
    pub(crate) async fn examine(&self) -> RedisResult<Found> {
        Found::ask(&self.conn).await
    }

    /// Listens to a channel on this connection.
    pub(crate) async fn subscribe(&self, channel: &str) -> RedisResult<()> {
        let mut waiting = Waiting { link: self, sent: self.age(), answered: false };
        let answer = self.conn.subscribe(channel).await;
        waiting.answered = true;
        answer
    }

    fn age(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

/// Passes on what is heard on a connection.
struct Ear {
    news: Arc<News>,
    ended: Arc<AtomicBool>,
}

impl Hear for Ear {
    fn message(&self, message: &[u8]) {
        self.news.hear(message);
    }

    fn ended(&self) {
        self.ended.store(true, Ordering::Release);
        self.news.interrupted();
    }
}

/// An argument of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

/// A request under way. Dropped unanswered, it starts the clock that ends a silent connection.
struct Waiting<'a> {
    link: &'a Link,
    sent: u64,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let since = &self.link.silent_since;
            let _ = since.compare_exchange(0, self.sent, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

/// Everything a connection needs to know before it is made.
pub(crate) fn client(
    address: &Address,
    info: RedisConnectionInfo,
    login: &Login,
    tls: Option<&Tls>,
) -> Result<Client> {
    let mut info = info.set_skip_set_lib_name();
    if let Some(user) = &login.user {
        info = info.set_username(user);
    }
    if let Some(password) = &login.password {
        info = info.set_password(password);
    }
    let (host, port) = (address.host.clone(), address.port);
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNTAKEN);
    let with = |addr: ConnectionAddr| -> RedisResult<ConnectionInfo> {
        Ok(addr.into_connection_info()?.set_redis_settings(info.clone()).set_tcp_settings(settings.clone()))
    };
    let wrong = |err| no_connection(Op::Connect, address, tls.is_some(), err);
    match tls {
        None => with(ConnectionAddr::Tcp(host, port)).and_then(Client::open).map_err(wrong),
        #[cfg(feature = "tls")]
        Some(tls) => {
            // The driver takes whichever cryptography the process has chosen, and has no other way to be given one.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let certificates = redis::TlsCertificates {
                root_cert: tls.ca.as_deref().map(read).transpose()?,
                client_tls: match &tls.client {
                    Some((cert, key)) => {
                        Some(redis::ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
                    }
                    None => None,
                },
            };
            let info = with(ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None })
                .map_err(wrong)?;
            Client::build_with_tls(info, certificates).map_err(wrong)
        }
        #[cfg(not(feature = "tls"))]
        Some(_) => Err(Error::unsupported(
            Op::Connect,
            "`rediss:` is not compiled in; add the feature `tls` to the dependency on tenure",
        )),
    }
}

#[cfg(feature = "tls")]
fn read(path: impl AsRef<std::path::Path>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    std::fs::read(path).map_err(|err| {
        Error::invalid(format!("cannot read {}", path.display())).in_op(Op::Connect).with_source(err)
    })
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Link({}, life {:x}{})",
            self.address,
            self.incarnation,
            if self.works() { "" } else { ", ended" }
        )
    }
}
