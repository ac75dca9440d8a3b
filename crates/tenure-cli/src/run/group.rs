//! Process groups: sending them signals, and who is in them.

use std::{fs, io};

use nix::sys::signal::{Signal, killpg};
use rustix::process::{Pid, getpgrp, getpid, getsid};

/// The process group of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group(pub(super) Pid);

/// One process of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) pid: i32,
    pub(super) name: String,
}

impl Group {
    /// Sends a signal to everybody in the group. A group that is gone has nobody to tell.
    pub(super) fn send(self, signal: Signal) {
        let _ = killpg(nix::unistd::Pid::from_raw(self.0.as_raw_nonzero().get()), signal);
    }

    /// Those who live in the group, besides one. The dead whom nobody has buried do not count.
    pub(super) fn members(self, besides: Option<Pid>) -> io::Result<Vec<Member>> {
        let (group, besides) =
            (self.0.as_raw_nonzero().get(), besides.map_or(0, |p| p.as_raw_nonzero().get()));
        let mut members = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process that ended since the directory was read has no more to say.
            let Some(stat) = Stat::of(pid) else { continue };
            if stat.group == group && stat.alive && pid != besides {
                members.push(Member { pid, name: stat.name });
            }
        }
        Ok(members)
    }
}

/// Whether somebody could make this process go on if it stopped: a shell with job control, which is the parent
/// of our group in the same session. The kernel asks the same before it stops a process for the terminal.
pub(super) fn can_be_resumed() -> bool {
    let (group, session) = (getpgrp().as_raw_nonzero().get(), getsid(None).ok());
    let mut pid = getpid().as_raw_nonzero().get();
    // The way up within the group, such as through a shell script, is short.
    for _ in 0..64 {
        let Some(parent) = Stat::of(pid).map(|stat| stat.parent) else { return false };
        let Some(above) = Stat::of(parent) else { return false };
        if above.group != group {
            let parent = Pid::from_raw(parent);
            return session.is_some() && parent.is_some_and(|parent| getsid(Some(parent)).ok() == session);
        }
        pid = parent;
    }
    false
}

/// A line of `/proc/PID/stat`, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    alive: bool,
    parent: i32,
    group: i32,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        // A name need not be UTF-8.
        let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    /// The name stands in brackets and may hold anything, brackets and spaces included.
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let mut fields = after.split_ascii_whitespace();
        let alive = !matches!(fields.next()?, "Z" | "X");
        let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self { name, alive, parent, group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let stat = Stat::parse("42 (a) b (c) S 7 41 40 0 -1").unwrap();
        assert_eq!(stat, Stat { name: "a) b (c".to_owned(), alive: true, parent: 7, group: 41 });
        assert!(!Stat::parse("42 (x) Z 7 41 40").unwrap().alive);
        assert_eq!(Stat::parse("42 (x) S 7"), None);
    }

    #[test]
    fn this_process_is_in_its_group() {
        let group = Group(getpgrp());
        let own = getpid();
        assert!(group.members(None).unwrap().iter().any(|m| m.pid == own.as_raw_nonzero().get()));
        assert!(!group.members(Some(own)).unwrap().iter().any(|m| m.pid == own.as_raw_nonzero().get()));
    }
}
