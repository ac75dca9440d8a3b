//! `tenure verify`: prove or refute a lock, from the command line.

use std::{
    env,
    io::{self, IsTerminal},
};

use tenure_verify::{
    FaultKind, Options, Outcome, RunResult, Trouble, Watch,
    mutants::{Caught, Mutant},
    page,
    screen::{Json, Live, Plain, mutants_json, mutants_line, table},
};

use crate::{
    args::{On, VerifyArgs},
    engine::{self, Target},
    exit::{self, Code, Failure},
    out,
};

pub(crate) fn main(on: &On, args: &VerifyArgs) -> Result<Code, Failure> {
    let options = options(on, args)?;
    if let Some(path) = &args.html {
        // Before minutes are spent on it.
        out::page(path, "")?;
    }
    if args.mutants {
        return mutants(&options, args);
    }
    let live = io::stdout().is_terminal() && !args.plain && !args.json;
    let result = if args.json {
        let mut json = Json(io::stdout());
        let result = run(&options, &mut json)?;
        json.outcome(&result);
        result
    } else {
        let result = if live {
            run(&options, &mut Live::new(io::stdout(), out::width()))?
        } else {
            run(&options, &mut Plain(io::stdout()))?
        };
        out::answer(&format!("\n{}{}", table(&result), farewell(&result, args)));
        result
    };
    if let Some(path) = &args.html {
        out::page(path, &page::page(&result))?;
    }
    Ok(result.interrupted.map_or_else(|| code(result.outcome()), exit::signalled))
}

/// Runs the wrong ways. One that gets away fails the run.
fn mutants(options: &Options, args: &VerifyArgs) -> Result<Code, Failure> {
    let chosen = match &args.only {
        None => Mutant::ALL.to_vec(),
        Some(list) => out::listed(list)?,
    };
    let json = args.json;
    let mut tell = |caught: &Caught| {
        out::answer(&if json { mutants_json(caught) } else { mutants_line(caught) });
    };
    let all = engine::block_on(async {
        tenure_verify::mutants::run(options, &chosen, &mut tell).await.map_err(failure)
    })?;
    let away = all.iter().filter(|caught| caught.by.is_empty()).count();
    if !json {
        out::answer(&format!("\n{} of {} wrong ways were refuted\n", all.len() - away, all.len()));
    }
    Ok(if away == 0 { exit::OK } else { exit::REFUTED })
}

const fn code(outcome: Outcome) -> Code {
    match outcome {
        Outcome::Held | Outcome::Excused | Outcome::Skipped => exit::OK,
        Outcome::Inconclusive => exit::INCONCLUSIVE,
        Outcome::Refuted => exit::REFUTED,
    }
}

fn run(options: &Options, watch: &mut dyn Watch) -> Result<RunResult, Failure> {
    engine::block_on(async { tenure_verify::run(options, watch).await.map_err(failure) })
}

fn failure(trouble: Trouble) -> Failure {
    let code = match trouble {
        Trouble::Engine(err) => return engine::config(err),
        Trouble::Usage(_) => exit::USAGE,
        Trouble::Unavailable(_) => exit::UNAVAILABLE,
        Trouble::Interrupted(signal) => exit::signalled(signal),
        Trouble::Internal(_) => exit::INTERNAL,
    };
    Failure::new(code, trouble.to_string())
}

fn options(on: &On, args: &VerifyArgs) -> Result<Options, Failure> {
    let program = env::current_exe().map_err(|err| Failure::internal("cannot find this program", err))?;
    let mut options = Options::new(program);
    options.on = Target::named(on)?.map(|target| target.secret().to_owned());
    if let Some(lab) = &args.lab {
        options.lab = lab.parse().map_err(Failure::usage)?;
    }
    (options.time, options.seed, options.ttl) = (args.time, args.seed, args.ttl);
    (options.workers, options.keys, options.min_hits) = (args.workers, args.keys, args.hits);
    options.faults = args.faults.as_deref().map(faults).transpose()?;
    if !args.strike.is_empty() && options.on.is_none() {
        return Err(Failure::usage("--strike is for an engine of your own: name it by --on"));
    }
    options.strikes = args.strike.iter().map(|order| strike(order)).collect::<Result<_, _>>()?;
    Ok(options)
}

fn faults(list: &str) -> Result<Vec<FaultKind>, Failure> {
    let mut all = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let named = match name {
            "cheap" => FaultKind::CHEAP.to_vec(),
            "all" => FaultKind::ALL.to_vec(),
            name => vec![name.parse().map_err(Failure::usage)?],
        };
        named.into_iter().for_each(|fault| {
            if !all.contains(&fault) {
                all.push(fault);
            }
        });
    }
    Ok(all)
}

/// `FAULT=COMMAND`
fn strike(order: &str) -> Result<(FaultKind, String), Failure> {
    let (fault, command) = order
        .split_once('=')
        .filter(|(_, command)| !command.trim().is_empty())
        .ok_or_else(|| Failure::usage(format!("`{order}` is no order: --strike wants FAULT=COMMAND")))?;
    let fault: FaultKind = fault.trim().parse().map_err(Failure::usage)?;
    if !fault.strikes_the_engine() {
        return Err(Failure::usage(format!("`{fault}` is done to clients, and needs no command")));
    }
    Ok((fault, command.to_owned()))
}

fn farewell(result: &RunResult, args: &VerifyArgs) -> String {
    let verdict = match result.outcome() {
        outcome if result.interrupted.is_some() && outcome != Outcome::Refuted => {
            "Interrupted: the faults that are not listed were not tried."
        }
        Outcome::Held => "Every promise of its grade that was tried held, within this run.",
        Outcome::Excused => "Every promise of its grade that was tried held; what broke is not promised.",
        Outcome::Refuted => "REFUTED: a promise was broken; the story is above.",
        Outcome::Inconclusive | Outcome::Skipped => "Inconclusive: too few faults hit; try a longer --for.",
    };
    let page = args.html.as_ref().map(|path| format!("page: {}\n", path.display())).unwrap_or_default();
    format!("\n{verdict}\n{page}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_strictly() {
        assert_eq!(faults("cheap, kill,late").unwrap().len(), 4);
        assert_eq!(faults("all").unwrap(), FaultKind::ALL);
        assert_eq!(faults("fire").unwrap_err().code, exit::USAGE);
    }

    #[test]
    fn orders_are_read_strictly() {
        let order = strike("engine-kill=a=b c").unwrap();
        assert_eq!(order, (FaultKind::EngineKill, "a=b c".to_owned()));
        for (order, why) in [
            ("engine-kill", "wants FAULT=COMMAND"),
            ("engine-kill= ", "wants FAULT=COMMAND"),
            ("fire=x", "there is no fault `fire`"),
            ("pause=x", "is done to clients"),
        ] {
            let failure = strike(order).unwrap_err();
            assert!(failure.code == exit::USAGE && failure.message.contains(why), "{}", failure.message);
        }
    }

    #[test]
    fn only_what_is_known_to_be_well_is_well() {
        assert_eq!(code(Outcome::Held), exit::OK);
        assert_eq!(code(Outcome::Refuted), exit::REFUTED);
        assert_eq!(code(Outcome::Inconclusive), exit::INCONCLUSIVE);
    }
}
