//! How costs grow: with the line, with the keys, with the processes.

mod weight;

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde::Serialize;
use tenure::{Key, Mode, Note, Seq, Ttl};
use tenure_core::{Answered, Attempt, Claim, ClaimId, Engine, Patience};

use crate::{
    Options, Plot, Watch,
    figures::Spread,
    measures::{Place, hot},
    player::nanos,
    plot::{Axis, Line},
    trouble::{Result, Trouble},
};

pub use self::weight::Weight;

/// The steps of each curve.
const WAITERS: [u32; 9] = [2, 10, 30, 100, 300, 1_000, 2_000, 5_000, 10_000];
const KEYS: [u32; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
const PROCESSES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// How often each operation is measured at a step.
const TIMES: u32 = 60;
/// Verbs that fill a line or the engine, at once.
const AT_ONCE: usize = 64;
/// No place of a curve is renewed, so its lease outlives the measurement.
const LEASE: Duration = Duration::from_secs(3_600);

/// Medians, in microseconds, at each step.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// What is measured.
    pub name: &'static str,
    /// (how many, microseconds).
    pub points: Vec<(f64, f64)>,
}

/// How costs grow on one engine.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    /// The engine's name.
    pub engine: &'static str,
    /// Against the places in the line of one key.
    pub waiters: Vec<Curve>,
    /// Against the keys that are held.
    pub keys: Vec<Curve>,
    /// Against the processes that contend for one key.
    pub processes: Vec<Curve>,
    /// What a key and a waiter weigh.
    pub weights: Vec<Weight>,
    /// Where a curve ends before its last step: the time was over.
    pub ended: Vec<String>,
}

