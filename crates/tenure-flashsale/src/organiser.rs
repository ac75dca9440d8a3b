//! Runs the lanes: starts the hosts, strikes, listens, and has the receipts counted.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure::{Client, Eviction, Filter, Standing, When};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    Watch,
    audit::{LaneResult, Seen, Terms, audit},
    cache, crowd, cut,
    cut::Forwarder,
    hosts::{Heard, Host},
    plan::{Lane, Options, shown},
    store,
    strategy::{Fault, Point},
    trouble::{Result, Trouble},
    wire::{Answer, News, Says, Spec, Then},
};

/// The longest that a lane may take, whatever happens.
const LANE_LIMIT: Duration = Duration::from_secs(180);
/// How long hosts may take to connect.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How many come first by HTTP to a host that is to die.
const VANGUARD: usize = 8;
/// How often the organiser looks around.
const LOOK: Duration = Duration::from_millis(20);
/// How many the semaphore lets in.
const PERMITS: u32 = 8;
/// How often the price changes.
const PRICE_CHANGES: u32 = 10;
/// How far ahead the wrong clock is, in leases.
const SKEW: u32 = 10;

/// The sale: where everything is.
#[derive(Debug)]
pub(crate) struct Sale<'a> {
    options: &'a Options,
    id: String,
    folder: TempDir,
    locks_url: String,
    locks: Client,
}

impl<'a> Sale<'a> {
    pub(crate) async fn open(options: &'a Options) -> Result<Self> {
        options.check()?;
        let folder =
            TempDir::with_prefix("tenure-sale-").map_err(|err| Trouble::internal("a folder", err))?;
        let locks_url = match &options.on {
            Some(url) => url.clone(),
            None => format!("file:{}", folder.path().join("locks").display()),
        };
        let locks = tenure::connect(&locks_url).await?;
        if locks.guarantees().reach == tenure::Reach::Process {
            let why = "the hosts of a sale are processes, which `memory:` cannot keep apart; use `file:`";
            return Err(Trouble::Usage(why.into()));
        }
        let id = format!("{:016x}", fastrand::u64(..));
        Ok(Self { options, id, folder, locks_url, locks })
    }

    /// The engine of the locks and the store, for people.
    pub(crate) fn places(&self) -> (String, String) {
        let engine = self.options.on.as_deref().map_or("file: (a folder of its own)".into(), shown);
        let store = self.options.store.as_deref().map_or("sqlite: (a file of its own)".into(), shown);
        (engine, store)
    }

    /// Runs every lane, one after the other.
    pub(crate) async fn run(&self, watch: &mut dyn Watch) -> Result<Vec<LaneResult>> {
        let mut results = Vec::new();
        for &strategy in &self.options.strategies {
            watch.lane_starts(strategy);
            let result = match Lane::new(self.options, strategy, Some(&self.locks)) {
                Ok(lane) => self.lane(&lane, watch).await?,
                Err(why) => LaneResult::skipped(strategy, why),
            };
            watch.lane_ends(&result);
            results.push(result);
        }
        Ok(results)
    }

    async fn lane(&self, lane: &Lane, watch: &mut dyn Watch) -> Result<LaneResult> {
        let sale = format!("{}-{}", self.id, lane.strategy);
        let in_folder =
            |name: &str| format!("sqlite:{}", self.folder.path().join(format!("{name}-{sale}")).display());
        let store_url = self.options.store.clone().unwrap_or_else(|| in_folder("store"));
        let cache_url = match &self.options.on {
            Some(url) if url.starts_with("redis:") => url.split('?').next().unwrap_or(url).to_owned(),
            _ => in_folder("cache"),
        };
        let store = store::connect(&store_url, &sale).await?;
        store.open(self.options.stock.into()).await?;
        let cache =
            if lane.strategy.caches() { Some(cache::connect(&cache_url, &sale).await?) } else { None };
        if let Some(cache) = &cache {
            cache.put("stock", self.options.stock.into()).await?;
        }
        let mut running = Running::start(self, lane, &sale, &store_url, &cache_url).await?;
        let ran = running.watch(watch).await;
        let seen = running.end().await;
        let ledger = store.ledger().await;
        // What is left behind belongs to nobody; a store that is gone has nothing to clear.
        let _ = store.clear().await;
        if let Some(cache) = &cache {
            let _ = cache.clear().await;
        }
        ran?;
        let faults: Vec<Fault> = lane.faults.iter().map(|(fault, _)| *fault).collect();
        let terms = Terms {
            strategy: lane.strategy,
            engine: lane.strategy.locks().then(|| self.locks.guarantees().engine.to_owned()),
            stock: self.options.stock.into(),
            permits: PERMITS,
            faults: &faults,
        };
        Ok(audit(&terms, seen, &ledger?))
    }
}

