//! A host: a process of its own that serves buyers, and on which faults strike.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use futures_util::future::join_all;
use rustix::{
    process::{Signal, getpid, kill_process},
    time::{ClockId, clock_gettime},
};
use tokio::{
    runtime::Builder,
    sync::{mpsc, oneshot},
    time::{Instant, interval, sleep_until},
};

use crate::{
    cache, http,
    shop::Shop,
    store,
    trouble::{Result, Trouble},
    ways,
    wire::{Answer, News, Says, Spec, Then, Trap},
};

/// How many buyers a host serves at once. More wait in its queue.
pub(crate) const WORKERS: usize = 32;
/// How many may wait there.
const QUEUE: usize = 4_096;
/// How often a host tells what happened.
const TELL: Duration = Duration::from_millis(50);

/// Runs this process as a host: its orders come over stdin, its news go to stdout.
#[must_use]
pub fn main() -> ExitCode {
    let reporter = Reporter::default();
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => return reporter.failed(&Trouble::internal("cannot start", err)),
    };
    let code = match runtime.block_on(run(&reporter)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => reporter.failed(&trouble),
    };
    // What is still on its way belongs to nobody.
    runtime.shutdown_background();
    code
}

async fn run(reporter: &Reporter) -> Result<()> {
    let mut orders = orders();
    let gone = || Trouble::Internal("the organiser has gone".into());
    let spec: Spec = serde_json::from_str(&orders.recv().await.ok_or_else(gone)?)
        .map_err(|err| Trouble::internal("the organiser's words", err))?;
    let shop = Arc::new(open(spec, reporter.clone()).await?);
    let (queue, requests) = mpsc::channel(QUEUE);
    let port = if shop.spec.http { Some(http::serve(shop.clone(), queue.clone()).await?) } else { None };
    reporter.say(&Says::Ready { port });
    orders.recv().await.ok_or_else(gone)?;

    let tell = async {
        let mut tick = interval(TELL);
        loop {
            tick.tick().await;
            reporter.tell();
        }
    };
    let serve = async {
        // By HTTP there is no last buyer: then the organiser ends this process.
        let feed = async {
            feed(&shop, queue).await;
            if shop.spec.http {
                std::future::pending::<()>().await;
            }
        };
        let prices = async {
            if shop.spec.price_changes > 0 {
                // A price that cannot be changed now stays as it is.
                let _ = ways::change_prices(&shop).await;
            }
        };
        let requests = tokio::sync::Mutex::new(requests);
        tokio::join!(feed, prices, work(&shop, &requests));
    };
    tokio::select! {
        () = tell => {}
        () = serve => {}
    }
    reporter.tell();
    if let Some(locks) = &shop.locks {
        locks.close().await;
    }
    reporter.say(&Says::Done);
    Ok(())
}

async fn open(spec: Spec, reporter: Reporter) -> Result<Shop> {
    fastrand::seed(spec.seed);
    let store = store::connect(&spec.store, &spec.sale).await?;
    let cache = match spec.strategy.caches() {
        true => Some(cache::connect(&spec.cache, &spec.sale).await?),
        false => None,
    };
    let locks = match &spec.locks {
        Some(url) => Some(tenure::connect(url).await?),
        None => None,
    };
    Ok(Shop::new(spec, store, cache, locks, reporter))
}

/// The lines of stdin. When it ends, so does this process: nobody is left to tell.
fn orders() -> mpsc::UnboundedReceiver<String> {
    let (lines, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
        std::process::exit(1);
    });
    orders
}

/// One wish to buy.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) buyer: u32,
    pub(crate) came: Instant,
    /// Where the answer goes, besides the news.
    pub(crate) reply: Option<oneshot::Sender<Answer>>,
}

/// Lets the buyers of this host in, all at once or at a rate.
async fn feed(shop: &Shop, queue: mpsc::Sender<Request>) {
    let start = Instant::now();
    for (count, &buyer) in shop.spec.buyers.iter().enumerate() {
        if let Some(rate) = shop.spec.rate {
            sleep_until(start + Duration::from_secs_f64(count as f64 / rate)).await;
        }
        let request = Request { buyer, came: Instant::now(), reply: None };
        if queue.send(request).await.is_err() {
            return;
        }
    }
}

/// Serves until nobody can come any more.
async fn work(shop: &Shop, requests: &tokio::sync::Mutex<mpsc::Receiver<Request>>) {
    let worker = || async {
        loop {
            let next = requests.lock().await.recv().await;
            let Some(Request { buyer, came, reply }) = next else { return };
            let answer = shop.serve(buyer).await;
            shop.reporter.answered(answer, buyer, came.elapsed());
            if let Some(reply) = reply {
                let _ = reply.send(answer);
            }
        }
    };
    let mut workers = Vec::with_capacity(WORKERS);
    workers.resize_with(WORKERS, worker);
    join_all(workers).await;
}

/// Collects what happens, and says it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reporter {
    news: Arc<Mutex<News>>,
}

impl Reporter {
    fn with<T>(&self, change: impl FnOnce(&mut News) -> T) -> T {
        change(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answered(&self, answer: Answer, buyer: u32, after: Duration) {
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        self.with(|news| news.answers.push((answer, buyer, micros)));
    }

    pub(crate) fn refused(&self) {
        self.with(|news| news.refused += 1);
    }

    pub(crate) fn visit(&self, entered: u64, left: u64) {
        self.with(|news| news.visits.push((entered, left)));
    }

    fn tell(&self) {
        let news = self.with(std::mem::take);
        if !news.answers.is_empty() || !news.visits.is_empty() || news.refused > 0 {
            self.say(&Says::News(news));
        }
    }

    /// Stops or ends this process, as a trap wants it.
    pub(crate) fn strike(&self, trap: &Trap) {
        self.tell();
        self.say(&Says::Struck { then: trap.then, point: trap.point });
        let signal = match trap.then {
            Then::Stop => Signal::STOP,
            Then::Die => Signal::KILL,
        };
        let _ = kill_process(getpid(), signal);
    }

    fn say(&self, says: &Says) {
        let mut out = io::stdout().lock();
        let line = serde_json::to_string(says).unwrap_or_default() + "\n";
        // An organiser that went away hears nothing more, and stdin ends us.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }

    fn failed(&self, trouble: &Trouble) -> ExitCode {
        self.say(&Says::Failed { why: trouble.to_string() });
        ExitCode::FAILURE
    }
}

/// Microseconds by the clock that all processes of a machine share and nobody sets.
pub(crate) fn boot_micros() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or_default() * 1_000_000 + nanos.unwrap_or_default() / 1_000
}
