use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure_core::{BootClock, Clock, Engine, Result};
use tenure_local::Memory;

use super::Found;
use crate::{Abilities, Lab, Site, Time, TokioClock};

pub(super) fn site() -> Found {
    Found::Ready(Site {
        name: "memory",
        guarantees: Memory::guarantees(),
        abilities: Abilities { virtual_time: true, ..Abilities::default() },
        grace: Duration::ZERO,
        build: Box::new(|time| {
            Box::pin(async move {
                let clock: Arc<dyn Clock> = match time {
                    Time::Virtual => Arc::new(TokioClock::start()),
                    Time::Real => Arc::new(BootClock),
                };
                Ok(Arc::new(MemoryLab { store: Memory::new(clock.clone()), clock }) as Arc<dyn Lab>)
            })
        }),
    })
}

#[derive(Debug)]
struct MemoryLab {
    store: Arc<Memory>,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Lab for MemoryLab {
    async fn open(&self) -> Result<Arc<dyn Engine>> {
        Ok(self.store.another())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}
