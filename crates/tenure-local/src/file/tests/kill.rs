//! What a process leaves behind that is killed in the middle of a change: between any two of the writes that it really
//! makes, and inside each.

use super::{
    bytes::{Bytes, Change, Seen, see},
    line::{Line, PAGE},
    record::{Record, State},
    ring::{Ring, STATUS},
    *,
};

/// One thing that a verb does to a line. The numbers are of what stands there, graves too.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Join(Mode),
    Leave(usize),
    Bury(usize),
    Stop(usize),
    Weaken(usize),
    Raise,
    Trim,
}

struct Random(fastrand::Rng);

impl Random {
    /// Mostly joins if the line is to grow, else mostly leaves.
    fn deed(&mut self, seen: &Seen, grows: bool) -> Deed {
        let all = seen.places.len();
        if all == 0 || self.0.usize(..8) < if grows { 6 } else { 1 } {
            let permits = Mode::Permits(Permits::new(1, 3).unwrap());
            return Deed::Join([Mode::Exclusive, Mode::Shared, permits][self.0.usize(..3)]);
        }
        if all <= 2 && self.0.bool() {
            return Deed::Trim;
        }
        let nth = self.0.usize(..all);
        match (self.0.usize(..20), seen.places[nth]) {
            (0, (_, _, State::Live)) => Deed::Stop(nth),
            (1, (_, _, State::Live | State::Stopped)) => Deed::Bury(nth),
            (2, (_, Mode::Exclusive, State::Live)) => Deed::Weaken(nth),
            (3, _) => Deed::Raise,
            (4 | 5, _) => Deed::Trim,
            _ => Deed::Leave(nth),
        }
    }
}

fn line_of(disk: &Bytes) -> Line {
    let mut line = Line::default();
    let _ = line.read(disk, &Key::new("k").unwrap()).unwrap();
    line
}

/// Does it as a process does that has just locked the file. Returns what should be seen afterwards.
fn act(disk: &Bytes, seen: &Seen, deed: Deed) -> Seen {
    let (mut line, mut next) = (line_of(disk), seen.clone());
    let at = |line: &mut Line, nth: usize| line.find(disk, seen.places[nth].0).unwrap().unwrap();
    match deed {
        Deed::Join(mode) => {
            let claim = claim("k", mode, Patience::Queue);
            next.last = Seq::new(seen.last.get() + 1).unwrap();
            let (state, id, seq) = (State::Live, claim.id, next.last);
            let record = Record { state, mode, seq, id, nonce: [1; 16], pid: 1, taken: 1 };
            line.append(disk, &claim, &record).unwrap();
            next.places.push((id, mode, state));
        }
        Deed::Leave(nth) => {
            let at = at(&mut line, nth);
            if line.is_in_line(at) { line.remove(disk, at) } else { line.remove_grave(disk, at) }.unwrap();
            let _ = next.places.remove(nth);
        }
        Deed::Bury(nth) => {
            let at = at(&mut line, nth);
            line.bury(disk, at).unwrap();
            next.places[nth].2 = State::Grave;
        }
        Deed::Stop(nth) => {
            let at = at(&mut line, nth);
            line.stop(disk, at).unwrap();
            next.places[nth].2 = State::Stopped;
        }
        Deed::Weaken(nth) => {
            let at = at(&mut line, nth);
            line.weaken(disk, at).unwrap();
            next.places[nth].1 = Mode::Shared;
        }
        Deed::Raise => {
            next.last = Seq::new(seen.last.get() + 5).unwrap();
            line.raise(disk, next.last).unwrap();
        }
        Deed::Trim => line.trim(disk).unwrap(),
    }
    next
}

/// Which of the two is seen: `false` before the deed, `true` after it. A number may have been used up by then.
fn is_done(found: &Seen, before: &Seen, after: &Seen, when: &str) -> bool {
    assert!([before.last, after.last].contains(&found.last), "{when}: {} is the last number", found.last);
    if found.places == after.places && found.last == after.last {
        return true;
    }
    assert_eq!(found.places, before.places, "{when}: neither as it was nor as it was to be");
    false
}

fn is_first_page(change: &Change) -> bool {
    matches!(change, Change::Write(at, bytes) if *at as usize + bytes.len() == PAGE)
}

