//! One client, acquire and release in turn, with blocks of no-ops and plain writes in between.

use tenure::{ClaimId, Client};

use crate::{Args, Result, cpu, noop::Noop, now, place, quantile};

/// How many of each follow one another.
const BLOCK: u32 = 25;
const WRITES: u32 = 10;
const WARM: u32 = 20;

pub(crate) async fn run(engine: &str, name: &str, args: &Args) -> Result {
    let client = place::open(engine).await?;
    let mut noop = Noop::open(engine, &client).await?;
    let most: usize = args.get("n", 20_000);
    let limit = (args.get("secs", 2.0) * 1e9) as u64;
    let fresh = args.get("names", "fresh".to_owned()) == "fresh";
    let run = ClaimId::fresh().to_string();
    for _ in 0..WARM {
        noop.once().await?;
        cycle(&client, &format!("w1/{run}/warm")).await?;
    }
    let mut times: [Vec<u64>; 5] = Default::default();
    let (began, mut used) = (now(), 0.0);
    while times[2].len() < most && now() - began < limit {
        let [acquires, releases, cycles, trips, writes] = &mut times;
        for _ in 0..BLOCK {
            let asked = now();
            noop.once().await?;
            trips.push(now() - asked);
        }
        for _ in 0..WRITES {
            let asked = now();
            if !noop.write().await? {
                break;
            }
            writes.push(now() - asked);
        }
        let before = cpu();
        for _ in 0..BLOCK {
            let key = if fresh { format!("w1/{run}/{}", cycles.len()) } else { format!("w1/{run}/one") };
            let [asked, held, freed] = cycle(&client, &key).await?;
            acquires.push(held - asked);
            releases.push(freed - held);
            cycles.push(freed - asked);
        }
        used += cpu() - before;
    }
    let count = times[2].len();
    let busy: u64 = times[2].iter().sum();
    let [acq, rel, cyc, rtt, wr] = &mut times;
    let line = serde_json::json!({
        "peer": name, "w": "w1", "n": count, "ops_s": (count as f64 * 1e9 / busy as f64).round(),
        "cyc_p50": quantile(cyc, 0.5), "cyc_p99": quantile(cyc, 0.99),
        "acq_p50": quantile(acq, 0.5), "acq_p99": quantile(acq, 0.99),
        "rel_p50": quantile(rel, 0.5), "rel_p99": quantile(rel, 0.99),
        "rtt_p50": quantile(rtt, 0.5), "rtt_p99": quantile(rtt, 0.99),
        "wr_p50": quantile(wr, 0.5), "cpu_us_op": used * 1e6 / count as f64,
    });
    println!("{line}");
    Ok(())
}

async fn cycle(client: &Client, key: &str) -> Result<[u64; 3]> {
    let asked = now();
    let guard = client.mutex(key)?.acquire().await?;
    let held = now();
    guard.release().await?;
    Ok([asked, held, now()])
}
