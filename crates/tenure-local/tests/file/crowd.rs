//! Processes that work on one long line, and are killed at any moment.

use std::{os::unix::fs::MetadataExt, path::Path};

use tenure_core::{Permits, Place, Standing, line};

use super::*;

struct Random(fastrand::Rng);

impl Random {
    fn claim(&mut self) -> Claim {
        let permits = Mode::Permits(Permits::new(1, 3).unwrap());
        let mode = [Mode::Exclusive, Mode::Exclusive, Mode::Shared, permits][self.0.usize(..4)];
        Claim { mode, ..queued("k") }
    }
}

/// Joins and leaves without end: the line grows from the first page of its file to hundreds of places, and shrinks to a
/// few again.
pub(super) async fn work(dir: &Path) {
    let engine = open(dir).await;
    let mut random = Random(fastrand::Rng::with_seed(std::process::id().into()));
    let mut mine = Vec::new();
    loop {
        for nth in 0..[3, 20, 90, 300][random.0.usize(..4)] {
            let claim = random.claim();
            let _ = engine.attempt(&claim).await.unwrap();
            mine.push(claim);
            // Seldom, to be killed rather in the middle of a change than while it says so.
            if nth % 8 == 0 {
                say("did");
            }
        }
        let stay = random.0.usize(..3);
        while mine.len() > stay {
            // The first passes on what it holds, if it does.
            let nth = [0, mine.len() - 1, random.0.usize(..mine.len())][random.0.usize(..3)];
            let claim: Claim = mine.remove(nth);
            assert_eq!(engine.release(&claim, Answered::All).await.unwrap(), Released::Freed);
        }
    }
}

/// Those who live on, in the order of the line.
struct Survivors {
    engines: [Arc<FileEngine>; 2],
    line: Vec<(Claim, Seat)>,
}

impl Survivors {
    fn engine(&self, claim: &Claim) -> &FileEngine {
        &self.engines[usize::from(claim.id.to_bytes()[15] & 1)]
    }

    async fn join(&mut self, claim: Claim) {
        let seat = match self.engine(&claim).attempt(&claim).await.unwrap() {
            Attempt::Granted(grant) => grant.seat,
            Attempt::Busy(busy) => busy.seat.unwrap(),
        };
        self.line.push((claim, seat));
    }

    async fn leave(&mut self, nth: usize) {
        let (claim, _) = self.line.remove(nth);
        assert_eq!(self.engine(&claim).release(&claim, Answered::All).await.unwrap(), Released::Freed);
    }

    /// Nobody is lost, nobody stands there twice or without a right to, and those hold who should.
    async fn check(&self) {
        let places = self.engines[0].line(&Filter::Key(Key::new("k").unwrap())).await.unwrap();
        let found: Vec<_> = places.iter().map(|place| (place.id, place.seq, place.mode)).collect();
        let expected: Vec<_> =
            self.line.iter().map(|(claim, seat)| (claim.id, seat.seq, claim.mode)).collect();
        assert_eq!(found, expected);
        assert!(found.is_sorted_by_key(|&(_, seq, _)| seq));
        let holders = line::holders(self.line.iter().map(|(claim, _)| claim.mode));
        for (nth, (claim, seat)) in self.line.iter().enumerate() {
            match self.engine(claim).attempt(claim).await.unwrap() {
                Attempt::Granted(grant) => {
                    assert!(nth < holders && grant.seat == *seat, "{nth} of {holders}")
                }
                Attempt::Busy(busy) => {
                    assert!(nth >= holders && busy.seat == Some(*seat), "{nth} of {holders}");
                    // The dead who stand in nobody's way may still be counted.
                    assert!(busy.ahead >= Some(nth as u32));
                }
            }
        }
        let holding = |place: &&Place| place.standing == Standing::Holds;
        assert_eq!(places.iter().filter(holding).count(), holders);
    }

    /// The first who waits is told when those who hold are gone.
    async fn pass_on(&mut self) {
        let holders = line::holders(self.line.iter().map(|(claim, _)| claim.mode));
        for _ in 0..holders {
            self.leave(0).await;
        }
        if let Some((next, seat)) = self.line.first() {
            // Who waits for permits may find the dead only when it looks again.
            if !matches!(next.mode, Mode::Permits(_)) {
                assert_eq!(soon(self.engine(next).turn(next)).await, Turn::Holds(*seat));
            }
            assert_eq!(acquire(self.engine(next), next).await, *seat);
        }
    }
}

#[tokio::test]
async fn a_kill_at_any_moment_leaves_a_long_line_whole() {
    let mut random = Random(fastrand::Rng::with_seed(1));
    let mut long = 0;
    for _ in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let engines = [open(dir.path()).await, open(dir.path()).await];
        let mut survivors = Survivors { engines, line: Vec::new() };
        for most in [2, 5, 30, 50, 10] {
            let mut victims: Vec<_> = (0..3).map(|_| Helper::start("crowd", dir.path())).collect();
            // Some stand there before the victims do, others between their places.
            for nth in 0..=random.0.usize(..most) {
                victims[0].says("did");
                if nth % 2 == 0 {
                    match random.0.usize(..3) {
                        0 if !survivors.line.is_empty() => {
                            let nth = random.0.usize(..survivors.line.len());
                            survivors.leave(nth).await;
                        }
                        _ => survivors.join(random.claim()).await,
                    }
                }
            }
            victims.iter().for_each(|victim| victim.signal(Signal::KILL));
            // Whoever is gone is gone from the line, too.
            for victim in &mut victims {
                let _ = victim.child.wait().unwrap();
            }
            let size = std::fs::metadata(dir.path().join("locks/line/k")).unwrap().size();
            long += usize::from(size > 200 * 512);
            survivors.check().await;
            survivors.pass_on().await;
            survivors.check().await;
        }
    }
    assert!(long > 0, "some lines had become long");
}
