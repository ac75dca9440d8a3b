//! Calls that are dropped half-way.

use std::time::Duration;

use tenure_core::{Answered, Engine, Held, Mode, Renewal};
use tenure_testkit::{
    Failure, Result, ensure_eq,
    pgbouncer::{PgBouncer, PgBouncerOptions},
};

use crate::support::{
    brief, claim, count, hold, let_go, line, lock, open, queue, rows, server, somebody_waits, until_held,
    within,
};

/// The answer to a call that nobody waits for any more goes to nobody else: every later call, on the same connection,
/// is answered as if there had been none before it. With prepared statements, and without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_to_a_dropped_call_goes_to_nobody_else() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    for ttl in [Duration::from_secs(30), Duration::from_secs(9)] {
        for round in 0..60_u64 {
            let (dropped, kept) =
                (brief(&format!("dropped/{round}"), ttl)?, brief(&format!("kept/{round}"), ttl)?);
            // From before it is sent until after it is answered.
            let patience = Duration::from_micros(round * 25);
            let dropped_in_time = tokio::time::timeout(patience, engine.attempt(&dropped)).await.is_err();
            let seat = hold(&engine, &kept).await?.seat;
            let shown = line(&engine, kept.key.as_str()).await?;
            ensure_eq!(shown.iter().map(|place| place.seq).collect::<Vec<_>>(), [seat.seq], "the line");
            let holds = [Held { claim: &kept, seq: seat.seq }];
            if round % 3 == 0 {
                let _ = tokio::time::timeout(patience, engine.renew(&holds)).await;
            } else {
                ensure_eq!(engine.renew(&holds).await?, [Renewal::Renewed(Some(ttl))], "the renewal");
            }
            let_go(&engine, &kept).await?;
            let answered = if dropped_in_time { Answered::InDoubt } else { Answered::All };
            let _ = engine.release(&dropped, answered).await?;
            ensure_eq!(line(&engine, dropped.key.as_str()).await?.len(), 0, "what a dropped attempt leaves");
        }
    }
    Ok(())
}

/// Behind a pooler a client dies while a request of it is at work, and one that it made at the same time was answered.
/// Whoever is lent that connection next hears its own answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_to_one_who_died_goes_to_nobody_else() -> Result {
    let server = server(&[])?;
    let settings = vec!["default_pool_size=1".to_owned()];
    let pooler = PgBouncer::start(server.addr(), &PgBouncerOptions { settings })?;
    // It makes the tables.
    open(&server.url()).await?;
    let mut somebody = server.admin()?;
    somebody.sql(&lock("stuck"))?;
    // All that it does ends with its runtime, as with a process.
    let life = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let [quick, stuck] = [claim("quick", Mode::Shared)?, claim("stuck", Mode::Shared)?];
    let id = quick.id;
    let url = pooler.url();
    life.spawn(async move {
        let engine = open(&url).await?;
        let _ = tokio::join!(hold(&engine, &quick), hold(&engine, &stuck));
        Ok::<_, Failure>(())
    });
    within("the first is carried out", async {
        while count(&server, &format!("id = '{id}'"))? == 0 {
            tokio::task::yield_now().await;
        }
        Ok::<_, Failure>(())
    })
    .await??;
    somebody_waits(&server).await?;
    life.shutdown_background();
    within("the pooler knows", async {
        while pooler.console("SHOW CLIENTS")?.iter().any(|row| row.iter().any(|word| word == "tenure")) {
            tokio::task::yield_now().await;
        }
        Ok::<_, Failure>(())
    })
    .await??;
    somebody.sql("COMMIT")?;
    let other = open(&pooler.url()).await?;
    let next = claim("next", Mode::Exclusive)?;
    let seat = hold(&other, &next).await?.seat;
    let shown = line(&other, "next").await?;
    ensure_eq!(shown.iter().map(|place| place.seq).collect::<Vec<_>>(), [seat.seq], "the line");
    let_go(&other, &next).await
}

/// Nobody removes what has lapsed but those who ask; until then it is lost all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_lapsed_is_not_renewed() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_millis(300);
    let (short, beside) = (brief("k", ttl)?, claim("other", Mode::Exclusive)?);
    let seqs = [hold(&engine, &short).await?.seat.seq, hold(&engine, &beside).await?.seat.seq];
    tokio::time::sleep(ttl).await;
    ensure_eq!(rows(&server)?, 2, "rows that nobody has removed");
    let renewed =
        engine.renew(&[Held { claim: &short, seq: seqs[0] }, Held { claim: &beside, seq: seqs[1] }]).await?;
    ensure_eq!(renewed, [Renewal::Lost, Renewal::Renewed(Some(beside.ttl.get()))], "renewals");
    let released = engine.release(&short, Answered::All).await?;
    ensure_eq!(released, tenure_core::Released::NotHeld, "the release of what has lapsed");
    Ok(())
}

/// A place that waits is kept alive by asking again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_again_prolongs_the_place() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let (first, waiting) = (claim("k", Mode::Exclusive)?, brief("k", Duration::from_secs(3))?);
    hold(&engine, &first).await?;
    let seat = queue(&engine, &waiting).await?;
    let left = async || {
        let shown = line(&engine, "k").await?;
        let place = shown.iter().find(|place| place.id == waiting.id);
        place.and_then(|place| place.lease_left).ok_or_else(|| Failure::new(format!("no place: {shown:?}")))
    };
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let before = left().await?;
    ensure_eq!(queue(&engine, &waiting).await?, seat, "the same place");
    let after = left().await?;
    tenure_testkit::ensure!(after > before, "{before:?} were left, and then {after:?}");
    let_go(&engine, &first).await?;
    ensure_eq!(until_held(&engine, &waiting).await?.seat, seat, "the same place");
    Ok(())
}
