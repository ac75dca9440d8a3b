//! What a sale is to be: the options, checked, and each lane's part in it.

use std::{path::PathBuf, time::Duration};

use tenure::{Client, Crash, EngineUrl, Guarantees, Reach};

use crate::{
    strategy::{Fault, Point, Strategy},
    trouble::{Result, Trouble},
    wire::{Then, Trap},
};

/// The lease of a sale, unless the engine wants a longer one: short, so that its end can be watched.
pub(crate) const LEASE: Duration = Duration::from_millis(400);
/// The same on a server, where a hundred buyers who wait must each be heard of within a third of it.
const SERVER_LEASE: Duration = Duration::from_millis(1_500);
/// The most hosts and buyers.
const MAX_HOSTS: u32 = 64;
const MAX_BUYERS: u32 = 1_000_000;
/// Of so many buyers, one clicks twice.
const DOUBLE_CLICK: u32 = 8;

/// What a sale is to be.
#[derive(Clone)]
pub struct Options {
    /// The engine of the `tenure` locks; files in a folder of the sale's own if none is named.
    pub on: Option<String>,
    /// The store; a SQLite file in that folder if none is named.
    pub store: Option<String>,
    /// How many processes sell.
    pub hosts: u32,
    /// How many people want one.
    pub buyers: u32,
    /// How many there are.
    pub stock: u32,
    /// The ways to sell, one after the other.
    pub strategies: Vec<Strategy>,
    /// The faults of the right ways; those that each lane is shown under if none is said. The wrong ones always have
    /// their own.
    pub faults: Option<Vec<Fault>>,
    /// The same seed gives the same verdicts.
    pub seed: u64,
    /// How many buyers come in a second; all at once if none is said.
    pub rate: Option<f64>,
    /// Whether buyers come by HTTP.
    pub http: bool,
    /// The lease of all locks.
    pub lease: Option<Duration>,
    /// How long a buyer takes to pay, between looking and buying.
    pub think: Duration,
    /// The program that becomes a host when its first word is [`HOST_WORD`](crate::HOST_WORD).
    pub program: PathBuf,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URLs may hold passwords.
        f.debug_struct("Options").field("strategies", &self.strategies).finish_non_exhaustive()
    }
}

impl Options {
    /// The sale of those who say nothing: 100 consoles, 2,000 buyers, 4 hosts, every way to sell.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self {
            on: None,
            store: None,
            hosts: 4,
            buyers: 2_000,
            stock: 100,
            strategies: Strategy::ALL.to_vec(),
            faults: None,
            seed: 1,
            rate: None,
            http: false,
            lease: None,
            think: Duration::from_millis(2),
            program,
        }
    }

    /// Whether a sale can be made of them.
    ///
    /// # Errors
    /// `Usage`, naming the option and what is possible.
    pub fn check(&self) -> Result<(), Trouble> {
        let wrong = |why: String| Err(Trouble::Usage(why));
        if !(2..=MAX_HOSTS).contains(&self.hosts) {
            return wrong(format!("--hosts is {}; a sale has 2 to {MAX_HOSTS}", self.hosts));
        }
        // Faults strike in the first sales of a host, and there must be some after them.
        if self.stock < self.hosts * 5 {
            return wrong(format!(
                "--stock is {}; with {} hosts there must be at least {}, for each to sell some",
                self.stock,
                self.hosts,
                self.hosts * 5
            ));
        }
        if self.buyers > MAX_BUYERS || self.buyers < self.stock.saturating_mul(3) {
            return wrong(format!(
                "--buyers is {}; there must be at least three for each of the {} in stock, and at most {MAX_BUYERS}",
                self.buyers, self.stock
            ));
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate < 1.0) {
            return wrong("--rate must be at least one buyer in a second".into());
        }
        if self.strategies.is_empty() {
            return wrong("--strategies names none".into());
        }
        if self.lease.is_some_and(|lease| lease > Duration::from_secs(30)) {
            return wrong("--lease is longer than 30s; faults outlast it, and nobody would watch".into());
        }
        Ok(())
    }
}

/// What one lane has to do.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) strategy: Strategy,
    pub(crate) faults: Vec<(Fault, Point)>,
    pub(crate) lease: Duration,
    /// Who comes to which host, by host.
    pub(crate) requests: Vec<Vec<u32>>,
    /// Whether a host that is stopped keeps its lock until somebody breaks it.
    pub(crate) must_break: bool,
}

/// Why a lane cannot run here.
pub(crate) type Skipped = String;

impl Lane {
    pub(crate) fn new(
        options: &Options,
        strategy: Strategy,
        engine: Option<&Client>,
    ) -> Result<Self, Skipped> {
        let promises = engine.filter(|_| strategy.locks()).map(Client::guarantees);
        if let Some(Guarantees { engine, modes, .. }) = promises {
            let missing = match strategy {
                Strategy::Price if !modes.shared => Some("reader-writer locks"),
                Strategy::Admission if !modes.permits => Some("semaphores"),
                _ => None,
            };
            if let Some(missing) = missing {
                return Err(format!("{engine} has no {missing}"));
            }
        }
        let shortest = promises.map_or(Duration::ZERO, |promises| promises.min_ttl);
        // The homemade locks end sooner, so that more of their ends can be watched.
        let usual = match promises {
            Some(promises) if promises.reach == Reach::Network => SERVER_LEASE,
            Some(_) => LEASE,
            None => LEASE / 2,
        };
        let lease = options.lease.unwrap_or(usual).max(shortest);
        let must_break = promises.is_some_and(|promises| promises.crash == Crash::Process);
        let faults = faults(strategy, options.faults.as_deref());
        Ok(Self { strategy, faults, lease, requests: requests(options), must_break })
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.iter().any(|(kind, _)| *kind == fault)
    }

