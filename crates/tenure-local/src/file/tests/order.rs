//! The ring of a line file, beside the line rule.

use tenure_core::line as rule;

use super::{
    line::{Head, Line, PAGE},
    record::{Record, State},
    ring::{Ring, STATUS},
    *,
};

/// A line file and what should stand in it.
struct Bed {
    file: File,
    line: Line,
    model: Vec<Claim>,
    last: u64,
    rng: fastrand::Rng,
}

impl Bed {
    fn new(seed: u64) -> Self {
        let file = tempfile::tempfile().unwrap();
        let mut line = Line::default();
        line.begin(&file, &Key::new("k").unwrap(), Seq::ZERO).unwrap();
        Self { file, line, model: Vec::new(), last: 0, rng: fastrand::Rng::with_seed(seed) }
    }

    /// As every verb does first.
    fn read(&mut self) {
        assert_eq!(self.line.read(&self.file, &Key::new("k").unwrap()).unwrap(), Head::Live);
    }

    fn join(&mut self) {
        let permits = |take| Mode::Permits(Permits::new(take, 3).unwrap());
        let mode = [Mode::Exclusive, Mode::Shared, Mode::Shared, permits(1), permits(2)][self.rng.usize(..5)];
        let claim = claim("k", mode, Patience::Queue);
        self.last += 1 + self.rng.usize(..3) as u64;
        let seq = Seq::new(self.last).unwrap();
        let record = Record { state: State::Live, mode, seq, id: claim.id, nonce: [1; 16], pid: 1, taken: 1 };
        self.line.append(&self.file, &claim, &record).unwrap();
        self.model.push(claim);
    }

    /// Takes one from the line in one of the ways in which that is done, and says who holds now.
    fn leave(&mut self, nth: usize) -> Vec<ClaimId> {
        let id = self.model.remove(nth).id;
        let at = self.line.find(&self.file, id).unwrap().unwrap();
        assert_eq!(self.line.ahead(at), nth);
        if self.rng.usize(..8) == 0 {
            self.line.bury(&self.file, at).unwrap();
            assert_eq!(self.line.find(&self.file, id).unwrap(), Some(at));
            self.line.remove_grave(&self.file, at).unwrap();
        } else {
            self.line.remove(&self.file, at).unwrap();
        }
        assert_eq!(self.line.find(&self.file, id).unwrap(), None);
        let new = self.line.new_holders(&self.file).unwrap();
        self.line.trim(&self.file).unwrap();
        new.iter().map(|record| record.id).collect()
    }

    fn modes(&self) -> Vec<Mode> {
        self.model.iter().map(|claim| claim.mode).collect()
    }

    fn holders(&self) -> Vec<ClaimId> {
        self.model[..rule::holders(self.modes())].iter().map(|claim| claim.id).collect()
    }

    /// Compares what the file says with the line rule, at every place and behind the last one.
    fn compare(&mut self) {
        let modes = self.modes();
        for nth in 0..=modes.len() {
            let at = match self.model.get(nth) {
                Some(claim) => self.line.find(&self.file, claim.id).unwrap().unwrap(),
                None => self.line.end(),
            };
            assert_eq!(self.line.ahead(at), nth);
            for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits(Permits::new(2, 3).unwrap())] {
                let found = self.line.blockers(&self.file, at, mode).unwrap();
                let found = found.map(|range| {
                    let in_line = range.filter(|&at| self.line.is_in_line(at));
                    in_line.map(|at| self.line.ahead(at)).collect::<Vec<_>>()
                });
                let ahead = &modes[..nth];
                let expected = (!rule::would_hold(ahead.iter().copied(), mode))
                    .then(|| rule::blockers(ahead, mode).collect::<Vec<_>>());
                if matches!(mode, Mode::Permits(_)) {
                    // Perhaps others than the rule names, but while they stand it does not hold.
                    assert_eq!(found.is_some(), expected.is_some(), "{mode} behind {ahead:?}");
                    let alone = found.iter().flatten().map(|&at| modes[at]);
                    assert!(found.is_none() || !rule::would_hold(alone, mode), "{mode} behind {ahead:?}");
                } else {
                    assert_eq!(found, expected, "{mode} behind {ahead:?}");
                }
            }
        }
    }

    fn ring(&self) -> Ring {
        Ring::decode(&self.bytes()[STATUS..]).unwrap().0
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.file.metadata().unwrap().len() as usize];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }
}

#[test]
fn a_ring_of_any_size_says_what_the_line_rule_says() {
    for seed in 1..=6 {
        let mut bed = Bed::new(seed);
        let (mut longest, mut wrapped) = (0, 0);
        for step in 0..900 {
            bed.read();
            // It grows, goes on at about the same length, and shrinks.
            let joins = [6, 3, 2][step / 300];
            if bed.model.is_empty() || bed.rng.usize(..8) < joins {
                bed.join();
            } else {
                let nth = bed
                    .rng
                    .usize(..bed.model.len().min(3))
                    .max(bed.rng.usize(..bed.model.len()) * (step % 2));
                let before = bed.holders();
                let told = bed.leave(nth);
                let new = bed.holders();
                let new: Vec<_> = new.iter().filter(|id| !before.contains(id)).copied().collect();
                assert_eq!(told, new);
            }
            if step % 50 == 0 {
                bed.read();
                bed.compare();
            }
            longest = longest.max(bed.model.len());
            let (ring, last) = Ring::decode(&bed.bytes()[STATUS..]).unwrap();
            wrapped += usize::from(ring.unwrapped() < ring.span);
            assert_eq!(last.get(), bed.last);
            assert!(bed.bytes().len() <= PAGE.max(bed.model.len().max(64) * 512 * 64), "the file shrinks");
        }
        assert!(longest > 64 && wrapped > 20, "{longest} places, {wrapped} times wrapped");
    }
}

#[test]
fn a_line_that_was_long_once_stands_in_the_first_page_again() {
    for (longest, stay) in [(5, 0), (5, 2), (12, 1), (40, 2)] {
        let mut bed = Bed::new(1);
        for _ in 0..longest {
            bed.read();
            bed.join();
        }
        assert!(!bed.ring().is_inner(), "{longest} places");
        let capacity = bed.ring().capacity;
        for _ in stay..longest {
            bed.read();
            let _ = bed.leave(0);
        }
        let mut turns = 0;
        while !bed.ring().is_inner() {
            bed.read();
            bed.join();
            bed.read();
            let _ = bed.leave(0);
            turns += 1;
            assert!(turns <= capacity, "{stay} have stood outside for a whole round after {longest}");
        }
        bed.read();
        bed.compare();
    }
}

#[test]
fn a_line_that_is_long_now_and_then_moves_seldom() {
    let mut bed = Bed::new(1);
    let mut moves = 0;
    for _ in 0..100 {
        for joins in [true, false].into_iter().flat_map(|joins| [joins; 6]) {
            let before = bed.ring().region;
            bed.read();
            if joins {
                bed.join()
            } else {
                drop(bed.leave(0))
            }
            moves += usize::from(bed.ring().region != before);
        }
    }
    assert!((10..100).contains(&moves), "600 places, {moves} moves");
}
