//! What is left in the server, and what happens when it has no room.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    Answered, Claim, Engine, ErrorKind, Evicted, Eviction, Held, Mode, Patience, Released, Renewal, When,
};
use tenure_redis::RedisEngine;
use tenure_testkit::{Failure, Result, ensure, ensure_eq, process::wait_until, redis::Redis};

use crate::support::{
    LIMIT, brief, claim, escaped, forgetful, hold, keys, let_go, line, open, queue, says, until_shown, wait,
};

const LINE: &str = "tenure:lock:k";

/// What is there when nobody stands in any line.
const IDLE: [&str; 2] = ["tenure:id", "tenure:mark"];

fn pttl(server: &Redis, key: &str) -> Result<Duration> {
    let left = server.command(&["PTTL", key])?.int().and_then(|left| u64::try_from(left).ok());
    left.map(Duration::from_millis).ok_or_else(|| Failure::new(format!("`{key}` does not expire")))
}

/// However a claim leaves, nothing of it or of its line stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_but_the_mark() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Shared)?);
    hold(&engine, &first).await?;
    queue(&engine, &next).await?;
    let hasty = Claim { patience: Patience::Try, ..claim("k", Mode::Exclusive)? };
    wait(&engine, &hasty).await?;
    ensure_eq!(server.command(&["HLEN", LINE])?.int(), Some(5), "the line, two places and their notes");
    let_go(&engine, &next).await?;
    let_go(&engine, &first).await?;
    ensure_eq!(keys(&server)?, IDLE, "the keys after releases");
    let_go_twice(&engine, &first).await?;
    ensure_eq!(keys(&server)?, IDLE, "the keys after a second release");
    Ok(())
}

async fn let_go_twice(engine: &Arc<RedisEngine>, claim: &Claim) -> Result {
    ensure_eq!(engine.release(claim, Answered::All).await?, Released::NotHeld, "a second release");
    Ok(())
}

/// The server drops what a crash left behind by itself: no later than one lease after the last place ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crash_leaves_goes_away_by_itself() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_millis(200);
    let dead = brief("k", Mode::Exclusive, ttl)?;
    let seq = hold(&engine, &dead).await?.seat.seq;
    let bound = 2 * ttl + Duration::from_millis(1);
    ensure!(pttl(&server, LINE)? <= bound, "the key of a first holder lives too long");
    queue(&engine, &brief("k", Mode::Shared, ttl / 2)?).await?;
    let left = pttl(&server, LINE)?;
    ensure!(ttl < left && left <= bound, "a key of places that live {ttl:?} lives {left:?}");
    drop(engine.renew(&[Held { claim: &dead, seq }]).await?);
    ensure!(pttl(&server, LINE)? <= bound, "a renewal makes the key live too long");
    wait_until("the key is gone", LIMIT, || {
        ensure_eq!(keys(&server)?, IDLE, "the keys");
        Ok(())
    })
}

