//! Renewing: one trip for each lease, however many places it keeps.
//!
//! A client may hold very many places, and hears nothing new of almost all of them: so what is done for each is a look at
//! what is known of it, and no more.

use std::{sync::Arc, time::Duration};

use tenure_core::{Claim, ClaimId, Held, Op, Renewal, Result};

use crate::{
    engine::EtcdEngine,
    session::{Beat, Session, seconds},
    sessions::{CHUNK, Known},
    words::Words,
};

const OP: Op = Op::Renew;

impl EtcdEngine {
    pub(crate) async fn renew_(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let asked = self.sessions.now();
        let mut kept = self.kept(holds);
        if !kept.unknown.is_empty() {
            for claim in kept.unknown {
                self.recognise(OP, claim).await?;
            }
            kept = self.kept(holds);
        }
        let beats = kept.leases.iter().map(|session| self.sessions.beat(OP, session));
        let beats = futures_util::future::try_join_all(beats);
        // A few are looked at one by one as well: somebody may have deleted a place by hand.
        let (beats, ()) = futures_util::try_join!(beats, self.look_at(holds))?;
        if beats.contains(&Beat::Ended) || self.sessions.gone() != kept.gone {
            kept = self.kept(holds);
        }
        let left: Vec<Duration> = kept.leases.iter().map(|session| session.lives_for(asked)).collect();
        let mut answers = Vec::with_capacity(holds.len());
        for (hold, lease) in holds.iter().zip(kept.by) {
            let ttl = hold.claim.ttl;
            answers.push(match lease {
                Some(lease) if kept.leases[lease].seconds < seconds(ttl.get()) => {
                    match self.move_on(hold).await? {
                        Some(longer) => Renewal::Renewed(Some(longer.left(asked, ttl))),
                        None => Renewal::Lost,
                    }
                }
                Some(lease) => Renewal::Renewed(Some(left[lease].min(ttl.get()))),
                None => Renewal::Lost,
            });
        }
        Ok(answers)
    }

    /// Finds which leases keep these places.
    fn kept<'a>(&self, holds: &[Held<'a>]) -> Kept<'a> {
        let (gone, mut leases, mut unknown) = (self.sessions.gone(), Vec::new(), Vec::new());
        let by = self.sessions.of_each(holds, |hold, place| {
            let Some(place) = place else {
                unknown.push(hold.claim);
                return None;
            };
            let of_place = |session: &Arc<Session>| Arc::ptr_eq(session, &place.session);
            let at = leases.iter().position(of_place).unwrap_or_else(|| {
                leases.push(place.session.clone());
                leases.len() - 1
            });
            (place.seq == hold.seq).then_some(at)
        });
        Kept { gone, leases, by, unknown }
    }

    /// Moves a place to a lease that is long enough for its claim; `None` if it is gone.
    async fn move_on(&self, hold: &Held<'_>) -> Result<Option<Arc<Session>>> {
        let claim = hold.claim;
        let known = self.sessions.known(claim.id).filter(|known| known.seq == hold.seq);
        let Some(place) = known else { return Ok(None) };
        let longer = self.sessions.fresh(OP, claim).await?;
        let words = Words { ttl: claim.ttl.get(), ..place.words(claim) };
        Ok(self.put_again(OP, &place, words, &longer, claim).await?.then_some(longer))
    }

    async fn look_at(&self, holds: &[Held<'_>]) -> Result<()> {
        if holds.is_empty() || holds.len() > CHUNK {
            return Ok(());
        }
        let link = self.sessions.links.at(OP).await?;
        let known = |hold: &Held<'_>, place: Option<&Known>| {
            Some((hold.claim.id, place.filter(|place| place.seq == hold.seq)?.clone()))
        };
        let there: Vec<(ClaimId, Known)> =
            self.sessions.of_each(holds, known).into_iter().flatten().collect();
        let places = there.iter().map(|(id, known)| (*id, known));
        for ((id, known), stands) in places.clone().zip(self.sessions.standing(OP, &link, places).await?) {
            if !stands {
                self.sessions.lose(id, known);
            }
        }
        Ok(())
    }
}

/// What is known of the places that are to be renewed.
struct Kept<'a> {
    /// How many places were gone or moved when it was asked: while it is the same number, the rest is still so.
    gone: u64,
    /// The leases that keep them, each once.
    leases: Vec<Arc<Session>>,
    /// Which of these keeps each; `None` for one that is not there.
    by: Vec<Option<usize>>,
    /// Claims of which nothing is known.
    unknown: Vec<&'a Claim>,
}
