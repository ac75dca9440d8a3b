use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use tenure_testkit::{
    Failure, Result, ensure,
    process::wait_until,
    redis::{Redis, RedisOptions},
};

crate::tests! {
    a_server_dies_with_its_test_and_the_next_one_tidies_up,
    a_server_outlives_the_thread_that_started_it,
    a_server_that_does_not_start_shows_its_log,
    a_server_leaves_nothing_behind,
}

const LIMIT: Duration = Duration::from_secs(10);

/// Another test process: it starts a server, says where it is, and waits for its input to end.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let asked = std::env::args().nth(1).is_some_and(|arg| arg == "--another-test");
    asked.then(|| {
        let work = || {
            let redis = Redis::start(RedisOptions::default())?;
            writeln!(std::io::stdout(), "{} {}", redis.port(), redis.process().dir().display())?;
            let _ = std::io::stdin().lines().count();
            Ok::<_, Failure>(())
        };
        if work().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
}

struct Another {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Another {
    fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--another-test")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let (port, dir) = line.trim().split_once(' ').unwrap_or_default();
        let port = port.parse().map_err(|_| Failure::new(format!("the other test said `{line}`")))?;
        Ok(Self { child, port, dir: dir.into() })
    }

    fn kill(&mut self) -> Result {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn a_server_dies_with_its_test_and_the_next_one_tidies_up() -> Result {
    let mut first = Another::start()?;
    ensure!(TcpListener::bind(("127.0.0.1", first.port)).is_err(), "its server listens");
    first.kill()?;
    wait_until("the port of the dead test's server is free", LIMIT, || {
        drop(TcpListener::bind(("127.0.0.1", first.port))?);
        Ok(())
    })?;
    // Another process may have swept already; this one must have when its server runs.
    let second = Another::start()?;
    ensure!(!first.dir.exists(), "{} was left", first.dir.display());
    ensure!(second.dir.exists(), "a room in use was swept");
    Ok(())
}

/// The kernel kills a child with the thread that made it, and a harness has a thread for each test.
fn a_server_outlives_the_thread_that_started_it() -> Result {
    let redis = thread::spawn(|| Redis::start(RedisOptions::default()))
        .join()
        .map_err(|_| Failure::new("the thread panicked"))??;
    let run_id = redis.info("run_id")?;
    for _ in 0..3 {
        let now = redis.info("run_id")?;
        ensure!(now == run_id, "it is another process");
    }
    Ok(())
}

fn a_server_that_does_not_start_shows_its_log() -> Result {
    let args = vec!["--no-such-setting".into(), "1".into()];
    let Err(failure) = Redis::start(RedisOptions { args, ..RedisOptions::default() }) else {
        return Err(Failure::new("a server with a wrong setting started"));
    };
    let message = failure.to_string();
    ensure!(message.contains("ended before it answered"), "{message}");
    ensure!(message.contains("no-such-setting"), "its log is shown: {message}");
    ensure!(!failure.is_verdict(), "it says nothing about an engine");
    Ok(())
}

fn a_server_leaves_nothing_behind() -> Result {
    let redis = Redis::start(RedisOptions::default())?;
    let (addr, dir) = (redis.addr(), redis.process().dir().to_owned());
    ensure!(dir.join("log").exists(), "it has a log");
    if Path::new("/dev/shm").is_dir() {
        ensure!(dir.starts_with("/dev/shm"), "{} is not in memory", dir.display());
    }
    drop(redis);
    ensure!(!dir.exists(), "{} was left", dir.display());
    drop(TcpListener::bind(addr)?);
    Ok(())
}