/// Checks what is seen after a kill between any two changes, and at each word of those that are written. Calls `killed`
/// with each file that a kill may leave.
fn kill_everywhere(
    start: &Bytes,
    changes: &[Change],
    before: &Seen,
    after: &Seen,
    each_word: bool,
    mut killed: impl FnMut(&Bytes, &Seen),
) {
    let now = start.clone();
    let mut done = false;
    for (nth, change) in changes.iter().enumerate() {
        let when = format!("killed in change {nth} of {}", changes.len());
        let bytes = now.bytes.borrow().clone();
        for part in change.pages() {
            part.make(&now);
            let found = see(&now).unwrap();
            let _ = is_done(&found, before, after, &when);
            killed(&now, &found);
        }
        // A ring that comes back into the first page is all of the page, which no kill tears.
        for piece in if each_word && !is_first_page(change) { change.pieces() } else { Vec::new() } {
            piece.make(&now);
            // If something tears another change, it is noticed.
            match see(&now) {
                Ok(found) => drop(is_done(&found, before, after, &when)),
                Err(err) => assert_eq!(err.kind(), std::io::ErrorKind::InvalidData),
            }
        }
        *now.bytes.borrow_mut() = bytes;
        change.make(&now);
        let found = see(&now).unwrap();
        let is = is_done(&found, before, after, &format!("killed after change {nth} of {}", changes.len()));
        assert!(is >= done, "what was done stays done");
        done = is;
        killed(&now, &found);
    }
    assert!(changes.is_empty() || done, "all changes were made");
}

#[test]
fn a_kill_between_any_two_writes_leaves_the_line_as_it_was_or_as_it_was_to_be() {
    let (mut grew, mut shrank, mut came_back) = (0, 0, 0);
    // Long lines, and short ones that are now and then too long for the first page.
    for (seed, wave, rise) in
        [(1, 400, 150), (2, 400, 150), (3, 400, 150), (4, 60, 8), (5, 60, 8), (6, 60, 8)]
    {
        let mut random = Random(fastrand::Rng::with_seed(seed));
        let disk = Bytes::default();
        Line::default().begin(&disk, &Key::new("k").unwrap(), Seq::ZERO).unwrap();
        for step in 0..800 {
            let (start, before) = (Bytes::new(disk.bytes.borrow().clone()), see(&disk).unwrap());
            disk.changes.borrow_mut().clear();
            let deed = random.deed(&before, step % wave < rise);
            let after = act(&disk, &before, deed);
            assert_eq!(see(&disk).unwrap(), after, "{deed:?}");
            let changes = disk.changes.borrow().clone();
            let ring = |disk: &Bytes| Ring::decode(&disk.bytes.borrow()[STATUS..]).unwrap().0;
            let (old, new) = (ring(&start), ring(&disk));
            let has_moved = old.region != new.region;
            let is_short = after.places.len() < 12;
            let each_word = is_short && step % 3 == 0;
            kill_everywhere(&start, &changes, &before, &after, each_word, |killed, found| {
                // The next process finds nothing in its way, and may be killed too.
                if !(is_short || has_moved || step % 8 == 0) {
                    return;
                }
                let next = Bytes::new(killed.bytes.borrow().clone());
                let joined = act(&next, found, Deed::Join(Mode::Shared));
                assert_eq!(see(&next).unwrap(), joined, "after a kill in {deed:?}");
                let changes = next.changes.borrow().clone();
                kill_everywhere(killed, &changes, found, &joined, false, |_, _| {});
            });
            grew += usize::from(has_moved && new.capacity >= 256);
            shrank += usize::from(has_moved && new.capacity < old.capacity);
            came_back += usize::from(has_moved && new.is_inner());
        }
    }
    assert!(grew > 4 && shrank > 4, "grew to hundreds {grew} times, shrank {shrank} times");
    assert!(came_back > 8, "came back into the first page {came_back} times");
}

#[test]
fn a_kill_while_a_file_is_begun_leaves_one_that_is_begun_anew() {
    let disk = Bytes::default();
    let key = Key::new("k").unwrap();
    Line::default().begin(&disk, &key, Seq::ZERO).unwrap();
    let changes = disk.changes.borrow().clone();
    assert_eq!(changes.len(), 2, "room, and one write in one page");
    assert!(changes.iter().all(|change| change.pages().is_empty()));
    let killed = Bytes::default();
    changes[0].make(&killed);
    assert_eq!(killed.bytes.borrow().len(), PAGE);
    assert_eq!(Line::default().read(&killed, &key).unwrap(), line::Head::Empty);
}
