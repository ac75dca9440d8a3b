//! Giving places back: the claim's own release, and those of rounds that were lost.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tenure_core::{Answered, Attempt, Claim, Engine, ErrorKind, Op, Released, Result};

use super::{
    Inner,
    asks::{Ask, Asks},
    verdict::{Miss, told, too_few},
};
use crate::acquire::jitter;

/// How often a member is asked to free a place that nobody waits for. With the pauses in between, that takes less
/// than the lease, which then frees it anyhow.
const TRIES: u32 = 5;

impl Inner {
    /// Releases the claim at every member that may have a place of it.
    ///
    /// `Freed` means that a majority still had the place, hence that nobody else held the key before; members that do
    /// not answer get the benefit of the doubt. They are asked again behind the caller's back, unless a majority did
    /// not answer: then the caller must, and only those are asked which have not answered yet.
    pub(super) async fn release(self: &Arc<Self>, claim: &Claim, answered: Answered) -> Result<Released> {
        let majority = self.roster.majority();
        // It calls back the attempts that nobody waited for, which ends who listens to them.
        let leave = || self.claims().leave(claim, self.roster.len(), answered, self.now());
        let leaving = self.chores.quietly(leave);
        let claim_id = claim.id;
        let claim = Arc::new(Claim { id: leaving.round, ..claim.clone() });
        let limit = self.settings.limit(claim.ttl);
        let mut said: Vec<_> =
            leaving.said.iter().map(|said| said.map_or(Said::Nothing, Said::Released)).collect();
        let mut asks: Asks<_> = leaving
            .ask
            .iter()
            .map(|&(member, answered)| self.free(member, &claim, answered, limit))
            .collect();
        if verdict(&said, majority).is_none() {
            let hear = |member: usize, answer| {
                said[member] = match answer {
                    Ok(released) => {
                        self.claims().released(claim_id, member, released);
                        Said::Released(released)
                    }
                    Err(miss) => Said::Missed(miss),
                };
                verdict(&said, majority).is_some()
            };
            asks.listen(hear).await;
        }
        let released = match verdict(&said, majority) {
            Some(released) => released,
            None => {
                let missed = said.iter().filter_map(Said::missed);
                let answers = said.len() - missed.clone().count();
                if answers < majority {
                    let verdicts = told(&self.roster, &said);
                    let message = format!("{answers} of {} answered: {verdicts}", said.len());
                    return Err(too_few(Op::Release, message, missed).with_key(&claim.key));
                }
                Released::Freed
            }
        };
        self.claims().forget(claim_id);
        let again: Vec<_> =
            leaving.ask.into_iter().filter(|(member, _)| said[*member].missed().is_some()).collect();
        self.clean_up(&claim, &again, asks);
        self.turns.next(&claim.key);
        Ok(released)
    }

    /// Frees places that nobody wants any more, and those that attempts still on their way may take. Sends the first
    /// requests at once.
    pub(super) fn clean(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        places: &[(usize, Answered)],
        rest: Option<Asks<Attempt>>,
    ) {
        if places.is_empty() && rest.is_none() {
            return;
        }
        let mut rest = rest.unwrap_or_default();
        let (inner, claim) = (self.clone(), claim.clone());
        let free = |&(member, answered)| inner.clone().insist(member, claim.clone(), answered);
        let mut jobs: FuturesUnordered<_> = places.iter().map(free).collect();
        self.chores.begin(async move {
            loop {
                tokio::select! {
                    biased;
                    Some((member, answer)) = rest.next() => {
                        let answered = match answer {
                            Ok(Attempt::Granted(_)) => Some(Answered::All),
                            Ok(Attempt::Busy(_)) => None,
                            Err(miss) => miss.in_doubt().then_some(Answered::InDoubt),
                        };
                        if let Some(answered) = answered {
                            jobs.push(inner.clone().insist(member, claim.clone(), answered));
                        }
                    }
                    Some(()) = jobs.next() => {}
                    else => break,
                }
            }
        });
    }

    /// Sees the releases through that the caller did not wait for, and asks those again that failed.
    fn clean_up(self: &Arc<Self>, claim: &Arc<Claim>, again: &[(usize, Answered)], mut asks: Asks<Released>) {
        if asks.is_empty() && again.is_empty() {
            return;
        }
        let (inner, claim) = (self.clone(), claim.clone());
        let jobs =
            again.iter().map(|&(member, answered)| inner.clone().insist(member, claim.clone(), answered));
        let mut jobs: FuturesUnordered<_> = jobs.collect();
        self.chores.begin(async move {
            loop {
                tokio::select! {
                    biased;
                    Some((member, answer)) = asks.next() => {
                        if answer.is_err() {
                            jobs.push(inner.clone().insist(member, claim.clone(), Answered::InDoubt));
                        }
                    }
                    Some(()) = jobs.next() => {}
                    else => break,
                }
            }
        });
    }

    fn free(&self, member: usize, claim: &Arc<Claim>, answered: Answered, limit: Duration) -> Ask<Released> {
        let claim = claim.clone();
        self.ask(member, limit, async move |engine: Arc<dyn Engine>| engine.release(&claim, answered).await)
    }

    /// Asks a member to free a place until it has answered, or the place's lease has ended.
    fn insist(
        self: Arc<Self>,
        member: usize,
        claim: Arc<Claim>,
        answered: Answered,
    ) -> BoxFuture<'static, ()> {
        let limit = self.settings.limit(claim.ttl);
        let mut pause = claim.ttl.get() / 64;
        Box::pin(async move {
            for left in (0..TRIES).rev() {
                match self.free(member, &claim, answered, limit).await.1 {
                    Ok(_) => return,
                    Err(miss) if left == 0 || miss.kind() != ErrorKind::Unavailable => {
                        let name = self.roster.names().nth(member).unwrap_or_default();
                        tracing::debug!(key = %claim.key, member = name, %miss, "a place is left to lapse");
                        return;
                    }
                    Err(_) => tokio::time::sleep(jitter(pause)).await,
                }
                pause *= 2;
            }
        })
    }
}

/// One member's part in a release.
#[derive(Debug)]
enum Said {
    Nothing,
    Released(Released),
    Missed(Miss),
}

impl Said {
    fn missed(&self) -> Option<&Miss> {
        match self {
            Self::Missed(miss) => Some(miss),
            Self::Nothing | Self::Released(_) => None,
        }
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("not waited for"),
            Self::Released(Released::Freed) => f.write_str("freed"),
            Self::Released(Released::NotHeld) => f.write_str("had no place"),
            Self::Missed(miss) => miss.fmt(f),
        }
    }
}

/// What is certain by what was said so far.
fn verdict(said: &[Said], majority: usize) -> Option<Released> {
    let count = |what| said.iter().filter(|said| matches!(said, Said::Released(it) if *it == what)).count();
    if count(Released::Freed) >= majority {
        Some(Released::Freed)
    } else if count(Released::NotHeld) > said.len() - majority {
        Some(Released::NotHeld)
    } else {
        None
    }
}
