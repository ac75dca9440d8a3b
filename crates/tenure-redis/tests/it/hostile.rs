//! Keys of others where ours belong.

use tenure_core::{Answered, Engine, ErrorKind, Filter, Held, Mode, Renewal};
use tenure_testkit::{Failure, Result, ensure, ensure_eq};

use crate::support::{claim, forgetful, hold, let_go, open, refusal, says};

/// A key of another type, or a hash that is no line, is refused in words and left as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_others_are_refused_and_left_alone() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    server.command(&["SET", "tenure:lock:text", "precious"])?;
    server.command(&["HSET", "tenure:lock:hash", "line", "precious"])?;
    server.command(&["HSET", "tenure:lock:packed", "line", "\u{1}"])?;
    for key in ["text", "hash", "packed"] {
        let claim = claim(key, Mode::Exclusive)?;
        let said = "is none of tenure's; choose another ns=";
        let err =
            engine.attempt(&claim).await.err().ok_or_else(|| Failure::new("a foreign key was taken"))?;
        says(&err, ErrorKind::Invalid, said)?;
        let err = engine.release(&claim, Answered::InDoubt).await.err();
        says(&err.ok_or_else(|| Failure::new("a foreign key was released"))?, ErrorKind::Invalid, said)?;
    }
    let kept = server.command(&["GET", "tenure:lock:text"])?;
    ensure_eq!(kept.text(), Some("precious"), "the text");
    ensure_eq!(server.command(&["HLEN", "tenure:lock:hash"])?.int(), Some(1), "the hash");
    Ok(())
}

/// A lock whose key somebody overwrote is lost, and only that one: the others of the process are renewed and shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_overwritten_is_lost_alone() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let claims = [claim("a", Mode::Exclusive)?, claim("b", Mode::Exclusive)?, claim("c", Mode::Exclusive)?];
    let mut seqs = Vec::new();
    for claim in &claims {
        seqs.push(hold(&engine, claim).await?.seat.seq);
    }
    let holds: Vec<_> = claims.iter().zip(&seqs).map(|(claim, seq)| Held { claim, seq: *seq }).collect();
    server.command(&["SET", "tenure:lock:b", "overwritten"])?;
    server.command(&["HSET", "tenure:lock:strange", "x", "y"])?;
    let lives = Renewal::Renewed(Some(claims[0].ttl.get()));
    ensure_eq!(engine.renew(&holds).await?, [lives, Renewal::Lost, lives], "the renewals");
    let shown = engine.line(&Filter::Prefix(String::new(), 100)).await?;
    ensure_eq!(shown.len(), 2, "the places that are shown");
    server.command(&["DEL", "tenure:lock:b"])?;
    server.command(&["HSET", "tenure:lock:b", "line", "overwritten"])?;
    ensure_eq!(
        engine.renew(&holds).await?,
        [lives, Renewal::Lost, lives],
        "the renewals beside a foreign hash"
    );
    for claim in [&claims[0], &claims[2]] {
        let_go(&engine, claim).await?;
    }
    Ok(())
}

/// The keys that belong to no lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_mark_or_identity_is_named() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let first = claim("k", Mode::Exclusive)?;
    let seq = hold(&engine, &first).await?.seat.seq;
    server.command(&["DEL", "tenure:mark"])?;
    server.command(&["LPUSH", "tenure:mark", "x"])?;
    let err = engine.attempt(&claim("other", Mode::Exclusive)?).await.err();
    let err = err.ok_or_else(|| Failure::new("a number was drawn from a list"))?;
    says(&err, ErrorKind::Invalid, "choose another ns=")?;
    let lives = Renewal::Renewed(Some(first.ttl.get()));
    ensure_eq!(engine.renew(&[Held { claim: &first, seq }]).await?, [lives], "a renewal needs no mark");
    let_go(&engine, &first).await?;

    for value in ["short", "seventeen bytes!!"] {
        server.command(&["SET", "tenure:id", value])?;
        says(
            &refusal(&server.url()).await?,
            ErrorKind::Invalid,
            "the key `tenure:id` of the server is not tenure's",
        )?;
    }
    server.command(&["DEL", "tenure:id"])?;
    server.command(&["LPUSH", "tenure:id", "x"])?;
    let err = refusal(&server.url()).await?;
    ensure!(err.kind() == ErrorKind::Invalid && err.to_string().contains("ns="), "{err}");
    Ok(())
}
