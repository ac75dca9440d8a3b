//! A line of one: what it must keep when it is prolonged, weakened, stopped or joined, and what must not be said.

use std::time::{Duration, Instant};

use tenure_core::{
    Answered, Attempt, Claim, Engine, ErrorKind, Evicted, Eviction, Held, Mode, Permits, Place, Released,
    Renewal, Seq, Ttl, When,
};
use tenure_testkit::{Failure, Result, ensure, ensure_eq, redis::Redis};

use crate::support::{
    Ears, brief, claim, escaped, forgetful, hold, keys, let_go, line, open, queue, says, until_held,
    until_shown, wait,
};

const LINE: &str = "tenure:lock:k";

/// How much longer than its lease a place may live.
const ROUNDING: Duration = Duration::from_millis(5);

fn left(place: &Place) -> Duration {
    place.lease_left.unwrap_or_default()
}

fn fields(server: &Redis) -> Result<Option<i64>> {
    Ok(server.command(&["HLEN", LINE])?.int())
}

/// A server that refuses to write has changed nothing, so it must tell nobody that they hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_refused_a_write_tells_nobody() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    for verb in ["downgrade", "hand-off", "release", "evict"] {
        let mode = if verb == "hand-off" { Mode::Exclusive } else { Mode::Shared };
        let (first, next) = (claim(verb, Mode::Exclusive)?, claim(verb, mode)?);
        let seq = hold(&engine, &first).await?.seat.seq;
        queue(&engine, &next).await?;
        let mut ears = Ears::open(&server)?;
        server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"])?;
        let eviction = Eviction { key: first.key.clone(), id: first.id, seq, when: When::Now };
        let err = match verb {
            "downgrade" => engine.downgrade(Held { claim: &first, seq }).await.err(),
            "evict" => engine.evict(&eviction).await.err(),
            _ => engine.release(&first, Answered::All).await.err(),
        };
        let heard = ears.heard()?;
        server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"])?;
        let err = err.ok_or_else(|| Failure::new(format!("{verb} without replicas")))?;
        says(&err, ErrorKind::Unavailable, "too few replicas")?;
        ensure_eq!(heard, [], "messages of a {verb} that was refused");
        wait(&engine, &next).await?;
        let_go(&engine, &first).await?;
        ensure_eq!(ears.heard()?.len(), 1, "messages of a release after that");
        let_go(&engine, &next).await?;
    }
    Ok(())
}

/// A grave has nothing to say to people.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_note_goes_with_the_place() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let one = claim("k", Mode::Exclusive)?;
    hold(&engine, &one).await?;
    ensure_eq!(fields(&server)?, Some(1), "fields of a line of one");
    ensure_eq!(engine.release(&one, Answered::InDoubt).await?, Released::Freed, "a release in doubt");
    ensure_eq!(fields(&server)?, Some(2), "the line and a grave after a release in doubt");
    server.command(&["DEL", LINE])?;
    let seq = hold(&engine, &one).await?.seat.seq;
    let eviction = Eviction { key: one.key.clone(), id: one.id, seq, when: When::Now };
    ensure_eq!(engine.evict(&eviction).await?, Evicted::Freed, "an eviction");
    ensure_eq!(fields(&server)?, Some(2), "the line and a grave after an eviction");
    Ok(())
}

/// However often a shorter lease is asked for, the longer one ends when it would have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shorter_leases_add_nothing_to_a_longer_one() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let long = claim("k", Mode::Exclusive)?;
    let short = Claim { ttl: Ttl::new(Ttl::MIN)?, ..long.clone() };
    let sent = Instant::now();
    let seq = hold(&engine, &long).await?.seat.seq;
    let granted = Instant::now();
    for _ in 0..200 {
        ensure_eq!(hold(&engine, &short).await?.seat.seq, seq, "the number");
        let renewed = engine.renew(&[Held { claim: &short, seq }]).await?;
        ensure_eq!(renewed, [Renewal::Renewed(Some(Ttl::MIN))], "a renewal for less");
    }
    let asked = Instant::now();
    let shown = line(&engine, "k").await?;
    let [place] = &shown[..] else { return Err(Failure::new(format!("the line is {shown:?}"))) };
    let ttl = long.ttl.get();
    ensure!(left(place) + sent.elapsed() >= ttl, "cut short: {:?} after {:?}", left(place), sent.elapsed());
    let most = ttl.saturating_sub(asked - granted) + 4 * ROUNDING;
    ensure!(left(place) <= most, "{:?} are left instead of {most:?}", left(place));
    Ok(())
}