impl Growth {
    /// The three plots, each with the name of its file.
    #[must_use]
    pub fn plots(&self) -> [(&'static str, Plot); 3] {
        let plot = |title: &str, x: &str, curves: &[Curve]| Plot {
            title: format!("{}: {title}", self.engine),
            x: Axis { label: x.into(), log: true },
            y: Axis { label: "microseconds".into(), log: true },
            lines: curves
                .iter()
                .map(|curve| Line { name: curve.name.into(), points: curve.points.clone() })
                .collect(),
        };
        [
            ("waiters", plot("cost against the places in one line", "places in the line", &self.waiters)),
            ("keys", plot("cost against the keys that are held", "held keys", &self.keys)),
            ("processes", plot("one hot key against its processes", "processes", &self.processes)),
        ]
    }
}

/// Measures how costs grow, for about the options' time in all.
///
/// # Errors
/// As [`run`](crate::run).
pub async fn grow(options: &Options, watch: &mut dyn Watch) -> Result<Growth, Trouble> {
    options.check()?;
    tokio::select! {
        biased;
        signal = crate::interrupted() => Err(Trouble::Interrupted(signal)),
        growth = all(options, watch) => growth,
    }
}

async fn all(options: &Options, watch: &mut dyn Watch) -> Result<Growth> {
    let place = Place::open(options.on.as_deref(), &options.program).await?;
    let (engine, _) = tenure::open(&place.url).await?;
    let mut growth = Growth {
        engine: place.player.client.guarantees().engine,
        waiters: Vec::new(),
        keys: Vec::new(),
        processes: Vec::new(),
        weights: Vec::new(),
        ended: Vec::new(),
    };
    let quarter = options.time / 4;
    watch.begins("memory", 1, 4);
    // First, while this process is small and nothing that it has freed is used again.
    growth.weights = weight::weigh(&place, engine.as_ref(), options.engine_process, quarter).await?;
    let weights = growth.weights.iter().map(|weight| format!("{}: {} B", weight.what, weight.bytes));
    watch.ends(&weights.collect::<Vec<_>>().join("; "));
    watch.begins("waiters", 2, 4);
    growth.waiters = waiters(&place, engine.as_ref(), quarter, &mut growth.ended).await?;
    watch.ends(&last(&growth.waiters));
    watch.begins("keys", 3, 4);
    growth.keys = keys(&place, engine.as_ref(), quarter, &mut growth.ended).await?;
    watch.ends(&last(&growth.keys));
    watch.begins("processes", 4, 4);
    growth.processes = processes(&place, options.tasks, quarter).await?;
    watch.ends(&last(&growth.processes));
    Ok(growth)
}

fn last(curves: &[Curve]) -> String {
    let ends = curves.iter().filter_map(|curve| {
        let (first, last) = (curve.points.first()?, curve.points.last()?);
        Some(format!("{}: {:.0} µs at {}, {:.0} µs at {}", curve.name, first.1, first.0, last.1, last.0))
    });
    ends.collect::<Vec<_>>().join("; ")
}

/// At each step a claim joins the end of the line, of which it is the last place then, and leaves it, and the holder at its
/// front leaves, so that the next one holds, and joins at the end again. Ten thousand is the most that servers allow.
async fn waiters(
    place: &Place,
    engine: &dyn Engine,
    time: Duration,
    ended: &mut Vec<String>,
) -> Result<Vec<Curve>> {
    let key = Key::new(place.key("line"))?;
    let began = Instant::now();
    let mut line: std::collections::VecDeque<Claim> = std::collections::VecDeque::new();
    let [mut join, mut leave, mut pass] = ["join the line", "leave it", "pass on"].map(curve);
    for step in WAITERS {
        let others = step as usize - 1;
        while line.len() < others {
            let claim = claim(&key, Patience::Queue)?;
            let _ = engine.attempt(&claim).await?;
            line.push_back(claim);
            if began.elapsed() > time {
                break;
            }
        }
        if line.len() < others {
            ended.push(format!("the line: {} places in {time:?}", line.len()));
            break;
        }
        let (mut joins, mut leaves, mut passes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TIMES {
            let newcomer = claim(&key, Patience::Queue)?;
            joins.push(timed(engine.attempt(&newcomer)).await?.0);
            leaves.push(timed(engine.release(&newcomer, Answered::All)).await?.0);
            if let Some(front) = line.pop_front() {
                passes.push(timed(engine.release(&front, Answered::All)).await?.0);
                let back = claim(&key, Patience::Queue)?;
                let _ = engine.attempt(&back).await?;
                line.push_back(back);
            }
        }
        for (curve, times) in [(&mut join, joins), (&mut leave, leaves), (&mut pass, passes)] {
            curve.points.push((f64::from(step), Spread::of(times).p50_us));
        }
    }
    // From the back, so that nobody is told of a turn.
    while let Some(claim) = line.pop_back() {
        let _ = engine.release(&claim, Answered::All).await?;
    }
    Ok(vec![join, leave, pass])
}

/// At each step one more key is taken and given back.
async fn keys(
    place: &Place,
    engine: &dyn Engine,
    time: Duration,
    ended: &mut Vec<String>,
) -> Result<Vec<Curve>> {
    let began = Instant::now();
    let mut held: Vec<Claim> = Vec::new();
    let [mut take, mut free] = ["acquire", "release"].map(curve);
    for step in KEYS {
        let more = (held.len()..step as usize).map(|number| place.key(&format!("keys/{number}")));
        let more = more.map(|key| claim(&Key::new(key)?, Patience::Try)).collect::<Result<_>>()?;
        held.extend(stand(engine, more, began + time).await?);
        if held.len() < step as usize {
            ended.push(format!("the keys: {} in {time:?}", held.len()));
            break;
        }
        let (mut takes, mut frees) = (Vec::new(), Vec::new());
        for number in 0..TIMES {
            let claim = claim(&Key::new(place.key(&format!("one more/{number}")))?, Patience::Try)?;
            takes.push(timed(engine.attempt(&claim)).await?.0);
            frees.push(timed(engine.release(&claim, Answered::All)).await?.0);
        }
        take.points.push((f64::from(step), Spread::of(takes).p50_us));
        free.points.push((f64::from(step), Spread::of(frees).p50_us));
    }
    leave(engine, held).await?;
    Ok(vec![take, free])
}

/// Lets them all stand in line, many at once; those that did until then.
async fn stand(engine: &dyn Engine, claims: Vec<Claim>, until: Instant) -> Result<Vec<Claim>> {
    let stand = async |claim: Claim| -> Result<Option<Claim>> {
        if Instant::now() > until {
            return Ok(None);
        }
        match engine.attempt(&claim).await? {
            Attempt::Busy(_) if claim.patience == Patience::Try => {
                Err(Trouble::Internal("somebody has a key of this bench".into()))
            }
            _ => Ok(Some(claim)),
        }
    };
    let mut all = stream::iter(claims).map(stand).buffer_unordered(AT_ONCE);
    let mut stood = Vec::new();
    while let Some(claim) = all.next().await {
        stood.extend(claim?);
    }
    Ok(stood)
}

/// Lets them all go.
async fn leave(engine: &dyn Engine, claims: Vec<Claim>) -> Result<()> {
    let release = async |claim: Claim| engine.release(&claim, Answered::All).await;
    let mut freed = stream::iter(claims).map(release).buffer_unordered(AT_ONCE);
    while let Some(released) = freed.next().await {
        let _ = released?;
    }
    Ok(())
}

/// The hot key, with more and more processes of one task, or of so many.
async fn processes(place: &Place, tasks: u32, time: Duration) -> Result<Vec<Curve>> {
    let each = time / PROCESSES.len() as u32;
    let [mut grant, mut wait] = ["time per grant", "wait, p99"].map(curve);
    for step in PROCESSES {
        let hot = hot::measure(place, step, tasks, each.max(Duration::from_millis(500))).await?;
        grant.points.push((f64::from(step), 1e6 / hot.grants_per_second));
        wait.points.push((f64::from(step), hot.wait.p99_us));
        if hot.lost > 0 {
            return Err(Trouble::Internal(format!("{} updates were lost with {step} processes", hot.lost)));
        }
    }
    Ok(vec![grant, wait])
}

fn curve(name: &'static str) -> Curve {
    Curve { name, points: Vec::new() }
}

fn claim(key: &Key, patience: Patience) -> Result<Claim> {
    Ok(Claim {
        key: key.clone(),
        id: ClaimId::fresh(),
        mode: Mode::Exclusive,
        patience,
        ttl: Ttl::new(LEASE)?,
        floor: Seq::ZERO,
        note: Note::new("tenure bench", ""),
    })
}

async fn timed<T>(verb: impl Future<Output = tenure::Result<T>>) -> Result<(u64, T)> {
    let began = Instant::now();
    let answer = verb.await?;
    Ok((nanos(began.elapsed()), answer))
}
