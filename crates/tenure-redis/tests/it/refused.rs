//! Servers that are not what the URL says: what is said, and that no secret is.

use tenure_core::Engine;
use tenure_core::{EngineUrl, Error, ErrorKind, Grade};
use tenure_testkit::{
    Result, ensure, ensure_eq,
    redis::{Cluster, Redis, RedisOptions, Role, Sentinels},
};

use crate::support::{LIMIT, forgetful, open, refusal, says};

const SECRET: &str = "hunter2";

fn keeps_secrets(err: &Error) -> Result {
    let mut text = format!("{err} {err:?}");
    let mut source = std::error::Error::source(err);
    while let Some(err) = source {
        text.push_str(&format!(" {err} {err:?}"));
        source = err.source();
    }
    ensure!(!text.contains(SECRET), "a secret is told: {text}");
    Ok(())
}

/// Requires that a URL is refused so.
async fn refused(url: &str, kind: ErrorKind, text: &str) -> Result {
    let err = refusal(url).await?;
    keeps_secrets(&err)?;
    says(&err, kind, text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_passwords() -> Result {
    let server = Redis::start(RedisOptions {
        password: Some("right".into()),
        acl: vec![format!("anna on >{SECRET} ~* &* +@all")],
        ..RedisOptions::default()
    })?;
    let at = |login: &str| format!("redis://{login}{}", server.addr());
    open(&at(":right@")).await?;
    let engine = open(&at(&format!("anna:{SECRET}@"))).await?;
    ensure!(!format!("{engine:?}").contains(SECRET), "the engine tells a secret");
    let said = "refused the user or the password";
    refused(&at(&format!(":{SECRET}@")), ErrorKind::Denied, said).await?;
    refused(&at(""), ErrorKind::Denied, "wants a user and password").await?;
    refused(&at(&format!("nobody:{SECRET}@")), ErrorKind::Denied, said).await?;
    refused(&at(&format!("anna:x{SECRET}@")), ErrorKind::Denied, said).await?;
    // A user who is thrown out while connected.
    server.command(&["ACL", "DELUSER", "anna"])?;
    let err = engine.examine().await.err();
    ensure!(err.is_some(), "a user who is gone may still ask");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_say_who_their_master_is() -> Result {
    let master = forgetful()?;
    let replica =
        Redis::start(RedisOptions { role: Role::ReplicaOf(master.port()), ..RedisOptions::default() })?;
    replica.wait_for_info("master_link_status", "up", LIMIT)?;
    let said = format!("its master is 127.0.0.1:{}", master.port());
    refused(&replica.url(), ErrorKind::Invalid, &said).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_is_no_cluster_and_no_sentinel() -> Result {
    let server = Redis::shared()?;
    let at = server.addr();
    refused(&format!("redis+cluster://u:{SECRET}@{at}"), ErrorKind::Denied, "refused").await?;
    refused(&format!("redis+cluster://{at}"), ErrorKind::Invalid, "is no node of a cluster").await?;
    let said = format!("is no sentinel; write `redis://{at}`");
    refused(&format!("redis+sentinel://{at}/main?sentinel_password={SECRET}"), ErrorKind::Denied, "refused")
        .await?;
    refused(&format!("redis+sentinel://:{SECRET}@{at}/main"), ErrorKind::Invalid, &said).await?;
    refused("redis://127.0.0.1:1", ErrorKind::Unavailable, "cannot connect to 127.0.0.1:1").await?;
    refused(&format!("redis://{at}/99"), ErrorKind::Invalid, "database").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_and_a_sentinel_say_what_they_are() -> Result {
    let node = &Cluster::shared()?.nodes()[0];
    refused(&node.url(), ErrorKind::Invalid, &format!("write `redis+cluster://{}`", node.addr())).await?;
    let sentinels = Sentinels::shared()?;
    let hosts: Vec<_> = sentinels.sentinels().iter().map(|sentinel| sentinel.addr().to_string()).collect();
    let first = &hosts[0];
    refused(&format!("redis://{first}"), ErrorKind::Invalid, "is a sentinel").await?;
    refused(&format!("redis+cluster://{first}"), ErrorKind::Invalid, "is a sentinel").await?;
    let hosts = hosts.join(",");
    let said = "no sentinel knows a master called `other`";
    refused(&format!("redis+sentinel://{hosts}/other"), ErrorKind::Invalid, said).await?;
    open(&format!("redis+sentinel://{hosts}/{}", Sentinels::NAME)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_is_refused_unless_allowed() -> Result {
    let server = forgetful()?;
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy])?;
        refused(&server.url(), ErrorKind::Invalid, "maxmemory-policy noeviction").await?;
        let engine = open(&format!("{}?eviction=allow", server.url())).await?;
        ensure_eq!(engine.guarantees().grade, Grade::Advisory, "the grade");
        let facts = engine.examine().await?;
        ensure!(facts.iter().any(|fact| fact.warns && fact.text.contains(policy)), "no warning: {facts:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_tell_no_secret() -> Result {
    let text = format!("redis+sentinel://u:{SECRET}@h/m?sentinel_user=s&sentinel_password={SECRET}");
    let mut url: EngineUrl = text.parse()?;
    let options = tenure_redis::RedisOptions::from_url(&mut url)?;
    ensure!(!format!("{options:?} {url} {url:?}").contains(SECRET), "options tell a secret: {options:?}");
    Ok(())
}

/// Another protocol at the other end, or nothing that answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_at_the_port() -> Result {
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let at = taken.local_addr()?;
    let talk = std::thread::spawn(move || {
        if let Ok((mut stream, _)) = taken.accept() {
            use std::io::Write;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let err = refusal(&format!("redis://{at}")).await?;
    ensure!(err.kind() == ErrorKind::Unavailable && !err.may_have_applied(), "{err:?}");
    ensure!(talk.join().is_ok(), "the stranger failed");
    let mute = std::net::TcpListener::bind("127.0.0.1:0")?;
    let started = std::time::Instant::now();
    refused(&format!("redis://{}", mute.local_addr()?), ErrorKind::Unavailable, "did not answer in time")
        .await?;
    ensure!(started.elapsed() < LIMIT, "waited {:?}", started.elapsed());
    Ok(())
}
