//! The server's clock is set back while it lives.

use std::{fs, path::PathBuf, time::Duration};

use tenure_core::{Engine, Held, Mode, Renewal};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    process::{Launch, Port, Room, Server},
    redis::Admin,
};

use crate::support::{LIMIT, brief, claim, hold, let_go, line, open, queue, until_held};

/// A library where Debian keeps those of this machine.
fn library(name: &str) -> String {
    format!("/usr/lib/{}-linux-gnu/{name}", std::env::consts::ARCH)
}

const FAKETIME: &str = "faketime/libfaketime.so.1";

/// A server whose clock is what a file says.
struct Clocked {
    server: Server,
    pid: String,
    port: Port,
    offset: PathBuf,
}

impl Clocked {
    fn start() -> Result<Self> {
        let (room, port) = (Room::new()?, Port::claim()?);
        let offset = room.path().join("clock");
        fs::write(&offset, "+0s")?;
        let args =
            ["--port", &port.number().to_string(), "--bind", "127.0.0.1", "--save", ""].map(str::to_owned);
        let mut launch = Launch::new("redis-server", args);
        // With libc named after it, or the server's allocator and the clock wait for each other.
        launch.env = vec![
            ("LD_PRELOAD".into(), format!("{} {}", library(FAKETIME), library("libc.so.6"))),
            ("FAKETIME_TIMESTAMP_FILE".into(), offset.display().to_string()),
            ("FAKETIME_NO_CACHE".into(), "1".into()),
        ];
        let server = Server::start(launch, room)?;
        server.wait_ready(LIMIT, || Admin::connect(port.addr())?.command(&["PING"]).map(drop))?;
        let info = Admin::connect(port.addr())?.command(&["INFO", "server"])?;
        let pid = info.text().and_then(|info| info.lines().find_map(|line| line.strip_prefix("process_id:")));
        let pid = pid.ok_or_else(|| Failure::new("INFO has the number of the process"))?.to_owned();
        Ok(Self { server, pid, port, offset })
    }

    fn url(&self) -> String {
        format!("redis://{}", self.port.addr())
    }

    fn now(&self) -> Result<i64> {
        let time = Admin::connect(self.port.addr())?.command(&["TIME"])?;
        let seconds = time.items().first().and_then(|seconds| seconds.text()?.parse().ok());
        seconds.ok_or_else(|| Failure::new("TIME is a number"))
    }

    fn set_back(&self) -> Result {
        let before = self.now()?;
        fs::write(&self.offset, "-3600s")?;
        let now = self.now()?;
        ensure!(now < before - 3500, "the clock was not set back: {before}, then {now}");
        Ok(())
    }
}

impl Drop for Clocked {
    fn drop(&mut self) {
        // Killed, the library leaves what it shares between processes behind.
        let _ = self.server.kill();
        for name in ["faketime_shm", "sem.faketime_sem"] {
            let _ = fs::remove_file(format!("/dev/shm/{name}_{}", self.pid));
        }
    }
}

/// Numbers go on above those drawn before, whoever holds goes on holding, and the dead are in the way for one lease
/// more, not for an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_costs_one_lease_at_most() -> Result {
    if !PathBuf::from(library(FAKETIME)).exists() {
        ensure!(std::env::var_os("CI").is_none(), "libfaketime is not installed");
        return Ok(());
    }
    let server = Clocked::start()?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_millis(500);
    let (lives, dead) = (claim("lives", Mode::Exclusive)?, brief("dead", Mode::Exclusive, ttl)?);
    let seq = hold(&engine, &lives).await?.seat.seq;
    hold(&engine, &dead).await?;
    let grave = brief("dead", Mode::Exclusive, ttl)?;
    queue(&engine, &grave).await?;
    server.set_back()?;

    let shown = line(&engine, "dead").await?;
    ensure!(
        shown.iter().all(|place| place.lease_left <= Some(ttl)),
        "shown after the clock was set: {shown:?}"
    );
    let next = claim("dead", Mode::Exclusive)?;
    let waits = queue(&engine, &next).await?;
    ensure!(waits.seq > seq, "{} after {seq}", waits.seq);
    until_held(&engine, &next).await?;
    let renewed = engine.renew(&[Held { claim: &lives, seq }]).await?;
    ensure_eq!(renewed, [Renewal::Renewed(Some(lives.ttl.get()))], "a hold that lives");
    let_go(&engine, &lives).await?;
    let again = hold(&engine, &claim("lives", Mode::Exclusive)?).await?.seat.seq;
    ensure!(again > waits.seq && waits.seq > seq, "numbers went back: {seq}, {}, {again}", waits.seq);
    Ok(())
}