/// A lease that was ever longer keeps its length, whichever verb made it so, and in a line that others join.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_keeps_its_end_when_others_come() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    for (at, verb) in ["attempt", "renew", "downgrade", "evict", "join", "bury"].into_iter().enumerate() {
        let key = format!("keeps/{at}");
        let short = brief(&key, Mode::Exclusive, Duration::from_millis(777))?;
        let long = Claim { ttl: Ttl::new(Duration::from_micros(20_000_500))?, ..short.clone() };
        let seq = hold(&engine, &short).await?.seat.seq;
        let sent = Instant::now();
        let held = Held { claim: &long, seq };
        match verb {
            "attempt" => drop(hold(&engine, &long).await?),
            "downgrade" => drop(engine.downgrade(held).await?),
            _ => drop(engine.renew(&[held]).await?),
        }
        match verb {
            "join" => drop(queue(&engine, &claim(&key, Mode::Exclusive)?).await?),
            "bury" => drop(engine.release(&claim(&key, Mode::Shared)?, Answered::InDoubt).await?),
            "evict" => {
                let eviction = Eviction { key: short.key.clone(), id: short.id, seq, when: When::Gently };
                ensure_eq!(engine.evict(&eviction).await?, Evicted::Stopped, "a gentle eviction");
                ensure_eq!(engine.renew(&[held]).await?, [Renewal::Lost], "a renewal of the stopped");
                let err = engine.attempt(&short).await.err();
                says(&err.ok_or_else(|| Failure::new("the stopped came back"))?, ErrorKind::Lost, "evicted")?;
            }
            _ => {}
        }
        let looked = Instant::now();
        let shown = line(&engine, &key).await?;
        let first = shown.first().ok_or_else(|| Failure::new(format!("nobody after {verb}")))?;
        ensure_eq!((first.id, first.note.label()), (short.id, "test"), "who holds after {verb}");
        let ttl = long.ttl.get();
        ensure!(left(first) + sent.elapsed() >= ttl, "cut short by {verb}: {:?}", left(first));
        ensure!(left(first) <= ttl + ROUNDING, "made longer by {verb}: {:?}", left(first));
        let expires = server.command(&["PTTL", &format!("tenure:lock:{key}")])?.int().unwrap_or(0);
        let expires = Duration::from_millis(u64::try_from(expires).unwrap_or(0));
        let expired = expires + looked.elapsed() + ROUNDING;
        ensure!(expired > ttl + left(first), "the key goes with its place after {verb}");
        ensure!(expires < Duration::from_secs(61), "the key stays for {expires:?} after {verb}");
    }
    Ok(())
}

/// What a server spends between reading its clock and reading the key's expiry is no part of the holder's lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stalls_in_a_script_cuts_no_lease_short() -> Result {
    const STALL: &str = "
        repeat
          local later = redis.call('TIME')
        until later[1] * 1000000 + later[2] > now + 300000
    ";
    let script = include_str!("../../src/lua/attempt.lua")
        .replace("-- [head.lua]\n", include_str!("../../src/lua/head.lua"))
        .replace("-- [line.lua]\n", &format!("{STALL}\n{}", include_str!("../../src/lua/line.lua")))
        .replace("-- [one.lua]\n", include_str!("../../src/lua/one.lua"))
        .replace("-- [order.lua]\n", include_str!("../../src/lua/order.lua"));
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let holder = brief("k", Mode::Exclusive, Duration::from_secs(5))?;
    let seat = hold(&engine, &holder).await?.seat;
    let sent = Instant::now();
    let renewed = engine.renew(&[Held { claim: &holder, seq: seat.seq }]).await?;
    ensure_eq!(renewed, [Renewal::Renewed(Some(holder.ttl.get()))], "a renewal");
    let life = escaped(&seat.incarnation.0.to_be_bytes());
    let place = "'x' .. struct.pack('>dI4I4Bc0', 30000000, 0, 0, 1, 'c') .. 'n'";
    let script = format!("local ARGV = {{ 'sixteen letters!' .. '{life}', {place}, '60001' }}\n{script}");
    let call = ["EVAL", &script, "2", LINE, "tenure:mark"];
    ensure_eq!(server.command(&call)?.items().len(), 7, "the answer to one who waits");
    let shown = line(&engine, "k").await?;
    ensure_eq!(shown.len(), 2, "places");
    let kept = left(&shown[0]) + sent.elapsed();
    ensure!(kept >= holder.ttl.get(), "a lease of {:?} became one of {kept:?}", holder.ttl.get());
    Ok(())
}