/// A lane while it runs.
#[derive(Debug)]
struct Running<'a> {
    sale: &'a Sale<'a>,
    lane: &'a Lane,
    key_prefix: String,
    hosts: Vec<Host>,
    heard: mpsc::Receiver<(usize, Heard)>,
    answers: Option<mpsc::Receiver<News>>,
    stopped: Vec<Stopped>,
    /// When one of them last went on.
    last_back: Instant,
    forwarder: Option<Cut>,
    start: Instant,
    last_order: Instant,
    orders: i64,
    seen: Seen,
}

/// A host that a trap has stopped.
#[derive(Debug)]
struct Stopped {
    host: usize,
    since: Instant,
    orders_then: i64,
    broken: bool,
}

/// What can cut one host off.
#[derive(Debug)]
struct Cut {
    forwarder: Forwarder,
    host: usize,
    since: Option<Instant>,
    over: bool,
}

impl<'a> Running<'a> {
    async fn start(sale: &'a Sale<'a>, lane: &'a Lane, id: &str, store: &str, cache: &str) -> Result<Self> {
        let options = sale.options;
        let (mut forwarder, mut cut_url) = (None, None);
        if lane.has(Fault::Cut) {
            let (through, url) = cut::before(&sale.locks_url).await?;
            // Not one that is stopped, nor the one that dies, if there are enough.
            let host = (options.hosts / 2).min(options.hosts - 1) as usize;
            forwarder = Some(Cut { forwarder: through, host, since: None, over: false });
            cut_url = Some((host, url));
        }
        let (tell, heard) = mpsc::channel(1_024);
        let mut hosts = Vec::new();
        for host in 0..options.hosts {
            let url = match &cut_url {
                Some((cut, url)) if *cut == host as usize => url,
                _ => &sale.locks_url,
            };
            let spec = Spec {
                sale: id.to_owned(),
                strategy: lane.strategy,
                host,
                store: store.to_owned(),
                cache: cache.to_owned(),
                locks: lane.strategy.locks().then(|| url.clone()),
                lease: lane.lease,
                patience: lane.patience(),
                think: lane.think(options),
                buyers: if options.http { Vec::new() } else { lane.requests[host as usize].clone() },
                rate: options.rate.map(|rate| rate / f64::from(options.hosts)),
                http: options.http,
                seed: options.seed ^ u64::from(host) << 32,
                skew: if lane.has(Fault::Skew) && host == 0 { lane.lease * SKEW } else { Duration::ZERO },
                traps: lane.traps(host, options.hosts),
                permits: PERMITS,
                price_changes: if lane.strategy == crate::Strategy::Price && host == 0 {
                    PRICE_CHANGES
                } else {
                    0
                },
            };
            hosts.push(Host::start(&options.program, &spec, tell.clone()).await?);
        }
        let now = Instant::now();
        let mut running = Self {
            sale,
            lane,
            key_prefix: format!("tenure-sale/{id}/"),
            hosts,
            heard,
            answers: None,
            stopped: Vec::new(),
            last_back: now,
            forwarder,
            start: now,
            last_order: now,
            orders: 0,
            seen: Seen::default(),
        };
        let ready = tokio::time::timeout(READY_LIMIT, running.all_ready());
        ready.await.map_err(|_| Trouble::Unavailable("the hosts did not get ready in 30s".into()))??;
        running.go().await?;
        Ok(running)
    }

    async fn all_ready(&mut self) -> Result<()> {
        let mut waiting = self.hosts.len();
        while waiting > 0 {
            match self.heard.recv().await {
                Some((host, Heard::Says(Says::Ready { port }))) => {
                    self.hosts[host].port = port;
                    waiting -= 1;
                }
                Some((_, Heard::Says(Says::Failed { why }))) => return Err(Trouble::Unavailable(why)),
                _ => return Err(Trouble::Internal("a host ended before the sale began".into())),
            }
        }
        Ok(())
    }

    /// Everybody at once; but a host that is to die while it sells comes first, or all may be sold before it has begun.
    async fn go(&mut self) -> Result<()> {
        let now = Instant::now();
        (self.start, self.last_order) = (now, now);
        let (mut crowd, mut requests) = (self.hosts.len(), self.lane.requests.clone());
        let (tell, answers) = mpsc::channel(1_024);
        self.answers = self.sale.options.http.then_some(answers);
        if self.lane.has(Fault::Kill) {
            crowd -= 1; // the last is the one that is killed
            self.hosts[crowd].go().await?;
            let mut first = vec![Vec::new(); self.hosts.len()];
            let early = VANGUARD.min(requests[crowd].len());
            first[crowd] = requests[crowd].drain(..early).collect();
            self.send(&tell, &first);
            // One that does not come so far is struck in the crowd, or the audit says that it was not.
            let _ = tokio::time::timeout(READY_LIMIT, self.until_ended(crowd)).await;
        }
        for host in &mut self.hosts[..crowd] {
            host.go().await?;
        }
        self.send(&tell, &requests);
        Ok(())
    }

