//! One host of the shop: what it has at hand to serve a buyer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tenure::{Client, ErrorKind, Guard, Key};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    cache::Cache,
    host::Reporter,
    store::{Receipt, Store},
    strategy::Point,
    trouble::{Result, Trouble},
    ways,
    wire::{Answer, Spec, Trap},
};

/// The shortest and the longest nap of those who ask for a lock again and again.
const NAP: std::ops::Range<u64> = 2_000..12_000;
/// How long to wait before a store or an engine that did not answer is asked again.
const BREATH: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) spec: Spec,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cache: Option<Arc<dyn Cache>>,
    pub(crate) locks: Option<Client>,
    /// The mutex of the lane that has only this.
    pub(crate) in_process: tokio::sync::Mutex<()>,
    pub(crate) reporter: Reporter,
    passes: Mutex<HashMap<&'static str, u32>>,
}

impl Shop {
    pub(crate) fn new(
        spec: Spec,
        store: Arc<dyn Store>,
        cache: Option<Arc<dyn Cache>>,
        locks: Option<Client>,
        reporter: Reporter,
    ) -> Self {
        let (in_process, passes) = (tokio::sync::Mutex::new(()), Mutex::default());
        Self { spec, store, cache, locks, in_process, reporter, passes }
    }

    /// Serves one buyer, and tries again what can be tried again, as long as the buyer is patient.
    pub(crate) async fn serve(&self, buyer: u32) -> Answer {
        let until = Instant::now() + self.spec.patience;
        loop {
            let served = match self.window().await {
                Ok(true) => ways::order(self, buyer).await,
                Ok(false) => return Answer::SoldOut,
                Err(trouble) => Err(trouble),
            };
            match served {
                Ok(answer) => return answer,
                Err(Trouble::Refused) => self.reporter.refused(),
                Err(Trouble::Again(_)) => {}
                Err(Trouble::Unavailable(_)) => sleep(BREATH).await,
                Err(_) => return Answer::Failed,
            }
            if Instant::now() >= until {
                return Answer::Busy;
            }
        }
    }

    /// Whether the window shows that there is anything left. Once it does not, nobody has to queue.
    async fn window(&self) -> Result<bool> {
        Ok(self.store.look(None).await?.left > 0)
    }

    /// Look, think, write back: what every lock of the sale is meant to protect.
    pub(crate) async fn read_then_write(&self, buyer: u32) -> Result<Answer> {
        let shelf = self.store.look(Some(buyer)).await?;
        if let Some(answer) = shelf.answer() {
            return Ok(answer);
        }
        self.pay().await;
        self.pass(Point::BeforeWrite);
        self.store.put(shelf.left - 1, &self.receipt(buyer)).await?;
        Ok(Answer::Ordered)
    }

    /// The buyer pays, which takes its time.
    pub(crate) async fn pay(&self) {
        let think = u64::try_from(self.spec.think.as_micros()).unwrap_or(u64::MAX);
        if think > 0 {
            sleep(Duration::from_micros(fastrand::u64(think / 2..=think + think / 2))).await;
        }
    }

    pub(crate) fn receipt(&self, buyer: u32) -> Receipt {
        Receipt { buyer, host: self.spec.host, price: 0, tax: 0 }
    }

    /// The lock of `tenure` on the item, if it is to be had in time.
    pub(crate) async fn lock(&self, what: &str) -> Result<Option<Guard>> {
        let mutex = self.client()?.mutex(self.key(what)?)?.ttl(self.spec.lease);
        in_time(mutex.acquire_within(self.spec.patience).await)
    }

    pub(crate) fn client(&self) -> Result<&Client> {
        self.locks.as_ref().ok_or_else(|| Trouble::Internal("this lane has no engine".into()))
    }

    pub(crate) fn cache(&self) -> Result<&dyn Cache> {
        self.cache.as_deref().ok_or_else(|| Trouble::Internal("this lane has no cache".into()))
    }

    pub(crate) fn key(&self, what: &str) -> Result<Key> {
        Ok(Key::new(format!("tenure-sale/{}/{what}", self.spec.sale))?)
    }

    /// Who holds one of the homemade locks: another word for every try.
    pub(crate) fn my_name(&self) -> String {
        format!("{}-{:016x}", self.spec.host, fastrand::u64(..))
    }

    /// Asks again and again, with naps, for one of the homemade locks. Whether it was to be had in time.
    pub(crate) async fn ask_until(&self, mut ask: impl AsyncFnMut() -> Result<bool>) -> Result<bool> {
        let until = Instant::now() + self.spec.patience;
        loop {
            if ask().await? {
                return Ok(true);
            }
            let nap = sleep(Duration::from_micros(fastrand::u64(NAP)));
            // Who would wait for nothing goes home.
            if timeout_at(until, nap).await.is_err() || !self.window().await? {
                return Ok(false);
            }
        }
    }

    /// Passes a point where a fault may strike this process. It does so to all of the process at once, and so it is not
    /// `async`: nothing else of it runs in between.
    pub(crate) fn pass(&self, point: Point) {
        let name = match point {
            Point::BeforeWrite => "write",
            Point::BeforeExpire => "expire",
            Point::BeforeDelete => "delete",
        };
        let nth = {
            let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
            let count = passes.entry(name).or_default();
            *count += 1;
            *count
        };
        let trap = |trap: &&Trap| trap.point == point && trap.nth == nth;
        if let Some(trap) = self.spec.traps.iter().find(trap) {
            self.reporter.strike(trap);
        }
    }
}

/// A guard, or nothing if waiting took too long.
pub(crate) fn in_time<G>(got: tenure::Result<G>) -> Result<Option<G>> {
    match got {
        Ok(guard) => Ok(Some(guard)),
        Err(err) if err.kind() == ErrorKind::Timeout => Ok(None),
        Err(err) => Err(err.into()),
    }
}
