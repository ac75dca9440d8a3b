//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use tenure::{Fence, Key, parse_duration};

/// Hold a lock while a command runs, on one machine or many.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, max_term_width = 100, after_help = ROOT_EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) on: On,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Where the lock is.
#[derive(Args, Debug)]
pub(crate) struct On {
    /// The engine, as a URL: `file:` (this machine, the default), `file:/path`, `redis://host`,
    /// `postgres://user@host/db`, `mysql://user@host/db`, `memcached://host`, `etcd://h1,h2,h3`, ...
    ///
    /// Without this flag, the variable TENURE_URL is used. A password in a flag shows in the list of processes:
    /// use the variable or --on-file for one.
    #[arg(long, value_name = "URL", global = true, conflicts_with = "on_file", help_heading = "Engine")]
    pub(crate) on: Option<String>,
    /// A file with the engine's URL on its first line
    #[arg(long, value_name = "PATH", global = true, help_heading = "Engine")]
    pub(crate) on_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a command while holding a lock
    #[command(after_help = RUN_EXAMPLES, after_long_help = RUN_LONG)]
    Run(Box<RunArgs>),
    /// List locks: key, holder, held for, lease left, waiters, fence
    Ls(LsArgs),
    /// Show who holds a key, who waits for it, and what its engine promises
    Inspect(InspectArgs),
    /// Take a lock away from its holder
    ///
    /// The holder is told at its next renewal and stops its job; the key is free when it has, or when its lease
    /// ends. Names the fence you looked at (`tenure inspect KEY`) and refuses if it has moved on since.
    Break(BreakArgs),
    /// Wait until nobody holds a key, without taking it
    Wait(WaitArgs),
    /// Check an engine: reach, round trip, promises, and settings that make locks unsafe
    Doctor(DoctorArgs),
    /// Print the tables of a SQL engine, for a migration where `tenure` may not create them
    ///
    /// Without it, they are created when an engine is first used, if its user may.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema(SchemaArgs),
    /// Sell a hundred consoles to two thousand buyers, in every way, and see which go wrong
    ///
    /// Each way of guarding the stock runs as several processes on a real store, under the fault that it is known for:
    /// the wrong ways of the field beside the right ones. Without flags it needs no server and takes about half a minute.
    #[command(after_help = SALE_EXAMPLES, after_long_help = SALE_LONG)]
    Sale(SaleArgs),
    /// Prove or refute the promises of a lock, on your own engine or on one that is started for it
    ///
    /// Several processes go for the same locks while faults are aimed at the moments that matter: the holder is killed,
    /// stopped past its lease, cut off from the engine. Every promise was held (within so many operations and faults that
    /// hit), refuted (with the shortest story), or the run was inconclusive. Without flags it needs no server.
    #[command(after_help = VERIFY_EXAMPLES, after_long_help = VERIFY_LONG)]
    Verify(VerifyArgs),
    /// Measure what locks cost on an engine, as ratios to its round trip
    ///
    /// Acquire and release alone, the hand-off between processes, one hot key, the crash of a holder, and many held locks: each in
    /// turns with the engine's bare round trip, so that the figure is a ratio. Exits 1 if an update under the lock was lost.
    #[command(after_help = BENCH_EXAMPLES, after_long_help = BENCH_LONG)]
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, of `tenure` or of one of its verbs, for `man -l -`
    Man {
        /// The verb, such as `run`
        verb: Option<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Do not wait: if somebody holds the key, exit 75
    #[arg(short = 'n', long, conflicts_with_all = ["wait", "if_busy"])]
    pub(crate) nonblock: bool,
    /// Wait at most this long (5, 0.5, 90s, 2m), then exit 75
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// What to do if somebody holds the key: wait, fail (exit 75) or skip (exit 0, quietly)
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) if_busy: Option<IfBusy>,
    /// Exit with this code instead of 75 if the key is busy
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Share the key with others who share it
    #[arg(short, long, conflicts_with = "slots")]
    pub(crate) shared: bool,
    /// Let this many hold the key at once; all must name the same number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) slots: Option<u32>,
    /// How long the lock outlives this host if it dies [default: 15s, or what the URL says]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// How long the job has between SIGTERM and SIGKILL
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// Keep the lock at least this long, so that a fast job does not run again on a host with another clock
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) hold_for: Option<Duration>,
    /// Stop the job after this long and exit 124
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) max_run: Option<Duration>,
    /// Run these words with /bin/sh; what follows KEY are its $0, $1, ...
    #[arg(short = 'c', long = "shell", value_name = "WORDS")]
    pub(crate) shell: Option<OsString>,
    /// What the lock is held for, shown to those who wait [default: the command's name]
    #[arg(long, value_name = "TXT")]
    pub(crate) note: Option<String>,
    /// Write one JSON object to stderr at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the timetable and what the engine promises; run nothing
    #[arg(long)]
    pub(crate) explain: bool,
    /// Say only what went wrong
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say what happens
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// The lock's name
    #[arg(value_parser = key)]
    pub(crate) key: Key,
    /// The command and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, required_unless_present_any = ["shell", "explain"])]
    pub(crate) command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfBusy {
    Wait,
    Fail,
    Skip,
}

