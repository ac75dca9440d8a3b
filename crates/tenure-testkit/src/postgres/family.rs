use std::{
    fs, io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};

use crate::{Result, ensure, process::wait_until};

/// How long the processes may take to die or to stop.
const LIMIT: Duration = Duration::from_secs(10);

/// The children of a server process that is stopped: it makes no new ones, and until it takes notice of their deaths
/// their numbers are given to nobody else.
///
/// A PostgreSQL server is a process for each connection and some more, each in a session of its own, so that no signal
/// reaches all of them. With their parent killed they go on until they notice; with their parent stopped they go on.
#[derive(Debug)]
pub(super) struct Family {
    children: Vec<Pid>,
}

impl Family {
    /// Finds the children of a stopped process.
    pub(super) fn of(parent: u32) -> Result<Self> {
        let numbers =
            fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let children = numbers.filter(|&number| stat(number).is_some_and(|(_, its)| its == parent));
        Ok(Self {
            children: children.filter_map(|number: u32| Pid::from_raw(number.cast_signed())).collect(),
        })
    }

    /// Stops all of them and waits until they are.
    pub(super) fn stop(&self) -> Result {
        self.signal(Signal::STOP)?;
        self.wait_for("stopped", &['T', 'Z'])
    }

    /// Lets all of them go on.
    pub(super) fn resume(&self) -> Result {
        self.signal(Signal::CONT)
    }

    /// Kills all of them and waits until they are dead.
    pub(super) fn kill(&self) -> Result {
        self.signal(Signal::KILL)?;
        self.wait_for("dead", &['Z'])
    }

    /// Starts a process that kills them when the test ends before the guard does.
    ///
    /// The kernel kills their parent then, and the others as a rule notice that; stopped ones never would.
    pub(super) fn guard(&self) -> Result<Guard> {
        let numbers = self.children.iter().map(|pid| pid.as_raw_nonzero().to_string());
        let child = Command::new("sh")
            .args(["-c", "read _ || kill -KILL \"$@\"", "sh"])
            .args(numbers)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Whoever ends the test may end its whole process group.
            .process_group(0)
            .spawn()?;
        Ok(Guard { child })
    }

    fn signal(&self, signal: Signal) -> Result {
        for &child in &self.children {
            match kill_process(child, signal) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    fn wait_for(&self, what: &str, states: &[char]) -> Result {
        wait_until(&format!("all processes of the server are {what}"), LIMIT, || {
            for child in &self.children {
                let state = stat(child.as_raw_nonzero().get().cast_unsigned()).map(|(state, _)| state);
                ensure!(state.is_none_or(|state| states.contains(&state)), "{child:?} is {state:?}");
            }
            Ok(())
        })
    }
}

/// The state of a process and the number of its parent. They come after the name, which may have anything in it.
fn stat(number: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Kills stopped processes when the test ends; does nothing once it is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    child: Child,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Before its input is closed, which is what it waits for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
