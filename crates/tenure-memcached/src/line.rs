//! The line of a key, as its item has it.
//!
//! ```text
//! tenure1 1794824257 orders%2F7
//! 0000…0001 00c0ffee00c0ffee 1794824257000041 x 1794824999<TAB>anna@host:1<TAB>nightly
//! 0000…0002 00deadbeef000000 * s 1794825003<TAB>bert@host:2<TAB>
//! ```
//!
//! First the format, when the server started, and whose line it is. Then each place: the claim, its lease item, its
//! number, its mode, when it was taken by the server's clock in seconds, and for whom. The number of the newest place
//! may be `*`: that of the item itself, which the writer could not know. Whoever writes the line next writes it out.

use std::fmt::Write as _;

use tenure_core::{Claim, ClaimId, Key, Mode, Note, Permits, Seq, line};

use crate::names::Lease;

const FORMAT: &str = "tenure1";

/// The most places of a line: an item has a megabyte at most, and a place half a kilobyte.
pub(crate) const MOST: usize = 1000;

/// The claims on one key, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) key: Key,
    pub(crate) places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) id: ClaimId,
    pub(crate) lease: Lease,
    /// None until the place is written.
    pub(crate) seq: Option<Seq>,
    pub(crate) mode: Mode,
    /// By the server's clock, in seconds.
    pub(crate) taken: u64,
    pub(crate) note: Note,
}

/// The number of an item that was written in the life that started then.
pub(crate) fn number(started: u64, cas: u64) -> Option<Seq> {
    Seq::new(started.checked_mul(1_000_000)?.checked_add(cas)?)
}

impl Place {
    pub(crate) fn new(claim: &Claim, lease: Lease, taken: u64) -> Self {
        Self { id: claim.id, lease, seq: None, mode: claim.mode, taken, note: claim.note.clone() }
    }
}

impl Line {
    pub(crate) fn empty(key: &Key) -> Self {
        Self { key: key.clone(), places: Vec::new() }
    }

    pub(crate) fn find(&self, id: ClaimId) -> Option<usize> {
        self.places.iter().position(|place| place.id == id)
    }

    /// How many at the front hold.
    pub(crate) fn holders(&self) -> usize {
        line::holders(self.modes())
    }

    /// Whether one more of this mode would hold at the end.
    pub(crate) fn would_hold(&self, mode: Mode) -> bool {
        line::would_hold(self.modes(), mode)
    }

    fn modes(&self) -> impl Iterator<Item = Mode> {
        self.places.iter().map(|place| place.mode)
    }

    /// The line as its item has it. At most the last place may have no number yet.
    pub(crate) fn write(&self, started: u64) -> Vec<u8> {
        let mut text = format!("{FORMAT} {started} {}\n", self.key.to_path_element(usize::MAX));
        for place in &self.places {
            let _ = write!(text, "{} {:016x} ", place.id, place.lease.0);
            let _ = match place.seq {
                Some(seq) => write!(text, "{seq}"),
                None => write!(text, "*"),
            };
            let _ = writeln!(
                text,
                " {} {}\t{}\t{}",
                Written(place.mode),
                place.taken,
                place.note.who(),
                place.note.label()
            );
        }
        text.into_bytes()
    }

    /// Reads an item that is this version; nothing if it is no line of ours.
    pub(crate) fn read(bytes: &[u8], cas: u64) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let mut lines = text.split('\n');
        let mut head = lines.next()?.split(' ');
        let (FORMAT, Some(started), Some(key), None) = (head.next()?, head.next(), head.next(), head.next())
        else {
            return None;
        };
        let own = number(started.parse().ok()?, cas)?;
        let key = Key::from_path_element(key)?;
        let mut places: Vec<Place> = Vec::new();
        for text in lines {
            if places.len() == MOST || places.last().is_some_and(|place| place.seq == Some(own)) {
                return None;
            }
            let place = read_place(text, own)?;
            if places.last().is_some_and(|last| last.seq >= place.seq)
                || places.iter().any(|p| p.id == place.id)
            {
                return None;
            }
            places.push(place);
        }
        (!places.is_empty()).then_some(Self { key, places })
    }
}