    /// Sends these buyers, if they come by HTTP.
    fn send(&self, tell: &mpsc::Sender<News>, requests: &[Vec<u32>]) {
        if self.sale.options.http {
            let at = |host: &Host| SocketAddr::from((Ipv4Addr::LOCALHOST, host.port.unwrap_or_default()));
            let hosts: Arc<[SocketAddr]> = self.hosts.iter().map(at).collect();
            crowd::send(tell.clone(), hosts, requests, self.sale.options.rate, self.lane.patience());
        }
    }

    async fn until_ended(&mut self, host: usize) {
        while !self.hosts[host].ended {
            let Some((from, heard)) = self.heard.recv().await else { return };
            self.hear(from, heard);
        }
    }

    async fn watch(&mut self, watch: &mut dyn Watch) -> Result<()> {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut interrupted = std::pin::pin!(crate::interrupted());
        loop {
            tokio::select! {
                Some((host, heard)) = self.heard.recv() => self.hear(host, heard),
                news = next(&mut self.answers) => match news {
                    Some(news) => self.note(news),
                    // The last of the crowd has its answer.
                    None => return Ok(()),
                },
                _ = look.tick() => {
                    self.look_around().await;
                    watch.tick(&self.tick());
                }
                signal = &mut interrupted => return Err(Trouble::Interrupted(signal)),
            }
            if self.hosts.iter().all(|host| host.ended) || self.is_stuck() {
                return Ok(());
            }
        }
    }

    fn hear(&mut self, host: usize, heard: Heard) {
        match heard {
            Heard::Says(Says::News(mut news)) => {
                if self.sale.options.http {
                    // Who came by HTTP was answered by HTTP.
                    news.answers.clear();
                }
                self.note(news);
            }
            Heard::Says(Says::Struck { then: Then::Stop, point }) => {
                self.seen.struck.push((Fault::Stall, format!("host {host} was stopped {}", words(point))));
                let (since, orders_then) = (Instant::now(), self.orders);
                self.stopped.push(Stopped { host, since, orders_then, broken: false });
            }
            Heard::Says(Says::Struck { then: Then::Die, point }) => {
                self.seen.struck.push((Fault::Kill, format!("host {host} was killed {}", words(point))));
            }
            // Once it is ready, a host has nothing left to fail at but the buyers, who are answered.
            Heard::Says(Says::Failed { .. }) => self.seen.failed += 1,
            Heard::Says(Says::Done | Says::Ready { .. }) => {}
            Heard::Ended => self.hosts[host].ended = true,
        }
    }

    fn note(&mut self, news: News) {
        for (answer, buyer, micros) in news.answers {
            self.seen.micros.push(micros);
            match answer {
                Answer::Ordered => {
                    self.seen.acknowledged.insert(buyer);
                    self.orders += 1;
                    self.last_order = Instant::now();
                }
                Answer::Busy => self.seen.busy += 1,
                Answer::Failed => self.seen.failed += 1,
                Answer::SoldOut | Answer::AlreadyBought => {}
            }
        }
        self.seen.refused += u64::from(news.refused);
        self.seen.visits.extend(news.visits);
    }

    /// Lets stopped hosts go on when others have sold meanwhile, and cuts and mends.
    async fn look_around(&mut self) {
        let (lease, now) = (self.lane.lease, Instant::now());
        for stopped in &mut self.stopped {
            let host = &self.hosts[stopped.host];
            let over = now - stopped.since;
            if self.lane.must_break && !stopped.broken && over > lease {
                break_locks(&self.sale.locks, &self.key_prefix, host.pid()).await;
                stopped.broken = true;
            }
            // The worst moment to come back is when somebody else has sold what one had in mind.
            let others_sold = self.orders > stopped.orders_then + 2;
            // One after the other: two that come back at once do their harm to the same holder.
            let alone = self.last_back.elapsed() > lease / 4;
            if alone && (over > lease * 3 / 2 && others_sold || over > lease * 4) {
                host.go_on();
                self.last_back = now;
                stopped.host = usize::MAX;
            }
        }
        self.stopped.retain(|stopped| stopped.host != usize::MAX);
        let noted = self.seen.struck.iter().any(|(fault, _)| *fault == Fault::Skew);
        if self.lane.has(Fault::Skew) && !noted {
            let ahead = self.lane.lease * SKEW;
            self.seen.struck.push((Fault::Skew, format!("the clock of host 0 was {ahead:?} ahead")));
        }
        if let Some(cut) = &mut self.forwarder
            && !cut.over
        {
            match cut.since {
                None if self.orders >= 3 => {
                    cut.forwarder.cut(true);
                    cut.since = Some(now);
                    let what = format!("host {} was cut off from the engine", cut.host);
                    self.seen.struck.push((Fault::Cut, what));
                }
                Some(since) if now - since > lease * 3 / 2 => {
                    cut.forwarder.cut(false);
                    cut.over = true;
                }
                _ => {}
            }
        }
        let at = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let left = i64::from(self.sale.options.stock) - self.orders;
        if self.seen.points.last().is_none_or(|&(then, was)| was != left || at - then >= 250) {
            self.seen.points.push((at, left));
        }
    }

