//! A line as ZooKeeper keeps it: a node for each key, and under it one for each place, whose names say it all.

use std::str::FromStr;

use tenure_core::{ClaimId, Mode, Note, Permits};

/// How many bytes of a key's own name stand in the name of its node.
const MOST_NAME: usize = 200;
/// What the name of a place starts with whose holder has become a reader.
const WEAK: &str = "weak-";

/// Where everything is.
#[derive(Debug)]
pub(crate) struct Paths {
    pub(crate) root: String,
    pub(crate) lines: String,
    pub(crate) graves: String,
    pub(crate) identity: String,
}

impl Paths {
    pub(crate) fn new(root: &str) -> Self {
        let under = |name: &str| format!("{root}/{name}");
        Self {
            root: root.to_owned(),
            lines: under("lines"),
            graves: under("evicted"),
            identity: under("identity"),
        }
    }

    /// The node of a key.
    pub(crate) fn line(&self, key: &tenure_core::Key) -> String {
        format!("{}/{}", self.lines, key.to_path_element(MOST_NAME))
    }

    /// Where the eviction of a claim is written down.
    pub(crate) fn grave(&self, id: ClaimId) -> String {
        format!("{}/{id}", self.graves)
    }
}

/// Whether a node's name is that of this key.
pub(crate) fn is_line_of(name: &str, key: &tenure_core::Key) -> bool {
    key.to_path_element(MOST_NAME) == name
}

/// What the name of a claim's place starts with: the server adds the number.
pub(crate) fn prefix(id: ClaimId, mode: Mode, session: i64) -> String {
    let mode = match mode {
        Mode::Exclusive => "x".to_owned(),
        Mode::Shared => "s".to_owned(),
        Mode::Permits(permits) => format!("{}of{}", permits.take(), permits.of()),
    };
    format!("{id}-{mode}-{session:016x}-")
}

/// The whole name, as the server makes it.
pub(crate) fn name(id: ClaimId, mode: Mode, session: i64, rank: i32) -> String {
    format!("{}{rank:010}", prefix(id, mode, session))
}

/// The node beside a place whose holder has become a reader.
pub(crate) fn weak(id: ClaimId) -> String {
    format!("{WEAK}{id}")
}

/// A place, as the name of its node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) name: String,
    pub(crate) id: ClaimId,
    pub(crate) mode: Mode,
    pub(crate) session: i64,
    /// The number that its parent gave it: where it stands.
    pub(crate) rank: i32,
}

impl FromStr for Spot {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let mut parts = name.splitn(4, '-');
        let mut next = || parts.next().ok_or(());
        let id = next()?.parse().map_err(drop)?;
        let mode = match next()? {
            "x" => Mode::Exclusive,
            "s" => Mode::Shared,
            permits => {
                let (take, of) = permits.split_once("of").ok_or(())?;
                let count = |text: &str| text.parse().map_err(drop);
                Mode::Permits(Permits::new(count(take)?, count(of)?).map_err(drop)?)
            }
        };
        let session = u64::from_str_radix(next()?, 16).map_err(drop)?.cast_signed();
        let rank = next()?.parse().map_err(drop)?;
        Ok(Self { name: name.to_owned(), id, mode, session, rank })
    }
}

/// The places of a key, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line(pub(crate) Vec<Spot>);

impl Line {
    /// Reads the names of a key's children. What is none of ours is passed over.
    pub(crate) fn read(names: &[String]) -> Self {
        let mut spots: Vec<Spot> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let weak: Vec<ClaimId> =
            names.iter().filter_map(|name| name.strip_prefix(WEAK)?.parse().ok()).collect();
        for spot in &mut spots {
            if spot.mode == Mode::Exclusive && weak.contains(&spot.id) {
                spot.mode = Mode::Shared;
            }
        }
        spots.sort_by_key(|spot| spot.rank);
        Self(spots)
    }

    pub(crate) fn modes(&self) -> Vec<Mode> {
        self.0.iter().map(|spot| spot.mode).collect()
    }

    /// Where this claim stands with this number.
    pub(crate) fn find(&self, id: ClaimId, rank: i32) -> Option<usize> {
        self.0.iter().position(|spot| spot.rank == rank && spot.id == id)
    }

    /// The place of this claim, taken in this session.
    pub(crate) fn of(&self, id: ClaimId, session: i64) -> Option<&Spot> {
        self.0.iter().find(|spot| spot.id == id && spot.session == session)
    }
}

/// What a place's node holds: who, for people. Neither text has control characters.
pub(crate) fn write_note(note: &Note) -> Vec<u8> {
    format!("{}\n{}", note.who(), note.label()).into_bytes()
}

pub(crate) fn read_note(data: &[u8]) -> Note {
    let text = String::from_utf8_lossy(data);
    let (who, label) = text.split_once('\n').unwrap_or((&text, ""));
    Note::new(who, label)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Claim, Key, Patience, Seq, Ttl};

    use super::*;

    fn claim() -> Claim {
        Claim {
            key: Key::new("k").unwrap(),
            id: ClaimId::fresh(),
            mode: Mode::Exclusive,
            patience: Patience::Queue,
            ttl: Ttl::default(),
            floor: Seq::ZERO,
            note: Note::new("me@here:1", "why"),
        }
    }

    #[test]
    fn a_name_says_whose_how_in_which_session_and_where() {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits(Permits::new(2, 5).unwrap())] {
            for session in [1, -2, i64::MIN] {
                let claim = claim();
                let name = name(claim.id, mode, session, 42);
                let spot: Spot = name.parse().unwrap();
                assert_eq!((spot.id, spot.mode, spot.session, spot.rank), (claim.id, mode, session, 42));
            }
        }
        for wrong in ["", "x", "lock-0000000001", "weak-0"] {
            assert!(wrong.parse::<Spot>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_is_in_the_order_of_its_numbers_and_knows_its_readers() {
        let claims = [claim(), claim(), claim()];
        let name = |n: usize, rank: i32| name(claims[n].id, Mode::Exclusive, 7, rank);
        let names = [name(0, 12), "stranger".into(), name(1, 3), weak(claims[1].id), name(2, 9)];
        let line = Line::read(&names);
        assert_eq!(line.0.iter().map(|spot| spot.rank).collect::<Vec<_>>(), [3, 9, 12]);
        assert_eq!(line.modes(), [Mode::Shared, Mode::Exclusive, Mode::Exclusive]);
        assert!(line.of(claims[0].id, 7).is_some() && line.of(claims[0].id, 8).is_none());
    }

    #[test]
    fn a_number_past_the_last_is_seen_as_such() {
        let name = format!("{}-2147483648", prefix(claim().id, Mode::Exclusive, 7));
        assert!(name.parse::<Spot>().unwrap().rank < 0);
    }

    #[test]
    fn notes_come_back() {
        for note in [Note::new("me@here:1", "why"), Note::new("", ""), Note::new("é", "🔒")] {
            assert_eq!(read_note(&write_note(&note)), note);
        }
    }
}
