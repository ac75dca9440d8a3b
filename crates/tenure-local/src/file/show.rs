//! Lines for people.

use std::{io, time::Duration};

use tenure_core::{BootClock, Clock, Filter, Key, Moment, Op, Place, Result, Standing, line};

use super::{
    FileEngine, dir,
    line::{Head, Line, key_of},
    lines::NAME_BYTES,
    record,
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
            Key::new(key_of(&file).ok()?).ok()
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
        let mut line = Line::default();
        // What is read beside a change may be in pieces, and is whole the next time.
        let head = (0..50).find_map(|_| match (file.try_lock(), line.read(&file, key)) {
            (Ok(()), read) => Some(read),
            (Err(_), Ok(head)) => Some(Ok(head)),
            (Err(_), Err(_)) => None,
        });
        match head.unwrap_or_else(|| line.read(&file, key)).map_err(failed)? {
            Head::Live => {}
            Head::Empty | Head::Retired => return Ok(()),
        }
        drop(file);
        let mut alive = Vec::with_capacity(line.places.len());
        for place in &line.places {
            if self.peers.is_alive(&place.nonce).map_err(failed)? {
                alive.push(*place);
            }
        }
        let holders = line::holders(alive.iter().map(|place| place.mode));
        let now = BootClock.now();
        places.extend(alive.iter().enumerate().map(|(at, place)| Place {
            key: key.clone(),
            id: place.id,
            seq: place.seq,
            mode: place.mode,
            standing: if at < holders { Standing::Holds } else { Standing::Waits },
            note: record::note(line.slot_bytes(place.slot), place.pid),
            age: now.since(Moment::new(Duration::from_nanos(place.taken))),
            lease_left: None,
        }));
        Ok(())
    }
}
