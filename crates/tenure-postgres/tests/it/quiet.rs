//! A guess, whether a key is alone: right or wrong, only the way to the answer changes.

use std::{sync::Arc, time::Duration};

use tenure_core::{Answered, Attempt, Claim, Engine, Grant, Mode, Patience, Released, Turn};
use tenure_postgres::PostgresEngine;
use tenure_testkit::{Result, ensure, ensure_eq, postgres::Postgres};

use crate::support::{brief, claim, count, hold, let_go, line, open, queue, server, turn};

/// What takes and leaves a key without a look at anybody else.
const TAKEN: &str = "UPDATE % SET seq %";
const LEFT: &str = "UPDATE % SET state %";

/// Takes a key and gives it back.
async fn visit(engine: &Arc<PostgresEngine>) -> Result {
    let visitor = claim("k", Mode::Exclusive)?;
    hold(engine, &visitor).await?;
    let_go(engine, &visitor).await
}

/// Whether the last that a session of ours was asked for is like this.
fn was_asked(server: &Postgres, like: &str) -> Result<bool> {
    let asked = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure' AND query LIKE '{like}'"
    );
    Ok(server.sql(&asked)? != [["0"]])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_alone_is_taken_and_left_in_the_shortest_way() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let held = claim("k", Mode::Exclusive)?;
    hold(&engine, &held).await?;
    ensure!(was_asked(&server, "WITH %")?, "nobody knows yet whether it is alone");
    let_go(&engine, &held).await?;
    ensure!(was_asked(&server, "WITH %")?, "nor when it is given back");
    let held = claim("k", Mode::Exclusive)?;
    hold(&engine, &held).await?;
    ensure!(was_asked(&server, TAKEN)?, "it was alone");
    let_go(&engine, &held).await?;
    ensure!(was_asked(&server, LEFT)?, "it was alone when it was last given back");
    Ok(())
}

/// Who takes a key that somebody else has meanwhile waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_guesses_wrong_when_taking_waits_in_line() -> Result {
    let server = server(&[])?;
    let [engine, other] = [open(&server.url()).await?, open(&server.url()).await?];
    visit(&engine).await?;
    let [theirs, mine] = [claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?];
    hold(&other, &theirs).await?;
    let seat = queue(&engine, &mine).await?;
    let_go(&other, &theirs).await?;
    ensure_eq!(turn(&engine, &mine).await?, Turn::Holds(seat), "the turn");
    let_go(&engine, &mine).await?;
    let next = claim("k", Mode::Exclusive)?;
    hold(&engine, &next).await?;
    ensure!(!was_asked(&server, TAKEN)?, "it was not alone when it was last given back");
    Ok(())
}

/// Who finds a key busy does not guess the next time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_guessed_wrong_guesses_no_more() -> Result {
    let server = server(&[])?;
    let [engine, other] = [open(&server.url()).await?, open(&server.url()).await?];
    visit(&engine).await?;
    let [theirs, mine] = [claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?];
    hold(&other, &theirs).await?;
    let hasty = Claim { patience: Patience::Try, ..claim("k", Mode::Exclusive)? };
    ensure!(matches!(engine.attempt(&hasty).await?, Attempt::Busy(_)), "a busy key was taken");
    let_go(&other, &theirs).await?;
    hold(&engine, &mine).await?;
    ensure!(!was_asked(&server, TAKEN)?, "it asked as if it were alone");
    Ok(())
}

/// Who gives back a key for which somebody has come to wait tells them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_guesses_wrong_when_leaving_tells_those_who_wait() -> Result {
    let server = server(&[])?;
    let [engine, other] = [open(&server.url()).await?, open(&server.url()).await?];
    visit(&engine).await?;
    let [mine, theirs] = [claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?];
    hold(&engine, &mine).await?;
    let seat = queue(&other, &theirs).await?;
    let_go(&engine, &mine).await?;
    ensure_eq!(turn(&other, &theirs).await?, Turn::Holds(seat), "the turn of who waits");
    ensure_eq!(count(&server, "holds")?, 1, "holders");
    Ok(())
}

