//! What is found out about an engine besides its promises: one function per kind of engine.

use std::{env, path::PathBuf};

use tenure::{Fences, Guarantees, Reach};

use crate::{engine::Target, json::Object};

/// Something an operator should know.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fact {
    name: &'static str,
    text: String,
    /// Whether it makes locks weaker than they could be.
    pub(super) warns: bool,
}

impl Fact {
    fn good(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, text: text.into(), warns: false }
    }

    fn warning(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, text: text.into(), warns: true }
    }

    pub(super) fn line(&self) -> String {
        format!("  {} {:10} {}\n", if self.warns { "!" } else { "-" }, self.name, self.text)
    }

    pub(super) fn json(&self) -> Object {
        Object::new().text("name", self.name).text("text", &self.text).flag("warning", self.warns)
    }
}

/// Everything that is known to matter for this engine.
pub(super) fn of(target: &Target, guarantees: &Guarantees) -> Vec<Fact> {
    let mut facts = match target.scheme() {
        "file" => file(target, guarantees),
        _ => Vec::new(),
    };
    if guarantees.reach == Reach::Process {
        facts.push(Fact::warning("reach", "two runs of `tenure` do not see each other on this engine"));
    } else {
        facts.push(clock(guarantees));
    }
    facts
}

fn clock(guarantees: &Guarantees) -> Fact {
    match guarantees.reach {
        Reach::Network => {
            Fact::good("clock", "leases are counted on the server's clock and ours, never compared")
        }
        Reach::Process | Reach::Machine => Fact::good("clock", "one machine, hence one clock: no difference"),
    }
}

fn file(target: &Target, guarantees: &Guarantees) -> Vec<Fact> {
    let dir = match target.path() {
        "" => users_dir(),
        path => Some(PathBuf::from(path)),
    };
    let Some(dir) = dir else { return Vec::new() };
    let mut facts = vec![Fact::good("directory", dir.display().to_string())];
    if let Ok(stat) = rustix::fs::statfs(&dir) {
        facts.push(Fact::good("filesystem", filesystem(stat.f_type as u64)));
        let free = stat.f_bavail.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0));
        if free < 1 << 20 {
            facts.push(Fact::warning("space", "less than 1 MiB is free; a full disk cannot take a lock"));
        }
    }
    facts.push(match guarantees.fences {
        Fences::Durable => Fact::good("fences", "on a disk: they grow over restarts, whatever the clock does"),
        Fences::ClockBound => Fact::warning(
            "fences",
            "in memory only: a restart forgets them, and they grow only if the clock was not set back; use a directory on a disk if a resource checks them",
        ),
    });
    facts
}

/// Where the engine keeps the files of those who name no directory.
fn users_dir() -> Option<PathBuf> {
    let base = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    base("XDG_STATE_HOME")
        .or_else(|| base("HOME").map(|home| home.join(".local/state")))
        .or_else(|| base("XDG_RUNTIME_DIR"))
        .map(|base| base.join("tenure"))
}

/// The name of a file system by its magic number, as in `statfs(2)`.
fn filesystem(magic: u64) -> String {
    match magic {
        0xef53 => "ext2, ext3 or ext4".to_owned(),
        0x9123_683e => "btrfs".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x0102_1994 => "tmpfs".to_owned(),
        0x8584_58f6 => "ramfs".to_owned(),
        0x794c_7630 => "overlayfs".to_owned(),
        0x2fc1_2fc1 => "zfs".to_owned(),
        0xf2f5_2010 => "f2fs".to_owned(),
        0x6969 => "nfs".to_owned(),
        other => format!("of type {other:#x}"),
    }
}
