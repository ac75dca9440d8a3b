//! One connection to one life of one server. Everybody's commands go out on it in order, and nobody waits for the
//! answers of others before sending. Whoever asks writes by itself, on the thread it is on, and one task reads for all:
//! to hand a request to another task first would often mean to wake another thread.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_core::{Address, BootClock, Clock, Error, ErrorKind, Incarnation, Moment, Op, Result};
use tokio::{
    io::AsyncReadExt,
    net::{TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::{Notify, oneshot},
    task::AbortHandle,
    time::timeout,
};

use crate::{
    ENGINE,
    commands::{Cas, Commands},
    facts::{Server, Stats},
    reply::{Nonsense, Reply, take_line, take_reply},
    trouble::{cut_off, no_connection, nonsense, refused},
    url::{Login, MemcachedOptions},
};

/// How long a connection may take to make.
const CONNECT: Duration = Duration::from_secs(3);
/// A connection on which nothing came for so long, though something was asked, is given up.
const SILENCE: Duration = Duration::from_millis(500);
/// With so many requests unanswered, the next are sent by the task that reads, many in one packet.
const AT_ONCE: usize = 16;
/// How many bytes may wait to be sent; more are refused.
const UNSENT: usize = 16 * 1024 * 1024;
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
    server: Server,
    made: Moment,
    wire: Arc<Wire>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Wire {
    writer: OwnedWriteHalf,
    state: Mutex<State>,
    /// Something is left to be written.
    unsent: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Wanted>,
    unsent: Vec<u8>,
    ended: bool,
    /// Since when an answer is due and nothing came.
    silent: Option<Moment>,
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
        let wire = Arc::new(Wire { writer, state: Mutex::default(), unsent: Notify::new() });
        let task = tokio::spawn(read(End(wire.clone()), reader)).abort_handle();
        let mut link = Self {
            address: address.clone(),
            life: Life(LIVES.fetch_add(1, Ordering::Relaxed)),
            server: Server::default(),
            made: BootClock.now(),
            wire,
            task,
        };
        let look = async {
            if let Some(login) = &options.login {
                link.log_in(login).await?;
            }
            link.server = link.ask_stats("stats", Op::Connect).await?.server();
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
            [Reply::Done(_)] if self.server.started.is_none() => {
                unfit(format!("{} does not say when it started", self.address))
            }
            [Reply::Done(_)] => Ok(()),
            [Reply::Refused(said)] => Err(refused(Op::Connect, &self.address, said)),
            _ => Err(nonsense(Op::Connect, &self.address)),
        }
    }

    /// Whether the connection is worth another request. One that is silent for too long is given up for good.
    pub(crate) fn works(&self) -> bool {
        let mut state = self.wire.state();
        if state.silent.is_some_and(|since| BootClock.now().since(since) > SILENCE) {
            state.ended = true;
            self.task.abort();
        }
        !state.ended
    }

    /// Refuses a server that started a moment ago. Numbers begin with the second in which a server starts, and another
    /// life of it may have given some in that same second.
    pub(crate) fn may_number(&self) -> Result<()> {
        if self.server.is_older_than_a_second || BootClock.now().since(self.made) >= Duration::from_secs(1) {
            return Ok(());
        }
        let message = format!("{} started a moment ago; its fences are good after a second", self.address);
        Err(Error::new(ErrorKind::Unavailable, Op::Attempt, message).with_engine(ENGINE).not_applied())
    }

    /// When the server started, by its own clock.
    pub(crate) fn started(&self) -> u64 {
        self.server.started.unwrap_or(0)
    }

    /// The server's clock in seconds, for people: read when the connection was made, and counted on since.
    pub(crate) fn server_now(&self) -> u64 {
        self.server.time + BootClock.now().since(self.made).as_secs()
    }

    /// The life of the server, as far as it says.
    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation(self.server.incarnation)
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
        self.post(op, &bytes, Wanted::Stats { got: Stats::default(), answer })?;
        let stats = answered.await.map_err(|_| cut_off(op, &self.address))?;
        match stats.refused() {
            Some(said) => Err(refused(op, &self.address, said)),
            None => Ok(stats),
        }
    }

    async fn send(&self, op: Op, bytes: Vec<u8>, count: usize) -> Result<Vec<Reply>> {
        let (answer, answered) = oneshot::channel();
        self.post(op, &bytes, Wanted::Replies { count, got: Vec::with_capacity(count), answer })?;
        answered.await.map_err(|_| cut_off(op, &self.address))
    }

    fn post(&self, op: Op, bytes: &[u8], wanted: Wanted) -> Result<()> {
        // What was not taken was not sent.
        self.wire.send(bytes, wanted).map_err(|Ended| cut_off(op, &self.address).not_applied())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The connection takes nothing more.
struct Ended;

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        // It is changed in single steps, so a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, bytes: &[u8], wanted: Wanted) -> Result<(), Ended> {
        let mut state = self.state();
        if state.ended || state.unsent.len() > UNSENT {
            return Err(Ended);
        }
        state.waiting.push_back(wanted);
        state.silent.get_or_insert_with(|| BootClock.now());
        let written = match state.unsent.is_empty() && state.waiting.len() <= AT_ONCE {
            // If it fails, so does the next read, which tells everybody.
            true => self.writer.try_write(bytes).unwrap_or(0),
            false => 0,
        };
        if written < bytes.len() {
            state.unsent.extend_from_slice(&bytes[written..]);
            drop(state);
            self.unsent.notify_one();
        }
        Ok(())
    }

    /// Writes what is left, as far as it goes.
    fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        match self.writer.try_write(&state.unsent) {
            Ok(written) => drop(state.unsent.drain(..written)),
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
            Err(err) => return Err(err),
        }
        Ok(())
    }
}

