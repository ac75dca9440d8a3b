//! Waiters are told of their turn.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    Attempt, Busy, Claim, Engine, Evicted, Eviction, Held, Mode, Patience, Permits, Renewal, Seat, Seq, Turn,
    Wake, When,
};
use tenure_mysql::MysqlEngine;
use tenure_testkit::{Failure, Result, ensure, ensure_eq, mariadb::MariaDb};
use tokio::task::JoinHandle;

use crate::support::{again, claim, exclusive, hold, let_go, open, renew, server, wait, within};

/// How often something is done whose lack of a push would cost up to a second each time: together more than the limit.
const OFTEN: usize = 40;
/// How long all of that may take.
const ROUND: Duration = Duration::from_secs(18);

/// A claim that was told to wait, and what it hears.
struct Waiting {
    claim: Claim,
    seat: Seat,
    turn: JoinHandle<Turn>,
}

impl Waiting {
    async fn new(engine: &Arc<MysqlEngine>, claim: Claim) -> Result<Self> {
        let seat = wait(engine, &claim).await?.seat.ok_or_else(|| Failure::new("no seat"))?;
        let turn = {
            let (engine, claim) = (engine.clone(), claim.clone());
            tokio::spawn(async move { engine.turn(&claim).await })
        };
        Ok(Self { claim, seat, turn })
    }

    /// Waits for what it hears, which must be that it holds.
    async fn holds(self) -> Result<(Claim, Seq)> {
        let turn =
            within("a waiter is told", self.turn).await?.map_err(|err| Failure::new(err.to_string()))?;
        ensure_eq!(turn, Turn::Holds(self.seat), "what a waiter was told");
        Ok((self.claim, self.seat.seq))
    }

    fn has_heard(&self) -> bool {
        self.turn.is_finished()
    }
}

/// All that is done so often, within its limit.
async fn rounds(all: impl Future<Output = Result>) -> Result {
    tokio::time::timeout(ROUND, all)
        .await
        .map_err(|_| Failure::new(format!("not all had their turn within {ROUND:?}")))?
}

/// Waits until so many sessions block on a doorbell.
async fn until_listening(server: &MariaDb, count: usize) -> Result {
    let mut session = server.admin()?;
    let look = async {
        loop {
            let rows = session
                .sql("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE state = 'User lock'")?;
            if rows[0][0] == count.to_string() {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    };
    within("sessions block on doorbells", look).await?
}

fn permits(take: u32, of: u32) -> Result<Mode> {
    Ok(Mode::Permits(Permits::new(take, of)?))
}

/// A release tells the next in line that it holds, which it does from then on: its number is the one it waited with,
/// and it can be renewed without another attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_tells_the_next() -> Result {
    let server = server(&[])?;
    let engines = [open(&server.url()).await?, open(&server.url()).await?];
    ensure_eq!(engines[0].guarantees().wake, Wake::Push, "how waiters are woken");
    let mut holder = exclusive("told")?;
    hold(&engines[0], &holder).await?;
    let all = async {
        for turn in 0..OFTEN {
            let (this, other) = (&engines[turn % 2], &engines[(turn + 1) % 2]);
            let next = exclusive("told")?;
            // A repeated attempt has one doorbell all the same.
            wait(other, &next).await?;
            let waiting = Waiting::new(other, next).await?;
            if turn % 2 == 0 {
                until_listening(&server, 1).await?;
            }
            let_go(this, &holder).await?;
            let (claim, seq) = waiting.holds().await?;
            ensure_eq!(
                renew(other, &claim, seq).await?,
                Renewal::Renewed(Some(claim.ttl.get())),
                "the renewal"
            );
            holder = claim;
        }
        Ok(())
    };
    rounds(all).await
}

/// One who leaves from the middle of the line is not taken for the one at its head.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_the_middle_tells_nobody_that_they_hold() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let all = async {
        for _ in 0..OFTEN / 4 {
            let (first, second) = (exclusive("middle")?, exclusive("middle")?);
            hold(&engine, &first).await?;
            wait(&engine, &second).await?;
            let third = Waiting::new(&engine, exclusive("middle")?).await?;
            until_listening(&server, 1).await?;
            let_go(&engine, &second).await?;
            // It listens again, now for the first.
            until_listening(&server, 1).await?;
            ensure!(!third.has_heard(), "told while another holds");
            let_go(&engine, &first).await?;
            let (claim, _) = third.holds().await?;
            let_go(&engine, &claim).await?;
        }
        Ok(())
    };
    rounds(all).await
}

