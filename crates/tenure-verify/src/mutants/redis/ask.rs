//! How a wrong way asks for a lock.

use std::sync::Mutex;

use tenure_core::ClaimId;
use tokio::time::{Instant, sleep, timeout};

use super::{Hold, POLL, Way, keep};
use crate::{
    clock::now,
    history::Nanos,
    locks::{Held, Unanswered, Wish},
    mutants::Mutant,
    wire::{KeySpec, Point},
};

pub(super) const TAKE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                    return redis.call('INCR', KEYS[2]) else return 0 end";
const TAKE_BY_CLOCK: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                             local time = redis.call('TIME') return time[1] * 1000000 + time[2] else return 0 end";
const TAKE_AND_EXPIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                               local number = redis.call('INCR', KEYS[2]) \
                               redis.call('EXPIRE', KEYS[2], 3600) return number else return 0 end";

/// A fence and a deadline, where there is such a thing.
pub(super) type Got = Option<(Option<u64>, Option<Nanos>)>;

impl Way {
    pub(super) async fn hold(
        &self,
        key: &KeySpec,
        wish: &Wish,
        deadline: Instant,
    ) -> Result<Option<Box<dyn Held>>, Unanswered> {
        let id = match self.inner.mutant {
            Mutant::SameOwner => "app:1".to_owned(),
            _ => ClaimId::fresh().to_string(),
        };
        let got = match self.inner.mutant {
            Mutant::NoLock => Some((None, None)),
            Mutant::NoRecheck => self.in_line(key, &id, deadline).await?,
            Mutant::Ghost => self.ticket(key, deadline).await?,
            _ => self.until_granted(key, &id, wish, deadline).await?,
        };
        Ok(got.map(|(fence, until)| {
            let (inner, until) = (self.inner.clone(), Mutex::new(until));
            Box::new(Hold { inner, id, fence, until, key: key.name.clone() }) as Box<dyn Held>
        }))
    }

    async fn until_granted(
        &self,
        key: &KeySpec,
        id: &str,
        wish: &Wish,
        deadline: Instant,
    ) -> Result<Got, Unanswered> {
        let mutant = self.inner.mutant;
        loop {
            let sent = now();
            if let Some(fence) = self.attempt(key, id, wish).await? {
                let from = if mutant == Mutant::DeadlineFromReply { now() } else { sent };
                let until = (mutant != Mutant::NoDeadline).then(|| self.inner.safe_from(from));
                return Ok(Some(((fence > 0).then_some(fence << 10), until)));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            match mutant {
                Mutant::WakeOnly => self.wait_for_word(key, deadline).await,
                _ => sleep(POLL).await,
            }
        }
    }

    /// Asks once; the fence if it is granted, 0 where there is none.
    async fn attempt(&self, key: &KeySpec, id: &str, wish: &Wish) -> Result<Option<u64>, Unanswered> {
        let (inner, name) = (&self.inner, key.name.as_str());
        let (fences, ttl) = (format!("{name}:fence"), inner.millis());
        let take = match inner.mutant {
            Mutant::ClockFence => TAKE_BY_CLOCK,
            Mutant::ExpiringCounter => TAKE_AND_EXPIRE,
            _ => TAKE,
        };
        let take = inner.script(0, take, [name, &fences], [id, &ttl]);
        match inner.mutant {
            Mutant::ReadThenSet => {
                let found: Option<String> = inner.run(0, &["GET", name]).await.map_err(Unanswered::maybe)?;
                if found.is_some() {
                    return Ok(None);
                }
                inner.run::<()>(0, &["SET", name, id, "PX", &ttl]).await.map_err(Unanswered::maybe)?;
                Ok(Some(0))
            }
            Mutant::SetnxExpire => {
                let set: u64 = inner.run(0, &["SETNX", name, id]).await.map_err(Unanswered::maybe)?;
                if set == 0 {
                    return Ok(None);
                }
                self.orders.pass(Point::Halfway, wish.who);
                inner.run::<()>(0, &["PEXPIRE", name, &ttl]).await.map_err(Unanswered::maybe)?;
                Ok(Some(0))
            }
            Mutant::SameOwner => {
                let got = take.await.map_err(Unanswered::maybe)?;
                let owner: Option<String> = inner.run(0, &["GET", name]).await.map_err(Unanswered::maybe)?;
                Ok((got > 0 || owner.as_deref() == Some(id)).then_some(0))
            }
            Mutant::NotCleaned => {
                // Kept alive from the first moment, so that a slow answer does not find it expired.
                let keeping = tokio::spawn(keep(inner.clone(), name.to_owned(), id.to_owned()));
                let Ok(answer) = timeout(inner.ttl / 2, take).await else {
                    return Err(Unanswered::maybe("no answer in time"));
                };
                keeping.abort();
                Ok(Some(answer.map_err(Unanswered::maybe)?).filter(|got| *got > 0))
            }
            Mutant::MaxWithoutWriteBack => Ok(self.majority(name, id).await),
            _ => Ok(Some(take.await.map_err(Unanswered::maybe)?).filter(|got| *got > 0)),
        }
    }
}
