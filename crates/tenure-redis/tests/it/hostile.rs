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

/// What is left of a line that somebody damaged is refused in words and left as it is, as is one of another shape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_line_is_refused_and_left_alone() -> Result {
    const PART: &str = "
        local head = cmsgpack.unpack(redis.call('HGET', KEYS[1], 'line'))
        local part = 'p' .. string.sub(head[14], 9, 16)
    ";
    const SHORT: &str =
        "redis.call('HSET', KEYS[1], part, string.sub(redis.call('HGET', KEYS[1], part), 1, 160)) return 1";
    const WRITE: &str = "redis.call('HSET', KEYS[1], 'line', cmsgpack.pack(head)) return 1";
    let damages = [
        ("a part is missing", format!("{PART} return redis.call('HDEL', KEYS[1], part)")),
        ("a part is short", format!("{PART} {SHORT}")),
        (
            "a part is none",
            format!("{PART} return redis.call('HSET', KEYS[1], part, string.rep('?', 72 * 16))"),
        ),
        ("a word less", format!("{PART} head[14] = nil {WRITE}")),
        ("a word more", format!("{PART} head[15] = '' {WRITE}")),
        ("the order in one piece", format!("{PART} head = {{ unpack(head, 1, 10) }} {WRITE}")),
        ("half an id", format!("{PART} head[9] = string.sub(head[9], 9) {WRITE}")),
        ("half a part", format!("{PART} head[14] = string.sub(head[14], 9) {WRITE}")),
        ("no text", format!("{PART} head[9] = 5 {WRITE}")),
    ];
    let digest = "
        local all = redis.call('HGETALL', KEYS[1])
        table.sort(all)
        return redis.sha1hex(table.concat(all))
    ";
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    for (at, (name, damage)) in damages.iter().enumerate() {
        let key = format!("damaged/{at}");
        let mut claims = Vec::new();
        for _ in 0..200 {
            let claim = claim(&key, Mode::Exclusive)?;
            let _ = engine.attempt(&claim).await?;
            claims.push(claim);
        }
        let line = format!("tenure:lock:{key}");
        server.command(&["EVAL", damage, "1", &line])?;
        let before = server.command(&["EVAL", digest, "1", &line])?;
        let said = "is none of tenure's; choose another ns=";
        let none = || Failure::new(format!("a line was used although {name}"));
        says(&engine.attempt(&claims[150]).await.err().ok_or_else(none)?, ErrorKind::Invalid, said)?;
        let err = engine.attempt(&claim(&key, Mode::Exclusive)?).await.err();
        says(&err.ok_or_else(none)?, ErrorKind::Invalid, said)?;
        let err = engine.release(&claims[150], Answered::All).await.err();
        says(&err.ok_or_else(none)?, ErrorKind::Invalid, said)?;
        let shown = engine.line(&Filter::Key(claims[0].key.clone())).await.err();
        says(&shown.ok_or_else(none)?, ErrorKind::Invalid, said)?;
        let after = server.command(&["EVAL", digest, "1", &line])?;
        ensure_eq!(after.text(), before.text(), "the line where {name}");
    }
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
