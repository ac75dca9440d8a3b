use std::{
    io,
    process::{Child, Command},
    sync::{OnceLock, mpsc},
    thread,
};

use rustix::process::Signal;

use super::WallClock;

/// A command line, kept so that the server can be started again with it.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What to run: a path, or a name on the search path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What is added to its environment.
    pub env: Vec<(String, String)>,
    /// Whom to run it as, for servers that refuse to be root: a user with a group of the same name. The room becomes
    /// theirs.
    pub user: Option<String>,
    /// How an operator ends it.
    pub stop: Signal,
    /// A wall clock of its own, that can be set.
    pub clock: Option<WallClock>,
}

impl Launch {
    /// A program with its arguments, run as the user of the test and ended with `SIGTERM`.
    pub fn new(program: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { program: program.into(), args, env: Vec::new(), user: None, stop: Signal::TERM, clock: None }
    }

    /// The command, wrapped in `setpriv`, which every Debian has (util-linux is essential there).
    ///
    /// It makes the kernel kill the server when the test dies, which a test killed by a time-out cannot do itself,
    /// and becomes the server without a process in between, so the child's number is the server's. A change of user
    /// would undo that wish, and `setpriv` makes it after the change: a server that changes its user by itself must
    /// be started as that user instead.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = &self.user {
            command.args(["--reuid", user, "--regid", user, "--init-groups"]);
        }
        command.arg("--");
        if let Some(clock) = &self.clock {
            // Not for `setpriv`, which is somebody else at first: the shim's memory would be out of the server's reach.
            command.arg("env").args(clock.env());
        }
        command.arg(&self.program).args(&self.args).envs(self.env.iter().cloned());
        command
    }
}

/// Starts a child from a thread that lives as long as the process.
///
/// To the kernel the parent of a child is the thread that made it, and its death is what the child is killed at. A
/// test harness runs every test in a thread of its own, so a server that tests share would die with the first.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::SyncSender<io::Result<Child>>);
    static SPAWNER: OnceLock<Result<mpsc::Sender<Order>, String>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        let work = move || {
            for (mut command, answer) in inbox {
                let _ = answer.send(command.spawn());
            }
        };
        match thread::Builder::new().name("tenure-testkit-spawner".into()).spawn(work) {
            Ok(_) => Ok(orders),
            Err(error) => Err(error.to_string()),
        }
    });
    let orders = spawner.as_ref().map_err(|why| io::Error::other(why.clone()))?;
    let (answer, answered) = mpsc::sync_channel(1);
    orders.send((command, answer)).map_err(io::Error::other)?;
    answered.recv().map_err(io::Error::other)?
}
