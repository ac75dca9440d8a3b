use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use tenure_core::{
    Answered, Attempt, Claim, Crash, Engine, ErrorKind, Eviction, Filter, Held, Mode, Permits, Renewal, Seq,
    Standing, Ttl, When,
};

use crate::{Cx, Failure, Result, Time, ensure, ensure_eq, model::Model, steps::line};

super::area! { "differential":
    agrees_with_the_model (Fifo),
    agrees_with_the_model_on_a_mutex (Fifo),
}

/// After every verb of a long random sequence the engine's answer and its line are those of the pure model: the
/// holders are the front of the line, and nothing else changed.
async fn agrees_with_the_model(cx: Cx) -> Result<()> {
    compare(&cx, true).await
}

/// The same with exclusive claims only, where lines grow long.
async fn agrees_with_the_model_on_a_mutex(cx: Cx) -> Result<()> {
    compare(&cx, false).await
}

async fn compare(cx: &Cx, mixed: bool) -> Result<()> {
    let (seeds, steps) = if cx.time == Time::Virtual { (24, 250) } else { (3, 80) };
    for seed in 0..seeds {
        let mut walk = Walk {
            cx,
            key: tenure_core::Key::new(format!("{}/{seed}", cx.key.as_str()))?,
            rng: Rng::with_seed(seed),
            mixed,
            favourite: (seed % 3) as u8,
            model: Model::new(cx.guarantees.crash),
            known: Vec::new(),
        };
        for step in 0..steps {
            walk.step().await.map_err(|e| Failure::new(format!("seed {seed}, step {step}: {e}")))?;
        }
    }
    Ok(())
}

struct Walk<'a> {
    cx: &'a Cx,
    key: tenure_core::Key,
    rng: Rng,
    mixed: bool,
    favourite: u8,
    model: Model,
    /// Claims that are or were in the line, whose client they belong to, and their number.
    known: Vec<(Claim, bool, Seq)>,
}