#[derive(Args, Debug)]
pub(crate) struct LsArgs {
    /// Only keys that start so
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// One JSON object per holder and line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The lock's name
    #[arg(value_parser = key)]
    pub(crate) key: Key,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BreakArgs {
    /// The lock's name
    #[arg(value_parser = key)]
    pub(crate) key: Key,
    /// The fence of the hold to break, as `tenure inspect` shows it
    #[arg(long, value_name = "N", value_parser = fence)]
    pub(crate) if_fence: Fence,
    /// Free the key at once, though the holder may not know yet: until it does, only fences protect
    #[arg(long)]
    pub(crate) now: bool,
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// The lock's name
    #[arg(value_parser = key)]
    pub(crate) key: Key,
    /// Wait at most this long, then exit 75
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Say only what went wrong
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The engine [default: as for the other verbs]
    pub(crate) url: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SchemaArgs {
    /// For which server; MariaDB is `mysql`
    #[arg(value_name = "ENGINE", value_enum)]
    pub(crate) dialect: Dialect,
    /// What the tables' names start with, as `?table=` of the URL says it [default: tenure]
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// The schema they are in, as `?schema=` of the URL says it; PostgreSQL only [default: public]
    #[arg(long, value_name = "NAME")]
    pub(crate) schema: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct SaleArgs {
    /// The store, as a URL: `mysql://user@host/db`, `postgres://user@host/db`, `redis://host` [default: a SQLite file]
    ///
    /// A password in a flag shows in the list of processes: use --store-file for one. What the sale writes there is
    /// removed when it ends.
    #[arg(long, value_name = "URL", conflicts_with = "store_file")]
    pub(crate) store: Option<String>,
    /// A file with the store's URL on its first line
    #[arg(long, value_name = "PATH")]
    pub(crate) store_file: Option<PathBuf>,
    /// How many processes sell
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) hosts: u32,
    /// How many people want one
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub(crate) buyers: u32,
    /// How many there are
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) stock: u32,
    /// The ways to sell, by commas, or `safe` or `wrong` [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) strategies: Option<String>,
    /// What strikes the right ways: stall, kill, cut, skew by commas, or none [default: what each is shown under]
    ///
    /// The wrong ways always have the fault that they are known for.
    #[arg(long, value_name = "LIST")]
    pub(crate) faults: Option<String>,
    /// The same seed gives the same verdicts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many buyers come in a second [default: all at once]
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
    /// The lease of all locks, longer if the engine wants it [default: 400ms, on a server 1.5s]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) lease: Option<Duration>,
    /// Let buyers come by HTTP: POST /items/console/orders
    #[arg(long)]
    pub(crate) http: bool,
    /// Write one page with the plots and each lane's story
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// One JSON object per line: ticks, lanes, and the sale at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Plain lines even on a terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) plain: bool,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// Start this engine: file, memory, redis, redis-volatile, redis-sentinel, redis-cluster, redlock, mysql, postgres,
    /// zookeeper, etcd, memcached [default: file, unless --on names one]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["on", "on_file"])]
    pub(crate) lab: Option<String>,
    /// How long each fault is tried for; faults of the engine up to four times as long, until they have hit --hits times
    #[arg(long = "for", value_name = "DUR", default_value = "20s", value_parser = duration)]
    pub(crate) time: Duration,
    /// Decides who asks for what, and who is struck when
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many processes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) workers: u32,
    /// How many locks
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) keys: u32,
    /// The lease, longer if the engine wants it [default: 1s]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// The faults, by commas; `cheap` is kill, pause and failpoint [default: all that can be]
    #[arg(long, value_name = "LIST")]
    pub(crate) faults: Option<String>,
    /// With --on: allow a fault of the engine itself, done and healed by this command of yours; may be repeated
    #[arg(long, value_name = "FAULT=COMMAND", conflicts_with_all = ["lab", "mutants"])]
    pub(crate) strike: Vec<String>,
    /// How often each fault must hit, or the run is inconclusive
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) hits: usize,
    /// Verify the verifier: run wrong locks, each of which must be refuted within a minute
    #[arg(long, conflicts_with_all = ["on", "on_file", "lab", "faults"])]
    pub(crate) mutants: bool,
    /// With --mutants: only these, by commas
    #[arg(long, value_name = "LIST", requires = "mutants")]
    pub(crate) only: Option<String>,
    /// Write one page with a timeline of each lock
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// One JSON object per line: each cell, and the run at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Plain lines even on a terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) plain: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// How long it may take in all, about
    #[arg(long = "for", value_name = "DUR", default_value = "30s", value_parser = duration)]
    pub(crate) time: Duration,
    /// What is measured, by commas: alone, handoff, hot, crash, held [default: all]
    #[arg(long, value_name = "LIST", conflicts_with = "growth")]
    pub(crate) only: Option<String>,
    /// How many processes contend for the hot key
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) processes: u32,
    /// How many tasks in each
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) tasks: u32,
    /// How many locks are held at once
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) locks: u32,
    /// Measure how costs grow instead: with the line, the keys, the processes; and what a key and a waiter weigh
    #[arg(long)]
    pub(crate) growth: bool,
    /// With --growth: the engine's process on this machine, whose memory is measured too
    #[arg(long, value_name = "PID", requires = "growth")]
    pub(crate) engine_pid: Option<u32>,
    /// Write one page with the table, how the times are spread, and who got how much
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// One JSON object at the end, and no words
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    #[value(alias = "mariadb")]
    Mysql,
    #[value(alias = "postgresql")]
    Postgres,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|err| err.message().to_owned())
}

