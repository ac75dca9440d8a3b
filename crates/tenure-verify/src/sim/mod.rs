//! The simulator: the real locks over servers, networks, clocks and processes that are not.
//!
//! A schedule is one run of two or three clients over one simulated server, or a quorum of them. All of it, down to the
//! order in which tasks run, follows from its seed: the acquire loop, the watchdog, the lane, the cleaner and the guard are
//! those of the `tenure` crate, on tokio's paused time; what they talk to is here.

mod all;
mod campaign;
mod clock;
mod grip;
mod mutants;
mod plan;
mod process;
mod registers;
mod server;
mod shrink;
mod smaller;
mod strikes;
#[cfg(test)]
mod tests;
mod weather;
mod wire;
mod worker;
mod world;

use std::{sync::Arc, time::Duration};

use tenure::{Client, Quorum, QuorumSettings, Settings};
use tenure_core::{Engine, Result};

pub use self::{
    campaign::{Caught, Failure, Progress, Tally, catch, run},
    mutants::Mutant,
    shrink::{Shrunk, shrink},
};
use self::{
    clock::{ClientClock, Wall},
    plan::{MS, Plan, SKEW},
    process::Background,
    wire::Wire,
    worker::Worker,
    world::World,
};
use crate::{
    checks::{Bounds, Report, check},
    history::{History, Nanos, What},
};

/// What one schedule came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What happened.
    pub history: History,
    /// What the lock was allowed.
    pub bounds: Bounds,
    /// What that proves.
    pub report: Report,
    /// For how long somebody held a lock, all locks and holders together.
    pub held: Nanos,
    /// How many times somebody asked for one.
    pub asked: usize,
}

/// Runs the schedule of a seed, with the wrong way in it if one is named.
///
/// # Panics
/// If the simulation itself cannot be set up, which its seed then shows again.
#[must_use]
pub fn simulate(seed: u64, mutant: Option<Mutant>) -> Outcome {
    simulate_plan(Plan::draw(seed, mutant), seed, mutant)
}

/// Runs a plan with these dice.
fn simulate_plan(plan: Plan, dice: u64, mutant: Option<Mutant>) -> Outcome {
    fastrand::seed(dice);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread needs nothing");
    let bounds = bounds(&plan);
    let history = runtime.block_on(live(plan, mutant));
    let report = check(&history, &bounds);
    let held = held(&history);
    let asked = history.events.iter().filter(|event| matches!(event.what, What::Asked { .. })).count();
    Outcome { history, bounds, report, held, asked }
}

async fn live(plan: Plan, mutant: Option<Mutant>) -> History {
    let world = World::new(plan, mutant);
    world.begin();
    for number in 0..world.plan.clients.len() {
        start(&world, number).expect("the settings of a simulated client are right");
    }
    // Long enough for every patience and every fault; past it something hangs, which the checks will say.
    let limit = Duration::from_nanos(100 * world.plan.ttl);
    let over = async {
        loop {
            let ended = world.ended.notified();
            if world.is_over() {
                break;
            }
            ended.await;
        }
    };
    let _ = tokio::time::timeout(limit, over).await;
    world.close()
}

fn start(world: &Arc<World>, number: usize) -> Result<()> {
    let plan = &world.plan.clients[number];
    let process = world.processes[number].clone();
    let clock = Arc::new(ClientClock {
        start: world.start,
        drift: plan.drift,
        mutant: world.mutant,
        set_back: plan.set_back,
        process: process.clone(),
    });
    let ttl = Duration::from_nanos(world.plan.ttl);
    let mut wires = (0..world.plan.servers.len()).map(|server| Wire::new(world, number, server));
    let engine: Arc<dyn Engine> = if world.plan.servers.len() == 1 {
        wires.next().expect("there is one server")
    } else {
        let members = wires.zip('a'..).map(|(wire, name)| (name.to_string(), wire as Arc<dyn Engine>));
        let mut settings = QuorumSettings::default();
        settings.max_ttl = ttl;
        settings.max_skew = Duration::from_nanos(2 * SKEW);
        settings.clock = clock.clone();
        settings.wall = Arc::new(Wall { start: world.start, drift: plan.drift, ahead: plan.ahead });
        Quorum::new(members.collect(), settings)?
    };
    let mut settings = Settings::default();
    settings.ttl = ttl;
    settings.who = format!("client {number}");
    settings.clock = clock;
    settings.around = Some(Arc::new(Background(process.clone())));
    let client = Client::new(engine, settings)?;
    for task in 0..plan.tasks {
        let worker =
            Worker { world: Arc::clone(world), client: client.clone(), number, task, drift: plan.drift };
        tokio::spawn(process.run(Box::pin(worker.run()), false));
    }
    Ok(())
}

fn bounds(plan: &Plan) -> Bounds {
    let ttl = plan.ttl;
    let quorum = plan.servers.len() > 1;
    Bounds {
        ttl,
        // A waiter that is not told asks again within a third of the lease. Where nobody has a place in line, those who
        // ask at the same time may stand in each other's way for a while.
        succession: if quorum { 4 * ttl } else { 3 * ttl / 2 },
        poll: if quorum { 3 * ttl } else { ttl / 3 + 50 * MS },
        epsilon: 8 * plan.latency + 60 * MS,
        min_hits: std::collections::BTreeMap::new(),
        search_steps: 10_000,
    }
}

/// For how long locks were held, by the first word that each holder heard and the last that it said.
fn held(history: &History) -> Nanos {
    let mut since = std::collections::HashMap::new();
    let mut held = 0;
    for event in &history.events {
        match event.what {
            What::Granted { .. } => _ = since.insert(event.op, event.at),
            What::Left | What::Lost | What::ReleaseAsked => {
                held += since.remove(&event.op).map_or(0, |from| event.at - from);
            }
            _ => {}
        }
    }
    held
}