/// The row of a key is swept when nobody has wanted it for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_swept_meanwhile_is_taken_all_the_same() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let [before, after] = [claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?];
    let first = hold(&engine, &before).await?.seat.seq;
    let_go(&engine, &before).await?;
    server.sql("DELETE FROM tenure_places")?;
    let second = hold(&engine, &after).await?.seat.seq;
    ensure!(second > first, "{second} after {first}");
    ensure_eq!(line(&engine, "k").await?.len(), 1, "places");
    Ok(())
}

/// The number and the life that a claim was granted stand in the key's row.
fn stands(server: &Postgres, grant: &Grant) -> Result<bool> {
    let (seq, life) = (grant.seat.seq.get(), grant.seat.incarnation.0);
    Ok(count(server, &format!("seq = {seq} AND life = {life} AND state = 0"))? == 1)
}

/// What a claim is granted is what the row says, whichever way it was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_grants_the_same() -> Result {
    let server = server(&[])?;
    let [engine, other] = [open(&server.url()).await?, open(&server.url()).await?];
    visit(&engine).await?;
    for (engine, asked) in [(&engine, TAKEN), (&other, "WITH %")] {
        let mine = claim("k", Mode::Exclusive)?;
        let grant = hold(engine, &mine).await?;
        ensure!(was_asked(&server, asked)?, "not asked like {asked}");
        ensure!(stands(&server, &grant)?, "asked like {asked}, {grant:?} does not stand in the row");
        let_go(engine, &mine).await?;
    }
    Ok(())
}

/// Who has no place on a key that is likely to be alone is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_held_is_not_freed() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    visit(&engine).await?;
    let mine = claim("k", Mode::Exclusive)?;
    hold(&engine, &mine).await?;
    let_go(&engine, &mine).await?;
    ensure!(was_asked(&server, LEFT)?, "it was alone");
    ensure_eq!(engine.release(&mine, Answered::All).await?, Released::NotHeld, "the second release");
    Ok(())
}

/// A ttl that the session has not the limits of is asked for as text, and that is worth one trip only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_its_own_take_one_trip() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    visit(&engine).await?;
    let mine = brief("k", Duration::from_secs(2))?;
    let grant = hold(&engine, &mine).await?;
    ensure!(was_asked(&server, "SET LOCAL %;WITH %")?, "not asked with limits of its own");
    ensure!(stands(&server, &grant)?, "{grant:?} does not stand in the row");
    let_go(&engine, &mine).await?;
    ensure!(was_asked(&server, "SET LOCAL %;WITH %")?, "not given back with limits of its own");
    visit(&engine).await?;
    ensure!(was_asked(&server, LEFT)?, "the key was alone all the time");
    Ok(())
}

/// The server says what a statement did before it has committed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_committed_is_not_believed() -> Result {
    const FAILS: &str = "CREATE CONSTRAINT TRIGGER fails AFTER UPDATE ON tenure_places DEFERRABLE INITIALLY DEFERRED \
                         FOR EACH ROW EXECUTE FUNCTION fails()";
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    visit(&engine).await?;
    server.sql(
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not so'; END $$",
    )?;
    let mine = claim("k", Mode::Exclusive)?;
    server.sql(FAILS)?;
    let answer = engine.attempt(&mine).await;
    ensure!(was_asked(&server, TAKEN)? && answer.is_err(), "taken: {answer:?}");
    server.sql("DROP TRIGGER fails ON tenure_places")?;
    hold(&engine, &mine).await?;
    server.sql(FAILS)?;
    let answer = engine.release(&mine, Answered::All).await;
    ensure!(was_asked(&server, LEFT)? && answer.is_err(), "given back: {answer:?}");
    server.sql("DROP TRIGGER fails ON tenure_places")?;
    let_go(&engine, &mine).await
}