    /// Nobody has sold for so long that nobody will.
    fn is_stuck(&mut self) -> bool {
        let quiet = self.last_order.elapsed();
        let wanting = self.orders < i64::from(self.sale.options.stock);
        let hit = !self.stopped.is_empty()
            || self.forwarder.as_ref().is_some_and(|cut| cut.since.is_some() && !cut.over);
        let slow = self.sale.options.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(2.0 / rate));
        self.seen.stuck =
            self.start.elapsed() > LANE_LIMIT || wanting && !hit && quiet > self.lane.stuck_after() + slow;
        self.seen.stuck
    }

    fn tick(&self) -> Tick<'_> {
        Tick {
            strategy: self.lane.strategy,
            stock: self.sale.options.stock.into(),
            left: i64::from(self.sale.options.stock) - self.orders,
            orders: u64::try_from(self.orders).unwrap_or_default(),
            refused: self.seen.refused,
            millis: u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX),
            points: &self.seen.points,
        }
    }

    /// Ends what is left of the hosts, and says what was seen.
    async fn end(mut self) -> Seen {
        // Until the last order: what comes after it is waiting for the end.
        self.seen.seconds = (self.last_order - self.start).as_secs_f64();
        let at = u64::try_from((self.last_order - self.start).as_millis()).unwrap_or(u64::MAX);
        self.seen.points.push((
            at.max(self.seen.points.last().map_or(0, |point| point.0)),
            i64::from(self.sale.options.stock) - self.orders,
        ));
        let lived = |host: usize| {
            !self
                .seen
                .struck
                .iter()
                .any(|(fault, what)| *fault == Fault::Kill && what.starts_with(&format!("host {host} ")))
        };
        let requests = self.lane.requests.iter().enumerate();
        let demand: HashSet<u32> = requests
            .filter(|(host, _)| self.sale.options.http || lived(*host))
            .flat_map(|(_, buyers)| buyers.iter().copied())
            .collect();
        self.seen.demand = demand.len() as u64;
        for host in &mut self.hosts {
            host.kill().await;
        }
        self.seen
    }
}

/// Breaks what a stopped process holds, as an operator would: it has no lease that could end.
async fn break_locks(locks: &Client, prefix: &str, pid: u32) {
    let Ok(places) = locks.line(&Filter::Prefix(prefix.to_owned(), 10_000)).await else { return };
    let its = |place: &&tenure::Place| {
        place.standing == Standing::Holds && place.note.who().ends_with(&format!(":{pid}"))
    };
    for place in places.iter().filter(its) {
        let eviction = Eviction { key: place.key.clone(), id: place.id, seq: place.seq, when: When::Now };
        // A hold that has ended by itself needs no breaking.
        let _ = locks.evict(&eviction).await;
    }
}

/// The next of these, or never if there are none.
async fn next(answers: &mut Option<mpsc::Receiver<News>>) -> Option<News> {
    match answers {
        Some(answers) => answers.recv().await,
        None => std::future::pending().await,
    }
}

fn words(point: Point) -> &'static str {
    match point {
        Point::BeforeWrite => "after it had read the stock",
        Point::BeforeExpire => "between SETNX and EXPIRE",
        Point::BeforeDelete => "between asking and deleting",
    }
}

/// Sends a signal to a host.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// How a lane stands.
#[derive(Debug)]
pub struct Tick<'a> {
    /// The way to sell.
    pub strategy: crate::Strategy,
    /// What was there.
    pub stock: u64,
    /// What is left, by the answers that buyers got.
    pub left: i64,
    /// How many have ordered.
    pub orders: u64,
    /// Late writes that the store refused.
    pub refused: u64,
    /// Since the start of the lane.
    pub millis: u64,
    /// What was left when.
    pub points: &'a [(u64, i64)],
}
