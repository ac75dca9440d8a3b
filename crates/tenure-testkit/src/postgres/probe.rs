use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::{Failure, Result, ensure};

/// How long a connection, a write and each read may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Version 3.0 of the protocol.
const VERSION: u32 = 3 << 16;

/// How many messages come before a server is ready, and how long one may be.
const MAX_MESSAGES: usize = 64;
const MAX_LENGTH: u32 = 64 << 10;

/// Comes in as a user who needs no password, waits until the server is ready for statements, and leaves.
///
/// It is asked many times while a server starts, where starting `psql` each time would take longer than the server.
pub(crate) fn probe(addr: SocketAddr, user: &str, database: &str) -> Result {
    let mut stream = TcpStream::connect_timeout(&addr, LIMIT)?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.set_read_timeout(Some(LIMIT))?;
    let words = format!("user\0{user}\0database\0{database}\0\0");
    let length = u32::try_from(words.len() + 8).map_err(|_| Failure::of_the_trial("a long name"))?;
    stream.write_all(&[&length.to_be_bytes()[..], &VERSION.to_be_bytes(), words.as_bytes()].concat())?;
    for _ in 0..MAX_MESSAGES {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length);
        ensure!((4..=MAX_LENGTH).contains(&length), "not a message of PostgreSQL: {head:?}");
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body)?;
        match kind {
            b'E' => {
                let fields = String::from_utf8_lossy(&body).replace('\0', " ");
                return Err(Failure::of_the_trial(format!("it answered: {fields}")));
            }
            // "Ready for query"; then "terminate", without which it would complain of a connection broken off.
            b'Z' => return Ok(stream.write_all(&[b'X', 0, 0, 0, 4])?),
            _ => {}
        }
    }
    Err(Failure::of_the_trial(format!("not ready after {MAX_MESSAGES} messages")))
}
