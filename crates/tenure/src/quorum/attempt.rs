//! One round: everybody is asked at once, and it is won or lost as soon as that is certain.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Crash, Engine, Error, ErrorKind, Grant, Held, Incarnation, Mode,
    Moment, Op, Patience, Renewal, Result, Seat, Seq,
};

use super::{
    Inner,
    asks::Asks,
    claims::Begun,
    numbers::farthest,
    pending::Pending,
    verdict::{Miss, Verdict, told, too_few},
};

/// A round under way. Dropped anywhere, it leaves a record by which a release finds every place it may have.
struct Round<'a> {
    inner: &'a Arc<Inner>,
    /// The claim's own id; the round may have another.
    owner: ClaimId,
    /// What the members are asked.
    claim: Arc<Claim>,
    sent: Moment,
    limit: Duration,
    verdicts: Vec<Verdict>,
    /// The leases that were granted.
    ttls: Vec<Option<Duration>>,
    /// The fence of this round if it was won before, and who stood at it, with which number.
    won: Option<(Seq, Vec<Option<Seq>>)>,
}

/// A number for the whole, and who has to be lifted to it.
#[derive(Debug, PartialEq, Eq)]
struct Fencing {
    fence: Seq,
    at: Vec<usize>,
    below: Vec<(usize, Seq)>,
}

impl Inner {
    pub(super) async fn attempt(self: &Arc<Self>, claim: &Claim) -> Result<Attempt> {
        self.check(claim)?;
        let sent = self.now();
        let begun = self.claims().begin(claim, self.roster.len(), sent)?;
        let floor = if self.fenced { self.numbers().propose(sent, self.wall_micros()) } else { Seq::ZERO };
        let claim = Arc::new(Claim { id: begun.round, patience: Patience::Try, floor, ..claim.clone() });
        let mut round = Round {
            inner: self,
            owner: begun.owner,
            sent,
            limit: self.settings.limit(claim.ttl),
            verdicts: begun
                .asked
                .iter()
                .map(|&asked| if asked { Verdict::Unheard } else { Verdict::Left })
                .collect(),
            ttls: vec![None; self.roster.len()],
            won: begun.won.clone(),
            claim,
        };
        let mut asks = round.ask(&begun);
        round.gather(&mut asks).await;
        if round.granted().count() < self.roster.majority() {
            return round.lose(asks);
        }
        if round.fencing().at.len() < self.roster.majority() {
            round.linger(&mut asks).await;
        }
        round.follow(asks);
        let fencing = round.fencing();
        let at = match round.lift(fencing.fence, fencing.at, fencing.below).await {
            Some(at) if self.now() < sent + round.claim.ttl.safe() => at,
            _ => return round.lose(Asks::default()),
        };
        self.claims().win(round.owner, round.claim.id, fencing.fence, &at, sent + round.claim.ttl.get());
        if round.claim.mode == Mode::Shared {
            self.turns.next(&round.claim.key); // whoever waits to read can come in too
        }
        let seat = Seat { seq: fencing.fence, incarnation: Incarnation(0) };
        Ok(Attempt::Granted(Grant { seat, ttl: round.ttl(&at), remembers: None }))
    }

    /// Everything that can be refused before any member is asked.
    fn check(&self, claim: &Claim) -> Result<()> {
        if !self.guarantees.modes.allow(claim.mode) {
            let can = self.guarantees.modes;
            return Err(Error::unsupported(
                Op::Attempt,
                format!("{} locks are more than this quorum can grant; it has {can}", claim.mode),
            )
            .with_key(&claim.key));
        }
        let max = self.settings.max_ttl;
        if claim.ttl.get() > max {
            return Err(Error::invalid(format!(
                "the ttl is {:?}, but nobody may ask this quorum for more than {max:?}; ask for less, or set \
                 `max_ttl` for everybody",
                claim.ttl
            ))
            .in_op(Op::Attempt)
            .with_key(&claim.key));
        }
        Ok(())
    }

    /// A late answer to a round that was won: its place is kept, or given back if it cannot count.
    fn late(
        self: &Arc<Self>,
        owner: ClaimId,
        claim: &Arc<Claim>,
        member: usize,
        answer: &Result<Attempt, Miss>,
    ) {
        let uncounted = match answer {
            Ok(Attempt::Granted(grant)) => self.doubtful(member, grant).is_some(),
            Ok(Attempt::Busy(_)) | Err(_) => false,
        };
        let known = self.claims().heard(owner, claim.id, member, answer, uncounted);
        if known && uncounted {
            self.clean(claim, &[(member, Answered::All)], None);
        }
    }

    /// Why a member's grant does not count, if it does not.
    fn doubtful(&self, member: usize, grant: &Grant) -> Option<Verdict> {
        let quarantine = self.settings.quarantine();
        if let Some(ago) = grant.remembers.filter(|&ago| ago < quarantine) {
            let counts_in = quarantine - ago;
            self.quarantined(member, self.now() + counts_in);
            return Some(Verdict::Restarted { ago, counts_in });
        }
        (grant.seat.seq.get() > farthest(self.wall_micros())).then_some(Verdict::TooFar(grant.seat.seq))
    }
}

