//! The other processes, as the bench sees them.

use std::{path::Path, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{
    player::Player,
    trouble::{Result, Trouble},
    wire::{Order, PART_WORD, Says},
};

/// How much longer than its work an answer may take.
const GRACE: Duration = Duration::from_secs(60);

/// Somebody who contends: a process of its own, or on an engine that lives in one process a client of this one.
pub(crate) enum Part {
    Process(Box<Process>),
    Inside(Box<Player>),
}

/// A process of ours. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Part {
    /// Starts one and lets it connect.
    pub(crate) async fn start(program: Option<&Path>, url: &str) -> Result<Self> {
        let Some(program) = program else { return Ok(Self::Inside(Box::new(Player::open(url).await?))) };
        let cannot = |err: std::io::Error| Trouble::internal("cannot start another process", err);
        let mut command = Command::new(program);
        command.arg(PART_WORD).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(cannot)?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::Internal("another process ended at once".into()));
        };
        let process = Process { child, orders, answers: BufReader::new(answers).lines() };
        let mut part = Self::Process(Box::new(process));
        match part.ask(Order::Open { url: url.to_owned() }, Duration::ZERO).await? {
            Says::Ready => Ok(part),
            other => Err(unexpected(&other)),
        }
    }

    /// Gives an order and waits for the answer, for the time of the work and some grace.
    pub(crate) async fn ask(&mut self, order: Order, work: Duration) -> Result<Says> {
        let answer = async {
            match self {
                Self::Inside(player) => player.play(order).await,
                Self::Process(process) => process.ask(&order).await,
            }
        };
        match timeout(work + GRACE, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(Trouble::Internal("another process does not answer".into())),
        }
    }

    /// Kills it, as a crash would, and waits until it is gone.
    pub(crate) async fn kill(self) -> Result<()> {
        match self {
            Self::Process(mut process) => {
                process.child.kill().await.map_err(|err| Trouble::internal("cannot kill", err))
            }
            Self::Inside(_) => Err(Trouble::Internal("a client of this process cannot be killed".into())),
        }
    }
}

impl Process {
    async fn ask(&mut self, order: &Order) -> Result<Says> {
        let gone = |err: std::io::Error| Trouble::internal("another process has gone", err);
        let words = serde_json::to_string(order).map_err(|err| Trouble::internal("an order", err))? + "\n";
        self.orders.write_all(words.as_bytes()).await.map_err(gone)?;
        let Some(line) = self.answers.next_line().await.map_err(gone)? else {
            return Err(Trouble::Internal("another process has ended".into()));
        };
        match serde_json::from_str(&line).map_err(|err| Trouble::internal("an answer", err))? {
            Says::Failed { why, unavailable: true } => Err(Trouble::Unavailable(why)),
            Says::Failed { why, unavailable: false } => Err(Trouble::Internal(why)),
            says => Ok(says),
        }
    }
}

pub(crate) fn unexpected(says: &Says) -> Trouble {
    Trouble::Internal(format!("another process answered something else: {says:?}"))
}
