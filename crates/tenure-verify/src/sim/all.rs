//! All locks at once, by `Multi`.

use std::time::Duration;

use tenure::{Multi, MultiGuard};
use tenure_core::{ErrorKind, Result};

use super::worker::Worker;
use crate::history::{Freed, KeyId, OpId, Register, Wanted, What};

impl Worker {
    /// Takes all locks, works under them and gives them back: one acquisition of each key to the checks.
    pub(super) async fn round_of_all(&self) {
        let ttl = self.world.plan.ttl;
        let tries = fastrand::u8(0..4) == 0;
        // Not waiting for others still means waiting for the engine, one lock after the other.
        let patience =
            if tries { ttl * u64::from(self.world.plan.keys) } else { fastrand::u64(ttl / 4..8 * ttl) };
        self.world.collects(self.id());
        let stays: Vec<(OpId, KeyId)> =
            (0..self.world.plan.keys).map(|key| (self.world.fresh_op(), key)).collect();
        let say = |what: &What| stays.iter().for_each(|&(op, key)| self.log(op, key, what.clone()));
        say(&What::Asked { mode: Wanted::Exclusive, patience: self.common(patience) });
        let all = self.all(tries, Duration::from_nanos(patience)).await;
        self.world.collected(self.id());
        let all = match all {
            Ok(Some(all)) => all,
            Ok(None) => return say(&What::NotGranted),
            Err(err) => {
                let maybe = err.may_have_applied();
                return say(&What::Failed { maybe, why: format!("{:?}", err.kind()) });
            }
        };
        let mut seen = Vec::new();
        for (&(op, key), guard) in stays.iter().zip(all.guards()) {
            let fence = guard.fence().get();
            self.log(op, key, What::Granted { fence: Some(fence), until: self.deadline(guard.remaining()) });
            self.world.granted(self.number);
            seen.push(self.begin(op, key, Wanted::Exclusive, fence));
        }
        let lost = self.work_under(&stays, &all).await;
        if lost.is_empty() {
            for ((&(op, key), guard), seen) in stays.iter().zip(all.guards()).zip(seen) {
                let Some((fenced, plain)) = seen else { continue };
                let who = (self.id(), op, key);
                self.world.write(who, Register::Fenced, Some(guard.fence().get()), &fenced);
                self.world.write(who, Register::Plain, None, &plain);
            }
        }
        stays.iter().for_each(|_| self.world.left(self.number));
        for &(op, key) in stays.iter().filter(|(op, _)| !lost.contains(op)) {
            self.log(op, key, What::Left);
        }
        say(&What::ReleaseAsked);
        let freed = if all.release().await.is_ok() { Freed::Yes } else { Freed::Unknown };
        say(&What::Released { freed });
    }

    async fn all(&self, tries: bool, wait: Duration) -> Result<Option<MultiGuard>> {
        let keys = 0..self.world.plan.keys;
        let locks = keys.map(|key| self.client.mutex(self.world.key(key))).collect::<Result<Vec<_>>>()?;
        let multi = Multi::new(locks)?;
        if tries {
            return multi.try_acquire().await;
        }
        match multi.acquire_within(wait).await {
            Ok(all) => Ok(Some(all)),
            Err(err) if err.kind() == ErrorKind::Timeout => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Works for a while: which of the locks were lost meanwhile. Then nothing is done under the others either.
    async fn work_under(&self, stays: &[(OpId, KeyId)], all: &MultiGuard) -> Vec<OpId> {
        let ttl = self.world.plan.ttl;
        let step = Duration::from_nanos(fastrand::u64(0..ttl / 2));
        let _ = tokio::time::timeout(step, all.lost()).await;
        let mut gone = Vec::new();
        for (&(op, key), guard) in stays.iter().zip(all.guards()) {
            if guard.is_lost() {
                gone.push(op);
                self.log(op, key, What::Lost);
            } else {
                self.log(op, key, What::Believes { until: self.deadline(guard.remaining()) });
            }
        }
        gone
    }
}
