//! What is in the tables, and for how long.

use std::time::Duration;

use tenure_core::{Answered, Attempt, Claim, Engine, ErrorKind, Mode, Patience, Released, Renewal, Seq, Ttl};
use tenure_testkit::{Failure, Result, ensure, ensure_eq, mariadb::MariaDb};

use crate::support::{
    again, claim, deadlines, exclusive, hash, hold, let_go, line, open, renew, rows, says, server, wait,
};

/// Nothing stays of a key that nobody wants any more, whichever verb was its last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_idle_keys_are_removed() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    for number in 0..20 {
        let claim = exclusive(&format!("idle/{number}"))?;
        hold(&engine, &claim).await?;
        let_go(&engine, &claim).await?;
    }
    let (holder, waiter) = (exclusive("queue")?, exclusive("queue")?);
    hold(&engine, &holder).await?;
    wait(&engine, &waiter).await?;
    let hasty = Claim { patience: Patience::Try, ..exclusive("queue")? };
    ensure_eq!(wait(&engine, &hasty).await?.seat, None, "the seat of one who does not wait");
    let_go(&engine, &holder).await?;
    let_go(&engine, &waiter).await?;
    let absurd = Claim { floor: Seq::MAX, ..exclusive("absurd")? };
    let err = engine.attempt(&absurd).await.err();
    says(err.as_ref().ok_or_else(|| Failure::new("it was granted"))?, ErrorKind::Invalid, "a day ahead")?;
    ensure_eq!(rows(&server)?, ("0".to_owned(), "0".to_owned()), "lines and places");
    // The rows themselves stay for a while, and those of keys in use for as long as that lasts.
    let held = exclusive("held")?;
    hold(&engine, &held).await?;
    let shared = claim("shared", Mode::Shared)?;
    hold(&engine, &shared).await?;
    hold(&engine, &claim("shared", Mode::Shared)?).await?;
    let count = || -> Result<String> { Ok(server.sql("SELECT COUNT(*) FROM tenure_lines")?[0][0].clone()) };
    open(&server.url()).await?;
    ensure_eq!(count()?, "23", "rows of keys that had a number within a minute");
    server.sql("UPDATE tenure_lines SET last = last - 3600000000")?;
    let last =
        server.sql("SELECT MAX(last) FROM tenure_lines WHERE many = 0 AND id = REPEAT(CHAR(0), 16)")?;
    open(&server.url()).await?;
    ensure_eq!(count()?, "2", "rows of keys in use");
    ensure_eq!(server.sql("SELECT MAX(n) FROM tenure_marks")?, last, "the largest number that was removed");
    ensure_eq!(line(&engine, "held").await?.len() + line(&engine, "shared").await?.len(), 3, "places");
    Ok(())
}

/// Those who died without letting go are forgotten too, though nobody asks for their keys again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_the_dead_are_swept() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    for number in 0..5 {
        hold(&engine, &exclusive(&format!("dead/{number}"))?).await?;
    }
    hold(&engine, &exclusive("alive")?).await?;
    // Some died alone, some in company.
    for number in 3..5 {
        wait(&engine, &exclusive(&format!("dead/{number}"))?).await?;
    }
    let alive = hash("alive")?;
    server.sql(&format!(
        "UPDATE tenure_places SET deadline = 1 WHERE h <> {alive};
         UPDATE tenure_lines SET deadline = 1, last = 1 WHERE h <> {alive}"
    ))?;
    open(&server.url()).await?;
    ensure_eq!(rows(&server)?, ("1".to_owned(), "1".to_owned()), "lines and places");
    ensure_eq!(server.sql("SELECT COUNT(*) FROM tenure_lines")?[0][0], "1", "rows of lines");
    Ok(())
}

