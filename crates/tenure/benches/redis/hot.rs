//! One hot key, four processes with eight tasks each, beside the loop that most people write: `SET NX PX`, a sleep of
//! 100 ms when that fails, compare-and-delete.

use std::{
    env,
    io::{Read, Write},
    process::{Child, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Script, aio::MultiplexedConnection};
use tenure::Mutex;
use tenure_testkit::redis::Redis;

use crate::{URL, common, common::runtime, open, server};

const PROCESSES: usize = 4;
const TASKS: usize = 8;
const TIME: Duration = Duration::from_secs(4);
/// How long the lock is held, in microseconds.
const HOLD: &str = "TENURE_BENCH_HOLD";

pub(crate) fn measure() {
    for hold in [Duration::ZERO, Duration::from_millis(1)] {
        let what = if hold.is_zero() { "nothing inside".to_owned() } else { format!("{hold:?} inside") };
        let (ours, theirs) = (run("tenure", hold), run("classic", hold));
        println!("redis, one hot key, 4 processes x 8 tasks, {what}");
        ours.print("tenure");
        theirs.print("classic loop");
        println!(
            "    {:.1} x the grants (at least 10 with nothing inside), the longest wait {:.3} of its (at most 0.1)",
            ours.grants / theirs.grants,
            ours.longest.as_secs_f64() / theirs.longest.as_secs_f64()
        );
    }
}

struct Outcome {
    grants: f64,
    jain: f64,
    longest: Duration,
    commands: f64,
    in_use: f64,
}

impl Outcome {
    fn print(&self, name: &str) {
        println!(
            "    {name:<13} {:>8.0} grants/s, Jain {:.3}, longest wait {:?}, {:.2} commands per grant, in use {:.0} %",
            self.grants,
            self.jain,
            self.longest,
            self.commands,
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
    let before = commands(&server);
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
        commands: (commands(&server) - before) / total,
        in_use: total * hold.as_secs_f64() / TIME.as_secs_f64(),
    }
}

/// What clients sent, without what scripts did inside.
fn commands(server: &Redis) -> f64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let calls = |name: &str| {
        let line = stats.text().unwrap().lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
        line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0.0)
    };
    let scripts = calls("evalsha") + calls("eval");
    // In the classic loop `SET` is sent by clients; in a script of tenure it is not.
    if calls("hset") > 0.0 { scripts } else { scripts + calls("set") }
}

pub(crate) fn child(part: &str) {
    let hold = Duration::from_micros(env::var(HOLD).unwrap().parse().unwrap());
    let url = env::var(URL).unwrap();
    let classic = part == "classic";
    let counts = runtime().block_on(async {
        let (client, _) = open(&url).await;
        let mutex = client.mutex("hot").unwrap();
        drop(client.mutex("warm").unwrap().acquire().await.unwrap());
        let conn = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
        std::io::stdout().write_all(b".").unwrap();
        std::io::stdout().flush().unwrap();
        std::io::stdin().read_exact(&mut [0]).unwrap();
        let until = Instant::now() + TIME;
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (mutex, conn) = (mutex.clone(), conn.clone());
                tokio::spawn(async move {
                    if classic {
                        old_way(conn, task, until, hold).await
                    } else {
                        our_way(&mutex, until, hold).await
                    }
                })
            })
            .collect();
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

async fn our_way(mutex: &Mutex, until: Instant, hold: Duration) -> (u64, Duration) {
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

async fn old_way(
    mut conn: MultiplexedConnection,
    task: usize,
    until: Instant,
    hold: Duration,
) -> (u64, Duration) {
    let release = Arc::new(Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
    ));
    let (mut grants, mut longest) = (0, Duration::ZERO);
    while Instant::now() < until {
        let asked = Instant::now();
        let me = format!("{}/{task}/{grants}", std::process::id());
        loop {
            let mut set = redis::cmd("SET");
            set.arg("classic").arg(&me).arg("NX").arg("PX").arg(15_000);
            if set.query_async::<Option<String>>(&mut conn).await.unwrap().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        longest = longest.max(asked.elapsed());
        work(hold).await;
        let _: i64 = release.key("classic").arg(&me).invoke_async(&mut conn).await.unwrap();
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