fn key(text: &str) -> Result<Key, String> {
    Key::new(text).map_err(|err| err.message().to_owned())
}

fn fence(text: &str) -> Result<Fence, String> {
    text.parse().map_err(|_| "a fence is a whole number, as `tenure inspect` shows it".to_owned())
}

const ROOT_EXAMPLES: &str = "\
Examples:
  tenure run backup -- ./backup.sh        wait for the lock, run, release
  tenure run -n nightly -- ./report       do not wait; exit 75 if another host runs it
  tenure ls                               who holds what
  tenure run --help                       exit codes and environment";

const BENCH_EXAMPLES: &str = "\
Examples:
  tenure bench                                    files of this machine, half a minute
  tenure bench --on redis://localhost             the Redis you run
  tenure bench --only alone,hot --for 10s --json  two of them, for a script
  tenure bench --on redis://localhost --html bench.html
  tenure bench --growth --for 60s                 with 10,000 waiters, a million keys, 64 processes";

const BENCH_LONG: &str = "\
The engine of TENURE_URL is not used: what puts load on a server is named with --on. Keys start with
`tenure-bench/`, and are gone when it ends.

What is compared with, the round trip, is reading the line of a key that nobody wants, through the same client.

Exit codes: 0 measured; 1 an update was lost under the lock; 64 wrong call; 69 engine unreachable; 77 denied;
78 wrong URL.";

const SALE_EXAMPLES: &str = "\
Examples:
  tenure sale                                    no server, about half a minute
  tenure sale --html sale.html                   and a page to keep
  tenure sale --strategies lease,fenced          the lesson in two lanes
  tenure sale --on redis://localhost --store postgres://app@db/shop --strategies safe
  tenure sale --strategies fenced --faults stall,kill,cut --on redis://localhost

`tenure sale --help` lists the ways to sell.";

/// Shown by `tenure sale --help` and in the manual.
pub(crate) const SALE_LONG: &str = "\
The ways to sell:
  no-lock        look, think, write back
  local-mutex    a mutex inside each process
  setnx-expire   SETNX, then EXPIRE; a host dies in between
  getset-clock   GETSET with the clients' clocks; one clock is ahead
  blind-delete   a lease, deleted without asking whose; a holder is stopped
  ask-delete     a lease, ask whose, then delete; a holder is stopped in between
  lease          a correct lease, no fence; a holder is stopped
  fenced         a tenure lock, its fence claimed at the store; holders are stopped, a host is killed
  version        a version column
  conditional    UPDATE .. SET stock = stock - 1 WHERE stock >= 1
  counter        an atomic decrement in the cache
  one-each       one lock per buyer
  price          a reader-writer lock around a price that changes
  admission      a semaphore at the door

Where things are:
  Locks of tenure: --on URL or --on-file, else files in a folder of the sale's own (TENURE_URL is not used).
  The store: --store URL, else a SQLite file in that folder.
  The cache of the homemade locks and the counter: the Redis server of --on, else a file.

Exit codes:
  0    every right way sold exactly what there was, every wrong way was seen to go wrong
  1    not so
  64   usage          69   engine or store unreachable
  77   credentials of the engine    78   bad URL    130, 143   interrupted";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  tenure schema mysql | mariadb shop
  tenure schema postgres --schema locks > migrations/0007_locks.sql";

const RUN_EXAMPLES: &str = "\
Examples:
  tenure run backup -- ./backup.sh
  tenure run --if-busy skip --hold-for 30s nightly -- ./report     cron, on many hosts
  tenure run -w 10m --note 'release v41' deploy -- ./deploy v41    one deployment at a time
  tenure run --slots 3 encode -c 'ffmpeg -i in.mov out.mp4 && rm in.mov'
  tenure run --explain deploy                                      what would happen when

