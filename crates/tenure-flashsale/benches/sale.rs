//! What the right ways cost: orders in a second on each engine, as a ratio to the store's own conditional update in the same
//! run. `cargo bench -p tenure-flashsale [-- ENGINE…]`.
#![allow(clippy::print_stdout, reason = "a benchmark talks to people")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use std::{env, process::ExitCode};

use tenure_flashsale::{HOST_WORD, LaneResult, Options, Strategy, Tick, Watch, host_main, run};
use tenure_testkit::{
    etcd::Etcd,
    mariadb::MariaDb,
    memcached::Memcached,
    postgres::Postgres,
    redis::{Redis, RedisOptions},
    zookeeper::Zookeeper,
};

/// How often each lane runs; the median counts.
const ROUNDS: usize = 3;
const WAYS: [Strategy; 6] = [
    Strategy::Conditional,
    Strategy::Version,
    Strategy::Fenced,
    Strategy::OneEach,
    Strategy::Price,
    Strategy::Admission,
];

struct Nobody;

impl Watch for Nobody {
    fn lane_starts(&mut self, _: Strategy) {}
    fn tick(&mut self, _: &Tick<'_>) {}
    fn lane_ends(&mut self, _: &LaneResult) {}
}

fn main() -> ExitCode {
    if env::args_os().nth(1).is_some_and(|word| word == HOST_WORD) {
        return host_main();
    }
    let wanted: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    println!("orders in a second, and the ratio to `conditional` on the same store; median of {ROUNDS}");
    if wants("file") {
        measure("file, sqlite", None, None);
    }
    if wants("redis") {
        let redis = Redis::start(RedisOptions::default()).unwrap();
        measure("redis, redis", Some(redis.url()), Some(redis.url()));
    }
    if wants("mysql") {
        let url = MariaDb::shared().unwrap().url();
        measure("mysql, mysql", Some(url.clone()), Some(url));
    }
    if wants("postgres") {
        let url = Postgres::shared().unwrap().url();
        measure("postgres, postgres", Some(url.clone()), Some(url));
    }
    // These keep no stock: the store is that of the first row.
    if wants("zookeeper") {
        measure("zookeeper, sqlite", Some(Zookeeper::shared().unwrap().url()), None);
    }
    if wants("etcd") {
        measure("etcd, sqlite", Some(Etcd::shared().unwrap().url()), None);
    }
    if wants("memcached") {
        measure("memcached, sqlite", Some(Memcached::shared().unwrap().url()), None);
    }
    ExitCode::SUCCESS
}

fn measure(name: &str, on: Option<String>, store: Option<String>) {
    let mut options = Options::new(env::current_exe().unwrap());
    (options.on, options.store) = (on, store);
    (options.hosts, options.stock, options.buyers) = (2, 500, 1_500);
    (options.faults, options.think) = (Some(Vec::new()), std::time::Duration::ZERO);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); WAYS.len()];
    for _ in 0..ROUNDS {
        // The lanes take turns, so that what the machine does besides hits all alike.
        options.strategies = WAYS.to_vec();
        let outcome = runtime.block_on(run(&options, &mut Nobody)).unwrap();
        assert!(outcome.as_expected(), "{outcome:?}");
        for (rates, lane) in rates.iter_mut().zip(&outcome.lanes) {
            rates.push(lane.orders_per_second);
        }
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let medians: Vec<f64> = rates.iter_mut().map(median).collect();
    println!("{name}");
    for (way, rate) in WAYS.iter().zip(&medians) {
        println!("  {way:<12} {rate:>8.0}/s   {:.2}", rate / medians[0]);
    }
}
