//! `tenure bench`: what locks cost on an engine, from the command line.

use std::{
    env,
    io::{self, IsTerminal},
};

use serde_json::json;
use tenure_bench::{Growth, Options, Trouble, Watch, growth_page, growth_table, page, table};

use crate::{
    args::{BenchArgs, On},
    engine::{self, Target},
    exit::{self, Code, Failure},
    out,
};

pub(crate) fn main(on: &On, args: &BenchArgs) -> Result<Code, Failure> {
    let options = options(on, args)?;
    options.check().map_err(failure)?;
    if let Some(path) = &args.html {
        // Before half a minute is spent on it.
        out::page(path, "")?;
    }
    let mut progress = Progress { quiet: args.json, live: io::stderr().is_terminal() };
    if args.growth {
        return growth(&options, args, &mut progress);
    }
    let figures =
        engine::block_on(async { tenure_bench::run(&options, &mut progress).await.map_err(failure) })?;
    if args.json {
        out::answer(&format!("{}\n", json!(figures)));
    } else {
        out::answer(&table(&figures));
    }
    if let Some(path) = &args.html {
        out::page(path, &page(&figures))?;
    }
    Ok(if figures.lost() == 0 { exit::OK } else { exit::NOT_SHOWN })
}

fn growth(options: &Options, args: &BenchArgs, progress: &mut Progress) -> Result<Code, Failure> {
    let growth: Growth =
        engine::block_on(async { tenure_bench::grow(options, progress).await.map_err(failure) })?;
    if args.json {
        out::answer(&format!("{}\n", json!(growth)));
    } else {
        out::answer(&growth_table(&growth));
    }
    if let Some(path) = &args.html {
        out::page(path, &growth_page(&growth))?;
    }
    Ok(exit::OK)
}

fn options(on: &On, args: &BenchArgs) -> Result<Options, Failure> {
    let program = env::current_exe().map_err(|err| Failure::internal("cannot find this program", err))?;
    let mut options = Options::new(program);
    options.on = Target::named(on)?.map(|target| target.secret().to_owned());
    options.time = args.time;
    (options.processes, options.tasks, options.locks) = (args.processes, args.tasks, args.locks);
    options.engine_process = args.engine_pid;
    if let Some(list) = &args.only {
        options.only = out::listed(list)?;
    }
    Ok(options)
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

/// Says on stderr how far it is: one line that changes on a terminal, a line for each result elsewhere.
struct Progress {
    quiet: bool,
    live: bool,
}

impl Watch for Progress {
    fn begins(&mut self, what: &str, number: usize, of: usize) {
        if self.live && !self.quiet {
            out::write_err(&format!("\r\x1b[K[{number}/{of}] {what} ..."));
        }
    }

    fn ends(&mut self, what: &str) {
        if !self.quiet {
            let clear = if self.live { "\r\x1b[K" } else { "" };
            out::write_err(&format!("{clear}{what}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_bench::Measure;

    use super::*;

    #[test]
    fn lists_are_read_strictly() {
        assert_eq!(out::listed::<Measure>("hot, alone").unwrap(), [Measure::Hot, Measure::Alone]);
        assert_eq!(out::listed::<Measure>("hottest").unwrap_err().code, exit::USAGE);
    }
}
