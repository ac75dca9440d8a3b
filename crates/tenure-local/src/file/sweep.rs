//! Removes line files that nobody has used for a while.

use std::{fs::File, io, os::unix::fs::MetadataExt, time::Duration};

use super::{
    control::Control,
    dir::{self, Dir},
    former::Former,
    line::{self, Head, Line, is_empty},
    presence,
    record::Record,
};

/// The most names that one sweep looks at.
const NAMES: usize = 1 << 16;

/// What a sweep takes, and how much of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broom {
    /// Files that nobody has changed for so long.
    pub(super) idle: Duration,
    /// How many files are looked into.
    pub(super) most: usize,
    /// Where it starts, so that one sweep goes on where others stopped.
    pub(super) start: usize,
}

/// Removes idle line files and says how many. Blocks, but never for a lock.
///
/// A file is removed under its lock, with a mark that whoever still has it open finds when they get the lock. Its
/// last number is folded into the floor first, from which the key starts when it comes back.
pub(super) fn sweep(dir: &Dir, control: &Control, wall_micros: u64, broom: Broom) -> io::Result<usize> {
    let names = dir::names(&dir.line, NAMES)?;
    let start = broom.start.checked_rem(names.len()).unwrap_or(0);
    let mut removed = 0;
    for name in names[start..].iter().chain(&names[..start]).take(broom.most) {
        let Ok(file) = dir::open_file(&dir.line, name, false) else { continue };
        let changed = file.metadata()?.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let now = Duration::from_micros(wall_micros);
        if now.saturating_sub(changed) >= broom.idle && file.try_lock().is_ok() {
            removed += usize::from(retire(dir, control, wall_micros, name, &file));
            // Closing the file frees the lock.
        }
    }
    Ok(removed)
}

fn retire(dir: &Dir, control: &Control, wall_micros: u64, name: &str, file: &File) -> bool {
    // Between its opening and its lock the file may have been removed, and the name may be another's.
    if file.metadata().is_ok_and(|meta| meta.nlink() == 0) {
        return false;
    }
    if is_empty(file).unwrap_or(false) {
        // Whoever began to use it was killed. Whoever is about to sees under the lock that it is unlinked.
        return dir::remove(&dir.line, name).is_ok();
    }
    let mut line = Line::default();
    let is_dead = |place: &Record| presence::is_dead(&dir.proc, &place.nonce);
    let (last, all_dead) = match (line.read_ring(file), Former::read(file)) {
        // A sweep was killed between its mark and its removal.
        (Ok(Head::Retired), _) => return dir::remove(&dir.line, name).is_ok(),
        (_, Ok(former)) => (former.last, former.places.iter().all(|(place, _)| is_dead(place))),
        (Ok(_), Err(_)) => {
            let used = (0..line.end()).filter(|&at| line.state(at).is_some()).collect::<Vec<_>>();
            let all = used.into_iter().all(|at| line.record(file, at).is_ok_and(|place| is_dead(&place)));
            (line.last, all)
        }
        // Damage is left for somebody to see.
        (Err(_), Err(_)) => return false,
    };
    all_dead
        // Otherwise a burst of numbers above the clock would become everybody's floor.
        && last.get() < wall_micros
        && control.try_fold(last).is_ok_and(|folded| folded)
        && line::retire(file).is_ok()
        && dir::remove(&dir.line, name).is_ok()
}
