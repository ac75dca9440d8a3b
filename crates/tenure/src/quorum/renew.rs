//! Keeping holds alive, and turning writers into readers: both ask all members and need a majority.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use tenure_core::{Claim, ClaimId, Crash, Engine, Held, Moment, Op, Renewal, Result, Seq, Ttl};

use super::{
    Inner,
    asks::Asks,
    claims::Standing,
    verdict::{Miss, told, too_few},
};

/// What a member is asked for a batch of holds, each with its own number of the place.
type Prolong = fn(Arc<dyn Engine>, Arc<[Claim]>, Vec<Seq>) -> BoxFuture<'static, Result<Vec<Renewal>>>;

/// Some holds on their way to all members.
struct Batch {
    /// As the members know them, with the fence as their floor.
    claims: Arc<[Claim]>,
    holds: Vec<Renewing>,
}

/// One hold of a batch.
struct Renewing {
    /// Where its answer belongs.
    at: usize,
    owner: ClaimId,
    standing: Standing,
    ttl: Ttl,
    renewed: usize,
    lost: usize,
    lease: Option<Duration>,
}

impl Renewing {
    fn decided(&self, majority: usize) -> bool {
        self.renewed >= majority || self.lost >= majority
    }
}

/// What became of one member's part.
enum Said {
    Nothing,
    Answered,
    Missed(Miss),
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("not waited for"),
            Self::Answered => f.write_str("answered"),
            Self::Missed(miss) => miss.fmt(f),
        }
    }
}

impl Inner {
    /// Renews everywhere, one call per member for all holds. It also lifts every member's last number to the fence,
    /// those without a place included: that heals a member which lost its memory.
    pub(super) async fn renew(self: &Arc<Self>, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        self.prolong(Op::Renew, holds, |engine, claims, seqs| {
            async move {
                let holds: Vec<_> =
                    claims.iter().zip(&seqs).map(|(claim, &seq)| Held { claim, seq }).collect();
                engine.renew(&holds).await
            }
            .boxed()
        })
        .await
    }

    pub(super) async fn downgrade(self: &Arc<Self>, hold: Held<'_>) -> Result<Renewal> {
        // An attempt that is still on its way would take a writer's place.
        self.claims().unfollow(hold.claim.id);
        let holds = [hold];
        let answer = self.prolong(Op::Downgrade, &holds, |engine, claims, seqs| {
            async move {
                let mut answers = Vec::with_capacity(1);
                for (claim, &seq) in claims.iter().zip(&seqs) {
                    answers.push(engine.downgrade(Held { claim, seq }).await?);
                }
                Ok(answers)
            }
            .boxed()
        });
        Ok(answer.await?.first().copied().unwrap_or(Renewal::Lost))
    }

    async fn prolong(self: &Arc<Self>, op: Op, holds: &[Held<'_>], verb: Prolong) -> Result<Vec<Renewal>> {
        let sent = self.now();
        let mut answers = vec![Renewal::Lost; holds.len()];
        let mut batch = self.batch(holds);
        let Some(shortest) = batch.holds.iter().map(|hold| hold.ttl).min() else { return Ok(answers) };
        let limit = self.settings.limit(shortest);
        let mut asks: Asks<Vec<Renewal>> = (0..self.roster.len())
            .map(|member| {
                let seqs = batch.holds.iter().map(|hold| hold.standing.seqs[member]).collect();
                let claims = batch.claims.clone();
                self.ask(member, limit, move |engine| verb(engine, claims, seqs))
            })
            .collect();
        let majority = self.roster.majority();
        let mut said: Vec<_> = (0..self.roster.len()).map(|_| Said::Nothing).collect();
        let hear = |member: usize, answer| {
            said[member] = self.hear(&mut batch, member, answer);
            batch.holds.iter().all(|hold| hold.decided(majority))
        };
        asks.listen(hear).await;
        // The others are renewed too, so that all members go on holding.
        self.chores.begin(async move { while asks.next().await.is_some() {} });
        let missed = said.iter().filter_map(|said| match said {
            Said::Missed(miss) => Some(miss),
            Said::Nothing | Said::Answered => None,
        });
        let undecided = batch.holds.iter().filter(|hold| !hold.decided(majority)).count();
        if undecided == batch.holds.len() || (undecided > 0 && self.guarantees.crash == Crash::Process) {
            let answered = said.iter().filter(|said| matches!(said, Said::Answered)).count();
            let message = format!("{answered} of {} answered: {}", said.len(), told(&self.roster, &said));
            return Err(too_few(op, message, missed));
        }
        for hold in &batch.holds {
            answers[hold.at] = self.conclude(hold, sent);
        }
        Ok(answers)
    }

    /// Which of the holds exist, as the members know them. The others are lost.
    fn batch(&self, holds: &[Held<'_>]) -> Batch {
        let claims = self.claims();
        let mut batch = Batch { claims: Arc::new([]), holds: Vec::with_capacity(holds.len()) };
        let mut asked = Vec::with_capacity(holds.len());
        for (at, hold) in holds.iter().enumerate() {
            let Some(standing) = claims.standing(hold.claim.id, hold.seq) else { continue };
            let floor = if self.fenced { hold.seq } else { Seq::ZERO };
            asked.push(Claim { id: standing.round, floor, ..hold.claim.clone() });
            let (owner, ttl) = (hold.claim.id, hold.claim.ttl);
            batch.holds.push(Renewing { at, owner, standing, ttl, renewed: 0, lost: 0, lease: None });
        }
        batch.claims = asked.into();
        batch
    }

    fn hear(&self, batch: &mut Batch, member: usize, answer: Result<Vec<Renewal>, Miss>) -> Said {
        let answers = match answer {
            Ok(answers) => answers,
            Err(miss) => return Said::Missed(miss),
        };
        let mut claims = self.claims();
        for (hold, answer) in batch.holds.iter_mut().zip(answers) {
            match answer {
                Renewal::Renewed(lease) => {
                    hold.renewed += 1;
                    hold.lease = [hold.lease, lease].into_iter().flatten().min();
                    let seq = hold.standing.seqs[member];
                    claims.found(hold.owner, hold.standing.round, member, seq);
                }
                Renewal::Lost => hold.lost += 1,
            }
        }
        Said::Answered
    }

    fn conclude(&self, hold: &Renewing, sent: Moment) -> Renewal {
        let majority = self.roster.majority();
        if hold.renewed >= majority {
            let asked = hold.ttl.get();
            let lease = hold.lease.unwrap_or(asked).min(asked);
            let over = sent + 2 * asked;
            self.claims().renewed(hold.owner, hold.standing.round, sent + lease, over);
            return Renewal::Renewed((self.guarantees.crash != Crash::Process).then_some(lease));
        }
        // Some members said nothing, and it is this hold alone that needs them: it has what its last renewal gave.
        let left = hold.standing.until.since(sent);
        if hold.lost >= majority || left.is_zero() { Renewal::Lost } else { Renewal::Renewed(Some(left)) }
    }
}