/// All readers behind a writer are told at once, and a writer behind readers when the last of them is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_are_told() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let all = async {
        for _ in 0..OFTEN / 4 {
            let writer = exclusive("readers")?;
            hold(&engine, &writer).await?;
            let one = Waiting::new(&engine, claim("readers", Mode::Shared)?).await?;
            let two = Waiting::new(&engine, claim("readers", Mode::Shared)?).await?;
            let last = Waiting::new(&engine, exclusive("readers")?).await?;
            until_listening(&server, 3).await?;
            let_go(&engine, &writer).await?;
            let (one, two) = (one.holds().await?.0, two.holds().await?.0);
            let_go(&engine, &two).await?;
            ensure!(!last.has_heard(), "a writer was told beside a reader");
            let_go(&engine, &one).await?;
            let_go(&engine, &last.holds().await?.0).await?;
        }
        Ok(())
    };
    rounds(all).await
}

/// Whoever of several makes room for a waiter, it is told; so is one behind a writer that has become a reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_and_downgrades_are_told() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let all = async {
        for turn in 0..OFTEN / 2 {
            let held = [claim("permits", permits(1, 2)?)?, claim("permits", permits(1, 2)?)?];
            for claim in &held {
                hold(&engine, claim).await?;
            }
            let waiting = Waiting::new(&engine, claim("permits", permits(1, 2)?)?).await?;
            let_go(&engine, &held[turn % 2]).await?;
            let_go(&engine, &waiting.holds().await?.0).await?;
            let_go(&engine, &held[(turn + 1) % 2]).await?;
            let writer = exclusive("downgrade")?;
            let seq = hold(&engine, &writer).await?.seat.seq;
            let reader = Waiting::new(&engine, claim("downgrade", Mode::Shared)?).await?;
            let _ = engine.downgrade(Held { claim: &writer, seq }).await?;
            let_go(&engine, &reader.holds().await?.0).await?;
            let_go(&engine, &writer).await?;
        }
        Ok(())
    };
    rounds(all).await
}

/// Many who wait take few connections, keep none from working, and all are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_wait_on_few_connections() -> Result {
    const MANY: usize = 40;
    let server = server(&[])?;
    let (holder, engine) = (open(&server.url()).await?, open(&server.url()).await?);
    let before = connections(&server)?;
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..MANY {
        let claim = exclusive(&format!("many/{number}"))?;
        hold(&holder, &claim).await?;
        waiting.push(Waiting::new(&engine, exclusive(&format!("many/{number}"))?).await?);
        held.push(claim);
    }
    until_listening(&server, 3).await?;
    // Of the verbs' connections some are made when they are first needed.
    let now = connections(&server)?;
    ensure!(now <= before + 4 + 4, "{before} connections have become {now}");
    let mine = exclusive("many/mine")?;
    let seq = hold(&engine, &mine).await?.seat.seq;
    ensure_eq!(renew(&engine, &mine, seq).await?, Renewal::Renewed(Some(mine.ttl.get())), "a renewal");
    for claim in held.iter().rev() {
        let_go(&holder, claim).await?;
    }
    for waiting in waiting {
        let_go(&engine, &waiting.holds().await?.0).await?;
    }
    Ok(())
}

fn connections(server: &MariaDb) -> Result<usize> {
    let rows = server.sql("SELECT COUNT(*) - 1 FROM information_schema.PROCESSLIST WHERE db = 'tenure'")?;
    rows[0][0].parse().map_err(|_| Failure::new("no number"))
}

