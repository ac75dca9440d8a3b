//! What the engine promises, and what an operator should know.

use std::time::Duration;

use tenure_core::{
    Crash, Error, Fact, Failover, Fences, Floors, Grade, Guarantees, Modes, Op, Order, Reach, Result, Wake,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::{ENGINE, dial::Dial, link::connect, wire::Access};

/// How long a server may take to say what it is.
const LIMIT: Duration = Duration::from_secs(2);
/// The most it may say.
const MOST_SAID: u64 = 16 * 1024;

/// What is promised where the shortest session is this long: two ticks of the servers, unless they are told otherwise.
#[must_use]
pub const fn guarantees_of(shortest: Duration) -> Guarantees {
    Guarantees {
        engine: ENGINE,
        grade: Grade::Fenced,
        reach: Reach::Network,
        modes: Modes::ALL,
        order: Order::Fifo,
        crash: Crash::Session,
        wake: Wake::Push,
        fences: Fences::Durable,
        // They are the numbers of changes of the whole store.
        floors: Floors::Ignored,
        // What a majority has acknowledged no leader forgets.
        failover: Failover::Keeps,
        min_ttl: shortest,
    }
}

/// Asks every server what it is.
pub(crate) async fn examine(dial: &Dial, access: Access, guarantees: &Guarantees) -> Result<Vec<Fact>> {
    let mut facts = Vec::new();
    let mut served = 0;
    let said = futures_util::future::join_all(dial.hosts.iter().map(|host| ask(dial, host))).await;
    let mut modes = Vec::new();
    for (host, said) in dial.hosts.iter().zip(said) {
        match said {
            Some(said) => {
                served += 1;
                let field = |name: &str| {
                    let line = said.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or("unknown").trim().to_owned()
                };
                let version = field("Zookeeper version:");
                let version = version.split(['-', ',']).next().unwrap_or("unknown");
                let mode = field("Mode:");
                facts.push(match said.contains("not currently serving") {
                    true => Fact::warning("server", format!("{host} does not serve: it sees no majority")),
                    false => Fact::good("server", format!("{host} is ZooKeeper {version}, {mode}")),
                });
                modes.push(mode);
            }
            None => facts.push(Fact::warning("server", format!("{host} does not say what it is"))),
        }
    }
    if served == 0 {
        let message = "no server answers; is `srvr` in its 4lw.commands.whitelist?";
        return Err(Error::unavailable(Op::Examine, message).with_engine(ENGINE).not_applied());
    }
    facts.push(if modes.iter().any(|mode| mode == "standalone") {
        Fact::warning("ensemble", "one server: while it is down nobody gets a lock; run three")
    } else {
        Fact::good("ensemble", format!("{} of its servers are named in the URL", dial.hosts.len()))
    });
    facts.push(match access {
        Access::Creator => Fact::good("access", "only who logs in like this can use these locks"),
        Access::Anyone => Fact::warning(
            "access",
            "whoever reaches the servers can delete any lock; log in: zookeeper://user:password@host",
        ),
    });
    facts.push(Fact::good(
        "session",
        format!("a ttl is kept from {:?}, the shortest session of the servers", guarantees.min_ttl),
    ));
    Ok(facts)
}

async fn ask(dial: &Dial, host: &tenure_core::Address) -> Option<String> {
    let ask = async {
        let mut stream = connect(host, dial.trust.as_ref()).await.ok()?;
        stream.write_all(b"srvr").await.ok()?;
        let mut said = Vec::new();
        stream.take(MOST_SAID).read_to_end(&mut said).await.ok()?;
        let said = String::from_utf8_lossy(&said).into_owned();
        (said.contains("Mode:") || said.contains("not currently serving")).then_some(said)
    };
    timeout(LIMIT, ask).await.ok().flatten()
}