/// A grave refuses its id for one lease, and then is gone: by itself, and from a line that lives on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graves_go_away() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_millis(200);
    let late = brief("k", Mode::Exclusive, ttl)?;
    ensure_eq!(engine.release(&late, Answered::InDoubt).await?, Released::NotHeld, "a release in doubt");
    ensure_eq!(server.command(&["HLEN", LINE])?.int(), Some(2), "the line and the grave");
    let err = engine.attempt(&late).await.err().ok_or_else(|| Failure::new("the grave did not refuse"))?;
    says(&err, ErrorKind::Lost, "released before")?;
    ensure!(line(&engine, "k").await?.is_empty(), "a grave is shown as a place");
    ensure!(pttl(&server, LINE)? <= 2 * ttl, "a grave lives too long");
    wait_until("the grave is gone", LIMIT, || {
        ensure_eq!(keys(&server)?, IDLE[..1], "the keys");
        Ok(())
    })?;

    // In a line that lives on, the next verb after its time clears it away.
    let (stays, other) = (claim("k", Mode::Shared)?, brief("k", Mode::Shared, ttl)?);
    let seq = hold(&engine, &stays).await?.seat.seq;
    hold(&engine, &other).await?;
    ensure_eq!(engine.release(&other, Answered::InDoubt).await?, Released::Freed, "a release in doubt");
    ensure_eq!(server.command(&["HLEN", LINE])?.int(), Some(4), "the line, a place, its note and a grave");
    let clears = async {
        loop {
            drop(engine.renew(&[Held { claim: &stays, seq }]).await?);
            if server.command(&["HLEN", LINE])?.int() == Some(3) {
                return Ok::<_, Failure>(());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    crate::support::within("the grave is cleared away", clears).await??;
    let_go(&engine, &stays).await?;
    ensure_eq!(keys(&server)?, IDLE, "the keys at the end");
    Ok(())
}

/// Ends the leases of all but one: to wait for the ends of as many would take as long as they last.
const LAPSE: &str = "
    local all = redis.call('HGETALL', KEYS[1])
    for i = 1, #all, 2 do
      if #all[i] == 16 and all[i] ~= ARGV[1] then
        local place = cmsgpack.unpack(all[i + 1])
        place[6] = 1
        redis.call('HSET', KEYS[1], all[i], cmsgpack.pack(place))
      end
    end
    local head = cmsgpack.unpack(redis.call('HGET', KEYS[1], 'line'))
    local count = #head[14] / 17
    local starts, lengths = string.sub(head[14], 1, 8 * count), string.sub(head[14], 16 * count + 1)
    head[2], head[14] = 1, starts .. string.rep(struct.pack('>d', 1), count) .. lengths
    redis.call('HSET', KEYS[1], 'line', cmsgpack.pack(head))
    return count
";

/// 10,000 may wait; the next is refused in words, until one leaves. All know how many are before them, and a whole line
/// that dies is cleared in one go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_has_room_for_ten_thousand() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let mut claims = Vec::new();
    for _ in 0..10_000 {
        claims.push(brief("k", Mode::Exclusive, Duration::from_secs(600))?);
    }
    hold(&engine, &claims[0]).await?;
    for some in claims[1..].chunks(100) {
        // Sent one after the other on one connection, in the order in which they are first polled.
        futures_util::future::try_join_all(some.iter().map(|claim| queue(&engine, claim))).await?;
    }
    let late = brief("k", Mode::Exclusive, Duration::from_secs(600))?;
    let err = engine.attempt(&late).await.err().ok_or_else(|| Failure::new("there was room for 10,001"))?;
    says(&err, ErrorKind::Unavailable, "10,000 are in line already")?;

    let gone = claims.remove(5_000);
    let_go(&engine, &gone).await?;
    let last = queue(&engine, &late).await?;
    claims.push(late.clone());
    let first = claims.remove(0);
    let_go(&engine, &first).await?;
    hold(&engine, &claims[0]).await?;
    for at in [1, 126, 127, 128, 4_998, 4_999, 5_000, 9_997, 9_998] {
        let ahead = wait(&engine, &claims[at]).await?.ahead;
        ensure_eq!(ahead, u32::try_from(at).ok(), "how many are ahead");
    }
    let shown: Vec<_> = line(&engine, "k").await?.iter().map(|place| place.id).collect();
    ensure!(shown == claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), "the line is out of order");

    let id = escaped(&late.id.to_bytes());
    let lapse = format!("local ARGV = {{ '{id}' }}\n{LAPSE}");
    ensure_eq!(server.command(&["EVAL", &lapse, "1", LINE])?.int(), Some(79), "parts of the line");
    until_shown(&engine, "k", 1).await?;
    server.command(&["CONFIG", "RESETSTAT"])?;
    ensure_eq!(hold(&engine, &late).await?.seat, last, "the hold of the only one who lives");
    let stats = server.command(&["INFO", "commandstats"])?;
    let micros = stats.text().and_then(|stats| {
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"))?;
        line.split(',').find_map(|field| field.strip_prefix("usec="))?.parse::<u64>().ok()
    });
    ensure!(micros.is_some_and(|micros| micros < 3_000_000), "the server was busy for {micros:?} us");
    ensure_eq!(server.command(&["HLEN", LINE])?.int(), Some(3), "fields of a line with one place");
    Ok(())
}

