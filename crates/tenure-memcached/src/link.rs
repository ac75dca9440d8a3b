//! One connection to one life of one server. Everybody's commands go out on it in order, and nobody waits for the
//! answers of others before sending.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_core::{Address, BootClock, Clock, Error, ErrorKind, Moment, Op, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::{mpsc, oneshot},
    task::AbortHandle,
    time::timeout,
};

use crate::{
    ENGINE,
    commands::{Cas, Commands},
    facts::Stats,
    reply::{Nonsense, Reply, take_line, take_reply},
    trouble::{cut_off, no_connection, nonsense, refused},
    url::{Login, MemcachedOptions},
};

/// How long a connection may take to make.
const CONNECT: Duration = Duration::from_secs(3);
/// A connection on which nothing came for so long, though something was asked, is given up.
const SILENCE: Duration = Duration::from_millis(500);
/// How many may wait to be sent; the next wait for room.
const INBOX: usize = 1024;
/// How many bytes are taken from the inbox before they are sent.
const BATCH: usize = 256 * 1024;
/// How much is read at once.
const READ: usize = 16 * 1024;

/// Which life of which server, as this process counts them: a connection never outlives its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life(u64);

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) address: Address,
    pub(crate) life: Life,
    /// What the server said about itself when the connection was made.
    pub(crate) stats: Stats,
    made: Moment,
    inbox: mpsc::Sender<Request>,
    state: Arc<State>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct State {
    ended: AtomicBool,
    /// Since when an answer is due and nothing came.
    silent: Mutex<Option<Moment>>,
}

#[derive(Debug)]
struct Request {
    bytes: Vec<u8>,
    wanted: Wanted,
}

#[derive(Debug)]
enum Wanted {
    Replies { count: usize, got: Vec<Reply>, answer: oneshot::Sender<Vec<Reply>> },
    Stats { got: Stats, answer: oneshot::Sender<Stats> },
}

impl Link {
    /// Connects, and looks at what kind of server it is.
    pub(crate) async fn open(
        address: &Address,
        options: &MemcachedOptions,
        probe: &str,
    ) -> Result<Arc<Self>> {
        static LIVES: AtomicU64 = AtomicU64::new(0);
        let connect = async {
            let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
            stream.set_nodelay(true)?;
            Ok::<_, io::Error>(stream)
        };
        let silent = || {
            let late = io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
            no_connection(address, late)
        };
        let stream = timeout(CONNECT, connect)
            .await
            .map_err(|_| silent())?
            .map_err(|err| no_connection(address, err))?;
        let (reader, writer) = stream.into_split();
        let (sender, inbox) = mpsc::channel(INBOX);
        let state = Arc::new(State::default());
        let task = tokio::spawn(serve(reader, writer, inbox, state.clone())).abort_handle();
        let mut link = Self {
            address: address.clone(),
            life: Life(LIVES.fetch_add(1, Ordering::Relaxed)),
            stats: Stats::default(),
            made: BootClock.now(),
            inbox: sender,
            state,
            task,
        };
        let look = async {
            if let Some(login) = &options.login {
                link.log_in(login).await?;
            }
            link.stats = link.ask_stats("stats", Op::Connect).await?;
            link.made = BootClock.now();
            link.check(probe).await
        };
        timeout(CONNECT, look).await.map_err(|_| silent())?.map_err(Error::not_applied)?;
        Ok(Arc::new(link))
    }

    /// The only classic command: it is what the server takes for a login.
    async fn log_in(&self, Login { user, password }: &Login) -> Result<()> {
        let words = format!("{user} {password}");
        let bytes = format!("set login 0 0 {}\r\n{words}\r\n", words.len()).into_bytes();
        let replies = self.send(Op::Connect, bytes, 1).await?;
        match &replies[..] {
            [Reply::Done(_)] => Ok(()),
            [Reply::Refused(said)] => Err(refused(Op::Connect, &self.address, said)),
            _ => Err(nonsense(Op::Connect, &self.address)),
        }
    }

    /// Sees whether the server has what locks need.
    async fn check(&self, probe: &str) -> Result<()> {
        let mut ask = Commands::default();
        ask.set(probe, 60, b"");
        let unfit = |message| Err(Error::unsupported(Op::Connect, message).with_engine(ENGINE));
        match &self.ask(Op::Connect, ask).await?[..] {
            [Reply::Done(0)] => {
                unfit(format!("{} gives no unique numbers; start it without -C", self.address))
            }
            [Reply::Done(_)] if self.stats.started().is_none() => {
                unfit(format!("{} does not say when it started", self.address))
            }
            [Reply::Done(_)] => Ok(()),
            [Reply::Refused(said)] => Err(refused(Op::Connect, &self.address, said)),
            _ => Err(nonsense(Op::Connect, &self.address)),
        }
    }

    /// Whether the connection is worth another request. One that is silent for too long is given up for good.
    pub(crate) fn works(&self) -> bool {
        if self.state.ended.load(Ordering::Relaxed) {
            return false;
        }
        let silent = self.state.silent().is_some_and(|since| BootClock.now().since(since) > SILENCE);
        if silent {
            self.state.ended.store(true, Ordering::Relaxed);
            self.task.abort();
        }
        !silent
    }

    /// Refuses a server that started a moment ago. Numbers begin with the second in which a server starts, and another
    /// life of it may have given some in that same second.
    pub(crate) fn may_number(&self) -> Result<()> {
        if self.stats.is_older_than_a_second() || BootClock.now().since(self.made) >= Duration::from_secs(1) {
            return Ok(());
        }
        let message = format!("{} started a moment ago; its fences are good after a second", self.address);
        Err(Error::new(ErrorKind::Unavailable, Op::Attempt, message).with_engine(ENGINE).not_applied())
    }

