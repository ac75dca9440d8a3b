//! Verbs that the server takes back: what they say, and that they left nothing.

use tenure_core::{Answered, Engine, ErrorKind, Held, Mode, Released, Renewal};
use tenure_testkit::{Failure, Result, ensure_eq};

use crate::support::{claim, hold, let_go, open, rows, says, server};

/// A deadlock or a failed serialization, wherever it hits, is said to be worth another try, and changed nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_taken_back_can_be_tried_again() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    server.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'provoked' USING ERRCODE = TG_ARGV[0]; END $$",
    )?;
    for code in ["40001", "40P01"] {
        let held = claim("held", Mode::Exclusive)?;
        let seq = hold(&engine, &held).await?.seat.seq;
        server.sql(&format!(
            "CREATE TRIGGER provoke AFTER INSERT OR UPDATE OR DELETE ON tenure_places FOR EACH ROW \
             EXECUTE FUNCTION refuse('{code}')"
        ))?;
        let other = claim("other", Mode::Exclusive)?;
        let failed = |what: &str| Failure::new(format!("{what} succeeded"));
        let err = engine.attempt(&other).await.err().ok_or_else(|| failed("an attempt"))?;
        says(&err, ErrorKind::Unavailable, code)?;
        let err =
            engine.renew(&[Held { claim: &held, seq }]).await.err().ok_or_else(|| failed("a renewal"))?;
        says(&err, ErrorKind::Unavailable, code)?;
        let err = engine.release(&held, Answered::All).await.err().ok_or_else(|| failed("a release"))?;
        says(&err, ErrorKind::Unavailable, code)?;
        ensure_eq!(rows(&server)?, 1, "rows after what was taken back");
        server.sql("DROP TRIGGER provoke ON tenure_places")?;
        ensure_eq!(
            engine.renew(&[Held { claim: &held, seq }]).await?,
            [Renewal::Renewed(Some(held.ttl.get()))],
            "the renewal"
        );
        let_go(&engine, &held).await?;
        ensure_eq!(engine.release(&other, Answered::All).await?, Released::NotHeld, "the other");
        ensure_eq!(rows(&server)?, 0, "rows afterwards");
    }
    Ok(())
}

/// Tables that somebody dropped are said to be missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_tables_are_missed() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    server.sql("DROP TABLE tenure_places")?;
    let refused = engine.attempt(&claim("k", Mode::Exclusive)?).await;
    let err = refused.err().ok_or_else(|| Failure::new("a lock without a table"))?;
    says(&err, ErrorKind::Invalid, "`tenure schema postgres`")
}
