use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure::{Quorum, QuorumSettings};
use tenure_core::{BootClock, Clock, Engine, Result, Ttl};
use tenure_local::Memory;

use super::Found;
use crate::{Abilities, Lab, Site, Time, TokioClock};

/// Five memory engines: what a quorum adds to its members, without any server.
pub(super) fn site() -> Found {
    Found::Ready(Site {
        name: "quorum",
        guarantees: Quorum::guarantees_over(&Memory::guarantees()),
        abilities: Abilities { virtual_time: true, ..Abilities::default() },
        grace: Duration::ZERO,
        build: Box::new(|time| {
            Box::pin(async move {
                let clock: Arc<dyn Clock> = match time {
                    Time::Virtual => Arc::new(TokioClock::start()),
                    Time::Real => Arc::new(BootClock),
                };
                let stores = std::array::from_fn(|_| Memory::new(clock.clone()));
                Ok(Arc::new(QuorumLab { stores, clock }) as Arc<dyn Lab>)
            })
        }),
    })
}

#[derive(Debug)]
struct QuorumLab {
    stores: [Arc<Memory>; 5],
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Lab for QuorumLab {
    async fn open(&self) -> Result<Arc<dyn Engine>> {
        let members = self.stores.iter().zip('a'..);
        let members = members.map(|(store, name)| (name.to_string(), store.another() as Arc<dyn Engine>));
        let mut settings = QuorumSettings::default();
        settings.max_ttl = Ttl::MAX;
        settings.clock = self.clock.clone();
        Ok(Quorum::new(members.collect(), settings)?)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}
