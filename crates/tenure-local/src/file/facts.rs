//! What an operator should know about the directory.

use tenure_core::{Fact, Fences};

use super::FileEngine;

/// A file of the engine takes a few hundred bytes; less than this and the next one may not fit.
const LITTLE: u64 = 1 << 20;

impl FileEngine {
    pub(super) fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![
            Fact::good("directory", self.dir.path.display().to_string()),
            Fact::good("clock", "one machine, hence one clock: no difference"),
        ];
        if let Ok(stat) = rustix::fs::fstatfs(&self.dir.root) {
            facts.push(Fact::good("filesystem", filesystem(stat.f_type as u64)));
            let free = stat.f_bavail.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0));
            if free < LITTLE {
                facts.push(Fact::warning("space", "less than 1 MiB is free; a full disk cannot take a lock"));
            }
        }
        facts.push(match self.dir.fences {
            Fences::Durable => {
                Fact::good("fences", "on a disk: they grow over restarts, whatever the clock does")
            }
            Fences::ClockBound => Fact::warning(
                "fences",
                "in memory only: a restart forgets them, and they grow only if the clock was not set back; use a \
                 directory on a disk if a resource checks them",
            ),
        });
        facts
    }
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
