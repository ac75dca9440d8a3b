//! One connection to one server, for as long as both live.
//!
//! Requests are sent in the order in which they were made, whoever awaits them and however late, and answered in that
//! order. Whether a request without an answer was carried out nobody knows.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_core::Address;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf},
    net::TcpStream,
    sync::{Notify, mpsc, oneshot},
    task::AbortHandle,
};

use crate::{
    ear::Ear,
    tls::Trust,
    wire::{AUTH, EVENT, Head, Hello, MOST_BYTES, Request, Welcome, code, login, read_event},
};

/// The most requests under way at once.
const MOST_WAITING: usize = 1 << 16;
/// How much is written at once.
const CHUNK: usize = 64 * 1024;

/// Why there is no answer, or which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server said no, by this number; nothing was done.
    Code(i32),
    /// The connection ended first. It may have been done.
    Gone,
    /// It was never sent.
    NotSent,
    /// The session has ended.
    Ended,
    /// The answer makes no sense.
    Garbled,
}

/// The body of an answer.
pub(crate) type Answer = Result<Vec<u8>, Failure>;

/// What a connection speaks through.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(crate) struct Link {
    pub(crate) address: Address,
    queue: Arc<Queue>,
    outbox: mpsc::UnboundedSender<Vec<u8>>,
    reader: AbortHandle,
}

/// Who waits for an answer, in order.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<Waiting>,
    end: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    next: i32,
    line: VecDeque<(i32, oneshot::Sender<Answer>)>,
    ended: bool,
}

/// An answer that may still come. The request is on its way, whether this is awaited or not.
#[derive(Debug)]
pub(crate) struct Pending(oneshot::Receiver<Answer>);

impl Pending {
    pub(crate) async fn answer(self) -> Answer {
        self.0.await.unwrap_or(Err(Failure::Gone))
    }
}

impl Link {
    /// Opens a connection and a session over it, or goes on with one.
    pub(crate) async fn open(
        address: &Address,
        trust: Option<&Trust>,
        user: Option<&(String, String)>,
        hello: Hello<'_>,
        ear: &Arc<Ear>,
    ) -> Result<(Arc<Self>, Welcome), Trouble> {
        let mut stream = connect(address, trust).await?;
        stream.write_all(&hello.message()).await?;
        let welcome = Welcome::read(&read_message(&mut stream).await?).ok_or(Trouble::Garbled)?;
        if welcome.session == 0 || welcome.timeout_ms <= 0 {
            return Err(Trouble::Expired);
        }
        if let Some((name, password)) = user {
            stream.write_all(&login(name, password)).await?;
            let head = Head::read(&read_message(&mut stream).await?).ok_or(Trouble::Garbled)?;
            match (head.number, head.code) {
                (AUTH, 0) => {}
                (AUTH, _) => return Err(Trouble::Denied),
                _ => return Err(Trouble::Garbled),
            }
        }
        let (read, write) = tokio::io::split(stream);
        let queue = Arc::<Queue>::default();
        let (outbox, inbox) = mpsc::unbounded_channel();
        let reader = tokio::spawn(hear(read, queue.clone(), ear.clone())).abort_handle();
        tokio::spawn(speak(write, inbox, queue.clone()));
        Ok((Arc::new(Self { address: address.clone(), queue, outbox, reader }), welcome))
    }

    /// Sends a request. It is on its way when this returns.
    pub(crate) fn send(&self, request: &Request<'_>) -> Pending {
        let (tell, told) = oneshot::channel();
        let mut queue = self.queue.lock();
        let refused = queue.ended || queue.line.len() >= MOST_WAITING;
        // Numbers below zero mean something else.
        queue.next = if queue.next == i32::MAX { 1 } else { queue.next + 1 };
        // Under the lock, so that the order on the wire is that of those who wait.
        if refused || self.outbox.send(request.message(queue.next)).is_err() {
            let _ = tell.send(Err(Failure::NotSent));
        } else {
            let number = queue.next;
            queue.line.push_back((number, tell));
        }
        Pending(told)
    }

    /// Resolves when the connection has ended.
    pub(crate) async fn ended(&self) {
        loop {
            let end = self.queue.end.notified();
            if self.queue.lock().ended {
                return;
            }
            end.await;
        }
    }

    /// Ends it: nobody gets an answer any more.
    pub(crate) fn end(&self) {
        self.reader.abort();
        self.queue.end();
    }
}

impl Drop for Link {
    /// What was sent is still written; nobody is left to hear the answers.
    fn drop(&mut self) {
        self.queue.end();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        let waiting = {
            let mut state = self.lock();
            state.ended = true;
            std::mem::take(&mut state.line)
        };
        drop(waiting); // each is told that the connection is gone
        self.end.notify_waiters();
    }

    /// Gives an answer to whom it belongs; `None` if it is nobody's.
    fn answer(&self, head: Head, body: &[u8]) -> Option<()> {
        let (number, tell) = self.lock().line.pop_front()?;
        let answer = match head.code {
            0 => Ok(body.to_vec()),
            code::SESSION_EXPIRED => Err(Failure::Ended),
            // The session went over to another connection of ours, which is not so: this one is of no use.
            code::SESSION_MOVED => Err(Failure::Gone),
            code => Err(Failure::Code(code)),
        };
        // Whoever asked may be gone.
        let _ = tell.send(answer);
        (number == head.number).then_some(())
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum Trouble {
    Io(std::io::Error),
    /// The name and password are refused.
    Denied,
    /// The session has ended.
    Expired,
    /// What came is not ZooKeeper's protocol.
    Garbled,
    /// The certificate or its name cannot be used.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is no TLS to fail"))]
    Tls(tenure_core::Error),
}

impl From<std::io::Error> for Trouble {
    fn from(err: std::io::Error) -> Self {
        Self::Io(err)
    }
}

/// Opens a connection to this server.
pub(crate) async fn connect(address: &Address, trust: Option<&Trust>) -> Result<Box<dyn Stream>, Trouble> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    match trust {
        Some(trust) => trust.wrap(address, stream).await,
        None => Ok(Box::new(stream)),
    }
}

async fn read_message(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, Trouble> {
    let length = usize::try_from(stream.read_i32().await?).map_err(|_| Trouble::Garbled)?;
    if length > MOST_BYTES {
        return Err(Trouble::Garbled);
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

async fn speak(
    mut stream: WriteHalf<Box<dyn Stream>>,
    mut inbox: mpsc::UnboundedReceiver<Vec<u8>>,
    queue: Arc<Queue>,
) {
    while let Some(mut chunk) = inbox.recv().await {
        while chunk.len() < CHUNK
            && let Ok(more) = inbox.try_recv()
        {
            chunk.extend(more);
        }
        if stream.write_all(&chunk).await.is_err() || stream.flush().await.is_err() {
            break;
        }
    }
    queue.end();
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.shutdown()).await;
}

async fn hear(stream: ReadHalf<Box<dyn Stream>>, queue: Arc<Queue>, ear: Arc<Ear>) {
    let mut stream = tokio::io::BufReader::with_capacity(CHUNK, stream);
    while let Ok(message) = read_message(&mut stream).await {
        let Some(head) = Head::read(&message) else { break };
        let body = &message[Head::BYTES..];
        let understood = if head.number == EVENT {
            read_event(body).map(|(change, path)| ear.event(change, &path))
        } else {
            ear.saw(head.seen);
            queue.answer(head, body)
        };
        if understood.is_none() {
            break;
        }
    }
    queue.end();
}
