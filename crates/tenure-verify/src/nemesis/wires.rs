//! What is done to the connections of a worker, by the proxy before its engine.

use std::time::Duration;

use tenure_testkit::proxy::{Flow, Proxy, Side, Way};
use tokio::time::{Instant, sleep};

use super::{FRESH, Nemesis, Others};
use crate::{clock::now, crew::Stage, faults::FaultKind, history::KeyId};

impl Nemesis {
    pub(super) async fn wire(&self, key: KeyId, rng: &mut fastrand::Rng) {
        let ttl = self.crew.ttl();
        let aim = match self.fault {
            FaultKind::Delay => self.anybody(key, rng),
            FaultKind::Reply => self.aim(key, Stage::Asks).await,
            _ => self.aim(key, Stage::Holds).await,
        };
        let Some(aim) = aim else { return sleep(FRESH).await };
        let process = aim.doing.process;
        let (from, before) = (now(), self.counts(process));
        let strike = self.begin(from, Some(&aim.doing));
        match self.fault {
            FaultKind::Cut => self.on_wire(process, |proxy| proxy.flow_both(Flow::Stall)).await,
            FaultKind::CutUp => self.on_wire(process, |proxy| proxy.flow(Way::Up, Flow::Swallow)).await,
            FaultKind::CutDown => self.on_wire(process, |proxy| proxy.flow(Way::Down, Flow::Swallow)).await,
            FaultKind::Reset => self.on_wire(process, Proxy::reset).await,
            FaultKind::HalfOpen => self.on_wire(process, |proxy| proxy.half_open(Side::Server)).await,
            FaultKind::Delay => {
                let late = ttl.mul_f64(0.7);
                self.on_wire(process, move |proxy| proxy.delay(Way::Down, late)).await;
            }
            _ => self.on_wire(process, |proxy| proxy.flow(Way::Down, Flow::Hold)).await,
        }
        let mut hit = None;
        match self.fault {
            FaultKind::Reset => {
                hit = (before.2 > 0).then(|| format!("{} connections were reset", before.2));
            }
            FaultKind::Delay => {
                sleep(ttl * 3).await;
                let passed = self.counts(process).0 - before.0;
                hit = (passed > 0).then(|| format!("{passed} bytes of answers came late"));
            }
            FaultKind::Reply => {
                let until = Instant::now() + ttl;
                while self.counts(process).1 == 0 && Instant::now() < until {
                    sleep(Duration::from_millis(5)).await;
                }
                let bytes = self.counts(process).1;
                sleep(ttl * 6 / 5).await;
                hit = (bytes > 0)
                    .then(|| format!("{bytes} bytes of answers were held back for {:?}", ttl * 6 / 5));
            }
            _ => {
                let mut others = Others::since(&aim.doing, from, true);
                self.crew.wait(ttl * 3, |state| others.came(state).then_some(())).await;
            }
        }
        self.on_wire(process, Proxy::heal).await;
        if self.fault == FaultKind::HalfOpen {
            self.on_wire(process, Proxy::reset).await;
        }
        self.crew.finish(strike, hit);
    }

    /// Bytes of answers that passed, that are held back, and open connections.
    fn counts(&self, process: usize) -> (u64, u64, u64) {
        let wire = self.crew.state().processes[process].wire.clone();
        let counts = wire.iter().flat_map(|wire| &wire.proxies).map(Proxy::counts);
        counts.fold((0, 0, 0), |sum, counts| {
            (sum.0 + counts.down.forwarded, sum.1 + counts.down.held, sum.2 + counts.open)
        })
    }

    async fn on_wire(&self, process: usize, act: impl Fn(&Proxy) -> tenure_testkit::Result + Send + 'static) {
        let Some(wire) = self.crew.state().processes[process].wire.clone() else { return };
        // It waits for the proxies' own threads. One that does not follow leaves no proof.
        let _ = tokio::task::spawn_blocking(move || wire.proxies.iter().try_for_each(act)).await;
    }
}
