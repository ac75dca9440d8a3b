//! Runs simulated schedules: `cargo xtask sim --schedules 1000000`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to people")]

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use tenure_verify::{
    checks::Story,
    sim::{Mutant, Outcome, Tally, catch, run, shrink, simulate},
};

const USAGE: &str =
    "usage: cargo xtask sim [--schedules N] [--seed N [--mutant NAME] [--shrink]] [--threads N] [--mutants]
  --schedules N  how many schedules (10000)
  --from N       the seed of the first (0)
  --seed N       only this one, and tell all that happened
  --mutant NAME  with --seed: the schedule with this wrong way in it
  --shrink       with --seed: the smallest schedule that still breaks the same promise
  --threads N    how many at once (as many as there are cores)
  --mutants      refute every wrong way instead; one that gets away fails the run";

struct Options {
    schedules: u64,
    from: u64,
    seed: Option<u64>,
    mutant: Option<Mutant>,
    shrink: bool,
    threads: usize,
    mutants: bool,
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let well = match options.seed {
        Some(seed) if options.shrink => smallest(seed, options.mutant),
        Some(seed) => replay(&simulate(seed, options.mutant)),
        None if options.mutants => mutants(&options),
        None => schedules(&options),
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse() -> Result<Options, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        schedules: 10_000,
        from: 0,
        seed: None,
        mutant: None,
        shrink: false,
        threads: cores,
        mutants: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            text.replace('_', "").parse::<u64>().map_err(|_| format!("`{text}` is no number"))
        };
        match arg.as_str() {
            "--schedules" => options.schedules = number()?,
            "--from" => options.from = number()?,
            "--seed" => options.seed = Some(number()?),
            "--threads" => options.threads = usize::try_from(number()?).unwrap_or(1),
            "--mutants" => options.mutants = true,
            "--shrink" => options.shrink = true,
            "--mutant" => {
                let name = args.next().unwrap_or_default();
                let found = Mutant::ALL.into_iter().find(|mutant| mutant.to_string() == name);
                options.mutant = Some(found.ok_or_else(|| format!("there is no mutant `{name}`"))?);
            }
            _ => return Err(format!("`{arg}` is no option")),
        }
    }
    Ok(options)
}

fn schedules(options: &Options) -> bool {
    let began = Instant::now();
    let said = AtomicU64::new(0);
    let progress = |tally: &Tally| {
        let seconds = began.elapsed().as_secs();
        if seconds / 10 > said.swap(seconds / 10, Ordering::Relaxed) {
            eprintln!("{}", line(tally, began));
        }
    };
    let tally = run(options.from, options.schedules, options.threads, &progress);
    println!("{}", line(&tally, began));
    let hits: Vec<_> = tally.hits.iter().map(|(kind, times)| format!("{times} {kind}")).collect();
    println!("faults that hit: {}", hits.join(", "));
    println!(
        "behind the same locks, a resource that checks no fence lost {} of {} updates",
        tally.plain.1, tally.plain.0
    );
    for failure in &tally.failures {
        println!("seed {}: {} is broken: {}", failure.seed, failure.promise, failure.story.why);
    }
    if let Some(failure) = tally.failures.first() {
        tell(&failure.story);
        println!("again: cargo xtask sim --seed {}", failure.seed);
        small(failure.seed, None);
    }
    tally.failures.is_empty()
}

fn line(tally: &Tally, began: Instant) -> String {
    let seconds = began.elapsed().as_secs_f64();
    format!(
        "{} schedules in {seconds:.0} s ({:.0} a second): {} acquisitions, {:.1} h simulated, {:.1} lock-hours, {} broken",
        tally.schedules,
        tally.schedules as f64 / seconds,
        tally.asked,
        tally.lived as f64 / 3.6e12,
        tally.held as f64 / 3.6e12,
        tally.failures.len()
    )
}

fn mutants(options: &Options) -> bool {
    let mut well = true;
    for mutant in Mutant::ALL {
        let began = Instant::now();
        match catch(mutant, options.from, options.schedules, options.threads) {
            Some(caught) => println!(
                "{:<24} refuted by {} after {} schedules in {:.2} s (seed {})",
                mutant.to_string(),
                caught.promise.code(),
                caught.schedules,
                began.elapsed().as_secs_f64(),
                caught.seed
            ),
            None => {
                println!("{:<24} GOT AWAY in {} schedules", mutant.to_string(), options.schedules);
                well = false;
            }
        }
    }
    well
}

/// Tells of the smallest plan that breaks the same promise, and what of it happens.
fn small(seed: u64, mutant: Option<Mutant>) -> Option<Outcome> {
    let small = shrink(seed, mutant)?;
    println!("the smallest of {} schedules tried that still breaks {}:", small.tried, small.promise);
    print!("{small}");
    let with = mutant.map(|mutant| format!(" --mutant {mutant}")).unwrap_or_default();
    println!("with all that happens: cargo xtask sim --seed {seed}{with} --shrink");
    Some(small.outcome)
}

fn smallest(seed: u64, mutant: Option<Mutant>) -> bool {
    match small(seed, mutant) {
        Some(outcome) => replay(&outcome),
        None => {
            println!("seed {seed} breaks nothing");
            true
        }
    }
}

fn replay(outcome: &Outcome) -> bool {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for event in &outcome.history.events {
        lines.push((
            event.at,
            format!("worker {} op {} key {}: {:?}", event.worker, event.op, event.key, event.what),
        ));
    }
    for effect in &outcome.history.effects {
        lines.push((effect.at, format!("worker {} op {}: {effect:?}", effect.worker, effect.op)));
    }
    for fault in &outcome.history.faults {
        lines.push((fault.from, format!("FAULT {fault:?}")));
    }
    lines.sort_by_key(|line| line.0);
    for (at, line) in lines {
        println!("{:>12.3} ms  {line}", at as f64 / 1e6);
    }
    for (promise, verdict) in &outcome.report.verdicts {
        println!("{promise}: {verdict:?}");
    }
    match outcome.report.refuted() {
        Some((promise, story)) => {
            println!("{promise} is broken: {}", story.why);
            false
        }
        None => true,
    }
}

fn tell(story: &Story) {
    for event in &story.events {
        println!(
            "{:>12.3} ms  worker {} op {}: {:?}",
            event.at as f64 / 1e6,
            event.worker,
            event.op,
            event.what
        );
    }
    for effect in &story.effects {
        println!("{:>12.3} ms  {effect:?}", effect.at as f64 / 1e6);
    }
    for fault in &story.faults {
        println!("{:>12.3} ms  {fault:?}", fault.from as f64 / 1e6);
    }
}
