//! Where the time of a lock goes: what each layer costs beside a `PING`, and what a quorum costs beside one server, by where
//! the program runs them: in the task that a runtime of several threads was started with, which has a thread of its own,
//! in one that was spawned, and on a runtime of one thread.

use std::time::{Duration, Instant};

use tenure::Mutex;

use crate::{
    Yardstick,
    common::{cpu_time, median, runtime},
    verbs,
};

const OPS: u32 = 50;
const BLOCKS: usize = 60;

/// How often the threads of this process have gone to sleep.
fn naps() -> u64 {
    let naps = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    std::fs::read_dir("/proc/self/task").unwrap().filter_map(naps).sum()
}

/// What operations of one kind took.
#[derive(Default)]
struct Bill {
    times: Vec<Duration>,
    cpu: Duration,
    naps: u64,
}

impl Bill {
    async fn add(&mut self, bed: &Bed, what: What) {
        let (cpu, before, began) = (cpu_time(), naps(), Instant::now());
        for _ in 0..OPS {
            bed.once(what).await;
        }
        self.times.push(began.elapsed() / OPS);
        self.cpu += cpu_time() - cpu;
        self.naps += naps() - before;
    }

    fn tell(&self, place: &str, what: &str, compared: Duration) {
        let ops = (OPS as usize * self.times.len()) as f64;
        let time = median(self.times.clone());
        println!(
            "{:<70} {:>6.1} µs {:>9} {:>7.2}  {:.1} µs of a processor, {:.1} naps",
            format!("redis, {place}: {what}"),
            time.as_secs_f64() * 1e6,
            "",
            time.as_secs_f64() / compared.as_secs_f64(),
            self.cpu.as_secs_f64() * 1e6 / ops,
            self.naps as f64 / ops,
        );
    }
}

pub(crate) fn measure() {
    let five = tenure_testkit::redis::five(&Default::default()).unwrap();
    let hosts: Vec<_> = five.iter().map(|server| server.addr().to_string()).collect();
    let (url, hosts) = (five[0].url(), hosts.join(","));
    runtime().block_on(all("started with", &url, &hosts));
    let (there, others) = (url.clone(), hosts.clone());
    let runtime = runtime();
    runtime.block_on(runtime.spawn(async move { all("spawned", &there, &others).await })).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(all("one thread", &url, &hosts));
}

async fn all(place: &str, url: &str, hosts: &str) {
    let (client, yardstick) = crate::open(url).await;
    // New servers that keep nothing count once every lease of one that restarted would have ended.
    let quorum = tenure::connect(&format!("quorum+redis://{hosts}?ttl=1s&max_ttl=1s&max_skew=0s")).await;
    let (one, five) = (client.mutex("k").unwrap(), quorum.unwrap().mutex("q").unwrap());
    while five.try_acquire().await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let bed = Bed { yardstick, one, five };
    let mut bills = [What::Ping, What::Verbs, What::One, What::Five].map(|what| (what, Bill::default()));
    for _ in 0..BLOCKS {
        for (what, bill) in &mut bills {
            bill.add(&bed, *what).await;
        }
    }
    let [(_, pings), (_, verbs), (_, one), (_, five)] = bills;
    let (ping, library) = (median(pings.times.clone()), median(one.times.clone()));
    pings.tell(place, "PING", ping);
    verbs.tell(place, "acquire + release by the engine  /  PING", ping);
    one.tell(place, "acquire + release by the library  /  PING", ping);
    five.tell(place, "the same by a quorum of five  /  by the library", library);
}

struct Bed {
    yardstick: Yardstick,
    one: Mutex,
    five: Mutex,
}

#[derive(Clone, Copy)]
enum What {
    Ping,
    Verbs,
    One,
    Five,
}

impl Bed {
    async fn once(&self, what: What) {
        match what {
            What::Ping => self.yardstick.once().await,
            What::Verbs => verbs::once(self.yardstick.0.as_ref()).await,
            What::One => self.one.acquire().await.unwrap().release().await.unwrap(),
            What::Five => self.five.acquire().await.unwrap().release().await.unwrap(),
        }
    }
}
