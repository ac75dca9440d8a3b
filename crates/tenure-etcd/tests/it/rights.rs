//! Users, passwords and what they may do.

use tenure_core::{Engine, ErrorKind, Filter};
use tenure_testkit::{
    Result, ensure,
    etcd::{Etcd, EtcdOptions},
};

use crate::support::{claim, hold, let_go, open, refusal, renewed, says, wait};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_of_the_docs_can_do_everything_and_nothing_else() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    server.admin().secure("hunter2")?;
    server.admin().login("root", "hunter2")?.add_user("app", "hunter2", "tenure/")?;
    let addr = server.addr();
    let url = format!("etcd://app:hunter2@{addr}");
    let engine = open(&url).await?;
    let (holder, waiter) = (claim("k")?, claim("k")?);
    let seq = hold(&engine, &holder).await?.seat.seq;
    wait(&engine, &waiter).await?;
    ensure!(renewed(&engine, &holder, seq).await?, "the hold is lost");
    let turn = engine.turn(&waiter);
    let (_, released) = futures_util::join!(turn, let_go(&engine, &holder));
    released?;
    hold(&engine, &waiter).await?;
    engine.line(&Filter::Prefix(String::new(), 10)).await?;
    engine.examine().await?;
    let_go(&engine, &waiter).await?;
    for (url, kind, said) in [
        (format!("etcd://{addr}"), ErrorKind::Denied, "wants a user and password"),
        (format!("etcd://app:hunter3@{addr}"), ErrorKind::Denied, "refused this user or password"),
        (format!("{url}?ns=other"), ErrorKind::Denied, "refused this user"),
    ] {
        let err = refusal(&url).await?;
        says(&err, kind, said)?;
        ensure!(!format!("{err} {err:?}").contains("hunter"), "the error shows a password: {err:?}");
    }
    ensure!(!format!("{engine:?}").contains("hunter"), "the engine shows a password: {engine:?}");
    Ok(())
}
