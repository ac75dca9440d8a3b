//! A second process that holds a lock, to be paused and killed.
//!
//! The test binary starts itself again with `--helper <url> <key> <ttl in ms>`. The helper opens the store, says
//! `waiting <number>` if it must, then `holding <number>`, and obeys lines on its standard input: `renew` is
//! answered `renewed` or `lost`, `release` is answered `freed` or `not held`. It ends with its input, without
//! letting go.

use std::{
    io::{BufRead, Write},
    process::{ExitCode, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, Key, Mode, Note, Patience, Released, Renewal, Seq, Ttl,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{Cx, Failure, Result, ensure, servers, steps};

/// Runs the helper if this process was started as one; to be called first by `main`.
#[must_use]
pub fn run_if_asked() -> Option<ExitCode> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [flag, url, key, ttl] = args.as_slice() else { return None };
    if flag != "--helper" {
        return None;
    }
    // A helper that was left paused by a trial that hung would otherwise stay for ever.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    Some(match obey(url, key, ttl) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The test reads standard output; this is for whoever reads the log of a failed one.
            let _ = writeln!(std::io::stderr(), "helper: {failure}");
            ExitCode::FAILURE
        }
    })
}

fn obey(url: &str, key: &str, ttl: &str) -> Result<()> {
    let millis = ttl.parse().map_err(|_| Failure::new("the helper's ttl is no number"))?;
    let claim = Claim {
        key: Key::new(key)?,
        id: ClaimId::fresh(),
        mode: Mode::Exclusive,
        patience: Patience::Queue,
        ttl: Ttl::new(Duration::from_millis(millis))?,
        floor: Seq::ZERO,
        note: Note::new("helper@lab:2", "conformance helper"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let engine = runtime.block_on(servers::open(url))?;
    let seq = runtime.block_on(async {
        if let Attempt::Busy(busy) = engine.attempt(&claim).await? {
            say(&format!("waiting {}", busy.seat.map_or(Seq::ZERO, |seat| seat.seq)))?;
        }
        let grant = steps::acquire(&engine, &claim, claim.ttl.renew_every(), Duration::from_secs(60)).await?;
        Ok::<_, Failure>(grant.seat.seq)
    })?;
    say(&format!("holding {seq}"))?;
    for command in std::io::stdin().lock().lines() {
        let answer = match command?.as_str() {
            "renew" => match runtime.block_on(steps::renew(&engine, &claim, seq))? {
                Renewal::Renewed(_) => "renewed",
                Renewal::Lost => "lost",
            },
            "release" => match runtime.block_on(engine.release(&claim, Answered::All))? {
                Released::Freed => "freed",
                Released::NotHeld => "not held",
            },
            _ => "what?",
        };
        say(answer)?;
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// A helper process; killed when dropped.
#[derive(Debug)]
pub struct Helper {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    /// Starts a helper that goes for the trial's key.
    ///
    /// # Errors
    /// If the lab has no URL or the process cannot be started.
    pub fn start(cx: &Cx, ttl: Ttl) -> Result<Self> {
        let url = cx.lab.url().ok_or_else(|| Failure::new("the lab gives no URL for a helper"))?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--helper", &url, cx.key.as_str(), &ttl.get().as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| Failure::new("the helper has no pipes"))?;
        Ok(Self { child, input, output: BufReader::new(output).lines() })
    }

    /// Reads the next line, which must start so, and gives the number after it, if any.
    ///
    /// # Errors
    /// If another line or none comes within the limit.
    pub async fn says(&mut self, word: &str) -> Result<Seq> {
        let line = match timeout(Cx::LIMIT, self.output.next_line()).await {
            Ok(line) => line?.ok_or_else(|| Failure::new(format!("the helper ended before `{word}`")))?,
            Err(_) => return Err(Failure::new(format!("the helper never said `{word}`"))),
        };
        ensure!(line.starts_with(word), "the helper said `{line}`, not `{word}`");
        let number = line.rsplit(' ').next().and_then(|number| number.parse().ok()).and_then(Seq::new);
        Ok(number.unwrap_or(Seq::ZERO))
    }

    /// Gives a command and requires this answer.
    ///
    /// # Errors
    /// If another answer or none comes.
    pub async fn told(&mut self, command: &str, answer: &str) -> Result<()> {
        self.input.write_all(format!("{command}\n").as_bytes()).await?;
        self.says(answer).await?;
        Ok(())
    }

    /// Kills the helper without warning and waits until it is gone.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub async fn kill(mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait().await?;
        Ok(())
    }

    /// Stops the helper as a long pause would.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a stopped helper go on.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or_else(|| Failure::new("the helper has ended"))?;
        kill_process(pid, signal).map_err(std::io::Error::from)?;
        Ok(())
    }
}
