//! Several clients of this process, and of others, on one lock.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    sync::Arc,
    time::Duration,
};

use tenure::Mutex;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{Args, Result, cpu, now, place};

/// How long after the end a wait may still go on.
const PATIENCE: Duration = Duration::from_secs(20);

/// What one client saw.
#[derive(Default)]
struct Seen {
    waits: BTreeMap<i64, u64>,
    longest: u64,
    grants: u64,
    increments: u64,
    violations: u64,
    held: u64,
    errors: Vec<String>,
}

#[derive(Clone)]
struct Plan {
    start: u64,
    end: u64,
    hold: Duration,
    think: Duration,
    counter: Arc<File>,
}

pub(crate) async fn run(engine: &str, name: &str, args: &Args) -> Result {
    let clients: u64 = args.get("threads", 8);
    let first = args.get("id", 0) * clients;
    let start: u64 = args.get("start", 0);
    let micros = |key: &str| Duration::from_micros(args.get(key, 0));
    let file = OpenOptions::new().read(true).write(true).open(args.get("counter", String::new()))?;
    let plan = Plan {
        start,
        end: start + (args.get("secs", 10.0) * 1e9) as u64,
        hold: micros("hold"),
        think: micros("think"),
        counter: Arc::new(file),
    };
    let client = place::open(engine).await?;
    let mutex = client.mutex(args.get("lock", "w2/hot".to_owned()))?;
    client.mutex("w2/warm")?.acquire().await?.release().await?;
    let mut tasks = JoinSet::new();
    for number in 0..clients {
        tasks.spawn(contend(mutex.clone(), plan.clone(), first + number + 1));
    }
    until(start).await;
    let before = cpu();
    let (mut all, mut grants) = (Seen::default(), Vec::new());
    while let Some(seen) = tasks.join_next().await {
        let seen = seen?;
        grants.push(seen.grants);
        for (bucket, count) in seen.waits {
            *all.waits.entry(bucket).or_default() += count;
        }
        all.longest = all.longest.max(seen.longest);
        all.increments += seen.increments;
        all.violations += seen.violations;
        all.held += seen.held;
        all.errors.extend(seen.errors);
    }
    let used = cpu() - before;
    client.close().await;
    let line = serde_json::json!({
        "peer": name, "w": "w2", "grants": grants, "incs": all.increments, "viol": all.violations,
        "errs": all.errors.len(), "err": all.errors.first().map_or("", String::as_str),
        "cpu_s": used, "hold_s": all.held as f64 / 1e9, "hist": all.waits,
        "max_us": all.longest as f64 / 1_000.0,
    });
    println!("{line}");
    Ok(())
}

async fn contend(mutex: Mutex, plan: Plan, me: u64) -> Seen {
    let mut seen = Seen::default();
    until(plan.start).await;
    loop {
        let asked = now();
        if asked >= plan.end {
            return seen;
        }
        let limit = Duration::from_nanos(plan.end - asked) + PATIENCE;
        let guard = match timeout(limit, mutex.acquire()).await {
            Ok(Ok(guard)) => guard,
            Ok(Err(err)) => {
                seen.errors.push(err.to_string());
                sleep(Duration::from_millis(20)).await;
                continue;
            }
            Err(_) => {
                seen.errors.push("acquire hung 20 s past the end".into());
                return seen;
            }
        };
        let held = now();
        *seen.waits.entry(bucket(held - asked)).or_default() += 1;
        seen.longest = seen.longest.max(held - asked);
        let number = enter(&plan.counter, me);
        if !plan.hold.is_zero() {
            sleep(plan.hold).await;
        }
        seen.violations += u64::from(!leave(&plan.counter, me, number));
        seen.increments += 1;
        if held < plan.end {
            seen.grants += 1;
            seen.held += now() - held;
        }
        if let Err(err) = guard.release().await {
            seen.errors.push(format!("release: {err}"));
        }
        if !plan.think.is_zero() {
            sleep(plan.think).await;
        }
    }
}

async fn until(start: u64) {
    sleep(Duration::from_nanos(start.saturating_sub(now()))).await;
}

/// Buckets two hundredths wide, so that the harness can add up processes.
fn bucket(nanos: u64) -> i64 {
    ((nanos as f64 / 1_000.0).max(0.01).ln() * 50.0).floor() as i64
}

/// Reads the number and leaves a mark: not in one step, on purpose.
fn enter(counter: &File, me: u64) -> u64 {
    let mut text = [0; 20];
    counter.read_exact_at(&mut text, 0).unwrap();
    counter.write_all_at(format!("{me:>20}").as_bytes(), 32).unwrap();
    std::str::from_utf8(&text).unwrap().trim().parse().unwrap()
}

/// Writes the next number, and says whether the mark was still ours.
fn leave(counter: &File, me: u64, number: u64) -> bool {
    let mut mark = [0; 20];
    counter.read_exact_at(&mut mark, 32).unwrap();
    counter.write_all_at(format!("{:>20}", number + 1).as_bytes(), 0).unwrap();
    mark == format!("{me:>20}").as_bytes()
}
