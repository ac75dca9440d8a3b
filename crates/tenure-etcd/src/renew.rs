//! Renewing: one trip for each lease, however many places it keeps.
//!
//! A client may hold very many places, and hears nothing new of almost all of them: so what is done for each is a look at
//! what is known of it, and no more.

use std::sync::Arc;

use tenure_core::{Claim, ClaimId, Held, Op, Renewal, Result};

use crate::{
    engine::EtcdEngine,
    session::{Session, seconds},
    sessions::{CHUNK, Known},
    words::Words,
};

const OP: Op = Op::Renew;

impl EtcdEngine {
    pub(crate) async fn renew_(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let asked = self.sessions.now();
        let leases = match self.kept(holds) {
            Kept { leases, unknown } if unknown.is_empty() => leases,
            Kept { unknown, .. } => {
                for claim in unknown {
                    self.recognise(OP, claim).await?;
                }
                self.kept(holds).leases
            }
        };
        let beats = leases.iter().map(|session| self.sessions.beat(OP, session));
        let beats = futures_util::future::try_join_all(beats);
        // A few are looked at one by one as well: somebody may have deleted a place by hand.
        futures_util::try_join!(beats, self.look_at(holds))?;
        let stands =
            |hold: &Held<'_>, place: Option<&Known>| match place.filter(|place| place.seq == hold.seq) {
                Some(place) if place.session.seconds < seconds(hold.claim.ttl.get()) => Err(place.clone()),
                Some(place) => Ok(Renewal::Renewed(Some(place.session.left(asked, hold.claim.ttl)))),
                None => Ok(Renewal::Lost),
            };
        let mut answers = Vec::with_capacity(holds.len());
        for (hold, answer) in holds.iter().zip(self.sessions.of_each(holds, stands)) {
            answers.push(match answer {
                Ok(answer) => answer,
                Err(place) => match self.move_on(hold.claim, &place).await? {
                    Some(longer) => Renewal::Renewed(Some(longer.left(asked, hold.claim.ttl))),
                    None => Renewal::Lost,
                },
            });
        }
        Ok(answers)
    }

    /// Which leases keep these places, each once.
    fn kept<'a>(&self, holds: &[Held<'a>]) -> Kept<'a> {
        let mut kept = Kept { leases: Vec::new(), unknown: Vec::new() };
        self.sessions.of_each(holds, |hold, place| match place {
            Some(place) if kept.leases.iter().any(|session| Arc::ptr_eq(session, &place.session)) => {}
            Some(place) => kept.leases.push(place.session.clone()),
            None => kept.unknown.push(hold.claim),
        });
        kept
    }

    /// Moves a place to a lease that is long enough for its claim; `None` if it is gone.
    async fn move_on(&self, claim: &Claim, place: &Known) -> Result<Option<Arc<Session>>> {
        let longer = self.sessions.fresh(OP, claim).await?;
        let words = Words { ttl: claim.ttl.get(), ..place.words(claim) };
        Ok(self.put_again(OP, place, words, &longer, claim).await?.then_some(longer))
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
    leases: Vec<Arc<Session>>,
    /// Claims of which nothing is.
    unknown: Vec<&'a Claim>,
}
