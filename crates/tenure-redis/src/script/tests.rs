//! Lines of many parts: in this build a part has four ids instead of 128, and every line is checked as it is stored.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Claim, ClaimId, Engine, EngineUrl, Filter, Key, Mode, Note, Patience, Place, Seq, Ttl,
};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    redis::Redis,
    walks::{Pace, agree_with_memory_at},
};

use super::with_numbers;
use crate::{RedisEngine, RedisOptions};

/// A script with short parts, which refuses to go on when it has stored a line that is not as it should be.
pub(super) fn checked(code: &str) -> String {
    const SAVE: &str = "local function save(line)\n  store(line)\n";
    const PART: &str = "local PART = 128\n";
    assert!(code.contains(PART), "the length of a part is not where it was");
    assert_eq!(code.contains(SAVE), code.contains("save(line)"), "lines are not stored where they were");
    let save = format!("{}{SAVE}  check(line.key)\n", include_str!("../lua/check.lua"));
    code.replace(PART, "local PART = 4\n").replace(SAVE, &save)
}

#[test]
fn names_of_numbers_become_numbers() {
    let code = "local AB, C = 7, 12 -- two\nlocal D = AB\nx[AB] = C .. ABC .. xAB_C + AB";
    let numbered = "local D = 7\nx[7] = 12 .. ABC .. xAB_C + 7\n";
    assert_eq!(with_numbers(code), numbered);
    let attempt = &super::ATTEMPT.code;
    for name in ["SEQ", "DEADLINE", "FAR", "PART", "MOST"] {
        assert!(!attempt.contains(name), "{name} is still in the script");
    }
}

async fn open(url: &str) -> tenure_core::Result<Arc<RedisEngine>> {
    let mut url: EngineUrl = url.parse()?;
    RedisEngine::open(RedisOptions::from_url(&mut url)?).await
}

fn claim(key: &str, mode: Mode, ttl: Duration) -> Result<Claim> {
    Ok(Claim {
        key: Key::new(key)?,
        id: ClaimId::fresh(),
        mode,
        patience: Patience::Queue,
        ttl: Ttl::new(ttl)?,
        floor: Seq::ZERO,
        note: Note::new("anna@host:1", "test"),
    })
}

async fn line(engine: &RedisEngine, key: &str) -> Result<Vec<Place>> {
    Ok(engine.line(&Filter::Key(Key::new(key)?)).await?)
}

/// Walks as in the tests of the whole engine, with lines of up to eight parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_redis_agree_on_lines_of_many_parts() -> Result {
    let server = Redis::start(Default::default())?;
    let url = server.url();
    for (crowd, steps) in [(10, 1_500), (30, 2_500)] {
        let pace = Pace { crowd, ..Pace::default() };
        agree_with_memory_at(pace, 8, steps, async || open(&url).await).await?;
        server.command(&["FLUSHALL"])?;
    }
    Ok(())
}