impl Walk<'_> {
    fn now(&self) -> tenure_core::Moment {
        self.cx.clock().now()
    }

    fn engine(&self, on_b: bool) -> &Arc<dyn Engine> {
        if on_b { &self.cx.b } else { &self.cx.a }
    }

    fn mode(&mut self) -> Result<Mode> {
        let modes = self.cx.guarantees.modes;
        // Some walks are mostly of readers or of permits, so that long fronts come up as well as mixed ones.
        let sort = if self.rng.u8(0..4) > 0 { self.favourite } else { self.rng.u8(0..3) };
        Ok(match sort {
            1 if self.mixed && modes.shared => Mode::Shared,
            2 if self.mixed && modes.permits => {
                let of = if self.rng.u8(0..5) == 0 { 2 } else { 3 };
                Mode::Permits(Permits::new(self.rng.u32(1..=of), of)?)
            }
            _ => Mode::Exclusive,
        })
    }

    /// Long, or where time can pass, sometimes short.
    fn ttl(&mut self) -> Ttl {
        let brief = self.cx.time == Time::Virtual && self.rng.bool();
        if brief { self.cx.brief_ttl() } else { self.cx.exclusive().ttl }
    }

    async fn step(&mut self) -> Result<()> {
        let mut known =
            (!self.known.is_empty()).then(|| self.known[self.rng.usize(..self.known.len())].clone());
        if let Some((claim, _, _)) = &mut known {
            claim.ttl = self.ttl();
        }
        // Lines of four to seven places have the most to get wrong: the longest fronts with somebody behind.
        let line = self.model.show(&Filter::Key(self.key.clone()), self.now());
        if line.len() > 6 {
            let leaving = line[self.rng.usize(..line.len())].id;
            known = self.known.iter().find(|(claim, _, _)| claim.id == leaving).cloned();
        }
        match (if line.len() > 6 { 19 } else { self.rng.u8(0..20) }, known) {
            (0..7, _) | (_, None) => self.newcomer().await?,
            (7..9, Some((claim, on_b, _))) if !self.model.evicted.contains(&claim.id) => {
                self.attempt(claim, on_b).await?;
            }
            (9..11, Some((claim, on_b, seq))) => {
                let seq = if self.rng.u8(0..4) == 0 { Seq::new(seq.get() + 1).unwrap_or(seq) } else { seq };
                let hold = Held { claim: &claim, seq };
                let answer = self.engine(on_b).renew(&[hold]).await?;
                let want = self.model.renew(hold, self.now());
                ensure!(
                    answer.len() == 1 && self.same(answer[0], want),
                    "renew {seq}: {answer:?}, not {want:?}"
                );
            }
            (11..13, Some((claim, on_b, seq))) if !matches!(claim.mode, Mode::Permits(_)) => {
                let hold = Held { claim: &claim, seq };
                // Only a hold is downgraded; a waiter's place is not one.
                if self.holds(&claim) {
                    let answer = self.engine(on_b).downgrade(hold).await?;
                    let want = self.model.downgrade(hold, self.now());
                    ensure!(self.same(answer, want), "downgrade {seq}: {answer:?}, not {want:?}");
                }
            }
            (13, Some((claim, _, seq))) => {
                // Those who left long ago are asked for now and then, but not mostly.
                self.known.retain(|(other, _, _)| line.iter().any(|place| place.id == other.id));
                let when = if self.rng.bool() { When::Now } else { When::Gently };
                let seq = if self.rng.u8(0..3) == 0 { Seq::new(seq.get() + 1).unwrap_or(seq) } else { seq };
                let eviction = Eviction { key: self.key.clone(), id: claim.id, seq, when };
                let answer = self.cx.b.evict(&eviction).await?;
                ensure_eq!(answer, self.model.evict(&eviction, self.now()), "evict {seq} {when:?}");
            }
            (14, Some(_)) if self.cx.time == Time::Virtual => {
                let time = Duration::from_millis(self.rng.u64(1..6_000));
                self.cx.pass(time).await;
            }
            (15..17, Some(_)) => self.newcomer().await?,
            (_, Some((claim, on_b, seq))) => {
                let answered = if self.rng.bool() { Answered::All } else { Answered::InDoubt };
                let answer = self.engine(on_b).release(&claim, answered).await?;
                ensure_eq!(answer, self.model.release(&claim, self.now()), "release {seq}");
                self.known.retain(|(other, _, _)| other.id != claim.id);
            }
        }
        self.same_line().await
    }

    /// A session may promise less than was asked for.
    fn same_lease(&self, got: Option<Duration>, want: Option<Duration>) -> bool {
        got == want || (self.model.crash == Crash::Session && got.is_some() && got < want)
    }

    fn same(&self, got: Renewal, want: Renewal) -> bool {
        match (got, want) {
            (Renewal::Renewed(got), Renewal::Renewed(want)) => self.same_lease(got, want),
            _ => got == want,
        }
    }

    fn holds(&self, claim: &Claim) -> bool {
        let places = self.model.show(&Filter::Key(self.key.clone()), self.now());
        places.iter().any(|place| place.id == claim.id && place.standing == Standing::Holds)
    }

    async fn newcomer(&mut self) -> Result<()> {
        let mode = self.mode()?;
        let base = if self.rng.u8(0..4) == 0 { self.cx.hasty(mode) } else { self.cx.claim(mode) };
        let ttl = self.ttl();
        let on_b = self.rng.bool();
        self.attempt(Claim { key: self.key.clone(), ttl, ..base }, on_b).await
    }

    async fn attempt(&mut self, claim: Claim, on_b: bool) -> Result<()> {
        let answer = match self.engine(on_b).attempt(&claim).await {
            Ok(answer) => answer,
            Err(error) if error.kind() == ErrorKind::Lost => {
                return Err(Failure::new("an attempt was refused that nobody evicted"));
            }
            Err(error) => return Err(error.into()),
        };
        let seat = match &answer {
            Attempt::Granted(grant) => Some(grant.seat.seq),
            Attempt::Busy(busy) => busy.seat.map(|seat| seat.seq),
        };
        let mut last = None;
        // The engine draws the number; the model only asks that it is larger.
        let want = self.model.attempt(&claim, self.cx.clock().now(), |before, _| {
            last = Some(before);
            seat.unwrap_or(before)
        })?;
        if let (Some(before), Some(seat)) = (last, seat) {
            ensure!(seat > before, "a new place has number {seat}, an earlier one had {before}");
        }
        match (&answer, &want) {
            (Attempt::Granted(got), Attempt::Granted(want)) => {
                ensure_eq!(got.seat.seq, want.seat.seq, "the number of the grant");
                ensure!(self.same_lease(got.ttl, want.ttl), "the grant: {got:?}, not {want:?}");
            }
            (Attempt::Busy(got), Attempt::Busy(want)) => {
                ensure_eq!(got.seat.map(|s| s.seq), want.seat.map(|s| s.seq), "the waiting place");
                ensure!(got.ahead.is_none() || got.ahead == want.ahead, "{got:?}, not {want:?}");
            }
            _ => return Err(Failure::new(format!("attempt ({}): {answer:?}, not {want:?}", claim.mode))),
        }
        if let Some(seq) = seat {
            self.known.retain(|(other, _, _)| other.id != claim.id);
            self.known.push((claim, on_b, seq));
        }
        Ok(())
    }

    async fn same_line(&self) -> Result<()> {
        let got = line(&self.cx.a, &self.key).await?;
        let want = self.model.show(&Filter::Key(self.key.clone()), self.now());
        let view = |line: &[tenure_core::Place]| -> Vec<_> {
            line.iter().map(|p| (p.id, p.seq, p.mode, p.standing)).collect()
        };
        ensure_eq!(view(&got), view(&want), "the line");
        let holders = tenure_core::line::holders(got.iter().map(|place| place.mode));
        let standing = got.iter().filter(|place| place.standing == Standing::Holds).count();
        ensure_eq!(standing, holders, "holders by the line rule");
        if self.cx.time == Time::Virtual {
            let leases = |line: &[tenure_core::Place]| -> Vec<_> {
                line.iter().map(|place| place.lease_left).collect()
            };
            ensure_eq!(leases(&got), leases(&want), "what is left of the leases");
        }
        Ok(())
    }
}