impl Round<'_> {
    fn ask(&self, begun: &Begun) -> Asks<Attempt> {
        let asked = begun.asked.iter().enumerate().filter(|(_, asked)| **asked);
        let ask = |member| {
            let claim = self.claim.clone();
            self.inner
                .ask(member, self.limit, async move |engine: Arc<dyn Engine>| engine.attempt(&claim).await)
        };
        asked.map(|(member, _)| ask(member)).collect()
    }

    /// Listens until the round is decided, and to whatever else has been said by then.
    async fn gather(&mut self, asks: &mut Asks<Attempt>) {
        if !self.decided() {
            let hear = |member, answer| {
                self.hear(member, answer);
                self.decided()
            };
            asks.listen(hear).await;
        }
    }

    /// Listens a little longer where the numbers differ, which costs a second trip anyhow: those who look at the line
    /// see the numbers of all members, and find the fence among them if it was chosen among all.
    async fn linger(&mut self, asks: &mut Asks<Attempt>) {
        let took = self.inner.now().since(self.sent);
        let patience = (2 * took + Duration::from_millis(10)).min(self.limit / 2);
        let all = async {
            while let Some((member, answer)) = asks.next().await {
                self.hear(member, answer);
            }
        };
        // Whoever has not answered by then takes part later.
        let _ = tokio::time::timeout(patience, all).await;
    }

    fn hear(&mut self, member: usize, answer: Result<Attempt, Miss>) {
        let inner = self.inner;
        let doubtful = match &answer {
            Ok(Attempt::Granted(grant)) => inner.doubtful(member, grant),
            Ok(Attempt::Busy(_)) | Err(_) => None,
        };
        inner.claims().heard(self.owner, self.claim.id, member, &answer, doubtful.is_some());
        self.verdicts[member] = match (doubtful, answer) {
            (Some(doubtful), _) => {
                inner.clean(&self.claim, &[(member, Answered::All)], None);
                doubtful
            }
            (None, Ok(Attempt::Granted(grant))) => {
                inner.numbers().learn(grant.seat.seq, self.claim.floor, self.sent);
                self.ttls[member] = grant.ttl;
                Verdict::Granted(grant.seat.seq)
            }
            (None, Ok(Attempt::Busy(busy))) => Verdict::Busy(busy),
            (None, Err(miss)) => Verdict::Missed(miss),
        };
    }

    fn granted(&self) -> impl Iterator<Item = (usize, Seq)> {
        self.verdicts.iter().enumerate().filter_map(|(member, verdict)| match verdict {
            Verdict::Granted(seq) => Some((member, *seq)),
            _ => None,
        })
    }

    fn decided(&self) -> bool {
        let (granted, majority) = (self.granted().count(), self.inner.roster.majority());
        let open = self.verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Unheard)).count();
        if granted + open < majority {
            return true;
        }
        match &self.won {
            None => granted >= majority,
            // It keeps its fence only by those who stood at it, so they are waited for.
            Some((_, stood)) => {
                let still = self.granted().filter(|(member, seq)| stood[*member] == Some(*seq)).count();
                still >= majority || open == 0
            }
        }
    }

    /// Lets the members that were not waited for take part in what was won.
    fn follow(&self, asks: Asks<Attempt>) {
        if asks.is_empty() {
            return;
        }
        let pending = Pending::new(asks);
        self.inner.claims().follow(self.owner, self.claim.id, pending.clone());
        let (inner, owner, claim) = (self.inner.clone(), self.owner, self.claim.clone());
        self.inner.chores.begin(async move {
            while let Some((member, answer)) = pending.next().await {
                inner.late(owner, &claim, member, &answer);
            }
        });
    }

    /// The number of the whole: the largest one of the majority with the smallest numbers.
    ///
    /// Any majority would do, for this reason: once every member of it has a last number not below the fence, whoever
    /// holds later has a place at one of them that was taken after, with a larger number; and because the fence is not
    /// below any number of this majority, it is above all who held before. The smallest is chosen because one member
    /// whose clock is ahead then leads nobody, and because others who look at the members later find the same.
    ///
    /// A round that was won before keeps its fence while a majority still stands where it stood.
    fn fencing(&self) -> Fencing {
        let majority = self.inner.roster.majority();
        let granted: Vec<_> = self.granted().collect();
        let mut least = Seq::ZERO;
        if let Some((fence, stood)) = &self.won {
            let still = |(member, seq): &&(usize, Seq)| stood[*member] == Some(*seq);
            let at: Vec<_> = granted.iter().filter(still).map(|(member, _)| *member).collect();
            if at.len() >= majority {
                return Fencing { fence: *fence, at, below: Vec::new() };
            }
            least = Seq::new(fence.get() + 1).unwrap_or(Seq::MAX);
        }
        choose(&granted, majority, least, self.inner.fenced)
    }

    /// Lifts the last number of those below the fence to it. `None` if no majority stands at it in the end.
    async fn lift(&mut self, fence: Seq, mut at: Vec<usize>, below: Vec<(usize, Seq)>) -> Option<Vec<usize>> {
        let majority = self.inner.roster.majority();
        if at.len() >= majority {
            return Some(at);
        }
        let claim = Arc::new(Claim { floor: fence, ..Claim::clone(&self.claim) });
        let mut open = below.len();
        let mut asks: Asks<_> = below
            .into_iter()
            .map(|(member, seq)| {
                let claim = claim.clone();
                let verb =
                    async move |engine: Arc<dyn Engine>| engine.renew(&[Held { claim: &claim, seq }]).await;
                self.inner.ask(member, self.limit, verb)
            })
            .collect();
        if at.len() + open >= majority {
            let hear = |member, answer: Result<Vec<Renewal>, Miss>| {
                open -= 1;
                match answer.as_deref() {
                    Ok([Renewal::Renewed(_)]) => at.push(member),
                    Ok(_) => self.verdicts[member] = Verdict::Dropped,
                    Err(miss) => self.verdicts[member] = Verdict::Missed(miss.clone()),
                }
                at.len() >= majority || at.len() + open < majority
            };
            asks.listen(hear).await;
        }
        self.inner.chores.begin(async move { while asks.next().await.is_some() {} });
        (at.len() >= majority).then_some(at)
    }

    /// Gives back what the round has, without making anybody wait for it, and says why it was lost.
    fn lose(self, asks: Asks<Attempt>) -> Result<Attempt> {
        let inner = self.inner;
        let (places, rest) = inner.claims().lose(self.owner, self.claim.id);
        let rest = if asks.is_empty() { rest } else { Some(asks) };
        inner.clean(&self.claim, &places, rest);
        let busy: Vec<&Busy> = self
            .verdicts
            .iter()
            .filter_map(|verdict| match verdict {
                Verdict::Busy(busy) => Some(busy),
                _ => None,
            })
            .collect();
        let granted = self.granted().count();
        let majority = inner.roster.majority();
        // Whether others hold it or the votes were split: it is worth asking again after a while.
        if granted + busy.len() >= majority && granted < majority {
            inner.turns.busy(&self.claim.key, self.sent, self.sent + self.claim.ttl.get());
            return Ok(Attempt::Busy(Busy {
                seat: None,
                ttl: None,
                ahead: None,
                blocker: busy.iter().find_map(|busy| busy.blocker),
                lapses_in: busy.iter().filter_map(|busy| busy.lapses_in).min(),
            }));
        }
        let missed = |verdict: &'_ Verdict| match verdict {
            Verdict::Missed(miss) => Some(miss.clone()),
            _ => None,
        };
        let missed: Vec<_> = self.verdicts.iter().filter_map(missed).collect();
        let evicted = missed.iter().filter(|miss| miss.kind() == ErrorKind::Lost).count();
        if evicted + majority > inner.roster.len() {
            return Err(Error::new(ErrorKind::Lost, Op::Attempt, "an operator evicted this claim"));
        }
        let verdicts = told(&inner.roster, &self.verdicts);
        let late = if granted < majority { "" } else { "; too late, the lease was nearly over" };
        let message = format!("{granted} of {} granted: {verdicts}{late}", self.verdicts.len());
        Err(too_few(Op::Attempt, message, missed.iter()).with_key(&self.claim.key))
    }

    fn ttl(&self, at: &[usize]) -> Option<Duration> {
        let leases = at.iter().filter_map(|&member| self.ttls[member]);
        (self.inner.guarantees.crash != Crash::Process)
            .then(|| leases.min().unwrap_or(Duration::MAX).min(self.claim.ttl.get()))
    }
}

/// Chooses the fence among the numbers that were granted.
fn choose(granted: &[(usize, Seq)], majority: usize, least: Seq, fenced: bool) -> Fencing {
    if !fenced {
        // Nobody can be lifted, so the numbers order nothing: the largest is as good as any.
        let fence = granted.iter().map(|(_, seq)| *seq).max().unwrap_or_default();
        return Fencing { fence, at: granted.iter().map(|(member, _)| *member).collect(), below: Vec::new() };
    }
    let mut numbers: Vec<_> = granted.iter().map(|(_, seq)| *seq).collect();
    numbers.sort_unstable();
    let fence = numbers.get(majority - 1).copied().unwrap_or_default().max(least);
    let at = granted.iter().filter(|(_, seq)| *seq == fence).map(|(member, _)| *member).collect();
    let below = granted.iter().filter(|(_, seq)| *seq < fence).copied().collect();
    Fencing { fence, at, below }
}
