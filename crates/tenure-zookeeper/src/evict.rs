//! What an operator does to a place.

use tenure_core::{BootClock, Clock, Evicted, Eviction, Op, Result, When, line};

use crate::{
    engine::{ZookeeperEngine, seq_of, stat},
    link::{Failure, Link},
    trouble,
    wire::{Life, Request, code, read_children, read_created, read_multi},
};

/// Evictions older than this are cleared away: whom they concern has learned of them, or its session has ended.
const OLD_MS: i64 = 24 * 60 * 60 * 1000;
/// The most that are looked at each time.
const MOST_SWEPT: usize = 100;

impl ZookeeperEngine {
    pub(crate) async fn remove(&self, eviction: &Eviction) -> Result<Evicted> {
        let session = self.sessions.some(Op::Evict).await?;
        let outcome = async {
            let link = session.link().await?;
            self.try_remove(&link, eviction).await
        };
        outcome.await.map_err(|failure| trouble::of(failure, Op::Evict).with_key(&eviction.key))
    }

    async fn try_remove(&self, link: &Link, eviction: &Eviction) -> Result<Evicted, Failure> {
        let path = self.paths.line(&eviction.key);
        let line = self.look(link, &path).await?;
        let Some(at) = line.0.iter().position(|spot| spot.id == eviction.id) else {
            return Ok(Evicted::Gone);
        };
        let place = format!("{path}/{}", line.0[at].name);
        // A node's name is never given again while its line lasts, so what is found now is what will be deleted.
        let same = stat(link, &place).await?.and_then(|stat| seq_of(&stat)) == Some(eviction.seq);
        if !same {
            return Ok(Evicted::Gone);
        }
        let grave = self.paths.grave(eviction.id);
        let dig = Request::Create { path: &grave, data: &[], life: Life::Persistent, access: self.access };
        // A waiter believes in nothing, so there is nothing to wait for.
        if eviction.when == When::Gently && at < line::holders(line.modes()) {
            return match link.send(&dig).answer().await {
                Ok(body) => {
                    self.sweep(link, &body).await;
                    Ok(Evicted::Stopped)
                }
                Err(Failure::Code(code::NODE_EXISTS)) => Ok(Evicted::Stopped),
                Err(failure) => Err(failure),
            };
        }
        let delete = Request::Delete { path: &place };
        let answer = link.send(&Request::Multi(&[dig, delete])).answer().await?;
        match read_multi(&answer).ok_or(Failure::Garbled)? {
            0 => Ok(Evicted::Freed),
            code::NO_NODE => Ok(Evicted::Gone),
            // It was stopped before.
            code::NODE_EXISTS => match link.send(&delete).answer().await {
                Ok(_) => Ok(Evicted::Freed),
                Err(Failure::Code(code::NO_NODE)) => Ok(Evicted::Gone),
                Err(failure) => Err(failure),
            },
            other => Err(Failure::Code(other)),
        }
    }

    /// Clears old evictions away. What fails is left for the next time.
    async fn sweep(&self, link: &Link, new: &[u8]) {
        let Some((_, new)) = read_created(new) else { return };
        self.clock_was(new.created_at, BootClock.now());
        let children = link.send(&Request::Children { path: &self.paths.graves, watch: false });
        let Ok(body) = children.answer().await else { return };
        for name in read_children(&body).unwrap_or_default().iter().take(MOST_SWEPT) {
            let path = format!("{}/{name}", self.paths.graves);
            if let Ok(Some(old)) = stat(link, &path).await
                && old.created_at + OLD_MS < new.created_at
            {
                drop(link.send(&Request::Delete { path: &path }));
            }
        }
    }
}
