//! Lines for people.

use std::{fs::File, io, time::Duration};

use tenure_core::{BootClock, Clock, Filter, Key, Moment, Note, Op, Place, Result, Standing, line};

use super::{
    FileEngine, dir,
    former::Former,
    line::{Head, Line, head_of},
    lines::NAME_BYTES,
    record::{self, Record, State},
    trouble::trouble,
};

/// The most line files that are looked through for a prefix.
const NAMES: usize = 1 << 20;

impl FileEngine {
    pub(super) async fn places(&self, filter: &Filter) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        match filter {
            Filter::Key(key) => self.show(key, &key.to_path_element(NAME_BYTES), &mut places)?,
            Filter::Prefix(_, limit) => {
                let shown = self.dir.path.join("line");
                let names = dir::names(&self.dir.line, NAMES)
                    .map_err(|err| trouble(Op::Line, format!("cannot read {}", shown.display()), err))?;
                let mut keys: Vec<_> = names
                    .into_iter()
                    .filter_map(|name| {
                        self.key_of(&name).filter(|key| filter.shows(key)).map(|key| (key, name))
                    })
                    .collect();
                keys.sort_unstable();
                for (nth, (key, name)) in keys.iter().enumerate() {
                    if places.len() >= *limit {
                        break;
                    }
                    if nth % 16 == 15 {
                        tokio::task::yield_now().await; // many files are no reason to hold others up
                    }
                    self.show(key, name, &mut places)?;
                }
            }
        }
        places.truncate(filter.limit());
        Ok(places)
    }

    /// The key of a line file: its name says it, or if that was shortened, its head.
    fn key_of(&self, name: &str) -> Option<Key> {
        Key::from_path_element(name).or_else(|| {
            let file = dir::open_file(&self.dir.line, name, false).ok()?;
            Key::new(head_of(&file).ok()?.1).ok()
        })
    }

    /// Adds the places of a key's line. Never waits for the line's lock: people look when something is stuck.
    fn show(&self, key: &Key, name: &str, places: &mut Vec<Place>) -> Result<()> {
        let failed = |err| self.failed(Op::Line, key, err);
        let file = match dir::open_file(&self.dir.line, name, false) {
            Ok(file) => file,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(err) => return Err(failed(err)),
        };
        // What is read beside a change may be in pieces, and is whole the next time.
        let found = (0..50).find_map(|_| match (file.try_lock(), look(&file, key)) {
            (Ok(()), found) => Some(found),
            (Err(_), Ok(found)) => Some(Ok(found)),
            (Err(_), Err(_)) => None,
        });
        let found = found.unwrap_or_else(|| look(&file, key)).map_err(failed)?;
        drop(file);
        let mut alive = Vec::with_capacity(found.len());
        for (place, note) in found {
            if self.peers.is_alive(&place.nonce).map_err(failed)? {
                alive.push((place, note));
            }
        }
        let holders = line::holders(alive.iter().map(|(place, _)| place.mode));
        let now = BootClock.now();
        places.extend(alive.into_iter().enumerate().map(|(at, (place, note))| Place {
            key: key.clone(),
            id: place.id,
            seq: place.seq,
            mode: place.mode,
            standing: if at < holders { Standing::Holds } else { Standing::Waits },
            note,
            age: now.since(Moment::new(Duration::from_nanos(place.taken))),
            lease_left: None,
        }));
        Ok(())
    }
}

/// All who stand in the line of a file that may be changed meanwhile.
fn look(file: &File, key: &Key) -> io::Result<Vec<(Record, Note)>> {
    let mut line = Line::default();
    let mut places = Vec::new();
    match line.read(file, key)? {
        Head::Live => {}
        Head::Former => {
            let places = Former::read(file)?.places;
            return Ok(places.into_iter().filter(|(place, _)| place.state != State::Grave).collect());
        }
        Head::Empty | Head::Retired => return Ok(places),
    }
    for at in 0..line.end() {
        if line.is_in_line(at) {
            let place = line.record(file, at)?;
            places.push((place, record::note(line.slot_bytes(file, at)?, place.pid)));
        }
    }
    // While nobody joined and the ring is the same, no slot became another's.
    if line.is_as_read(file)? { Ok(places) } else { Err(io::ErrorKind::WouldBlock.into()) }
}
