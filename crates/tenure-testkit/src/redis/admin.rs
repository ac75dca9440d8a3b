use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::{Failure, Result};

/// How long a connection, a write and each read may take.
const LIMIT: Duration = Duration::from_secs(2);

/// The largest string and the longest array that are read.
const MAX_LENGTH: usize = 16 << 20;

/// How deep arrays may be nested.
const MAX_DEPTH: u8 = 8;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// There is no such thing.
    Nil,
    /// A number.
    Int(i64),
    /// A status or a string, in which bytes that are no text are replaced.
    Text(String),
    /// A refusal, as the server wrote it.
    Error(String),
    /// Several.
    Array(Vec<Self>),
}

impl Reply {
    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Nil | Self::Int(_) | Self::Error(_) | Self::Array(_) => None,
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub const fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Nil | Self::Text(_) | Self::Error(_) | Self::Array(_) => None,
        }
    }

    /// The parts of an array; none of anything else.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            Self::Nil | Self::Int(_) | Self::Text(_) | Self::Error(_) => &[],
        }
    }

    /// The value after this name in an array of names and values.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut pairs = self.items().chunks_exact(2);
        pairs.find(|pair| pair[0].text() == Some(name)).and_then(|pair| pair[1].text())
    }
}

/// A plain connection to a Redis server: one command, one answer, each within two seconds.
///
/// It shares no code with the engine under test, so that what it sees is a second opinion.
#[derive(Debug)]
pub struct Admin {
    stream: BufReader<TcpStream>,
}

impl Admin {
    /// Connects to a server, or to a proxy before it.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn connect(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(LIMIT))?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Waits for an answer at most so long from now on, instead of two seconds.
    ///
    /// # Errors
    /// If the time is zero.
    pub fn set_patience(&mut self, limit: Duration) -> Result {
        Ok(self.stream.get_ref().set_read_timeout(Some(limit))?)
    }

    /// Gives a command and takes the answer.
    ///
    /// # Errors
    /// If none comes, or it is an error.
    pub fn command(&mut self, words: &[&str]) -> Result<Reply> {
        match self.ask(words)? {
            Reply::Error(error) => {
                Err(Failure::of_the_trial(format!("the server refused `{}`: {error}", words.join(" "))))
            }
            reply => Ok(reply),
        }
    }

    /// Gives a command and takes the answer as it comes, also an error.
    ///
    /// # Errors
    /// If none comes.
    pub fn ask(&mut self, words: &[&str]) -> Result<Reply> {
        self.send(words)?;
        self.receive()
    }

    /// Gives a command without waiting for its answer.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn send(&mut self, words: &[&str]) -> Result {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
        }
        Ok(self.stream.get_mut().write_all(&bytes)?)
    }

    /// Takes the next answer or message.
    ///
    /// # Errors
    /// If none comes in time or the connection ends.
    pub fn receive(&mut self) -> Result<Reply> {
        self.reply(0)
    }

    fn reply(&mut self, depth: u8) -> Result<Reply> {
        let line = self.line()?;
        let rest = line.get(1..).unwrap_or_default();
        match line.chars().next() {
            Some('+') => Ok(Reply::Text(rest.to_owned())),
            Some('-') => Ok(Reply::Error(rest.to_owned())),
            Some(':') => Ok(Reply::Int(rest.parse().map_err(|_| odd(&line))?)),
            Some('$' | '*') if rest == "-1" => Ok(Reply::Nil),
            Some('$') => {
                let length = length(rest).ok_or_else(|| odd(&line))?;
                let mut bytes = vec![0; length + 2];
                self.stream.read_exact(&mut bytes)?;
                Ok(Reply::Text(String::from_utf8_lossy(&bytes[..length]).into_owned()))
            }
            Some('*') if depth < MAX_DEPTH => {
                let length = length(rest).ok_or_else(|| odd(&line))?;
                (0..length).map(|_| self.reply(depth + 1)).collect::<Result<_>>().map(Reply::Array)
            }
            _ => Err(odd(&line)),
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        (&mut self.stream).take(MAX_LENGTH as u64).read_until(b'\n', &mut bytes)?;
        match bytes.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(Failure::of_the_trial("the connection ended before the answer did")),
        }
    }
}

fn length(digits: &str) -> Option<usize> {
    digits.parse().ok().filter(|&length| length <= MAX_LENGTH)
}

fn odd(line: &str) -> Failure {
    Failure::of_the_trial(format!("not an answer of Redis: `{line}`"))
}
