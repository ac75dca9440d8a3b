//! A connection as bytes. Whoever asks writes by itself, on the thread it is on, and one task reads for all: to hand a
//! request to another task first would often mean to wake another thread, which takes longer than the server needs to
//! answer.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::AbortHandle;
use redis::{Cmd, ErrorKind, PushKind, RedisError, RedisResult, Value};
use tokio::{
    io::AsyncReadExt,
    net::{TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::{Notify, oneshot},
};

use crate::{reader::Reader, resp::take_value, url::Login};

/// How much is read at once.
const READ: usize = 4 * 1024;
/// With so many requests unanswered, the next are sent by the task that reads, many in one packet.
const AT_ONCE: usize = 16;
/// How many bytes may wait to be sent; more are refused.
const UNSENT: usize = 16 * 1024 * 1024;
/// How long an answer may be; none of ours comes near it.
const LONGEST: usize = 64 * 1024 * 1024;

/// What is told of a connection besides answers.
pub(crate) trait Hear: Send + Sync + 'static {
    /// A message of a channel.
    fn message(&self, message: &[u8]);
    /// The connection ended.
    fn ended(&self);
}

#[derive(Debug)]
pub(crate) struct Wire {
    shared: Arc<Shared>,
    reading: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    writer: OwnedWriteHalf,
    state: Mutex<State>,
    /// Something is left to be written.
    unsent: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<oneshot::Sender<RedisResult<Value>>>,
    unsent: Vec<u8>,
    /// Nobody reads any more.
    ended: bool,
}

impl Wire {
    /// Begins to read.
    pub(crate) fn start(stream: TcpStream, hear: Arc<dyn Hear>, reader: &Reader) -> Self {
        let (input, writer) = stream.into_split();
        let shared = Arc::new(Shared { writer, state: Mutex::default(), unsent: Notify::new() });
        let end = End { shared: shared.clone(), hear };
        let reading = reader.begin(async move {
            let why = end.read(input).await.err();
            end.say(why.unwrap_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into()));
        });
        Self { shared, reading }
    }

    /// Says who we are, in the protocol that has pushes.
    pub(crate) async fn greet(&self, login: &Login, db: i64) -> RedisResult<()> {
        let mut hello = redis::cmd("HELLO");
        hello.arg(3);
        if let Some(password) = &login.password {
            hello.arg("AUTH").arg(login.user.as_deref().unwrap_or("default")).arg(password);
        }
        self.ask(&hello).await.map_err(|err| match err.detail() {
            Some(words) if words.contains("unknown command") || words.contains("NOPROTO") => {
                RedisError::from((ErrorKind::RESP3NotSupported, "the server is too old"))
            }
            _ => err,
        })?;
        if db != 0 {
            self.ask(redis::cmd("SELECT").arg(db)).await?;
        }
        Ok(())
    }

    /// Sends a command and waits for its answer. Commands are sent in the order in which this is first polled.
    pub(crate) async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        let answered = self.shared.send(&cmd.get_packed_command(), 0)?;
        answered.await.map_err(|_| cut_off())?
    }

    /// The same, and has the server push what the command publishes before it answers.
    ///
    /// A server writes to its clients once all commands of a packet are done, and to the one that it had something to
    /// say to first of all last. So this asks for the time first, and does not listen to the answer. Whoever is woken
    /// first gets the processor that is free.
    pub(crate) async fn ask_and_be_answered_last(&self, cmd: &Cmd) -> RedisResult<Value> {
        let mut bytes = redis::cmd("TIME").get_packed_command();
        cmd.write_packed_command(&mut bytes);
        let answered = self.shared.send(&bytes, 1)?;
        answered.await.map_err(|_| cut_off())?
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // It is changed in single steps, so a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends commands in one packet: as many as `unheard`, and one whose answer is wanted.
    fn send(&self, bytes: &[u8], unheard: usize) -> RedisResult<oneshot::Receiver<RedisResult<Value>>> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        if state.ended || state.unsent.len() > UNSENT {
            return Err(cut_off());
        }
        for _ in 0..unheard {
            state.waiting.push_back(oneshot::channel().0);
        }
        state.waiting.push_back(answer);
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
        Ok(answered)
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

/// The task that reads. However it goes, everybody is told.
struct End {
    shared: Arc<Shared>,
    hear: Arc<dyn Hear>,
}

impl End {
    async fn read(&self, mut reader: OwnedReadHalf) -> RedisResult<()> {
        let mut input = Vec::new();
        loop {
            let unsent = !self.shared.state().unsent.is_empty();
            if input.capacity() - input.len() < READ {
                input.reserve(READ);
            }
            tokio::select! {
                biased;
                read = reader.read_buf(&mut input) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    self.understand(&mut input)?;
                }
                writable = self.shared.writer.writable(), if unsent => {
                    writable?;
                    self.shared.flush()?;
                }
                () = self.shared.unsent.notified() => {}
            }
        }
    }

    /// Hands out what is whole.
    fn understand(&self, input: &mut Vec<u8>) -> RedisResult<()> {
        let mut used = 0;
        while used < input.len()
            && let Some((value, length)) = take_value(&input[used..])?
        {
            used += length;
            let value = match value {
                // What a subscription is answered with is a push too.
                Value::Push { kind: PushKind::Subscribe, data } => Value::Array(data),
                Value::Push { kind: PushKind::Message, data } => {
                    if let Some(Value::BulkString(message)) = data.last() {
                        self.hear.message(message);
                    }
                    continue;
                }
                Value::Push { .. } => continue,
                value => value,
            };
            // The lock is not held while whoever asked is woken.
            let asked = self.shared.state().waiting.pop_front();
            let Some(asked) = asked else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "nobody asked for this").into());
            };
            // Nobody may be there any more to take it.
            let _ = asked.send(value.extract_error());
        }
        if used == input.len() {
            input.clear();
        } else {
            input.drain(..used);
        }
        if input.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer without end").into());
        }
        Ok(())
    }

    fn say(&self, why: RedisError) {
        let waiting = self.shut();
        self.hear.ended();
        for asked in waiting {
            let _ = asked.send(Err(why.clone()));
        }
    }

    fn shut(&self) -> VecDeque<oneshot::Sender<RedisResult<Value>>> {
        let mut state = self.shared.state();
        state.ended = true;
        std::mem::take(&mut state.waiting)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // The runtime may have ended before the connection did.
        drop(self.shut());
    }
}