/// Numbers rise over the deletion of the key's row, a crash, and a clock that was set back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_never_lead_back() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let mut last = Seq::ZERO;
    for round in 0..5 {
        for _ in 0..10 {
            let claim = exclusive("numbers")?;
            let seq = hold(&engine, &claim).await?.seat.seq;
            ensure!(seq > last, "{seq} after {last} in round {round}");
            last = seq;
            let_go(&engine, &claim).await?;
        }
        ensure_eq!(rows(&server)?.0, "0", "rows of lines");
        match round {
            // As if the clock had been an hour ahead so far.
            0 => {
                server.sql("UPDATE tenure_lines SET last = last + 3600000000")?;
                last = Seq::new(last.get() + 3_600_000_000).ok_or_else(|| Failure::new("no number"))?;
            }
            // And the row was removed meanwhile, by a clock that was ahead.
            1 => {
                server.sql("UPDATE tenure_lines SET last = last - 7200000000")?;
                open(&server.url()).await?;
                ensure_eq!(server.sql("SELECT COUNT(*) FROM tenure_lines")?[0][0], "0", "rows");
                server.sql("UPDATE tenure_marks SET n = n + 7200000000")?;
            }
            _ => {
                server.kill()?;
                server.restart()?;
                again("the server answers", async || engine.ping().await).await?;
                // Every connection must have noticed.
                let probe = exclusive("numbers")?;
                let _ = again("an attempt is answered", async || engine.attempt(&probe).await).await?;
                let_go(&engine, &probe).await?;
            }
        }
    }
    Ok(())
}

/// A floor lifts the numbers of the key, by an attempt and by a renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floors_are_kept() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    let first = exclusive("floors")?;
    let seq = hold(&engine, &first).await?.seat.seq;
    let lifted = Claim {
        floor: Seq::new(seq.get() + 1_000_000_000).ok_or_else(|| Failure::new("no number"))?,
        ..first.clone()
    };
    ensure_eq!(renew(&engine, &lifted, seq).await?, Renewal::Renewed(Some(first.ttl.get())), "the renewal");
    let_go(&engine, &first).await?;
    let second = exclusive("floors")?;
    let next = hold(&engine, &second).await?.seat.seq;
    ensure!(next > lifted.floor, "{next} after a floor of {}", lifted.floor);
    let_go(&engine, &second).await?;
    let third = Claim {
        floor: Seq::new(next.get() + 5_000_000_000).ok_or_else(|| Failure::new("no number"))?,
        ..exclusive("floors")?
    };
    ensure_eq!(hold(&engine, &third).await?.seat.seq, third.floor, "the number of the third");
    let absurd = Claim { floor: Seq::MAX, ..third.clone() };
    let err = renew(&engine, &absurd, third.floor).await.err();
    says(err.as_ref().ok_or_else(|| Failure::new("it was renewed"))?, ErrorKind::Invalid, "a day ahead")?;
    let_go(&engine, &third).await
}

/// Deadlines that another life of the server wrote are by another clock: every place gets a whole lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_another_life_gets_a_whole_lease() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    for verb in ["attempt", "renew", "clock"] {
        let key = format!("life/{verb}");
        let (holder, other) = (exclusive(&key)?, exclusive(&key)?);
        let seq = hold(&engine, &holder).await?.seat.seq;
        let h = hash(&key)?;
        if verb == "clock" {
            // As if the clock had been set back by a day.
            deadlines(server, &key, "deadline + 86400000000")?;
        } else {
            server.sql(&format!("UPDATE tenure_lines SET life = X'0000000000000000' WHERE h = {h}"))?;
            deadlines(server, &key, "1")?;
        }
        ensure_eq!(line(&engine, &key).await?.len(), 1, "places shown");
        if verb == "renew" {
            ensure_eq!(
                renew(&engine, &holder, seq).await?,
                Renewal::Renewed(Some(holder.ttl.get())),
                "{verb}"
            );
        }
        let left = wait(&engine, &other).await?.lapses_in.unwrap_or_default();
        ensure!(left <= holder.ttl.get() && left > holder.ttl.get() / 2, "{verb}: {left:?} are left");
        ensure_eq!(renew(&engine, &holder, seq).await?, Renewal::Renewed(Some(holder.ttl.get())), "{verb}");
        // In the same life, a deadline that has passed is one.
        server.sql(&format!("UPDATE tenure_places SET deadline = 1 WHERE h = {h} AND seq = {seq}"))?;
        ensure_eq!(renew(&engine, &holder, seq).await?, Renewal::Lost, "{verb}");
        hold(&engine, &other).await?;
        let_go(&engine, &other).await?;
    }
    Ok(())
}