/// Whoever lapses, alone, in rows, or in whole parts: the others keep their order, and the first of them holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_of_a_long_line_may_lapse_at_once() -> Result {
    type Lapses = fn(usize) -> bool;
    const PLACES: usize = 30;
    let server = Redis::start(Default::default())?;
    let engine = open(&server.url()).await?;
    let patterns: [(&str, Lapses); 10] = [
        ("the first", |at| at == 0),
        ("the last", |at| at + 1 == PLACES),
        ("all but the last", |at| at + 1 < PLACES),
        ("all but the first", |at| at > 0),
        ("every second", |at| at % 2 == 0),
        ("all but every fourth", |at| at % 4 != 0),
        ("all but every seventh", |at| at % 7 != 3),
        ("the first part", |at| at < 4),
        ("parts of the middle", |at| (8..20).contains(&at)),
        ("all", |_| true),
    ];
    for mode in [Mode::Exclusive, Mode::Shared] {
        let mut lines = Vec::new();
        for (name, lapses) in patterns {
            let key = format!("{mode}/{name}");
            let mut living = Vec::new();
            for at in 0..PLACES {
                let ttl = if lapses(at) { Duration::from_millis(400) } else { Duration::from_secs(60) };
                let claim = claim(&key, mode, ttl)?;
                let _ = engine.attempt(&claim).await?;
                living.extend((!lapses(at)).then_some(claim));
            }
            lines.push((key, living));
        }
        for (key, living) in lines {
            let end = tokio::time::Instant::now() + Duration::from_secs(10);
            while line(&engine, &key).await?.len() > living.len() {
                ensure!(tokio::time::Instant::now() < end, "nobody lapses in {key}");
            }
            let last = claim(&key, mode, Duration::from_secs(60))?;
            let holds = matches!(engine.attempt(&last).await?, Attempt::Granted(_));
            ensure_eq!(holds, living.is_empty() || mode == Mode::Shared, "the newcomer's hold in {key}");
            let ids: Vec<_> = living.iter().chain([&last]).map(|claim| claim.id).collect();
            let shown: Vec<_> = line(&engine, &key).await?.iter().map(|place| place.id).collect();
            ensure_eq!(shown, ids, "the line of {key}");
            // Each asks where it stands, and leaves: from the front, so that the next one holds.
            for (at, claim) in living.iter().chain([&last]).enumerate() {
                let ahead = match engine.attempt(claim).await? {
                    Attempt::Granted(_) => 0,
                    Attempt::Busy(busy) => busy.ahead.unwrap_or_default(),
                };
                ensure_eq!(ahead, 0, "who is before number {at} of {key}");
                let _ = engine.release(claim, Answered::All).await?;
            }
            ensure_eq!(line(&engine, &key).await?.len(), 0, "the line of {key} at its end");
        }
    }
    let keys = server.command(&["KEYS", "tenure:lock:*"])?;
    ensure!(keys.items().is_empty(), "lines are left: {keys:?}");
    Ok(())
}

/// A line that another life of the server wrote gives every place a whole lease, in whichever part it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_line_lives_on_in_another_life() -> Result {
    let server = Redis::start(tenure_testkit::redis::RedisOptions {
        persistence: tenure_testkit::redis::Persistence::AofAlways,
        ..Default::default()
    })?;
    let mut claims = Vec::new();
    let engine = open(&server.url()).await?;
    for _ in 0..20 {
        let claim = claim("k", Mode::Exclusive, Duration::from_secs(60))?;
        let _ = engine.attempt(&claim).await?;
        claims.push(claim);
    }
    drop(engine);
    server.restart()?;
    let engine = open(&server.url()).await?;
    let place = engine.attempt(&claims[19]).await?;
    let Attempt::Busy(busy) = place else { return Err(Failure::new("the last one holds")) };
    ensure_eq!(busy.ahead, Some(19), "places before the last");
    for place in line(&engine, "k").await? {
        let left = place.lease_left.unwrap_or_default();
        ensure!(left > Duration::from_secs(55), "a lease of {left:?}");
    }
    for claim in &claims {
        ensure!(matches!(engine.attempt(claim).await?, Attempt::Granted(_)), "the first does not hold");
        let _ = engine.release(claim, Answered::All).await?;
    }
    Ok(())
}

/// A grave refuses its id for its own lease, however long those beside it are kept, and then no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grave_that_lapsed_refuses_nobody() -> Result {
    let server = Redis::start(Default::default())?;
    let engine = open(&server.url()).await?;
    let holder = claim("k", Mode::Exclusive, Duration::from_secs(60))?;
    let _ = engine.attempt(&holder).await?;
    let long = claim("k", Mode::Exclusive, Duration::from_secs(60))?;
    let brief = claim("k", Mode::Exclusive, Duration::from_millis(200))?;
    for late in [&long, &brief] {
        let _ = engine.release(late, Answered::InDoubt).await?;
        let refused =
            engine.attempt(late).await.is_err_and(|err| err.to_string().contains("released before"));
        ensure!(refused, "a grave refused nobody");
    }
    let end = tokio::time::Instant::now() + Duration::from_secs(10);
    while engine.attempt(&brief).await.is_err() {
        ensure!(tokio::time::Instant::now() < end, "a grave refuses after its time");
    }
    ensure!(engine.attempt(&long).await.is_err(), "the other grave is gone with it");
    Ok(())
}
