//! `tenure`: holds a lock while a command runs, on one machine or many, and looks at who holds what.

#[cfg(not(target_os = "linux"))]
compile_error!("the command line tool needs Linux; the library `tenure` does not");

mod args;
mod bench;
mod break_;
mod doctor;
mod engine;
mod exit;
mod inspect;
mod json;
mod ls;
mod man;
mod out;
mod run;
mod sale;
mod schema;
mod verify;
mod wait;
mod words;

use std::{env, process::ExitCode};

use clap::Parser;

use crate::{
    args::{Cli, Verb},
    exit::Failure,
};

fn main() -> ExitCode {
    // Before anything else: the stub is started for every job and must cost nothing.
    if env::args_os().nth(1).is_some_and(|word| word == run::stub::WORD) {
        return run::stub::main();
    }
    if env::args_os().nth(1).is_some_and(|word| word == tenure_flashsale::HOST_WORD) {
        return tenure_flashsale::host_main();
    }
    if env::args_os().nth(1).is_some_and(|word| word == tenure_verify::WORKER_WORD) {
        return tenure_verify::worker_main();
    }
    if env::args_os().nth(1).is_some_and(|word| word == tenure_bench::PART_WORD) {
        return tenure_bench::part_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(err) => {
            let _ = err.print();
            return if err.use_stderr() { exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    let done = match cli.verb {
        Verb::Run(args) => run::main(&cli.on, &args),
        Verb::Ls(args) => ls::main(&cli.on, &args),
        Verb::Inspect(args) => inspect::main(&cli.on, &args),
        Verb::Break(args) => break_::main(&cli.on, &args),
        Verb::Wait(args) => wait::main(&cli.on, &args),
        Verb::Doctor(args) => doctor::main(&cli.on, &args),
        Verb::Bench(args) => bench::main(&cli.on, &args),
        Verb::Sale(args) => sale::main(&cli.on, &args),
        Verb::Verify(args) => verify::main(&cli.on, &args),
        Verb::Schema(args) => schema::main(&args),
        Verb::Completions { shell } => man::completions(shell),
        Verb::Man { verb } => man::page(verb.as_deref()),
    };
    match done {
        Ok(code) => code.into(),
        Err(Failure { code, message }) => {
            out::say(&message);
            code.into()
        }
    }
}
