use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    postgres::{Postgres, PostgresOptions},
    process::wait_until,
    sql::Rows,
};

crate::tests! {
    statements_are_answered_or_refused,
    settings_are_taken,
    a_killed_server_keeps_what_was_committed_and_nothing_else,
    a_killed_server_leaves_no_process_and_no_memory,
    a_server_that_is_ended_can_be_started_again,
    a_paused_server_answers_when_it_goes_on,
    a_paused_server_dies_with_its_test,
    a_user_proves_itself_and_is_limited,
    tls_is_trusted_by_its_authority_only,
    a_server_that_does_not_start_shows_its_log,
    shared_servers_are_started_once,
    its_clock_is_set_and_nobody_elses,
}

/// Long enough for an answer on loopback, short enough to wait for one that must not come.
const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(10);

/// Its processes, all but the first.
const PROCESSES: &str = "SELECT pid FROM pg_stat_activity";

/// Another test process: it pauses a server, says which processes that has, and waits for its input to end.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let asked = std::env::args().nth(1).is_some_and(|arg| arg == "--another-test-in-a-pause");
    asked.then(|| {
        let work = || {
            let postgres = Postgres::start(PostgresOptions::default())?;
            let mut admin = postgres.admin()?;
            let processes = admin.sql(PROCESSES)?.concat();
            postgres.pause()?;
            writeln!(std::io::stdout(), "{}", processes.join(" "))?;
            let _ = std::io::stdin().lines().count();
            Ok::<_, Failure>(())
        };
        if work().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
}

pub(crate) fn rows(rows: &[&[&str]]) -> Rows {
    rows.iter().map(|row| row.iter().map(|&value| value.to_owned()).collect()).collect()
}

pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T>, message: &str) -> Result {
    match outcome {
        Err(why) if why.to_string().contains(message) => Ok(()),
        outcome => Err(Failure::new(format!("{outcome:?}, not {message}"))),
    }
}

