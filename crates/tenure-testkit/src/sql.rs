//! Connections to SQL servers through their own command line clients.
//!
//! They share no code with the engines under test, so that what they see is a second opinion, and need no client
//! crate.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, PipeReader, Read, Write},
    os::unix::fs::FileExt,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use crate::{Failure, Result, ensure};

/// How long an answer is waited for at first.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest text. A pipe takes 64 KiB before a write to it blocks, and at most one text is on its way.
const MAX_SQL: usize = 32 << 10;

/// How much a session may answer in all.
const MAX_OUTPUT: u64 = 16 << 20;

/// How much of an error is told.
const MAX_ERROR: usize = 4 << 10;

/// What was selected, row by row, as text. `NULL` is the word `NULL`.
pub type Rows = Vec<Vec<String>>;

/// A client in its own process with one connection, open until this is dropped.
///
/// A text is given as it would be typed, one or several statements; a transaction may stay open from one to the next.
/// Values with tabs or line breaks in them cannot be told from several values.
#[derive(Debug)]
pub struct Session {
    child: Child,
    client: Client,
    lines: Receiver<String>,
    /// What the client complains, of which this much has been read.
    errors: File,
    errors_read: u64,
    /// The rows so far of an answer that is not complete.
    rows: Rows,
    /// How many texts were given and answered.
    sent: u64,
    answered: u64,
    patience: Duration,
}

/// Which client it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client {
    Psql,
    MariaDb,
}

impl Client {
    /// A line that makes the client itself write a mark, connected or not, when it has done what was before it.
    fn mark(self, number: u64) -> String {
        match self {
            Self::Psql => format!("\\echo {}\n", mark(number)),
            Self::MariaDb => format!("\\! echo {}\n", mark(number)),
        }
    }
}

fn mark(number: u64) -> String {
    format!("tenure-testkit-answered-{number}")
}

impl Session {
    /// Starts the client and waits until it is connected.
    pub(crate) fn open(client: Client, mut command: Command) -> Result<Self> {
        let (output, theirs) = io::pipe()?;
        let errors = tempfile::tempfile()?;
        command.stdin(Stdio::piped()).stdout(theirs).stderr(errors.try_clone()?);
        let child = command.spawn().map_err(|error| {
            let program = command.get_program().display();
            Failure::of_the_trial(format!("cannot start `{program}`: {error}"))
        })?;
        // The command keeps the client's end of the pipe, whose closing is how the end of the client is noticed.
        drop(command);
        let (sender, lines) = sync_channel(1024);
        let mut session = Self {
            child,
            client,
            lines,
            errors,
            errors_read: 0,
            rows: Rows::new(),
            sent: 0,
            answered: 0,
            patience: PATIENCE,
        };
        thread::Builder::new()
            .name("tenure-testkit-session".into())
            .spawn(move || pass_on(output, &sender))?;
        session.sql("")?;
        Ok(session)
    }

    /// Waits for an answer at most so long from now on, instead of ten seconds.
    pub const fn set_patience(&mut self, limit: Duration) {
        self.patience = limit;
    }

    /// Gives statements and takes the rows that they select.
    ///
    /// # Errors
    /// If no answer comes in time, or one of them is refused; the message is the server's, and the statements after
    /// the refused one are carried out.
    pub fn sql(&mut self, sql: &str) -> Result<Rows> {
        self.send(sql)?;
        self.receive()
    }

    /// Gives statements without waiting for their answer.
    ///
    /// # Errors
    /// If the last answer has not been taken, the text is longer than 32 KiB, or the client has ended.
    pub fn send(&mut self, sql: &str) -> Result {
        ensure!(self.sent == self.answered, "the answer before was not taken");
        ensure!(sql.len() <= MAX_SQL, "{} bytes are more than {MAX_SQL}", sql.len());
        let end = if sql.is_empty() || sql.trim_end().ends_with(';') { "" } else { ";" };
        let mark = self.client.mark(self.sent);
        self.sent += 1;
        let Some(input) = &mut self.child.stdin else { return Err(Failure::of_the_trial("no input")) };
        // A client that has ended says why when its answer is asked for.
        match input.write_all(format!("{sql}{end}\n{mark}").as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Takes the answer to what was sent.
    ///
    /// # Errors
    /// If it does not come in time (ask again then), or it is a refusal.
    pub fn receive(&mut self) -> Result<Rows> {
        ensure!(self.answered < self.sent, "nothing was asked");
        let start = Instant::now();
        let end = mark(self.answered);
        loop {
            let left = self.patience.saturating_sub(start.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) if line == end => break,
                Ok(line) => self.rows.push(line.split('\t').map(str::to_owned).collect()),
                Err(RecvTimeoutError::Timeout) => {
                    let patience = self.patience;
                    return Err(Failure::of_the_trial(format!("no answer within {patience:?}")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let why = self.complaints()?;
                    return Err(Failure::of_the_trial(format!("the connection ended: {}", why.trim())));
                }
            }
        }
        self.answered += 1;
        let rows = std::mem::take(&mut self.rows);
        let complaints = self.complaints()?;
        // Notices and warnings come this way too.
        match complaints.lines().find(|line| ["ERROR", "FATAL"].iter().any(|word| line.starts_with(word))) {
            Some(error) => Err(Failure::of_the_trial(format!("the server refused: {error}"))),
            None => Ok(rows),
        }
    }

    /// What the client has complained since the last look.
    fn complaints(&mut self) -> Result<String> {
        let mut bytes = vec![0; MAX_ERROR];
        let length = self.errors.read_at(&mut bytes, self.errors_read)?;
        self.errors_read = self.errors.metadata()?.len();
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // There is nobody to tell; a client whose input has ended ends too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes on what the client writes, line by line, until it or the session ends.
fn pass_on(output: PipeReader, lines: &SyncSender<String>) {
    let mut output = BufReader::new(output.take(MAX_OUTPUT));
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
        line.clear();
        if lines.send(text).is_err() {
            return;
        }
    }
}