fn read_place(text: &str, own: Seq) -> Option<Place> {
    let mut parts = text.split('\t');
    let (words, Some(who), Some(label), None) = (parts.next()?, parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let mut words = words.split(' ');
    let id = words.next()?.parse().ok()?;
    let lease = words.next().filter(|word| word.len() == 16)?;
    let seq = match words.next()? {
        "*" => own,
        number => number.parse().ok().and_then(Seq::new).filter(|&seq| seq < own)?,
    };
    let mode = read_mode(words.next()?)?;
    let taken = words.next()?.parse().ok()?;
    let lease = Lease(u64::from_str_radix(lease, 16).ok()?);
    words.next().is_none().then(|| Place {
        id,
        lease,
        seq: Some(seq),
        mode,
        taken,
        note: Note::new(who, label),
    })
}

fn read_mode(word: &str) -> Option<Mode> {
    match word {
        "x" => Some(Mode::Exclusive),
        "s" => Some(Mode::Shared),
        permits => {
            let (take, of) = permits.split_once('/')?;
            Permits::new(take.parse().ok()?, of.parse().ok()?).ok().map(Mode::Permits)
        }
    }
}

struct Written(Mode);

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Mode::Exclusive => f.write_str("x"),
            Mode::Shared => f.write_str("s"),
            Mode::Permits(permits) => write!(f, "{}/{}", permits.take(), permits.of()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STARTED: u64 = 1_794_824_257;

    fn place(cas: Option<u64>, mode: Mode) -> Place {
        let seq = cas.and_then(|cas| number(STARTED, cas));
        let note = Note::new("anna@host:1", "nightly é");
        Place { id: ClaimId::fresh(), lease: Lease::fresh(), seq, mode, taken: STARTED + 9, note }
    }

    fn three() -> Line {
        let permits = Mode::Permits(Permits::new(2, 3).unwrap());
        let places =
            vec![place(Some(4), Mode::Exclusive), place(Some(7), permits), place(None, Mode::Shared)];
        Line { key: Key::new("a b\n/é").unwrap(), places }
    }

    #[test]
    fn a_line_is_read_as_it_was_written_and_the_newest_has_the_number_of_the_item() {
        let mut line = three();
        let read = Line::read(&line.write(STARTED), 12).unwrap();
        line.places[2].seq = number(STARTED, 12);
        assert_eq!(read, line);
        assert_eq!(Line::read(&line.write(STARTED), 13).unwrap(), line, "once it is written out, it stays");
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let good = String::from_utf8(three().write(STARTED)).unwrap();
        let lines: Vec<_> = good.lines().collect();
        let join = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        assert!(Line::read(join(&lines).as_bytes(), 12).is_some());
        for (bad, cas) in [
            (String::new(), 12),
            ("hello\n".to_owned(), 12),
            (good[..good.len() - 1].to_owned(), 12),
            (join(&lines[..1]), 12),
            (join(&[lines[0], lines[2], lines[1]]), 12), // not in order
            (join(&[lines[0], lines[1], lines[1]]), 12), // twice the same
            (join(&[lines[0], lines[3], lines[2]]), 12), // behind the newest
            (good.clone(), 7),                           // older than what it says
            (good.replace("tenure1", "tenure2"), 12),
            (good.replace(" 2/3 ", " 4/3 "), 12),
            (good.replace('\t', " "), 12),
            (good.replace(" x ", " y "), 12),
        ] {
            assert_eq!(Line::read(bad.as_bytes(), cas), None, "{bad}");
        }
    }

    #[test]
    fn the_longest_line_fits_into_an_item() {
        let mut line = Line::empty(&Key::new("\0".repeat(Key::MAX_BYTES)).unwrap());
        for cas in 0..MOST as u64 {
            let note = Note::new(&"w".repeat(Note::MAX_WHO), &"l".repeat(Note::MAX_LABEL));
            line.places.push(Place {
                note,
                ..place(Some(cas + 1), Mode::Permits(Permits::new(u32::MAX, u32::MAX).unwrap()))
            });
        }
        let bytes = line.write(STARTED);
        assert!(bytes.len() < 600_000, "{}", bytes.len());
        assert_eq!(Line::read(&bytes, 10_000), Some(line));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0..400usize, by in any::<u8>()) {
            let _ = Line::read(&bytes, 1);
            let mut line = three().write(STARTED);
            let at = cut % line.len();
            line[at] = by;
            let _ = Line::read(&line, 12);
            let _ = Line::read(&line[..at], 12);
        }
    }
}