fn cut_off() -> RedisError {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection has ended").into()
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use tokio::{io::AsyncWriteExt, net::TcpListener, time::timeout};

    use super::*;

    #[derive(Default)]
    struct Heard {
        messages: Mutex<Vec<Vec<u8>>>,
        ends: AtomicUsize,
    }

    impl Hear for Heard {
        fn message(&self, message: &[u8]) {
            self.messages.lock().unwrap().push(message.to_vec());
        }

        fn ended(&self) {
            self.ends.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A wire and its other end.
    async fn pair() -> (Arc<Wire>, TcpStream, Arc<Heard>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let heard = Arc::new(Heard::default());
        (
            Arc::new(Wire::start(stream, heard.clone(), &Reader::default())),
            listener.accept().await.unwrap().0,
            heard,
        )
    }

    fn echo(text: &str) -> Cmd {
        let mut cmd = redis::cmd("ECHO");
        cmd.arg(text);
        cmd
    }

    async fn soon<T>(what: impl Future<Output = T>) -> T {
        timeout(Duration::from_secs(10), what).await.expect("within 10 s")
    }

    /// More requests than fit into the kernel's buffers and than one packet has, answered one by one.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn everybody_gets_the_answer_to_their_own_question() {
        const ASKED: usize = 300;
        let (wire, mut server, _) = pair().await;
        let padding = "x".repeat(40_000);
        let mut asked = tokio::task::JoinSet::new();
        for number in 0..ASKED {
            let (wire, text) = (wire.clone(), format!("{number} {padding}"));
            asked.spawn(async move {
                let answer = wire.ask(&echo(&text)).await.unwrap();
                assert_eq!(answer, Value::BulkString(text.into_bytes()), "answer to {number}");
            });
        }
        let serve = async {
            let (mut input, mut answered) = (Vec::new(), 0);
            while answered < ASKED {
                server.read_buf(&mut input).await.unwrap();
                while let Some((Value::Array(words), length)) = take_value(&input).unwrap() {
                    input.drain(..length);
                    let Value::BulkString(text) = &words[1] else { panic!("{words:?}") };
                    let answer = [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
                    server.write_all(&answer).await.unwrap();
                    answered += 1;
                }
            }
        };
        soon(serve).await;
        while let Some(done) = soon(asked.join_next()).await {
            done.unwrap();
        }
    }

    #[tokio::test]
    async fn an_answer_without_end_ends_the_connection() {
        let (wire, mut server, _) = pair().await;
        let endless = async {
            server.write_all(format!("${}\r\n", usize::MAX >> 1).as_bytes()).await.unwrap();
            let more = vec![b'x'; 1024 * 1024];
            while server.write_all(&more).await.is_ok() {}
        };
        let cmd = echo("?");
        let answer = soon(async {
            tokio::select! {
                answer = wire.ask(&cmd) => answer,
                () = endless => panic!("the server was cut off before the client was told"),
            }
        });
        assert!(answer.await.unwrap_err().is_io_error());
    }

    #[tokio::test]
    async fn pushes_come_between_answers_and_answer_nobody() {
        let (wire, mut server, heard) = pair().await;
        let push = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n";
        let subscribed = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
        let answers = format!("{push}{subscribed}{push}:7\r\n");
        server.write_all(answers.as_bytes()).await.unwrap_or_default();
        // Both questions are sent before either answer is read, on this one thread.
        let (first, second) = (echo("first"), echo("second"));
        let (first, second) = soon(async { tokio::join!(wire.ask(&first), wire.ask(&second)) }).await;
        assert!(matches!(first.unwrap(), Value::Array(_)));
        assert_eq!(second.unwrap(), Value::Int(7));
        assert_eq!(*heard.messages.lock().unwrap(), [b"hello", b"hello"]);
    }

    /// Whether the server hangs up or says what makes no sense: everybody is told, and nobody is sent anything more.
    #[tokio::test]
    async fn the_end_is_told_to_everybody() {
        for last in ["", "HTTP/1.1 400\r\n", ":1\r\n:2\r\n:3\r\n"] {
            let (wire, mut server, heard) = pair().await;
            let hangs_up = async {
                let mut input = Vec::new();
                while input.len() < 2 * echo("?").get_packed_command().len() {
                    server.read_buf(&mut input).await.unwrap();
                }
                server.write_all(last.as_bytes()).await.unwrap();
                if last.is_empty() {
                    drop(server);
                    None
                } else {
                    Some(server)
                }
            };
            let (cmd, other) = (echo("?"), echo("?"));
            let (first, second, _server) =
                soon(async { tokio::join!(wire.ask(&cmd), wire.ask(&other), hangs_up) }).await;
            if !last.starts_with(':') {
                assert!(first.unwrap_err().is_io_error() && second.unwrap_err().is_io_error(), "{last:?}");
            }
            soon(async {
                while heard.ends.load(Ordering::SeqCst) == 0 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            assert!(soon(wire.ask(&cmd)).await.unwrap_err().is_io_error(), "{last:?}");
            assert_eq!(heard.ends.load(Ordering::SeqCst), 1, "{last:?}");
        }
    }
}
