//! Slots: which keys lie together, and what a client meets while they are moved.

use std::collections::BTreeSet;

use tenure_core::{Answered, Engine, ErrorKind, Filter, Held, Key, Mode, Renewal, Turn};
use tenure_testkit::{Failure, Result, ensure, ensure_eq, redis::Cluster};

use crate::support::{calls, claim, counted, hold, let_go, open, queue, says, turn};

fn url(cluster: &Cluster) -> String {
    let hosts: Vec<_> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    format!("redis+cluster://{}", hosts.join(","))
}

fn scripts(cluster: &Cluster) -> Result<u64> {
    cluster.nodes().iter().map(|node| calls(node, "evalsha")).sum()
}

/// Locks with the same braces are renewed together, one command for each slot; and all nodes are looked at for a line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn braces_keep_locks_together() -> Result {
    let cluster = Cluster::shared()?;
    let engine = open(&url(cluster)).await?;
    let mut held = Vec::new();
    for number in 0..60 {
        let claim = claim(&format!("braces/{{tag{}}}/{number}", number % 4), Mode::Exclusive)?;
        let seq = hold(&engine, &claim).await?.seat.seq;
        held.push((claim, seq));
    }
    let holds: Vec<_> = held.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
    let renewals = engine.renew(&holds).await?;
    ensure!(renewals.iter().all(|one| *one != Renewal::Lost), "a hold is lost: {renewals:?}");
    let shown = engine.line(&Filter::Prefix("braces/".into(), 1000)).await?;
    let names: BTreeSet<_> = shown.iter().map(|place| place.key.as_str().to_owned()).collect();
    ensure_eq!(names, held.iter().map(|(claim, _)| claim.key.as_str().to_owned()).collect(), "the lines");
    let nodes: BTreeSet<u16> = held
        .iter()
        .map(|(claim, _)| cluster.slot_of(&format!("tenure:lock:{}", claim.key)))
        .map(|slot| Ok(cluster.node_of(slot?)?.port()))
        .collect::<Result<_>>()?;
    ensure!(nodes.len() > 1, "all of them lie on one node");
    for (claim, _) in &held {
        let_go(&engine, claim).await?;
    }
    ensure_eq!(engine.line(&Filter::Prefix("braces/".into(), 1000)).await?.len(), 0, "what is left");
    Ok(())
}

/// Every step of moving a slot: keys that are still here, those that are there, some of each, and the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_moved_under_the_locks_in_it() -> Result {
    let cluster = Cluster::start()?;
    let (engine, other) = (open(&url(&cluster)).await?, open(&url(&cluster)).await?);
    let slot = cluster.slot_of("{m}")?;
    let from = cluster.node_of(slot)?.port();
    let to = cluster.nodes().iter().find(|node| node.port() != from);
    let moving = cluster.slot_move(slot, to.ok_or_else(|| Failure::new("another node"))?)?;
    let (first, second) = (claim("a{m}", Mode::Exclusive)?, claim("b{m}", Mode::Exclusive)?);
    let seqs = [hold(&engine, &first).await?.seat.seq, hold(&engine, &second).await?.seat.seq];
    let holds = [Held { claim: &first, seq: seqs[0] }, Held { claim: &second, seq: seqs[1] }];
    let lives = [Renewal::Renewed(Some(first.ttl.get())); 2];
    let before = scripts(&cluster)?;
    ensure_eq!(engine.renew(&holds).await?, lives, "the renewals before");
    ensure!(scripts(&cluster)? - before <= 1, "two locks of one slot take more than one command");

    moving.open()?;
    let waiter = claim("a{m}", Mode::Exclusive)?;
    let place = queue(&other, &waiter).await?;
    moving.carry(&["tenure:lock:a{m}"])?;
    ensure_eq!(engine.renew(&holds).await?, lives, "the renewals of one here and one there");
    let late = claim("a{m}", Mode::Exclusive)?;
    let err = engine.attempt(&late).await.err().ok_or_else(|| Failure::new("line and mark are apart"))?;
    says(&err, ErrorKind::Unavailable, "being moved")?;
    let carried = moving.carry_all()?;
    ensure!(carried >= 2, "only {carried} keys were left");
    let seat = queue(&other, &waiter).await?;
    ensure_eq!(seat.seq, place.seq, "the place that was carried over");
    ensure!(seat.incarnation != place.incarnation, "another node is another life");
    ensure_eq!(engine.renew(&holds).await?, lives, "the renewals when all are there");

    moving.close()?;
    ensure_eq!(engine.renew(&holds).await?, lives, "the renewals after");
    let_go(&engine, &first).await?;
    ensure_eq!(turn(&other, &waiter).await?, Turn::Holds(seat), "the push from the new node");
    ensure!(hold(&other, &waiter).await?.seat.seq > seqs[0], "numbers rise over the move");
    // Once told, a client asks the new node at once.
    let old = cluster.nodes().iter().find(|node| node.port() == from);
    let old = old.ok_or_else(|| Failure::new("the old node"))?;
    let asked = counted(old, "evalsha")?;
    engine.renew(&holds[1..]).await?;
    ensure_eq!(counted(old, "evalsha")?, asked, "commands to the old node, refused ones too");
    let shown = engine.line(&Filter::Key(Key::new("a{m}")?)).await?;
    ensure_eq!(shown.len(), 1, "places after the move");
    let _ = engine.release(&second, Answered::All).await?;
    Ok(())
}
