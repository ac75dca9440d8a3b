use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure_core::{
    Clock, Crash, Engine, Failover, Fences, Floors, Grade, Guarantees, Modes, Order, Reach, Result, Ttl, Wake,
};

use super::{
    Lie,
    engine::{Liar, Store},
};
use crate::{Abilities, Lab, Site, TokioClock};

/// The site of an engine that tells this lie, or none. `modes` and `crash` are what it declares.
#[must_use]
pub fn site(lie: Option<Lie>, modes: Modes, crash: Crash) -> Site {
    let guarantees = Guarantees {
        engine: "liar",
        grade: Grade::Advisory,
        reach: Reach::Process,
        modes,
        order: Order::Fifo,
        crash,
        wake: Wake::Push,
        fences: Fences::ClockBound,
        floors: Floors::Kept,
        failover: Failover::None,
        min_ttl: Ttl::MIN,
    };
    let declared = guarantees.clone();
    Site {
        name: "liar",
        guarantees,
        abilities: Abilities { virtual_time: true, skew: true, ..Abilities::default() },
        grace: Duration::ZERO,
        build: Box::new(move |_| {
            let guarantees = declared.clone();
            Box::pin(async move {
                let clock: Arc<dyn Clock> = Arc::new(TokioClock::start());
                let store = Store::new(lie, guarantees, clock.clone());
                Ok(Arc::new(LiarLab { store, clock }) as Arc<dyn Lab>)
            })
        }),
    }
}

#[derive(Debug)]
struct LiarLab {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Lab for LiarLab {
    async fn open(&self) -> Result<Arc<dyn Engine>> {
        self.open_ahead(Duration::ZERO).await
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn open_ahead(&self, by: Duration) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Liar::new(self.store.clone(), by)))
    }
}
