//! `tenure sale`: the flash sale, from the command line.

use std::{
    env,
    io::{self, IsTerminal},
};

use tenure_flashsale::{
    Expected, Json, Live, Options, Outcome, Plain, Strategy, Trouble, Watch, page, sentences, table,
};

use crate::{
    args::{On, SaleArgs},
    engine::{self, Target},
    exit::{self, Code, Failure},
    out,
};

pub(crate) fn main(on: &On, args: &SaleArgs) -> Result<Code, Failure> {
    let options = options(on, args)?;
    options.check().map_err(failure)?;
    if let Some(path) = &args.html {
        // Before half a minute is spent on it.
        out::page(path, "")?;
    }
    let live = io::stdout().is_terminal() && !args.plain && !args.json;
    let outcome = if args.json {
        let mut json = Json::new(io::stdout());
        let outcome = run(&options, &mut json)?;
        json.outcome(&outcome);
        outcome
    } else {
        out::answer(&headline(&options));
        let outcome = if live {
            run(&options, &mut Live::new(io::stdout(), &options.strategies, out::width()))?
        } else {
            run(&options, &mut Plain(io::stdout()))?
        };
        // Plain lines have said it already.
        let told = if live { sentences(&outcome) + "\n" } else { String::new() };
        out::answer(&format!("\n{}\n{told}{}", table(&outcome), farewell(&outcome, args)));
        outcome
    };
    if let Some(path) = &args.html {
        out::page(path, &page(&outcome))?;
    }
    Ok(if outcome.as_expected() { exit::OK } else { exit::NOT_SHOWN })
}

fn run(options: &Options, watch: &mut dyn Watch) -> Result<Outcome, Failure> {
    engine::block_on(async { tenure_flashsale::run(options, watch).await.map_err(failure) })
}

fn failure(trouble: Trouble) -> Failure {
    let code = match trouble {
        Trouble::Engine(err) => return engine::config(err),
        Trouble::Usage(_) => exit::USAGE,
        Trouble::Unavailable(_) | Trouble::Again(_) => exit::UNAVAILABLE,
        Trouble::Interrupted(signal) => exit::signalled(signal),
        Trouble::Refused | Trouble::Internal(_) => exit::INTERNAL,
    };
    Failure::new(code, trouble.to_string())
}

fn options(on: &On, args: &SaleArgs) -> Result<Options, Failure> {
    let program = env::current_exe().map_err(|err| Failure::internal("cannot find this program", err))?;
    let store = On { on: args.store.clone(), on_file: args.store_file.clone() };
    let url = |on: &On| Ok::<_, Failure>(Target::named(on)?.map(|target| target.secret().to_owned()));
    let mut options = Options::new(program);
    options.on = url(on)?;
    options.store = url(&store)?;
    (options.hosts, options.buyers, options.stock) = (args.hosts, args.buyers, args.stock);
    (options.seed, options.rate, options.http) = (args.seed, args.rate, args.http);
    options.lease = args.lease;
    if let Some(list) = &args.strategies {
        options.strategies = strategies(list)?;
    }
    if let Some(list) = &args.faults {
        options.faults = Some(if list == "none" { Vec::new() } else { out::listed(list)? });
    }
    Ok(options)
}

fn strategies(list: &str) -> Result<Vec<Strategy>, Failure> {
    let is_safe = |strategy: &Strategy| strategy.expected() == Expected::Safe;
    match list {
        "all" => Ok(Strategy::ALL.to_vec()),
        "safe" => Ok(Strategy::ALL.into_iter().filter(is_safe).collect()),
        "wrong" => Ok(Strategy::ALL.into_iter().filter(|strategy| !is_safe(strategy)).collect()),
        _ => out::listed(list),
    }
}

fn headline(options: &Options) -> String {
    let Options { stock, buyers, hosts, strategies, .. } = options;
    let ways = strategies.len();
    let ways = if ways == 1 { "One way".into() } else { format!("{ways} ways") };
    format!("{stock} consoles, {buyers} buyers, {hosts} hosts, everybody at once. {ways} to sell them.\n\n")
}

fn farewell(outcome: &Outcome, args: &SaleArgs) -> String {
    let mut text = format!(
        "locks on {}, store {}, seed {}; what was sold is counted from the receipts.\n",
        outcome.engine, outcome.store, outcome.seed
    );
    match &args.html {
        Some(path) => text.push_str(&format!("page: {}\n", path.display())),
        None => text.push_str(
            "next: tenure sale --html sale.html  |  --on redis://localhost  |  --faults stall,kill\n",
        ),
    }
    if !outcome.as_expected() {
        text.push_str("NOT as it should be: see the lanes above.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use tenure_flashsale::Fault;

    use super::*;

    #[test]
    fn lists_are_read_strictly() {
        assert_eq!(strategies("all").unwrap().len(), 14);
        assert_eq!(strategies("safe").unwrap().len() + strategies("wrong").unwrap().len(), 14);
        assert_eq!(strategies("lease, fenced,lease").unwrap(), [Strategy::Lease, Strategy::Fenced]);
        assert_eq!(strategies("lock").unwrap_err().code, exit::USAGE);
        assert_eq!(out::listed::<Fault>("stall,kill").unwrap(), [Fault::Stall, Fault::Kill]);
        assert_eq!(out::listed::<Fault>("fire").unwrap_err().code, exit::USAGE);
    }
}