`tenure run --help` lists exit codes and environment.";

/// Shown by `tenure run --help` and in the manual.
pub(crate) const RUN_LONG: &str = "\
Examples:
  tenure run backup -- ./backup.sh
  tenure run --if-busy skip --hold-for 30s nightly -- ./report     cron, on many hosts
  tenure run -w 10m --note 'release v41' deploy -- ./deploy v41    one deployment at a time
  tenure run --slots 3 encode -c 'ffmpeg -i in.mov out.mp4 && rm in.mov'
  tenure run --explain deploy                                      what would happen when

The promise:
  The job is stopped before anybody else can own the key. If the lock cannot be renewed, SIGTERM goes to
  the job's process group at ttl - margin - grace after the last good renewal, and SIGKILL at ttl - margin.
  The key is released when the whole group has ended. A process that leaves the group (a daemon) is on its
  own. If tenure itself is killed, the group is killed with it.

Signals:
  INT, TERM and HUP go to the job; what is left after the grace gets SIGKILL, and a second INT kills at
  once. QUIT, USR1, USR2 and WINCH are passed on. After Ctrl-Z and `fg` the job goes on only if the lock
  is still held.

Exit codes:
  the job's own   it ran under the lock to its end
  its signal      a signal ended it (a shell shows 128 + n)
  64   usage                            75   busy, or waited too long (-E; 0 with --if-busy skip)
  69   engine unreachable               76   the lock was lost; the job was stopped
  70   internal error                   77   credentials refused
  78   bad URL or configuration         124  --max-run exceeded
  126  command cannot be executed       127  command not found

Environment of the job:
  TENURE_KEY      the key
  TENURE_FENCE    a number larger than that of every earlier holder: show it to what the lock protects
  TENURE_ENGINE   the engine's URL without its password
  TENURE_URL      is not passed on: it may hold a password";

const VERIFY_EXAMPLES: &str = "\
Examples:
  tenure verify                                no server needed
  tenure verify --lab redis --html run.html    a private Redis, and a page with timelines
  tenure verify --on redis://host --for 60s    your own engine; only its clients are struck
  tenure verify --on redis://host --strike 'engine-kill=ssh host systemctl restart redis'
  tenure verify --mutants                      wrong locks, each of which must be refuted";

const VERIFY_LONG: &str = "\
Exit codes: 0 every promise of the engine's grade held; 1 one was refuted, or a wrong lock got away; 2 inconclusive: too few
faults hit; 64 the call is wrong; 69 an engine cannot be started or reached; 78 its URL is wrong.

Examples:
  tenure verify                                no server needed
  tenure verify --lab redis --html run.html    a private Redis, and a page with timelines
  tenure verify --on redis://host --for 60s    your own engine; only its clients are struck
  tenure verify --on redis://host --strike 'engine-kill=ssh host systemctl restart redis'
  tenure verify --mutants                      wrong locks, each of which must be refuted";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn run(words: &[&str]) -> Result<RunArgs, clap::Error> {
        let words = ["tenure", "run"].iter().chain(words);
        match Cli::try_parse_from(words)?.verb {
            Verb::Run(args) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_keeps_its_own_flags() {
        for words in [
            &["-n", "k", "--", "ls", "-n", "--help"][..],
            &["-n", "k", "ls", "-n", "--help"],
            &["k", "-n", "ls", "-n", "--help"],
        ] {
            let args = run(words).unwrap();
            assert!(args.nonblock, "{words:?}");
            assert_eq!(args.command, ["ls", "-n", "--help"], "{words:?}");
        }
        assert_eq!(run(&["k", "--", "-x"]).unwrap().command, ["-x"]);
        assert_eq!(run(&["k", "-c", "a | b"]).unwrap().shell.unwrap(), "a | b");
        assert_eq!(run(&["-c", "a | b", "k", "zero", "-x"]).unwrap().command, ["zero", "-x"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            &[][..],
            &["k"],
            &["", "true"],
            &["-n", "-w", "5", "k", "true"],
            &["-s", "--slots", "2", "k", "true"],
            &["--slots", "0", "k", "true"],
            &["-w", "soon", "k", "true"],
            &["-E", "256", "k", "true"],
            &["--if-busy", "cry", "k", "true"],
            &["--bogus", "k", "true"],
            &["-q", "-v", "k", "true"],
        ] {
            let err = run(words).unwrap_err();
            assert!(err.use_stderr(), "{words:?}: {err}");
        }
        assert!(run(&["--explain", "k"]).is_ok(), "nothing is run, so nothing is needed to run");
    }
}
