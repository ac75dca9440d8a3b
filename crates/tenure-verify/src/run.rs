//! A run: one engine, cell after cell.

use std::{net::SocketAddr, sync::Arc};

use tenure::{Client, EngineUrl, Guarantees};

use crate::{
    cell::{Cell, CellResult, Outcome, Tick},
    faults::{FaultKind, Needs},
    lab::{Lab, Setting},
    plan::Options,
    resource::Rule,
    trouble::{Result, Trouble},
};

/// Who watches a run.
pub trait Watch {
    /// The engine is known.
    fn starts(&mut self, _: &Subject) {}
    /// A cell begins.
    fn cell_starts(&mut self, _: FaultKind) {}
    /// A cell goes on.
    fn tick(&mut self, _: Tick) {}
    /// A cell has ended.
    fn cell_ends(&mut self, _: &CellResult) {}
}

/// What a verdict is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Subject {
    /// Its URL without a password, or the lab's name.
    pub engine: String,
    /// What it says its version is.
    pub version: String,
    /// How many servers of what.
    pub topology: String,
    /// What it promises.
    pub guarantees: Guarantees,
    /// The lease that was used.
    pub ttl: std::time::Duration,
    /// What decided who asks for what.
    pub seed: u64,
    /// How many processes.
    pub workers: u32,
    /// How many faults are tried, and for how long each.
    pub tried: (usize, std::time::Duration),
}

/// What a run came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunResult {
    /// What it is about.
    pub subject: Subject,
    /// Cell by cell.
    pub cells: Vec<CellResult>,
    /// The signal by which somebody ended it early. What was done until then stands.
    pub interrupted: Option<i32>,
}

impl RunResult {
    /// The worst of its cells: what the run says as a whole.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let worst = self.cells.iter().map(CellResult::outcome).max();
        // Where nothing was done, nothing is known.
        worst.filter(|outcome| *outcome != Outcome::Skipped).unwrap_or(Outcome::Inconclusive)
    }
}

/// Runs every cell that was asked for on the engine that was asked for.
///
/// # Errors
/// If the engine cannot be started or reached, or somebody interrupts before the first fault was tried. What the run *finds*
/// is in its result.
pub async fn run(options: &Options, watch: &mut dyn Watch) -> Result<RunResult> {
    let mut so_far = None;
    let signal = tokio::select! {
        done = run_all(options, watch, &mut so_far) => {
            done?;
            None
        }
        signal = crate::interrupted() => Some(signal),
    };
    let tried = |result: &RunResult| result.cells.iter().any(|cell| cell.report.is_some());
    match (so_far, signal) {
        (Some(result), None) => Ok(result),
        (Some(result), signal) if tried(&result) => Ok(RunResult { interrupted: signal, ..result }),
        (_, signal) => Err(Trouble::Interrupted(signal.unwrap_or_default())),
    }
}

async fn run_all(options: &Options, watch: &mut dyn Watch, so_far: &mut Option<RunResult>) -> Result<()> {
    let (lab, operator) = open(options, Setting::Usual).await?;
    let cells = options.cells(&lab, operator.guarantees());
    let subject = subject(options, &lab, &operator, &cells).await;
    watch.starts(&subject);
    let results = &mut so_far.insert(RunResult { subject, cells: Vec::new(), interrupted: None }).cells;
    let id = format!("{:08x}", fastrand::u32(..));
    for (fault, cannot) in cells {
        if let Some(why) = cannot {
            // What nobody asked for by name need not be mentioned as missing each time, but it is in the table.
            let result = CellResult::skipped(fault, why);
            watch.cell_ends(&result);
            results.push(result);
            continue;
        }
        watch.cell_starts(fault);
        // Some faults need servers that are set up for them, and leave them as nobody else would want them.
        let (lab, operator) = match Setting::of(fault) {
            Setting::Usual => (lab.clone(), operator.clone()),
            setting => open(options, setting).await?,
        };
        let cell = Cell {
            options,
            guarantees: operator.guarantees().clone(),
            lab,
            operator,
            fault,
            name: format!("tenure-verify/{id}/{fault}"),
            mutant: None,
            rule: Rule::Claimed,
        };
        let result = cell.run(false, &mut |tick| watch.tick(tick)).await?;
        watch.cell_ends(&result);
        results.push(result);
    }
    // The operator's client has nothing to give back; an engine that is gone need not be waited for.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), operator.close()).await;
    Ok(())
}

async fn open(options: &Options, setting: Setting) -> Result<(Arc<Lab>, Client)> {
    let lab = match &options.on {
        Some(url) => of_url(url, options).await?,
        None => {
            let name = options.lab;
            let started = tokio::task::spawn_blocking(move || Lab::start(name, setting)).await;
            started.map_err(|err| Trouble::internal("a lab", err))??
        }
    };
    let operator = tenure::connect(lab.url()).await?;
    Ok((Arc::new(lab), operator))
}

async fn of_url(url: &str, options: &Options) -> Result<Lab> {
    let parsed: EngineUrl = url.parse()?;
    if parsed.scheme() == "memory" {
        let why = "the memory of this process is no other's; `--lab memory` verifies that engine";
        return Err(Trouble::Usage(why.into()));
    }
    let allowed = |fault: &FaultKind| options.strikes.iter().any(|(ordered, _)| ordered == fault);
    let refused = |fault: &&FaultKind| fault.needs() == Needs::Engine && !allowed(fault);
    if let Some(fault) = options.faults.iter().flatten().find(refused) {
        let why = format!(
            "`{fault}` strikes the engine itself: use --lab to start one, or --strike {fault}=COMMAND if this one is yours to strike"
        );
        return Err(Trouble::Usage(why));
    }
    // A proxy can stand before servers whose names and ports are in the URL as they are, and are not told otherwise.
    let direct = !parsed.scheme().contains("sentinel") && !parsed.scheme().contains("cluster");
    let plain =
        !parsed.scheme().ends_with('s') || matches!(parsed.scheme(), "redis" | "quorum+redis" | "postgres");
    let addresses: Vec<SocketAddr> = if direct && plain {
        parsed.hosts().iter().map_while(|host| host.parse().ok()).collect()
    } else {
        Vec::new()
    };
    let all = addresses.len() == parsed.hosts().len();
    Ok(Lab::of_url(url, if all { addresses } else { Vec::new() }, &options.strikes))
}

async fn subject(
    options: &Options,
    lab: &Lab,
    operator: &Client,
    cells: &[(FaultKind, Option<String>)],
) -> Subject {
    let guarantees = operator.guarantees().clone();
    let facts = operator.examine().await.unwrap_or_default();
    let versions = facts.iter().filter(|fact| fact.name == "version" || fact.text.contains("ZooKeeper"));
    let version =
        versions.map(|fact| fact.text.clone()).next().unwrap_or_else(|| guarantees.engine.to_owned());
    let topology = lab.name.map_or("as its URL says", |name| name.topology()).to_owned();
    let engine = match (&options.on, lab.name) {
        (Some(url), _) => url.parse::<EngineUrl>().map(|url| url.to_string()).unwrap_or_default(),
        (None, Some(name)) => name.to_string(),
        (None, None) => String::new(),
    };
    let ttl = options.ttl_on(&guarantees);
    let tried = (cells.iter().filter(|(_, cannot)| cannot.is_none()).count(), options.time);
    let (seed, workers) = (options.seed, options.workers);
    Subject { engine, version, topology, guarantees, ttl, seed, workers, tried }
}