/// Whoever gives back what has lapsed had no place any more, alone or in a line of several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_lapsed_is_not_given_back() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    let alone = exclusive("lapsed/alone")?;
    hold(&engine, &alone).await?;
    deadlines(server, "lapsed/alone", "1")?;
    ensure_eq!(engine.release(&alone, Answered::All).await?, Released::NotHeld, "the release of one alone");
    let (holder, waiter) = (exclusive("lapsed/line")?, exclusive("lapsed/line")?);
    hold(&engine, &holder).await?;
    let seat = wait(&engine, &waiter).await?.seat.ok_or_else(|| Failure::new("no seat"))?;
    server.sql(&format!("UPDATE tenure_places SET deadline = 1 WHERE seq = {}", seat.seq))?;
    ensure_eq!(
        engine.release(&waiter, Answered::All).await?,
        Released::NotHeld,
        "the release of one in line"
    );
    let_go(&engine, &holder).await?;
    ensure_eq!(line(&engine, "lapsed/line").await?.len(), 0, "places");
    Ok(())
}

/// A release that is the first verb in another life of the server gives those who stay a whole lease, from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_first_in_another_life_renews_the_rest() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    let (holder, waiter) = (exclusive("life/leaves")?, exclusive("life/leaves")?);
    let seq = hold(&engine, &holder).await?.seat.seq;
    wait(&engine, &waiter).await?;
    let h = hash("life/leaves")?;
    server.sql(&format!(
        "UPDATE tenure_lines SET life = X'0000000000000000' WHERE h = {h};
         UPDATE tenure_places SET deadline = 1 WHERE h = {h} AND seq = {seq}"
    ))?;
    let_go(&engine, &waiter).await?;
    let rest = line(&engine, "life/leaves").await?;
    let left = rest.first().and_then(|place| place.lease_left).unwrap_or_default();
    let whole = holder.ttl.get();
    // A lease that nobody has started yet is shown as a whole one.
    ensure!(rest.len() == 1 && left > whole / 2 && left < whole, "{left:?} are left: {rest:?}");
    let_go(&engine, &holder).await
}

/// Many holds are renewed at once, in whatever order, each by its own number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_renewed_at_once() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    let mut held = Vec::new();
    for number in 0..250 {
        let claim = Claim {
            ttl: Ttl::new(Duration::from_secs(30 + number % 3))?,
            ..exclusive(&format!("many/{number}"))?
        };
        let seq = hold(&engine, &claim).await?.seat.seq;
        held.push((claim, seq));
    }
    let_go(&engine, &held[17].0).await?;
    let wrong = Seq::new(held[201].1.get() + 1).ok_or_else(|| Failure::new("no number"))?;
    let holds: Vec<_> = held
        .iter()
        .enumerate()
        .map(|(at, (claim, seq))| tenure_core::Held { claim, seq: if at == 201 { wrong } else { *seq } })
        .collect();
    let renewals = engine.renew(&holds).await?;
    for (at, renewal) in renewals.iter().enumerate() {
        let expected = match at {
            17 | 201 => Renewal::Lost,
            _ => Renewal::Renewed(Some(held[at].0.ttl.get())),
        };
        ensure_eq!(*renewal, expected, "renewal {at}");
    }
    for (at, (claim, _)) in held.iter().enumerate().filter(|(at, _)| *at != 17) {
        let _ = (at, engine.release(claim, Answered::All).await?);
    }
    Ok(())
}

/// Keys that only differ in case, blanks at the end or beyond their first 255 bytes are different keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_compared_byte_by_byte() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    let long = "k".repeat(1023);
    let keys = ["bytes", "Bytes", "bytes ", "bytes\0", "bytés", &format!("{long}a"), &format!("{long}b")];
    for key in keys {
        let claim = exclusive(key)?;
        ensure!(matches!(engine.attempt(&claim).await?, Attempt::Granted(_)), "{key:?} is taken");
        let line = line(&engine, key).await?;
        ensure_eq!(line.iter().map(|place| place.key.as_str()).collect::<Vec<_>>(), [key], "the line");
        ensure_eq!(line[0].mode, Mode::Exclusive, "its mode");
    }
    Ok(())
}