/// Sessions that are killed take doorbells with them, and those who listen for them. All are told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_sessions_are_no_loss() -> Result {
    let server = server(&[])?;
    let (holder, engine) = (open(&server.url()).await?, open(&server.url()).await?);
    for state in ["Sleep", "Query"] {
        let first = exclusive("killed")?;
        hold(&holder, &first).await?;
        let waiting = Waiting::new(&engine, exclusive("killed")?).await?;
        until_listening(&server, 1).await?;
        let ids = server.sql(&format!(
            "SELECT id FROM information_schema.PROCESSLIST WHERE command = '{state}' AND id <> CONNECTION_ID()"
        ))?;
        server.sql(&ids.iter().map(|row| format!("KILL {};", row[0])).collect::<String>())?;
        let _ =
            again("it is released", async || holder.release(&first, tenure_core::Answered::InDoubt).await)
                .await?;
        let Waiting { claim, seat, turn } = waiting;
        let mut turn = within("it is told", turn).await?.map_err(|err| Failure::new(err.to_string()))?;
        while turn != Turn::Holds(seat) {
            match again("it attempts", async || engine.attempt(&claim).await).await? {
                tenure_core::Attempt::Granted(grant) => turn = Turn::Holds(grant.seat),
                tenure_core::Attempt::Busy(_) => turn = within("it is told", engine.turn(&claim)).await?,
            }
        }
        let _ = again("it is released", async || engine.release(&claim, tenure_core::Answered::All).await)
            .await?;
    }
    Ok(())
}

/// A hold that an operator broke rings no doorbell; the next in line learns of it soon all the same. A waiter that was
/// evicted itself is told to ask, and is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evictions_are_noticed() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let (first, second) = (exclusive("evicted")?, exclusive("evicted")?);
    let seq = hold(&engine, &first).await?.seat.seq;
    let second = Waiting::new(&engine, second).await?;
    until_listening(&server, 1).await?;
    let out = |claim: &Claim, seq| Eviction { key: claim.key.clone(), id: claim.id, seq, when: When::Now };
    ensure_eq!(engine.evict(&out(&first, seq)).await?, Evicted::Freed, "the eviction");
    let (second, seq) = second.holds().await?;
    let third = Waiting::new(&engine, exclusive("evicted")?).await?;
    ensure_eq!(engine.evict(&out(&third.claim, third.seat.seq)).await?, Evicted::Freed, "the eviction");
    let turn = within("it is told", third.turn).await?.map_err(|err| Failure::new(err.to_string()))?;
    ensure_eq!(turn, Turn::Again, "what an evicted waiter is told");
    ensure_eq!(renew(&engine, &second, seq).await?, Renewal::Renewed(Some(second.ttl.get())), "the renewal");
    Ok(())
}

/// By `wake=poll` nobody is told anything, no doorbell is taken, and `examine` says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polling_can_be_asked_for() -> Result {
    let server = server(&[])?;
    let engine = open(&format!("{}?wake=poll", server.url())).await?;
    ensure_eq!(engine.guarantees().wake, Wake::Poll, "how waiters are woken");
    let facts = engine.examine().await?;
    ensure!(facts.iter().any(|fact| fact.name == "wake" && fact.text.contains("wake=poll")), "{facts:?}");
    let (first, second) = (exclusive("poll")?, exclusive("poll")?);
    hold(&engine, &first).await?;
    wait(&engine, &second).await?;
    for id in [first.id, second.id] {
        ensure_eq!(server.sql(&format!("SELECT IS_FREE_LOCK('tenure.{id}')"))?[0][0], "1", "its doorbell");
    }
    let_go(&engine, &first).await?;
    let told = tokio::time::timeout(Duration::from_millis(50), engine.turn(&second)).await;
    ensure!(told.is_err(), "told {told:?}");
    hold(&engine, &second).await?;
    Ok(())
}

