//! Long random walks on memory and MySQL side by side: every answer and every line must agree.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use tenure_core::{
    Answered, Attempt, BootClock, Claim, Engine, Eviction, Filter, Held, Key, Mode, Patience, Permits, Place,
    Seq, Standing, Ttl, When,
};
use tenure_local::Memory;
use tenure_testkit::{Failure, Result, ensure, ensure_eq, mariadb::MariaDb};

use crate::support::{claim, open};

const WALKS: u64 = 4;
const STEPS: usize = 1_500;

/// Four walks of 1,500 verbs. A failure names the seed and the step that lead there again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_mysql_agree() -> Result {
    let server = MariaDb::shared()?;
    let mut walks = Vec::new();
    for seed in 0..WALKS {
        // Each half of a walk is another process.
        let mysql: [Arc<dyn Engine>; 2] = [open(&server.url()).await?, open(&server.url()).await?];
        let first = Memory::new(Arc::new(BootClock));
        let memory: [Arc<dyn Engine>; 2] = [first.another(), first];
        walks.push(tokio::spawn(walk(seed, mysql, memory)));
    }
    for walk in walks {
        walk.await.map_err(|err| Failure::new(err.to_string()))??;
    }
    Ok(())
}

async fn walk(seed: u64, mysql: [Arc<dyn Engine>; 2], memory: [Arc<dyn Engine>; 2]) -> Result {
    let key = Key::new(format!("differential/{seed}"))?;
    let mut walk =
        Walk { key, rng: Rng::with_seed(seed), sort: (seed % 4) as u8, mysql, memory, known: Vec::new() };
    for step in 0..STEPS {
        let wrong = |err: Failure| Failure::new(format!("seed {seed}, step {step}: {err}"));
        walk.step().await.map_err(wrong)?;
        if step % 4 == 0 || step + 1 == STEPS {
            walk.same_line().await.map_err(wrong)?;
        }
    }
    Ok(())
}

/// A claim with a place, whose process it belongs to, and its numbers on both.
#[derive(Clone)]
struct Known {
    claim: Claim,
    process: usize,
    mysql: Seq,
    memory: Seq,
}

struct Walk {
    key: Key,
    rng: Rng,
    /// What most claims of this walk are.
    sort: u8,
    mysql: [Arc<dyn Engine>; 2],
    memory: [Arc<dyn Engine>; 2],
    known: Vec<Known>,
}

impl Walk {
    async fn step(&mut self) -> Result {
        let crowded = self.known.len() > 9;
        let dice = if crowded { 15 } else { self.rng.u8(0..16) };
        if self.known.is_empty() || dice < 6 {
            let fresh = self.newcomer()?;
            let process = self.rng.usize(..2);
            return self.attempt(fresh, process).await;
        }
        let at = self.rng.usize(..self.known.len());
        let known = self.known[at].clone();
        let off = u64::from(self.rng.u8(0..5) == 0);
        let other = |seq: Seq| Seq::new(seq.get() + off).unwrap_or_default();
        let [mysql, memory] = [&self.mysql[known.process], &self.memory[known.process]];
        let held = |seq| Held { claim: &known.claim, seq: other(seq) };
        match dice {
            6..8 => self.attempt(known.claim, known.process).await?,
            8..10 => {
                let answers =
                    (mysql.renew(&[held(known.mysql)]).await?, memory.renew(&[held(known.memory)]).await?);
                ensure_eq!(answers.0, answers.1, "renew");
            }
            10..12 => {
                // Only a hold is downgraded, and a hold of permits is refused.
                let line = memory.line(&Filter::Key(self.key.clone())).await?;
                let holds = |place: &&Place| place.id == known.claim.id && place.standing == Standing::Holds;
                if line.iter().find(holds).is_some() {
                    let answers = (
                        mysql.downgrade(held(known.mysql)).await.map_err(|err| err.kind()),
                        memory.downgrade(held(known.memory)).await.map_err(|err| err.kind()),
                    );
                    ensure_eq!(answers.0, answers.1, "downgrade");
                }
            }
            12 => {
                let when = if self.rng.bool() { When::Now } else { When::Gently };
                let evict =
                    |seq| Eviction { key: self.key.clone(), id: known.claim.id, seq: other(seq), when };
                let answers =
                    (mysql.evict(&evict(known.mysql)).await?, memory.evict(&evict(known.memory)).await?);
                ensure_eq!(answers.0, answers.1, "evict");
            }
            _ => {
                let answered = if self.rng.bool() { Answered::All } else { Answered::InDoubt };
                let answers = (
                    mysql.release(&known.claim, answered).await?,
                    memory.release(&known.claim, answered).await?,
                );
                ensure_eq!(answers.0, answers.1, "release");
                self.known.swap_remove(at);
            }
        }
        Ok(())
    }