/// Whoever still waits when nobody reads any more is told by a dropped channel.
struct End(Arc<Wire>);

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.ended = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}

/// Reads until the connection ends. Whatever ended it, the next verb makes another.
async fn read(end: End, mut reader: OwnedReadHalf) {
    let _ = end.0.carry(&mut reader).await;
}

impl Wire {
    async fn carry(&self, reader: &mut OwnedReadHalf) -> io::Result<()> {
        let mut input = Vec::new();
        loop {
            let unsent = !self.state().unsent.is_empty();
            input.reserve(READ);
            tokio::select! {
                biased;
                read = reader.read_buf(&mut input) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    self.understand(&mut input).map_err(|Nonsense| io::ErrorKind::InvalidData)?;
                }
                writable = self.writer.writable(), if unsent => {
                    writable?;
                    self.flush()?;
                }
                () = self.unsent.notified() => {}
            }
        }
    }

    /// Hands out the answers that are whole.
    fn understand(&self, input: &mut Vec<u8>) -> Result<(), Nonsense> {
        let mut used = 0;
        let mut state = self.state();
        while let Some(first) = state.waiting.front_mut() {
            let rest = &input[used..];
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
                let wanted = state.waiting.pop_front();
                // The lock is not held while whoever asked is woken.
                drop(state);
                match wanted {
                    // Nobody may be there any more to take it.
                    Some(Wanted::Replies { got, answer, .. }) => drop(answer.send(got)),
                    Some(Wanted::Stats { got, answer }) => drop(answer.send(got)),
                    None => {}
                }
                state = self.state();
            }
        }
        state.silent = (!state.waiting.is_empty()).then(|| BootClock.now());
        // Nothing was asked that this could answer.
        let unasked = state.waiting.is_empty() && used < input.len();
        drop(state);
        input.drain(..used);
        if unasked { Err(Nonsense) } else { Ok(()) }
    }
}

/// A login is answered in the words of the classic commands.
fn take_reply_or_login(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Nonsense> {
    const STORED: &[u8] = b"STORED\r\n";
    if bytes.starts_with(STORED) { Ok(Some((Reply::Done(0), STORED.len()))) } else { take_reply(bytes) }
}
