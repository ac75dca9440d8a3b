//! One connection to one server.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::{SendStream, client::SendRequest};
use http::{HeaderValue, Uri};
use prost::Message;
use tenure_core::{Address, Error, ErrorKind, Op, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Notify,
    task::AbortHandle,
    time::timeout,
};

use crate::{
    ENGINE,
    grpc::{self, Answers, Fault},
    pb,
    tls::Trust,
    trouble::{ends_link, no_connection, verb_failed},
    url::EtcdOptions,
};

/// How long a server may leave everything unanswered before it is asked whether it is still there, and how long it may
/// take to say so. One that is frozen, or cut off without a word, is given up after both.
const SILENCE: Duration = Duration::from_millis(300);
const ANSWER_LIMIT: Duration = Duration::from_millis(700);
/// A server closes the connection of a client that asks more often, or while it has nothing else to ask.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// How long a connection may take to be made, in all.
pub(crate) const DIAL_LIMIT: Duration = Duration::from_secs(3);

/// What one stream, and all of them together, may receive before it is read.
const STREAM_WINDOW: u32 = 1 << 20;
const LINK_WINDOW: u32 = 4 << 20;

/// The oldest version whose transactions and watches are as this engine needs them.
const OLDEST: (u32, u32) = (3, 4);

/// What bytes go over.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

pub(crate) struct Link {
    pub(crate) address: Address,
    requests: SendRequest<Bytes>,
    scheme: &'static str,
    token: Option<HeaderValue>,
    pulse: Arc<Pulse>,
    task: AbortHandle,
}

/// What is known of a connection's life.
#[derive(Debug, Default)]
struct Pulse {
    ended: AtomicBool,
    /// How many calls were made, and how many answered: those that were dropped count as not answered.
    asked: AtomicU64,
    answered: AtomicU64,
    calling: Notify,
}

impl Pulse {
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Counts a call, and its answer if one comes.
    async fn count<T>(&self, call: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.calling.notify_one();
        let answer = call.await;
        self.answered.fetch_add(1, Ordering::Relaxed);
        answer
    }
}

impl Link {
    /// Connects, says who this is, and asks the server whether it can be used.
    pub(crate) async fn dial(
        options: &EtcdOptions,
        trust: Option<&Trust>,
        address: &Address,
    ) -> Result<Self> {
        let dial = async {
            let mut link = Self::connect(trust, address).await?;
            if let Some(login) = &options.login {
                let (name, password) = (login.user.clone(), login.password.clone());
                let asked = pb::AuthenticateRequest { name, password };
                let answer: pb::AuthenticateResponse =
                    link.call(Op::Connect, "etcdserverpb.Auth/Authenticate", &asked).await?;
                link.token = HeaderValue::from_str(&answer.token).ok();
            }
            let status = link.status(Op::Connect).await?;
            check(address, &status)?;
            Ok(link)
        };
        timeout(DIAL_LIMIT, dial).await.unwrap_or_else(|_| {
            Err(Error::unavailable(Op::Connect, format!("{address} does not answer")).with_engine(ENGINE))
        })
    }