    /// When the server started, by its own clock.
    pub(crate) fn started(&self) -> u64 {
        self.stats.started().unwrap_or(0)
    }

    /// The server's clock in seconds, for people: read when the connection was made, and counted on since.
    pub(crate) fn server_now(&self) -> u64 {
        self.stats.time().unwrap_or(0) + BootClock.now().since(self.made).as_secs()
    }

    /// The version that a reply on this connection named.
    pub(crate) fn cas(&self, number: u64) -> Cas {
        Cas { number, life: self.life }
    }

    /// Sends commands in one packet and waits for all their replies.
    pub(crate) async fn ask(&self, op: Op, ask: Commands) -> Result<Vec<Reply>> {
        if ask.count == 0 {
            return Ok(Vec::new());
        }
        let (count, replies) = (ask.count, self.send(op, ask.bytes, ask.count).await?);
        if replies.len() == count { Ok(replies) } else { Err(nonsense(op, &self.address)) }
    }

    pub(crate) async fn ask_stats(&self, command: &str, op: Op) -> Result<Stats> {
        let (answer, answered) = oneshot::channel();
        let bytes = format!("{command}\r\n").into_bytes();
        self.post(op, Request { bytes, wanted: Wanted::Stats { got: Stats::default(), answer } }).await?;
        let stats = answered.await.map_err(|_| cut_off(op, &self.address))?;
        match stats.refused() {
            Some(said) => Err(refused(op, &self.address, said)),
            None => Ok(stats),
        }
    }

    async fn send(&self, op: Op, bytes: Vec<u8>, count: usize) -> Result<Vec<Reply>> {
        let (answer, answered) = oneshot::channel();
        let wanted = Wanted::Replies { count, got: Vec::with_capacity(count), answer };
        self.post(op, Request { bytes, wanted }).await?;
        answered.await.map_err(|_| cut_off(op, &self.address))
    }

    async fn post(&self, op: Op, request: Request) -> Result<()> {
        // What did not get into the inbox was not sent.
        self.inbox.send(request).await.map_err(|_| cut_off(op, &self.address).not_applied())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn silent(&self) -> MutexGuard<'_, Option<Moment>> {
        // One value, set in one step.
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries requests and answers until the connection ends. Whoever still waits then is told by a dropped channel.
async fn serve(
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    inbox: mpsc::Receiver<Request>,
    state: Arc<State>,
) {
    let mut wire = Wire { reader, writer, waiting: VecDeque::new(), input: Vec::new(), output: Vec::new() };
    // Whatever ended it, the next verb makes another.
    let _ = wire.carry(inbox, &state).await;
    state.ended.store(true, Ordering::Relaxed);
}

struct Wire {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    waiting: VecDeque<Wanted>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Wire {
    async fn carry(&mut self, mut inbox: mpsc::Receiver<Request>, state: &State) -> io::Result<()> {
        loop {
            let room = self.output.len() < BATCH;
            let Self { reader, writer, input, output, .. } = self;
            input.reserve(READ);
            tokio::select! {
                read = reader.read_buf(input) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    self.understand().map_err(|Nonsense| io::ErrorKind::InvalidData)?;
                    *state.silent() = (!self.waiting.is_empty()).then(|| BootClock.now());
                }
                written = writer.write(output), if !output.is_empty() => {
                    output.drain(..written?);
                }
                request = inbox.recv(), if room => {
                    let Some(request) = request else { return Ok(()) };
                    self.take(request);
                    while self.output.len() < BATCH && let Ok(request) = inbox.try_recv() {
                        self.take(request);
                    }
                    state.silent().get_or_insert_with(|| BootClock.now());
                    // Most of the time it goes out at once.
                    if let Ok(written) = self.writer.try_write(&self.output) {
                        self.output.drain(..written);
                    }
                }
            }
        }
    }

    fn take(&mut self, request: Request) {
        self.output.extend_from_slice(&request.bytes);
        self.waiting.push_back(request.wanted);
    }

    /// Hands out the answers that are whole.
    fn understand(&mut self) -> Result<(), Nonsense> {
        let mut used = 0;
        while let Some(first) = self.waiting.front_mut() {
            let rest = &self.input[used..];
            let done = match first {
                Wanted::Replies { count, got, .. } => {
                    let Some((reply, length)) = take_reply_or_login(rest)? else { break };
                    used += length;
                    got.push(reply);
                    got.len() == *count
                }
                Wanted::Stats { got, .. } => {
                    let Some((line, length)) = take_line(rest)? else { break };
                    used += length;
                    got.add(line)?
                }
            };
            if done {
                match self.waiting.pop_front() {
                    // Nobody may be there any more to take it.
                    Some(Wanted::Replies { got, answer, .. }) => drop(answer.send(got)),
                    Some(Wanted::Stats { got, answer }) => drop(answer.send(got)),
                    None => {}
                }
            }
        }
        self.input.drain(..used);
        // Nothing was asked that this could answer.
        if self.waiting.is_empty() && !self.input.is_empty() { Err(Nonsense) } else { Ok(()) }
    }
}

/// A login is answered in the words of the classic commands.
fn take_reply_or_login(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Nonsense> {
    const STORED: &[u8] = b"STORED\r\n";
    if bytes.starts_with(STORED) { Ok(Some((Reply::Done(0), STORED.len()))) } else { take_reply(bytes) }
}
