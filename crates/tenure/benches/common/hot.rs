//! One hot key, four processes with eight tasks each, beside what people use without this library.

use std::{
    env,
    io::{Read, Write},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use tenure::Mutex;

use crate::{
    NAME, URL,
    common::{self, runtime},
    open,
    rival::Rival,
    server,
};

const PROCESSES: usize = 4;
const TASKS: usize = 8;
const TIME: Duration = Duration::from_secs(4);
/// How long the lock is held, in microseconds.
const HOLD: &str = "TENURE_BENCH_HOLD";

/// The bounds are for the grants with nothing inside, and for the longest wait.
pub(crate) fn measure(bounds: &str) {
    for hold in [Duration::ZERO, Duration::from_millis(1)] {
        let what = if hold.is_zero() { "nothing inside".to_owned() } else { format!("{hold:?} inside") };
        let (ours, theirs) = (run("tenure", hold), run("rival", hold));
        println!("{NAME}, one hot key, 4 processes x 8 tasks, {what}");
        ours.print("tenure");
        theirs.print(Rival::NAME);
        println!(
            "    {:.1} x the grants, the longest wait {:.3} of its ({bounds})",
            ours.grants / theirs.grants,
            ours.longest.as_secs_f64() / theirs.longest.as_secs_f64()
        );
    }
}

struct Outcome {
    grants: f64,
    jain: f64,
    longest: Duration,
    requests: f64,
    in_use: f64,
}

impl Outcome {
    fn print(&self, name: &str) {
        println!(
            "    {name:<16} {:>8.0} grants/s, Jain {:.3}, longest wait {:?}, {:.2} {} per grant, in use {:.0} %",
            self.grants,
            self.jain,
            self.longest,
            self.requests,
            Rival::REQUESTS,
            self.in_use * 100.0
        );
    }
}

/// Jain's index over all tasks: 1 if all got the same, 1/n if one got everything.
fn run(part: &str, hold: Duration) -> Outcome {
    let server = server();
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|_| {
            let mut child = common::child(part);
            child.env(URL, server.url()).env(HOLD, hold.as_micros().to_string());
            child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    // All are connected before any begins.
    for child in &mut children {
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
    let before = Rival::requests(&server);
    for child in &mut children {
        child.stdin.as_mut().unwrap().write_all(b"g").unwrap();
    }
    let (mut grants, mut longest) = (Vec::new(), Duration::ZERO);
    for mut child in children {
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        for line in text.lines() {
            let (count, wait) = line.split_once(' ').unwrap();
            grants.push(count.parse::<f64>().unwrap());
            longest = longest.max(Duration::from_micros(wait.parse().unwrap()));
        }
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(grants.len(), PROCESSES * TASKS);
    let total: f64 = grants.iter().sum();
    Outcome {
        grants: total / TIME.as_secs_f64(),
        jain: total * total / (grants.len() as f64 * grants.iter().map(|n| n * n).sum::<f64>()),
        longest,
        requests: (Rival::requests(&server) - before) / total,
        in_use: total * hold.as_secs_f64() / TIME.as_secs_f64(),
    }
}

pub(crate) fn child(part: &str) {
    let hold = Duration::from_micros(env::var(HOLD).unwrap().parse().unwrap());
    let url = env::var(URL).unwrap();
    let ours = part == "tenure";
    let counts = runtime().block_on(async {
        let (client, _) = open(&url).await;
        let mutex = client.mutex("hot").unwrap();
        drop(client.mutex("warm").unwrap().acquire().await.unwrap());
        let mut rivals = Vec::new();
        for task in 0..if ours { 0 } else { TASKS } {
            rivals.push(Rival::open(&url, task).await);
        }
        std::io::stdout().write_all(b".").unwrap();
        std::io::stdout().flush().unwrap();
        std::io::stdin().read_exact(&mut [0]).unwrap();
        let until = Instant::now() + TIME;
        let tasks: Vec<_> = match ours {
            true => (0..TASKS).map(|_| tokio::spawn(our_way(mutex.clone(), until, hold))).collect(),
            false => rivals.into_iter().map(|rival| tokio::spawn(their_way(rival, until, hold))).collect(),
        };
        let mut counts = Vec::new();
        for task in tasks {
            counts.push(task.await.unwrap());
        }
        counts
    });
    for (grants, longest) in counts {
        println!("{grants} {}", longest.as_micros());
    }
}

async fn our_way(mutex: Mutex, until: Instant, hold: Duration) -> (u64, Duration) {
    let (mut grants, mut longest) = (0, Duration::ZERO);
    while Instant::now() < until {
        let asked = Instant::now();
        let guard = mutex.acquire().await.unwrap();
        longest = longest.max(asked.elapsed());
        work(hold).await;
        guard.release().await.unwrap();
        grants += 1;
    }
    (grants, longest)
}

async fn their_way(mut rival: Rival, until: Instant, hold: Duration) -> (u64, Duration) {
    let (mut grants, mut longest) = (0, Duration::ZERO);
    while Instant::now() < until {
        let asked = Instant::now();
        rival.acquire().await;
        longest = longest.max(asked.elapsed());
        work(hold).await;
        rival.release().await;
        grants += 1;
    }
    (grants, longest)
}

/// Holds the lock for so long without leaving the processor: timers are too coarse for a millisecond.
async fn work(hold: Duration) {
    let began = Instant::now();
    while began.elapsed() < hold {
        tokio::task::yield_now().await;
    }
}