    /// How long a buyer takes to pay. Where a lock is deleted under its holder, that one must still be inside when the next
    /// one walks in, which a longer time makes almost certain.
    pub(crate) fn think(&self, options: &Options) -> Duration {
        options.think * if self.strategy == Strategy::AskDelete { 12 } else { 1 }
    }

    /// How long without an order is for ever.
    pub(crate) fn stuck_after(&self) -> Duration {
        self.lease * 4 + Duration::from_secs(1)
    }

    /// How long a buyer waits.
    pub(crate) fn patience(&self) -> Duration {
        self.lease * 8 + Duration::from_secs(10)
    }

    /// What strikes this host. The first hosts are stopped, the last is killed.
    pub(crate) fn traps(&self, host: u32, hosts: u32) -> Vec<Trap> {
        let (first, stalled) = (2 + host % 3, (hosts / 2).max(1));
        let mut traps = Vec::new();
        for &(fault, point) in &self.faults {
            match (fault, point) {
                // Not every time is somebody inside whose lock is deleted, so this one is struck more often.
                (Fault::Stall, Point::BeforeDelete) if host < hosts - 1 => {
                    traps.extend([first, first + 4, first + 8, first + 12].map(|nth| Trap {
                        point,
                        nth,
                        then: Then::Stop,
                    }))
                }
                (Fault::Stall, Point::BeforeWrite) if host < stalled => {
                    traps.push(Trap { point, nth: first, then: Then::Stop });
                }
                (Fault::Kill, _) if host == hosts - 1 => traps.push(Trap { point, nth: 3, then: Then::Die }),
                _ => {}
            }
        }
        traps
    }
}

/// The faults of a lane: its own, and for a right one those that were asked for.
fn faults(strategy: Strategy, asked: Option<&[Fault]>) -> Vec<(Fault, Point)> {
    use crate::strategy::Expected;
    let own = strategy.own_faults().to_vec();
    match asked {
        Some(asked) if strategy.expected() == Expected::Safe => {
            let bears = |fault: &&Fault| strategy.bears(**fault);
            asked.iter().filter(bears).map(|&fault| (fault, Point::BeforeWrite)).collect()
        }
        _ => own,
    }
}

/// Who comes where: each buyer to one host, and one in eight to another one as well, in the order of the seed.
fn requests(options: &Options) -> Vec<Vec<u32>> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut requests: Vec<(u32, u32)> = Vec::new();
    for buyer in 0..options.buyers {
        requests.push((buyer % options.hosts, buyer));
        if random.u32(..DOUBLE_CLICK) == 0 {
            requests.push(((buyer + 1) % options.hosts, buyer));
        }
    }
    random.shuffle(&mut requests);
    let at = |host| requests.iter().filter(|(h, _)| *h == host).map(|(_, buyer)| *buyer).collect();
    (0..options.hosts).map(at).collect()
}

/// The URL without its password, for people.
pub(crate) fn shown(url: &str) -> String {
    url.parse::<EngineUrl>().map_or_else(|_| "?".to_owned(), |url| url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new(PathBuf::new())
    }

    #[test]
    fn the_same_seed_sends_the_same_buyers() {
        let first = requests(&options());
        assert_eq!(first, requests(&options()));
        assert_ne!(first, requests(&Options { seed: 2, ..options() }));
        assert_eq!(first.len(), 4);
        let all: Vec<u32> = first.concat();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 2_000);
        assert!(all.len() > 2_100, "some click twice: {}", all.len());
    }

    #[test]
    fn what_makes_no_sale_is_refused() {
        assert!(options().check().is_ok());
        let wrong = [
            Options { hosts: 1, ..options() },
            Options { hosts: 65, ..options() },
            Options { stock: 19, ..options() },
            Options { buyers: 299, ..options() },
            Options { rate: Some(0.5), ..options() },
            Options { rate: Some(f64::NAN), ..options() },
            Options { strategies: Vec::new(), ..options() },
            Options { lease: Some(Duration::from_secs(31)), ..options() },
        ];
        for options in wrong {
            assert!(matches!(options.check(), Err(Trouble::Usage(_))), "{options:?}");
        }
    }

    #[test]
    fn wrong_ways_keep_their_own_fault_and_right_ways_take_what_is_asked() {
        let asked = [Fault::Kill, Fault::Stall];
        assert_eq!(faults(Strategy::AskDelete, Some(&asked)), [(Fault::Stall, Point::BeforeDelete)]);
        assert_eq!(faults(Strategy::Fenced, Some(&[])), []);
        assert_eq!(faults(Strategy::Conditional, Some(&asked)).len(), 2);
        let admission = faults(Strategy::Admission, Some(&asked));
        assert_eq!(admission, [(Fault::Kill, Point::BeforeWrite)], "permits cannot be fenced");
        assert_eq!(faults(Strategy::Fenced, None).len(), 2);
    }
}