/// The state of a process, as a letter; `None` if there is none.
fn state(process: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn is_dead(process: &str) -> bool {
    matches!(state(process), None | Some('Z' | 'X'))
}

fn statements_are_answered_or_refused() -> Result {
    let mut admin = Postgres::shared()?.admin()?;
    let answer = admin.sql("SELECT 1, NULL, 'a b'; SELECT 'é'; SELECT 'ERROR'")?;
    ensure_eq!(answer, rows(&[&["1", "NULL", "a b"], &["é"], &["ERROR"]]), "the rows");
    ensure_eq!(admin.sql("DO $$ BEGIN RAISE WARNING 'careful'; END $$")?, Rows::new(), "no rows");
    refused(admin.sql("SELECT * FROM nothing"), "relation \"nothing\" does not exist")?;
    ensure_eq!(admin.sql("SELECT current_database()")?, rows(&[&["tenure"]]), "the session goes on");
    admin.send("SELECT 1")?;
    ensure!(admin.send("SELECT 1").is_err(), "two questions at once");
    admin.receive()?;
    ensure!(admin.receive().is_err(), "an answer to nothing");
    let id = &admin.sql("SELECT pg_backend_pid()")?[0][0];
    Postgres::shared()?.sql(&format!("SELECT pg_terminate_backend({id}, 10000)"))?;
    refused(admin.sql("SELECT 1"), "terminating connection")?;
    ensure!(admin.sql("SELECT 1").is_err(), "it stays so");
    Ok(())
}

fn settings_are_taken() -> Result {
    let settings = ["synchronous_commit=off", "max_connections=12"];
    let settings = settings.iter().chain(&["default_transaction_isolation=serializable"]);
    let options = PostgresOptions {
        settings: settings.map(ToString::to_string).collect(),
        ..PostgresOptions::default()
    };
    let sql = "SHOW synchronous_commit; SHOW max_connections; SHOW transaction_isolation; SHOW fsync";
    let default = rows(&[&["on"], &["100"], &["read committed"], &["on"]]);
    ensure_eq!(Postgres::shared()?.sql(sql)?, default, "the default");
    let asked_for = rows(&[&["off"], &["12"], &["serializable"], &["on"]]);
    ensure_eq!(Postgres::start(options)?.sql(sql)?, asked_for, "asked for");
    Ok(())
}

fn a_killed_server_keeps_what_was_committed_and_nothing_else() -> Result {
    let postgres = Postgres::start(PostgresOptions::default())?;
    ensure_eq!(
        postgres.url(),
        format!("postgres://postgres@127.0.0.1:{}/tenure", postgres.port()),
        "the URL"
    );
    let mut admin = postgres.admin()?;
    admin.sql("CREATE TABLE t (n INT PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    admin.sql("BEGIN; INSERT INTO t VALUES (2)")?;
    postgres.kill()?;
    ensure!(!postgres.process().is_running(), "it is down");
    refused(postgres.sql("SELECT 1"), "Connection refused")?;
    ensure!(admin.sql("COMMIT").is_err(), "a connection outlived its server");
    postgres.restart()?;
    ensure_eq!(postgres.sql("SELECT n FROM t")?, rows(&[&["1"]]), "after a kill");
    Ok(())
}

fn a_killed_server_leaves_no_process_and_no_memory() -> Result {
    let postgres = Postgres::start(PostgresOptions::default())?;
    let file = fs::read_to_string(postgres.process().dir().join("data/postmaster.pid"))?;
    let segment = file.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
    let segment = segment.ok_or_else(|| Failure::new(format!("no segment in {file}")))?;
    let exists = || {
        let segments = fs::read_to_string("/proc/sysvipc/shm")?;
        Ok::<_, Failure>(segments.lines().any(|line| line.split_whitespace().nth(1) == Some(segment)))
    };
    ensure!(exists()?, "its segment");
    let mut admin = postgres.admin()?;
    let processes = admin.sql(PROCESSES)?.concat();
    ensure!(processes.len() > 3, "its processes: {processes:?}");
    // One that does not look up from its work would not notice for long that its parent is gone.
    admin.send("SELECT pg_sleep(5) FROM generate_series(1, 1000000)")?;
    postgres.kill()?;
    let left: Vec<_> = processes.iter().filter(|process| !is_dead(process)).collect();
    ensure!(left.is_empty(), "left: {left:?}");
    ensure!(!exists()?, "the segment was left");
    Ok(())
}

fn a_server_that_is_ended_can_be_started_again() -> Result {
    let postgres = Postgres::start(PostgresOptions::default())?;
    let mut admin = postgres.admin()?;
    admin.sql("CREATE TABLE t (n INT)")?;
    // After a pause too, and with a client that stays.
    postgres.pause()?;
    postgres.terminate()?;
    ensure!(postgres.process().log_tail().contains("fast shutdown request"), "it was asked, not killed");
    ensure!(postgres.pause().is_err() && postgres.terminate().is_err(), "what is down cannot be stopped");
    postgres.restart()?;
    postgres.restart()?;
    ensure_eq!(postgres.sql("SELECT * FROM t")?, Rows::new(), "the table");
    Ok(())
}

fn a_paused_server_answers_when_it_goes_on() -> Result {
    let postgres = Postgres::start(PostgresOptions::default())?;
    let mut admin = postgres.admin()?;
    postgres.pause()?;
    postgres.pause()?;
    admin.send("SELECT 1")?;
    admin.set_patience(SHORT);
    refused(admin.receive(), "no answer within 100ms")?;
    ensure!(postgres.process().is_running(), "it is paused, not gone");
    postgres.resume()?;
    admin.set_patience(LONG);
    ensure_eq!(admin.receive()?, rows(&[&["1"]]), "the late answer");
    postgres.pause()?;
    postgres.restart()?;
    postgres.sql("SELECT 1")?;
    Ok(())
}

/// The kernel kills the first process with its test; the others, being stopped, notice nothing.
fn a_paused_server_dies_with_its_test() -> Result {
    let mut another = Command::new(std::env::current_exe()?)
        .arg("--another-test-in-a-pause")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(output) = another.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    let processes: Vec<_> = line.split_whitespace().collect();
    let stopped = processes.iter().filter(|process| state(process) == Some('T')).count();
    another.kill()?;
    another.wait()?;
    ensure!(stopped > 3 && stopped == processes.len(), "{stopped} were stopped of {processes:?}");
    wait_until("the processes are gone", LONG, || {
        let left: Vec<_> = processes.iter().filter(|process| !is_dead(process)).collect();
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })
}

fn a_user_proves_itself_and_is_limited() -> Result {
    let postgres = Postgres::start(PostgresOptions::default())?;
    postgres.add_user("anna", "annas")?;
    ensure!(postgres.add_user("anna", "again").is_err(), "there is one already");
    let url = format!("postgres://anna:annas@127.0.0.1:{}/tenure", postgres.port());
    ensure_eq!(postgres.url_of("anna", "annas"), url, "her URL");
    refused(postgres.session("anna", "wrong"), "password authentication failed")?;
    refused(postgres.session("anna", ""), "no password supplied")?;
    postgres.sql("CREATE TABLE t (n INT)")?;
    let mut anna = postgres.session("anna", "annas")?;
    refused(anna.sql("CREATE TABLE u (n INT)"), "permission denied for schema public")?;
    refused(anna.sql("INSERT INTO t VALUES (1)"), "permission denied for table t")?;
    postgres.sql("GRANT SELECT, INSERT ON t TO anna")?;
    anna.sql("INSERT INTO t VALUES (1)")?;
    ensure_eq!(anna.sql("SELECT n FROM t")?, rows(&[&["1"]]), "what she may");
    refused(anna.sql("CREATE TABLE u (n INT)"), "permission denied for schema public")
}

fn tls_is_trusted_by_its_authority_only() -> Result {
    let postgres = Postgres::start(PostgresOptions { tls: true, ..PostgresOptions::default() })?;
    let url = format!("postgres://postgres@localhost:{}/tenure", postgres.port());
    ensure_eq!(postgres.tls_url(), Some(url), "the URL");
    postgres.sql("SELECT 1")?;
    ensure_eq!(Postgres::shared()?.tls_url(), None, "without TLS");
    crate::tls::is_trusted_by_its_authority_only(postgres.addr(), "postgres")
}

fn a_server_that_does_not_start_shows_its_log() -> Result {
    let options =
        PostgresOptions { settings: vec!["no_such_setting=1".into()], ..PostgresOptions::default() };
    let outcome = Postgres::start(options);
    refused(outcome.as_ref().map_err(Clone::clone), "ended before it answered")?;
    refused(outcome, "no_such_setting")
}

fn shared_servers_are_started_once() -> Result {
    ensure!(std::ptr::eq(Postgres::shared()?, Postgres::shared()?), "one server");
    Ok(())
}

fn its_clock_is_set_and_nobody_elses() -> Result {
    let server = Postgres::start(PostgresOptions { clock: true, ..PostgresOptions::default() })?;
    crate::clock_is_set(
        || server.wall_clock(),
        |millis| server.process().step_clock(millis),
        || server.restart(),
    )
}
