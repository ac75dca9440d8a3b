//! Tests the suite: every engine that lies must be caught by the rule named for its lie, and honest engines of
//! every kind must pass all rules.

use std::{process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Failed, Trial};
use tenure_core::{Crash, Mode, Modes};
use tenure_testkit::{
    conformance::{Rule, rules},
    liars::{Lie, site},
    run,
};

const MUTEX_ONLY: Modes = Modes { shared: false, permits: false };

fn main() -> ExitCode {
    let mut trials: Vec<_> = Lie::ALL
        .iter()
        .map(|&lie| Trial::test(format!("liars::{lie}"), move || must_be_caught(lie)))
        .collect();
    for (name, modes, crash) in [
        ("lease", Modes::ALL, Crash::Lease),
        ("mutex_only", MUTEX_ONLY, Crash::Lease),
        ("process", Modes::ALL, Crash::Process),
        ("session", Modes::ALL, Crash::Session),
    ] {
        let site = Arc::new(site(None, modes, crash));
        for rule in rules().filter(|rule| rule.applies(&site)) {
            let site = site.clone();
            trials.push(Trial::test(format!("honest::{name}::{rule}"), move || {
                Ok(run(&site, rule, Mode::Exclusive)?)
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn must_be_caught(lie: Lie) -> Result<(), Failed> {
    let modes = match lie {
        Lie::GrantsUndeclaredShared | Lie::RefusesPermitsLate => MUTEX_ONLY,
        _ => Modes::ALL,
    };
    let site = Arc::new(site(Some(lie), modes, Crash::Lease));
    for name in lie.caught_by() {
        let rule = find(name)?;
        if !rule.applies(&site) {
            return Err(format!("`{rule}` is not asked of this engine").into());
        }
        match run(&site, rule, Mode::Exclusive) {
            Ok(()) => return Err(format!("`{rule}` did not notice").into()),
            Err(failure) if !failure.is_verdict() => return Err(format!("`{rule}`: {failure}").into()),
            Err(_) => {}
        }
    }
    Ok(())
}

fn find(name: &str) -> Result<&'static Rule, Failed> {
    rules().find(|rule| rule.to_string() == name).ok_or_else(|| format!("there is no rule `{name}`").into())
}