/// A mark that is none of ours is as none at all, however long it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_mark_is_as_none() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let nan = "local mark = struct.pack('>dd', 0/0, 0) .. 'life' return redis.call('SET', KEYS[1], mark)";
    let late = "local mark = struct.pack('>dd', 1/0, 0) .. 'life' return redis.call('SET', KEYS[1], mark)";
    let text = "return redis.call('SET', KEYS[1], 'precious things of somebody else')";
    let lesser = "return redis.call('SET', KEYS[1], 'Curious things of somebody else')";
    for (at, damage) in [nan, late, text, lesser].into_iter().enumerate() {
        for floor in [0, 1] {
            let one = claim(&format!("damaged/{at}/{floor}"), Mode::Exclusive)?;
            let seq = hold(&engine, &one).await?.seat.seq;
            server.command(&["EVAL", damage, "1", "tenure:mark"])?;
            let floor = Seq::new(floor * (seq.get() + 1_000_000)).unwrap_or_default();
            let lifted = Claim { floor, ..one.clone() };
            let renewed = engine.renew(&[Held { claim: &lifted, seq }]).await?;
            ensure_eq!(renewed, [Renewal::Renewed(Some(one.ttl.get()))], "a renewal beside {damage}");
            let_go(&engine, &one).await?;
            let grant = hold(&engine, &claim("k", Mode::Exclusive)?).await?;
            ensure!(grant.seat.seq > seq && grant.seat.seq >= floor, "{} after {seq}", grant.seat.seq);
            ensure!(grant.seat.seq.get() < seq.get() + 60_000_000, "{} after {seq}", grant.seat.seq);
            ensure!(grant.remembers < Some(Duration::from_secs(10)), "remembers {:?}", grant.remembers);
            server.command(&["DEL", LINE, "tenure:mark"])?;
        }
    }
    Ok(())
}

/// A line of one that has lapsed is as none: for whoever comes, for its owner, and for the server's memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_one_that_lapsed_is_as_none() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    // Long enough that the key is still there when the place is not.
    let dead = brief("k", Mode::Permits(Permits::new(2, 3)?), Duration::from_secs(1))?;
    for verb in ["renew", "downgrade", "evict", "release", "doubt", "attempt", "join"] {
        let seq = hold(&engine, &dead).await?.seat.seq;
        until_shown(&engine, "k", 0).await?;
        ensure_eq!(fields(&server)?, Some(1), "the key before {verb}");
        let held = Held { claim: &dead, seq };
        match verb {
            "renew" => ensure_eq!(engine.renew(&[held]).await?, [Renewal::Lost], "a renewal"),
            "downgrade" => ensure_eq!(engine.downgrade(held).await?, Renewal::Lost, "a downgrade"),
            "evict" => {
                let eviction = Eviction { key: dead.key.clone(), id: dead.id, seq, when: When::Gently };
                ensure_eq!(engine.evict(&eviction).await?, Evicted::Gone, "an eviction");
            }
            "release" => {
                ensure_eq!(engine.release(&dead, Answered::All).await?, Released::NotHeld, "a release");
            }
            "doubt" => {
                ensure_eq!(engine.release(&dead, Answered::InDoubt).await?, Released::NotHeld, "in doubt");
                ensure_eq!(fields(&server)?, Some(2), "the line and a grave");
                let err = engine.attempt(&dead).await.err();
                let err = err.ok_or_else(|| Failure::new("the grave did not refuse"))?;
                says(&err, ErrorKind::Lost, "released before")?;
                server.command(&["DEL", LINE])?;
            }
            "attempt" => {
                let again = hold(&engine, &dead).await?.seat.seq;
                ensure!(again > seq, "a place that lapsed has its number again");
                let_go(&engine, &dead).await?;
            }
            _ => {
                let next = claim("k", Mode::Exclusive)?;
                hold(&engine, &next).await?;
                ensure_eq!(fields(&server)?, Some(3), "the line, a place and its note");
                ensure_eq!(engine.release(&dead, Answered::All).await?, Released::NotHeld, "a late release");
                let_go(&engine, &next).await?;
            }
        }
        ensure_eq!(keys(&server)?, ["tenure:id", "tenure:mark"], "the keys after {verb}");
    }
    Ok(())
}

/// The lock changes hands only to one who lives: the next in line may be dead, and the one behind it not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_handed_to_nobody_who_is_dead() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let first = claim("k", Mode::Exclusive)?;
    let dead = brief("k", Mode::Exclusive, Ttl::MIN)?;
    let last = claim("k", Mode::Exclusive)?;
    hold(&engine, &first).await?;
    queue(&engine, &dead).await?;
    let seat = queue(&engine, &last).await?;
    until_shown(&engine, "k", 2).await?;
    let mut ears = Ears::open(&server)?;
    let_go(&engine, &first).await?;
    ensure_eq!(ears.heard()?.len(), 1, "messages");
    let Attempt::Granted(grant) = engine.attempt(&last).await? else {
        return Err(Failure::new("the only one in line does not hold"));
    };
    ensure_eq!(grant.seat, seat, "the place");
    ensure_eq!(fields(&server)?, Some(3), "the line, a place and its note");

    // One who was handed the lock and is dead by then is in the way for its lease, and no longer.
    let brief_next = brief("k", Mode::Exclusive, Duration::from_millis(300))?;
    let third = claim("k", Mode::Exclusive)?;
    queue(&engine, &brief_next).await?;
    queue(&engine, &third).await?;
    let_go(&engine, &last).await?;
    let started = Instant::now();
    until_held(&engine, &third).await?;
    ensure!(started.elapsed() < Duration::from_secs(2), "waited {:?}", started.elapsed());
    Ok(())
}