    async fn connect(trust: Option<&Trust>, address: &Address) -> Result<Self> {
        let failed = |err| no_connection(address, err);
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let wire: Box<dyn Wire> = match trust {
            Some(trust) => trust.wrap(stream, address).await.map_err(failed)?,
            None => Box::new(stream),
        };
        let (requests, connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(LINK_WINDOW)
            .handshake::<_, Bytes>(wire)
            .await
            .map_err(|err| failed(std::io::Error::other(err)))?;
        let pulse = Arc::new(Pulse::default());
        let task = tokio::spawn(carry(connection, pulse.clone())).abort_handle();
        let scheme = if trust.is_some() { "https" } else { "http" };
        Ok(Self { address: address.clone(), requests, scheme, token: None, pulse, task })
    }

    /// Whether it may still be used.
    pub(crate) fn lives(&self) -> bool {
        !self.pulse.ended.load(Ordering::Acquire)
    }

    /// Calls a method with one message and one answer.
    pub(crate) async fn call<R: Message + Default>(
        &self,
        op: Op,
        method: &'static str,
        message: &impl Message,
    ) -> Result<R> {
        let answer = async {
            let (_up, mut answers) =
                grpc::call(&self.requests, self.uri(method), self.token.as_ref(), message, true).await?;
            answers.only().await
        };
        self.pulse.count(answer).await.map_err(|fault| self.failed(op, fault))
    }

    /// Opens a watch. It lives as long as what this returns.
    pub(crate) async fn watch(&self, watch: pb::WatchCreateRequest) -> Result<Watching, Fault> {
        let request = pb::WatchRequest { request: Some(pb::Watch::Create(watch)) };
        let uri = self.uri("etcdserverpb.Watch/Watch");
        let call = grpc::call(&self.requests, uri, self.token.as_ref(), &request, false);
        let (up, answers) = self.pulse.count(call).await?;
        Ok(Watching { _up: up, answers })
    }

    /// What the server says about itself.
    pub(crate) async fn status(&self, op: Op) -> Result<pb::StatusResponse> {
        self.call(op, "etcdserverpb.Maintenance/Status", &pb::Empty {}).await
    }

    fn failed(&self, op: Op, fault: Fault) -> Error {
        if ends_link(&fault) {
            self.pulse.end();
        }
        verb_failed(op, &self.address, fault)
    }

    fn uri(&self, method: &'static str) -> Uri {
        let uri = Uri::builder().scheme(self.scheme).authority(self.address.to_string());
        // A host that no URI can name was never connected to.
        uri.path_and_query(format!("/{method}")).build().unwrap_or_default()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.address)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A watch that was opened.
pub(crate) struct Watching {
    _up: SendStream<Bytes>,
    answers: Answers<pb::WatchResponse>,
}

impl Watching {
    /// The next news, or `None` if the server ended the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<pb::WatchResponse>, Fault> {
        self.answers.next().await
    }
}

/// Carries the connection until it ends or the server does not answer any more.
async fn carry(mut connection: h2::client::Connection<Box<dyn Wire>, Bytes>, pulse: Arc<Pulse>) {
    let pings = connection.ping_pong();
    let silent = async {
        match pings {
            Some(pings) => silence(pings, &pulse).await,
            None => std::future::pending().await,
        }
    };
    // Whoever still waits for an answer learns of it by the connection being gone.
    futures_util::future::select(connection, std::pin::pin!(silent)).await;
    pulse.end();
}

/// Resolves when the server leaves calls unanswered and does not say that it is there.
async fn silence(mut pings: h2::PingPong, pulse: &Pulse) {
    let wait = |time| async move { timeout(time, std::future::pending::<()>()).await.unwrap_or_default() };
    let mut asked_at: Option<Instant> = None;
    loop {
        pulse.calling.notified().await;
        let before = pulse.answered.load(Ordering::Relaxed);
        let heard = || {
            let answered = pulse.answered.load(Ordering::Relaxed);
            answered != before || answered == pulse.asked.load(Ordering::Relaxed)
        };
        wait(SILENCE).await;
        if let Some(asked_at) = asked_at.filter(|_| !heard()) {
            wait(ASK_EVERY.saturating_sub(asked_at.elapsed())).await;
        }
        if heard() {
            continue;
        }
        asked_at = Some(Instant::now());
        match timeout(ANSWER_LIMIT, pings.ping(h2::Ping::opaque())).await {
            // It is there, only slow. What was dropped meanwhile is not held against it.
            Ok(Ok(_)) => pulse.answered.store(pulse.asked.load(Ordering::Relaxed), Ordering::Relaxed),
            _ => return,
        }
    }
}

/// Refuses a server that is too old or has nobody to follow.
fn check(address: &Address, status: &pb::StatusResponse) -> Result<()> {
    let mut parts = status.version.split('.').map(|part| part.parse::<u32>().ok());
    let version = (parts.next().flatten().unwrap_or(0), parts.next().flatten().unwrap_or(0));
    if version < OLDEST {
        let message = format!("{address} is etcd {}; 3.4 is the oldest that will do", status.version);
        return Err(Error::unsupported(Op::Connect, message).with_engine(ENGINE));
    }
    if status.leader == 0 {
        let message = format!("{address} knows of no leader: most servers are out of its reach");
        let error = Error::new(ErrorKind::Unavailable, Op::Connect, message);
        return Err(error.with_engine(ENGINE).not_applied());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_or_lost_is_not_used() {
        let address = Address { host: "h".into(), port: 1 };
        let asked = |version: &str, leader| {
            let status = pb::StatusResponse { version: version.into(), leader, ..Default::default() };
            check(&address, &status).map_err(|err| err.kind())
        };
        assert_eq!(asked("3.3.27", 1), Err(ErrorKind::Unsupported));
        assert_eq!(asked("2.10", 1), Err(ErrorKind::Unsupported));
        assert_eq!(asked("", 1), Err(ErrorKind::Unsupported));
        for version in ["3.4.0", "3.4.23", "3.5.9", "3.10.1", "4.0.0-rc.1"] {
            assert_eq!(asked(version, 1), Ok(()), "{version}");
        }
        assert_eq!(asked("3.5.9", 0), Err(ErrorKind::Unavailable));
    }
}