/// A doorbell that nobody listened for is used again, and heard then; one that has rung is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doorbell_that_nobody_heard_is_used_again() -> Result {
    let server = server(&[])?;
    let (engine, other) = (open(&server.url()).await?, open(&server.url()).await?);
    let [first, second, third, next, last] =
        [exclusive("bell")?, exclusive("bell")?, exclusive("bell")?, exclusive("bell")?, exclusive("bell")?];
    let is_taken = |claim: &Claim| -> Result<bool> {
        Ok(server.sql(&format!("SELECT IS_FREE_LOCK('tenure.{}')", claim.id))?[0][0] == "0")
    };
    for claim in [&first, &second] {
        hold(&engine, claim).await?;
        let_go(&engine, claim).await?;
    }
    hold(&engine, &third).await?;
    ensure!(is_taken(&first)? && !is_taken(&second)? && !is_taken(&third)?, "which doorbell is used");
    let waiting = Waiting::new(&other, next).await?;
    until_listening(&server, 1).await?;
    let_go(&engine, &third).await?;
    let (next, _) = waiting.holds().await?;
    ensure!(!is_taken(&first)?, "a doorbell that has rung is still taken");
    let_go(&other, &next).await?;
    hold(&engine, &last).await?;
    ensure!(is_taken(&last)?, "no new doorbell");
    let_go(&engine, &last).await?;
    // Alone again, on a row that names another doorbell.
    let last = exclusive("bell")?;
    hold(&engine, &last).await?;
    let waiting = Waiting::new(&other, exclusive("bell")?).await?;
    until_listening(&server, 1).await?;
    let_go(&engine, &last).await?;
    let _ = waiting.holds().await?;
    Ok(())
}

/// A claim that asks again by another session has the doorbell of that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doorbell_changes_with_the_session() -> Result {
    let server = server(&[])?;
    let [holder, former, now, other] = [
        open(&server.url()).await?,
        open(&server.url()).await?,
        open(&server.url()).await?,
        open(&server.url()).await?,
    ];
    let (unheard, held, middle) = (exclusive("session")?, exclusive("session")?, exclusive("session")?);
    hold(&now, &unheard).await?;
    let_go(&now, &unheard).await?;
    hold(&holder, &held).await?;
    wait(&former, &middle).await?;
    wait(&now, &middle).await?;
    drop(former);
    let gone = async {
        while server.sql(&format!("SELECT IS_FREE_LOCK('tenure.{}')", middle.id))?[0][0] == "0" {
            tokio::task::yield_now().await;
        }
        Ok::<_, Failure>(())
    };
    within("the session ends", gone).await??;
    let waiting = Waiting::new(&other, exclusive("session")?).await?;
    until_listening(&server, 1).await?;
    let_go(&holder, &held).await?;
    let_go(&now, &middle).await?;
    let _ = waiting.holds().await?;
    Ok(())
}

/// A session keeps few doorbells, whatever it holds and has let go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doorbells_are_few() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let mut held = Vec::new();
    for number in 0..250 {
        let claim = exclusive(&format!("few/{number}"))?;
        hold(&engine, &claim).await?;
        held.push(claim);
    }
    let taken = |held: &[Claim]| -> Result<usize> {
        let ask = |claim: &Claim| format!("SELECT IS_FREE_LOCK('tenure.{}');\n", claim.id);
        let rows = server.sql(&held.iter().map(ask).collect::<String>())?;
        ensure_eq!(rows.len(), held.len(), "answers");
        Ok(rows.iter().filter(|row| row[0] == "0").count())
    };
    let most = taken(&held)?;
    ensure!((64..=3 * 64).contains(&most), "{most} doorbells");
    for claim in &held {
        let_go(&engine, claim).await?;
    }
    for number in 0..250 {
        let claim = exclusive(&format!("more/{number}"))?;
        hold(&engine, &claim).await?;
        let_go(&engine, &claim).await?;
        held.push(claim);
    }
    let most = taken(&held)?;
    ensure!(most <= 3 * 64, "{most} doorbells of what was released");
    let other = open(&server.url()).await?;
    let mut refused = Vec::new();
    for number in 0..20 {
        let key = format!("refused/{number}");
        hold(&engine, &exclusive(&key)?).await?;
        let claim = Claim { patience: Patience::Try, ..exclusive(&key)? };
        ensure!(
            matches!(other.attempt(&claim).await?, Attempt::Busy(Busy { seat: None, .. })),
            "{key} is held"
        );
        refused.push(claim);
    }
    let most = taken(&refused)?;
    ensure!(most <= 3, "{most} doorbells of what was refused");
    Ok(())
}
