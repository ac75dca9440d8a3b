//! The least that a user of the server must be allowed, and what is said when one right is missing.

use std::time::Duration;

use tenure_core::{Answered, Engine, Error, ErrorKind, Eviction, Filter, Grade, Held, Mode, When};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    redis::{Cluster, Redis, RedisOptions},
};

use crate::support::{brief, claim, open};

/// The commands, in the order in which they are first needed.
const COMMANDS: [&str; 19] = [
    "info",
    "set",
    "get",
    "subscribe",
    "evalsha",
    "eval",
    "time",
    "hsetnx",
    "pexpire",
    "hmget",
    "pttl",
    "hset",
    "pexpireat",
    "hget",
    "publish",
    "hgetall",
    "hdel",
    "del",
    "scan",
];
const KEYS: [&str; 3] = ["~tenure:lock:*", "~tenure:mark*", "~tenure:id"];
const CHANNELS: &str = "&tenure:wake:*";

fn rights() -> Vec<String> {
    let commands = COMMANDS.iter().map(|command| format!("+{command}"));
    commands.chain(KEYS.map(str::to_owned)).chain([CHANNELS.to_owned()]).collect()
}

fn user(rights: &[String]) -> Vec<String> {
    let start = ["app", "reset", "on", ">secret"].map(str::to_owned);
    start.into_iter().chain(rights.iter().cloned()).collect()
}

fn allow(server: &Redis, rights: &[String]) -> Result {
    let user = user(rights);
    let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(user.iter().map(String::as_str)).collect();
    server.command(&words).map(drop)
}

/// Every verb once, such that each command of each script is run.
async fn everything(url: &str, key: &str) -> Result<(), Error> {
    let engine = open(url).await?;
    let (writer, reader) = (claim(key, Mode::Exclusive), claim(key, Mode::Shared));
    let (Ok(writer), Ok(reader)) = (writer, reader) else { return Err(Error::invalid("no claim")) };
    let tenure_core::Attempt::Granted(grant) = engine.attempt(&writer).await? else {
        return Err(Error::invalid("the first does not hold"));
    };
    let seq = grant.seat.seq;
    let _ = engine.attempt(&reader).await?;
    let hold = Held { claim: &writer, seq };
    engine.renew(&[hold]).await?;
    let _ = engine.downgrade(hold).await?;
    engine.line(&Filter::Key(writer.key.clone())).await?;
    engine.line(&Filter::Prefix(String::new(), 10)).await?;
    engine.examine().await?;
    let eviction = Eviction { key: writer.key.clone(), id: writer.id, seq, when: When::Gently };
    let _ = engine.evict(&eviction).await?;
    let _ = engine.evict(&Eviction { when: When::Now, ..eviction }).await?;
    let _ = engine.release(&reader, Answered::All).await?;
    // A line that has lapsed, with a note to take away.
    let lapsing = format!("{key}/lapses");
    let (dead, next) =
        (brief(&lapsing, Mode::Exclusive, Duration::from_millis(100)), claim(&lapsing, Mode::Shared));
    let (Ok(dead), Ok(next)) = (dead, next) else { return Err(Error::invalid("no claim")) };
    let _ = engine.attempt(&dead).await?;
    let _ = engine.attempt(&next).await?;
    let _ = engine.release(&dead, Answered::All).await?;
    let _ = engine.release(&next, Answered::All).await?;
    Ok(())
}

/// The list works for every verb, and each entry is needed: without it, the user is refused, and told what is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_rights_are_enough_and_each_is_named_when_it_is_missing() -> Result {
    let server = Redis::start(RedisOptions { password: Some("root".into()), ..RedisOptions::default() })?;
    let url = format!("redis://app:secret@{}", server.addr());
    let all = rights();
    allow(&server, &all)?;
    everything(&url, "whole").await?;
    let mut silent = Vec::new();
    for (number, missing) in all.iter().enumerate() {
        let less: Vec<_> = all.iter().filter(|right| right != &missing).cloned().collect();
        allow(&server, &less)?;
        server.command(&["SCRIPT", "FLUSH"])?;
        let Err(err) = everything(&url, &format!("less/{number}")).await else {
            silent.push(missing);
            continue;
        };
        ensure!(err.kind() == ErrorKind::Denied, "without {missing}: {err}");
        ensure!(!err.to_string().contains("secret"), "a secret: {err}");
        let named = match missing.split_at(1) {
            ("+", command) => command,
            ("~", _) => "keys",
            _ => "channel",
        };
        ensure!(err.to_string().contains(named), "without {missing}: {err}");
    }
    ensure!(silent.is_empty(), "not needed: {silent:?}");
    Ok(())
}

/// A user who may also ask how often the file is flushed gets the grade that the server deserves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_more_right_earns_the_grade() -> Result {
    let options = RedisOptions {
        persistence: tenure_testkit::redis::Persistence::AofAlways,
        password: Some("root".into()),
        ..RedisOptions::default()
    };
    let server = Redis::start(options)?;
    let url = format!("redis://app:secret@{}", server.addr());
    let mut all = rights();
    for grade in [Grade::Advisory, Grade::Leased] {
        allow(&server, &all)?;
        let engine = open(&url).await?;
        ensure_eq!(engine.guarantees().grade, grade, "the grade");
        let facts = engine.examine().await?;
        let told = facts.iter().any(|fact| fact.warns && fact.text.contains("CONFIG GET appendfsync"));
        ensure_eq!(told, grade == Grade::Advisory, "the fact");
        all.push("+config|get".into());
    }
    Ok(())
}

/// A cluster needs two more commands, and replicas one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_needs_a_little_more() -> Result {
    let cluster =
        Cluster::start_with(RedisOptions { password: Some("root".into()), ..RedisOptions::default() })?;
    let mut all = rights();
    all.push("+cluster|slots".into());
    for node in cluster.nodes() {
        allow(node, &all)?;
    }
    let url = format!("redis+cluster://app:secret@{}", cluster.nodes()[0].addr());
    everything(&url, "whole").await?;
    for node in cluster.nodes() {
        allow(node, &rights())?;
    }
    let err = everything(&url, "less").await.err().ok_or_else(|| Failure::new("nothing was missing"))?;
    ensure!(err.kind() == ErrorKind::Denied && err.to_string().contains("cluster|slots"), "{err}");
    Ok(())
}
