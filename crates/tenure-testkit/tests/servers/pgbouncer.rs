use std::time::Duration;

use tenure_testkit::{
    Result, ensure, ensure_eq,
    pgbouncer::{PgBouncer, PgBouncerOptions},
    postgres::{Postgres, PostgresOptions},
    sql::Session,
};

use crate::postgres::refused;

crate::tests! {
    transactions_share_one_connection,
    a_pool_can_keep_sessions_apart,
    it_is_paused_killed_and_started_again,
    the_server_behind_it_can_be_started_again,
    shared_ones_are_started_once,
}

/// Long enough for an answer on loopback, short enough to wait for one that must not come.
const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(10);

fn pool(settings: &[&str]) -> Result<PgBouncer> {
    let settings = settings.iter().map(ToString::to_string).collect();
    PgBouncer::start(Postgres::shared()?.addr(), &PgBouncerOptions { settings })
}

/// Which process of the server answers.
fn answers(session: &mut Session) -> Result<String> {
    Ok(session.sql("SELECT pg_backend_pid()")?.concat().concat())
}

fn transactions_share_one_connection() -> Result {
    let pool = pool(&["default_pool_size=1"])?;
    ensure_eq!(pool.url(), format!("postgres://postgres@127.0.0.1:{}/tenure", pool.port()), "the URL");
    let (mut anna, mut ben) = (pool.session()?, pool.session()?);
    let first = answers(&mut anna)?;
    ensure_eq!(answers(&mut ben)?, first, "who answers the other client");
    // While one is in a transaction, the other waits for the connection.
    anna.sql("BEGIN")?;
    ben.send("SELECT pg_backend_pid()")?;
    ben.set_patience(SHORT);
    refused(ben.receive(), "no answer within 100ms")?;
    anna.sql("COMMIT")?;
    ben.set_patience(LONG);
    ensure_eq!(ben.receive()?.concat().concat(), first, "who answers after the transaction");
    let servers = pool.console("SHOW SERVERS")?;
    ensure_eq!(servers.len(), 1, "the connections to the server");
    Ok(())
}

fn a_pool_can_keep_sessions_apart() -> Result {
    let pool = pool(&["pool_mode=session"])?;
    let (mut anna, mut ben) = (pool.session()?, pool.session()?);
    ensure!(answers(&mut anna)? != answers(&mut ben)?, "each has its own connection");
    Ok(())
}

fn it_is_paused_killed_and_started_again() -> Result {
    let pool = pool(&[])?;
    let mut session = pool.session()?;
    pool.pause()?;
    session.send("SELECT 1")?;
    session.set_patience(SHORT);
    refused(session.receive(), "no answer within 100ms")?;
    pool.resume()?;
    session.set_patience(LONG);
    session.receive()?;
    pool.kill()?;
    ensure!(session.sql("SELECT 1").is_err(), "a connection outlived it");
    refused(pool.session(), "Connection refused")?;
    pool.restart()?;
    pool.session()?.sql("SELECT 1")?;
    pool.terminate()?;
    ensure!(!pool.process().is_running(), "it is down");
    pool.restart()
}

fn the_server_behind_it_can_be_started_again() -> Result {
    let postgres = Postgres::start(PostgresOptions::default())?;
    let pool = PgBouncer::start(postgres.addr(), &PgBouncerOptions::default())?;
    let mut session = pool.session()?;
    session.sql("SELECT 1")?;
    postgres.restart()?;
    pool.console("RECONNECT")?;
    pool.session()?.sql("SELECT 1")?;
    Ok(())
}

fn shared_ones_are_started_once() -> Result {
    ensure!(std::ptr::eq(PgBouncer::shared()?, PgBouncer::shared()?), "one PgBouncer");
    PgBouncer::shared()?.session()?.sql("SELECT 1")?;
    Ok(())
}
