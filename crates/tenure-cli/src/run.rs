//! `tenure run`: holds a lock while a command runs, and stops the command before somebody else can own the lock.

mod acquire;
mod explain;
mod group;
mod held;
mod job;
mod plan;
mod report;
mod signals;
pub(crate) mod stub;
mod supervisor;
mod terminal;
mod waiting;

use std::{ffi::OsString, path::Path};

use tenure::ErrorKind;
use tokio::time::Instant;

pub(crate) use self::waiting::Waiting;
use self::{
    acquire::{Got, acquire},
    held::Want,
    job::Errand,
    plan::{Bounds, Timetable},
    report::{Outcome, Report},
    signals::Signals,
    supervisor::Supervisor,
};
use crate::{
    args::{On, RunArgs},
    engine::{self, Target},
    exit::{self, Code, Failure},
    out, words,
};

/// How much to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Talk {
    Quiet,
    Normal,
    Verbose,
}

pub(crate) fn main(on: &On, args: &RunArgs) -> Result<Code, Failure> {
    let target = Target::resolve(on)?;
    let ttl = args.ttl.map_or_else(|| target.ttl(), Ok)?;
    let bounds = Bounds { ttl, grace: args.grace, max_run: args.max_run, hold_for: args.hold_for };
    let timetable = Timetable::new(&bounds).map_err(Failure::usage)?;
    if args.explain {
        return engine::block_on(explain::explain(&target, args, &timetable));
    }
    // Before any thread is started, so that it is so in all of them.
    signals::mind_terminal(false);
    let mut report = Report::new(args.key.as_str());
    let outcome = engine::block_on(run(&target, args, timetable, &mut report));
    let outcome = outcome.unwrap_or_else(|failure| {
        out::say(&failure.message);
        Outcome::Failed(failure.code)
    });
    if args.json {
        out::write_err(&format!("{}\n", report.json(&outcome)));
    }
    Ok(outcome.signal().map_or(outcome.code(), exit::die_by))
}

async fn run(
    target: &Target,
    args: &RunArgs,
    timetable: Timetable,
    report: &mut Report,
) -> Result<Outcome, Failure> {
    let talk = talk(args);
    let began = Instant::now();
    // Until here a signal simply ends this process: nothing is held yet.
    let client = target.connect().await?;
    let mut signals = Signals::listen().map_err(|err| Failure::internal("cannot listen for signals", err))?;
    let note = args.note.clone().unwrap_or_else(|| command_name(args));
    let want =
        Want { key: &args.key, note: &note, ttl: timetable.ttl, shared: args.shared, slots: args.slots };
    let acquired = acquire(target, &client, args, &want, &mut signals, talk).await;
    report.waited = began.elapsed();
    let held = match acquired? {
        Got::Held(held) => held,
        Got::Nothing(outcome) => {
            // A place in the line is given up before the end, so that nobody waits for it.
            client.close().await;
            return Ok(outcome);
        }
    };
    let since = Instant::now();
    report.fence = Some(held.fence());
    if talk == Talk::Verbose {
        let (fence, waited) = (held.fence(), words::span(report.waited));
        out::say(&format!("holds `{}` with fence {fence} after {waited}", args.key));
    }
    let errand = Errand {
        command: command(args),
        key: args.key.as_str().to_owned(),
        fence: held.fence().to_string(),
        engine: target.to_string(),
    };
    let mut supervisor = Supervisor::new(held, signals, timetable, talk);
    let ended = supervisor.supervise(&errand).await;
    if ended.is_ok() {
        supervisor.hold_on(since, &args.key).await;
    }
    let (lost, overran, released) = supervisor.finish().await;
    report.held = since.elapsed();
    let end = ended?;
    let lost = match released {
        Ok(()) => lost,
        Err(err) if err.kind() == ErrorKind::Lost => lost.or(Some("gone")),
        Err(err) => {
            out::say(&format!("the job has ended, but the lock could not be released and will lapse: {err}"));
            lost
        }
    };
    if let Some(why) = lost {
        let key = &args.key;
        let hint = words::shell_word(key.as_str());
        out::say(&format!("lost `{key}` while the job ran; see who has it now: tenure inspect {hint}"));
        return Ok(Outcome::Lost(why, end));
    }
    if talk == Talk::Verbose {
        out::say(&format!("released `{}` after {}", args.key, words::span(report.held)));
    }
    Ok(if overran { Outcome::Overran(end) } else { Outcome::Ended(end) })
}

fn talk(args: &RunArgs) -> Talk {
    match (args.quiet, args.verbose) {
        (true, _) => Talk::Quiet,
        (_, true) => Talk::Verbose,
        _ => Talk::Normal,
    }
}

/// What to execute: the words as they are, or a shell that reads them.
fn command(args: &RunArgs) -> Vec<OsString> {
    match &args.shell {
        Some(words) => {
            let shell = [OsString::from("/bin/sh"), "-c".into(), words.clone()];
            shell.into_iter().chain(args.command.iter().cloned()).collect()
        }
        None => args.command.clone(),
    }
}

/// The name of the program alone: its arguments may hold what others should not read.
fn command_name(args: &RunArgs) -> String {
    let word = if args.shell.is_some() { Some("sh".as_ref()) } else { args.command.first().map(Path::new) };
    let name = word.map(|word: &Path| word.file_name().unwrap_or(word.as_os_str()));
    name.unwrap_or_default().to_string_lossy().into_owned()
}