    fn newcomer(&mut self) -> Result<Claim> {
        let sort = if self.rng.u8(0..3) == 0 { self.rng.u8(0..3) } else { self.sort.min(2) };
        let mode = match sort {
            0 => Mode::Shared,
            1 => {
                let of = self.rng.u32(3..=4);
                Mode::Permits(Permits::new(self.rng.u32(1..=of), of)?)
            }
            _ => Mode::Exclusive,
        };
        let patience = if self.rng.u8(0..4) == 0 { Patience::Try } else { Patience::Queue };
        // Long enough that nothing lapses in a walk.
        let ttl = Ttl::new(Duration::from_secs(self.rng.u64(60..3600)))?;
        Ok(Claim { key: self.key.clone(), patience, ttl, ..claim("any", mode)? })
    }

    async fn attempt(&mut self, claim: Claim, process: usize) -> Result {
        let mysql = self.mysql[process].attempt(&claim).await.map_err(|err| err.kind());
        let memory = self.memory[process].attempt(&claim).await.map_err(|err| err.kind());
        let seats = match (&mysql, &memory) {
            (Ok(Attempt::Granted(one)), Ok(Attempt::Granted(two))) => {
                ensure_eq!(one.ttl, two.ttl, "the lease of a grant");
                Some((one.seat, two.seat))
            }
            (Ok(Attempt::Busy(one)), Ok(Attempt::Busy(two))) => {
                ensure_eq!((one.ttl, one.ahead), (two.ttl, two.ahead), "what is known of a busy claim");
                ensure_eq!(one.seat.is_some(), two.seat.is_some(), "whether a busy claim has a place");
                if one.blocker.is_some() && two.blocker.is_some() {
                    ensure_eq!(one.blocker, two.blocker, "the blocker");
                }
                one.seat.zip(two.seat)
            }
            (Err(one), Err(two)) if one == two => None,
            _ => return Err(Failure::new(format!("attempt ({}): {mysql:?}, but {memory:?}", claim.mode))),
        };
        let before = self.known.iter().position(|known| known.claim.id == claim.id);
        match (before, seats) {
            (Some(at), Some((mysql, memory))) => {
                let known = &self.known[at];
                ensure_eq!((mysql.seq, memory.seq), (known.mysql, known.memory), "the numbers of a place");
            }
            (None, Some((mysql, memory))) => {
                let last = self.known.iter().map(|known| known.mysql).max().unwrap_or_default();
                ensure!(mysql.seq > last, "the number {} comes after {last}", mysql.seq);
                self.known.push(Known { claim, process, mysql: mysql.seq, memory: memory.seq });
            }
            (_, None) => {}
        }
        Ok(())
    }

    async fn same_line(&self) -> Result {
        let filter = Filter::Key(self.key.clone());
        let [mysql, memory] = [self.mysql[0].line(&filter).await?, self.memory[0].line(&filter).await?];
        let view = |line: &[Place]| -> Vec<_> {
            line.iter().map(|place| (place.id, place.mode, place.standing, place.note.clone())).collect()
        };
        ensure_eq!(view(&mysql), view(&memory), "the line");
        for (one, two) in mysql.iter().zip(&memory) {
            let [one, two] = [one, two].map(|place| place.lease_left.unwrap_or_default());
            ensure!(one.abs_diff(two) < Duration::from_secs(5), "a lease of {one:?} and of {two:?}");
        }
        Ok(())
    }
}