/// The length of the longest field.
const LONGEST: &str = "
    local longest = 0
    for _, value in ipairs(redis.call('HVALS', KEYS[1])) do
      longest = math.max(longest, #value)
    end
    return longest
";

/// What is read and written of a long line is not much more than of a short one: no field of it is long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_of_a_long_line_is_long() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let mut places = 0;
    let mut longest = Vec::new();
    for some in [120, 3_000] {
        while places < some {
            let _ = engine.attempt(&claim("k", Mode::Exclusive)?).await?;
            places += 1;
        }
        longest.extend(server.command(&["EVAL", LONGEST, "1", LINE])?.int());
    }
    ensure!(longest[1] < longest[0] + 1024, "{longest:?} bytes in lines of 120 and of 3,000");
    Ok(())
}

/// A full server refuses new claims in words, and goes on serving those it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_serves_those_it_has() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let full = |key: &'static str| {
        let engine = engine.clone();
        async move {
            let (holder, waiter) = (claim(key, Mode::Exclusive)?, claim(key, Mode::Shared)?);
            let seq = hold(&engine, &holder).await?.seat.seq;
            queue(&engine, &waiter).await?;
            Ok::<_, Failure>((holder, waiter, seq))
        }
    };
    let (one, one_waits, one_seq) = full("one").await?;
    let (two, _, two_seq) = full("two").await?;
    let (three, _, three_seq) = full("three").await?;
    server.command(&["CONFIG", "SET", "maxmemory", "1"])?;

    for patience in [Patience::Queue, Patience::Try] {
        let late = Claim { patience, ..claim("late", Mode::Exclusive)? };
        let err = engine.attempt(&late).await.err().ok_or_else(|| Failure::new("a full server granted"))?;
        says(&err, ErrorKind::Unavailable, "out of memory")?;
    }
    let err = queue(&engine, &claim("one", Mode::Shared)?).await.err();
    ensure!(
        err.is_some_and(|err| err.to_string().contains("out of memory")),
        "room in a line of a full server"
    );

    let lives = [Renewal::Renewed(Some(one.ttl.get()))];
    ensure_eq!(engine.renew(&[Held { claim: &one, seq: one_seq }]).await?, lives, "a renewal");
    let floor = tenure_core::Seq::new(three_seq.get() + 1_000_000).unwrap_or_default();
    let lifted = Claim { floor, ..one.clone() };
    ensure_eq!(
        engine.renew(&[Held { claim: &lifted, seq: one_seq }]).await?,
        lives,
        "a renewal with a floor"
    );
    queue(&engine, &one_waits).await?;
    ensure_eq!(engine.downgrade(Held { claim: &one, seq: one_seq }).await?, lives[0], "a downgrade");
    hold(&engine, &one_waits).await?;
    let_go(&engine, &one).await?;
    let evict = |key: &Claim, seq, when| Eviction { key: key.key.clone(), id: key.id, seq, when };
    ensure_eq!(engine.evict(&evict(&two, two_seq, When::Gently)).await?, Evicted::Stopped, "gently");
    ensure_eq!(engine.evict(&evict(&two, two_seq, When::Now)).await?, Evicted::Freed, "at once");
    ensure_eq!(engine.release(&three, Answered::InDoubt).await?, Released::Freed, "a release in doubt");
    ensure_eq!(line(&engine, "three").await?.len(), 1, "places left");

    server.command(&["CONFIG", "SET", "maxmemory", "0"])?;
    hold(&engine, &claim("late", Mode::Exclusive)?).await?;
    Ok(())
}
