use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use libtest_mimic::{Completion, Failed, Trial};
use tenure_core::{Mode, Permits};
use tokio::runtime::Builder;

use crate::{
    Failure, Result, Site, Time,
    conformance::{Rule, rules},
    servers::Found,
};

/// The longest a trial may take by the machine's clock.
const LIMIT: Duration = Duration::from_secs(30);

/// The trials for every rule that these engines must keep, named `<engine>::<area>::<rule>`, and
/// `<engine>::<area>::<rule>::by_one_permit` where a semaphore of one must keep it as a mutex does.
///
/// An engine whose server is not installed gives one trial, `<engine>::server::is_installed`: failed where `CI`
/// is set, ignored with its reason elsewhere.
#[must_use]
pub fn trials(found: Vec<Found>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for found in found {
        match found {
            Found::Ready(site) => {
                let site = Arc::new(site);
                for rule in rules().filter(|rule| rule.applies(&site)) {
                    let name = format!("{}::{rule}", site.name);
                    for (name, mutex) in faces(&site, rule, name) {
                        let site = site.clone();
                        trials.push(Trial::test(name, move || Ok(run(&site, rule, mutex)?)));
                    }
                }
            }
            Found::Missing { name, reason } => {
                trials.push(Trial::ignorable_test(format!("{name}::server::is_installed"), move || {
                    if std::env::var_os("CI").is_some() {
                        Err(Failed::from(reason))
                    } else {
                        Ok(Completion::ignored_with(reason))
                    }
                }));
            }
        }
    }
    trials
}

/// A semaphore of one is a mutex: where there are permits, it must keep the same rules.
fn faces(site: &Site, rule: &Rule, name: String) -> Vec<(String, Mode)> {
    let single = Permits::new(1, 1).ok().filter(|_| site.guarantees.modes.permits && rule.is_about_a_mutex());
    let mut faces = Vec::from_iter(single.map(|one| (format!("{name}::by_one_permit"), Mode::Permits(one))));
    faces.push((name, Mode::Exclusive));
    faces
}

/// Asks one rule of one engine, in a thread and a runtime of its own, within a wall-clock limit.
///
/// # Errors
/// If the engine breaks the rule, the rule panics, or the limit passes. A trial that hangs is left behind: its
/// thread cannot be stopped.
pub fn run(site: &Arc<Site>, rule: &'static Rule, mutex: Mode) -> Result<()> {
    let (tell, told) = mpsc::channel();
    let site = site.clone();
    thread::Builder::new().name(rule.to_string()).spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| ask(&site, rule, mutex)));
        // Nobody listens any more if the limit has passed.
        let _ = tell.send(outcome);
    })?;
    match told.recv_timeout(LIMIT) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Failure::of_the_trial("the rule panicked; its message is above")),
        Err(_) => Err(Failure::of_the_trial(format!("the rule took longer than {LIMIT:?}"))),
    }
}

fn ask(site: &Site, rule: &Rule, mutex: Mode) -> Result<()> {
    let runtime = match rule.time(site) {
        Time::Virtual => Builder::new_current_thread().enable_all().start_paused(true).build()?,
        Time::Real => Builder::new_multi_thread().worker_threads(4).enable_all().build()?,
    };
    let outcome = runtime.block_on(rule.ask(site, mutex));
    runtime.shutdown_background();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_is_one_trial_that_is_never_a_silent_pass() {
        let missing = Found::Missing { name: "redis", reason: "install redis-server".into() };
        let trials = trials(vec![missing]);
        assert_eq!(trials.len(), 1);
        assert_eq!(trials[0].name(), "redis::server::is_installed");
        // What it prints is not for the log of this test, where it would look like a failure.
        let silent = libtest_mimic::Arguments::from_iter(["", "--quiet", "--logfile", "/dev/null"]);
        let conclusion = libtest_mimic::run(&silent, trials);
        let in_ci = u64::from(std::env::var_os("CI").is_some());
        assert_eq!((conclusion.num_failed, conclusion.num_ignored), (in_ci, 1 - in_ci));
        assert_eq!(conclusion.num_passed, 0);
    }
}
