use std::{future::Future, sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Engine, EngineUrl, Error, Filter, Grant, Key, Mode, Note,
    Patience, Place, Seat, Seq, Ttl, Turn,
};
use tenure_redis::RedisEngine;
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    redis::{Admin, Persistence, Redis, RedisOptions},
};

/// How long anything may take that is expected to happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<RedisEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = tenure_redis::RedisOptions::from_url(&mut url)?;
    url.no_more_options(&[])?;
    RedisEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    match open(url).await {
        Ok(_) => Err(Failure::new(format!("{url} was opened"))),
        Err(err) => Ok(err),
    }
}

/// A server of this test's own that keeps every write.
pub(crate) fn durable() -> Result<Redis> {
    Redis::start(RedisOptions { persistence: Persistence::AofAlways, ..RedisOptions::default() })
}

/// A server of this test's own that keeps nothing.
pub(crate) fn forgetful() -> Result<Redis> {
    Redis::start(RedisOptions::default())
}

/// A claim that waits, with a lease of 30 seconds.
pub(crate) fn claim(key: &str, mode: Mode) -> Result<Claim> {
    Ok(Claim {
        key: Key::new(key)?,
        id: ClaimId::fresh(),
        mode,
        patience: Patience::Queue,
        ttl: Ttl::new(Duration::from_secs(30))?,
        floor: Seq::ZERO,
        note: Note::new("anna@host:1", "test"),
    })
}

/// The same with another lease.
pub(crate) fn brief(key: &str, mode: Mode, ttl: Duration) -> Result<Claim> {
    Ok(Claim { ttl: Ttl::new(ttl)?, ..claim(key, mode)? })
}

/// Attempts a claim that must hold.
pub(crate) async fn hold(engine: &RedisEngine, claim: &Claim) -> Result<Grant> {
    match engine.attempt(claim).await? {
        Attempt::Granted(grant) => Ok(grant),
        Attempt::Busy(busy) => Err(Failure::new(format!("a claim that must hold is {busy:?}"))),
    }
}

/// Attempts a claim that must wait.
pub(crate) async fn wait(engine: &RedisEngine, claim: &Claim) -> Result<Busy> {
    match engine.attempt(claim).await? {
        Attempt::Busy(busy) => Ok(busy),
        Attempt::Granted(grant) => Err(Failure::new(format!("a claim that must wait got {grant:?}"))),
    }
}

/// Attempts a claim that must wait, and gives its seat.
pub(crate) async fn queue(engine: &RedisEngine, claim: &Claim) -> Result<Seat> {
    wait(engine, claim).await?.seat.ok_or_else(|| Failure::new("a claim that waits has no seat"))
}

/// Releases a claim that must have had a place.
pub(crate) async fn let_go(engine: &RedisEngine, claim: &Claim) -> Result {
    ensure_eq!(
        engine.release(claim, Answered::All).await?,
        tenure_core::Released::Freed,
        "the release of a claim in the line"
    );
    Ok(())
}

/// The turn of a claim, which must come.
pub(crate) async fn turn(engine: &RedisEngine, claim: &Claim) -> Result<Turn> {
    within("a turn comes", engine.turn(claim)).await
}

/// What happens within the limit.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(LIMIT, work)
        .await
        .map_err(|_| Failure::new(format!("waited {LIMIT:?} in vain until {what}")))
}

/// Attempts until the claim holds: what expires gives no notice of itself.
pub(crate) async fn until_held(engine: &RedisEngine, claim: &Claim) -> Result<Grant> {
    let attempts = async {
        loop {
            match engine.attempt(claim).await? {
                Attempt::Granted(grant) => return Ok(grant),
                Attempt::Busy(busy) => {
                    let next = busy.lapses_in.unwrap_or_default() + Duration::from_millis(1);
                    tokio::time::sleep(next).await;
                }
            }
        }
    };
    within("the claim holds", attempts).await?
}

pub(crate) async fn line(engine: &RedisEngine, key: &str) -> Result<Vec<Place>> {
    Ok(engine.line(&Filter::Key(Key::new(key)?)).await?)
}

/// Every key of the server, in order.
pub(crate) fn keys(server: &Redis) -> Result<Vec<String>> {
    let reply = server.command(&["KEYS", "*"])?;
    let mut keys: Vec<_> = reply.items().iter().filter_map(|key| key.text()).map(str::to_owned).collect();
    keys.sort();
    Ok(keys)
}

/// What the server has counted of this command: how often it ran, how often it was refused, and more.
pub(crate) fn counted(server: &Redis, command: &str) -> Result<String> {
    let stats = server.command(&["INFO", "commandstats"])?;
    let line = format!("cmdstat_{command}:");
    let counted = stats.text().unwrap_or_default().lines().find_map(|said| said.strip_prefix(&line));
    Ok(counted.unwrap_or_default().to_owned())
}

/// How often the server has run this command.
pub(crate) fn calls(server: &Redis, command: &str) -> Result<u64> {
    let counted = counted(server, command)?;
    let calls = counted.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok());
    Ok(calls.unwrap_or(0))
}

/// Listens to everything that a server tells the clients of one namespace.
pub(crate) struct Ears {
    admin: Admin,
}

impl Ears {
    pub(crate) fn open(server: &Redis) -> Result<Self> {
        let mut admin = server.admin()?;
        admin.command(&["PSUBSCRIBE", "tenure:wake:*"])?;
        Ok(Self { admin })
    }

    /// The channels of all messages so far, each with what kind it is. Whatever the server sent before the answer to
    /// this question was sent before it.
    pub(crate) fn heard(&mut self) -> Result<Vec<(String, char)>> {
        self.admin.send(&["PING", "end"])?;
        let mut heard = Vec::new();
        loop {
            let reply = self.admin.receive()?;
            let words: Vec<_> = reply.items().iter().filter_map(|item| item.text()).collect();
            match words[..] {
                ["pmessage", _, channel, message] => {
                    heard.push((channel.to_owned(), message.chars().next().unwrap_or(' ')));
                }
                ["pong", "end"] => return Ok(heard),
                _ => return Err(Failure::new(format!("not a message: {reply:?}"))),
            }
        }
    }
}

/// Bytes as they are written in a script.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:03}")).collect()
}

/// Sends a push as the server would, whatever it says.
pub(crate) fn forge(server: &Redis, kind: char, id: ClaimId, seat: Seat) -> Result {
    let channels = server.command(&["PUBSUB", "CHANNELS", "tenure:wake:*"])?;
    let (id, life) = (escaped(&id.to_bytes()), escaped(&seat.incarnation.0.to_be_bytes()));
    let seq = escaped(&(seat.seq.get() as f64).to_be_bytes());
    let script = format!("return redis.call('PUBLISH', KEYS[1], '{kind}{id}{seq}{life}')");
    ensure!(!channels.items().is_empty(), "nobody listens");
    for channel in channels.items() {
        server.command(&["EVAL", &script, "1", channel.text().unwrap_or_default()])?;
    }
    Ok(())
}

/// Requires that an error is of this kind, says this, and had no effect.
pub(crate) fn says(err: &Error, kind: tenure_core::ErrorKind, text: &str) -> Result {
    ensure!(err.kind() == kind, "the error is {:?}, not {kind:?}: {err}", err.kind());
    ensure!(err.to_string().contains(text), "the error does not say `{text}`: {err}");
    ensure!(!err.may_have_applied(), "the error may have applied: {err}");
    Ok(())
}

/// Waits until the line shows so many places. It shows none that has lapsed, and changes nothing.
pub(crate) async fn until_shown(engine: &RedisEngine, key: &str, places: usize) -> Result {
    let look = async {
        loop {
            let line = line(engine, key).await?;
            if line.len() == places {
                return Ok(());
            }
            let lapses = line.iter().filter_map(|place| place.lease_left).min().unwrap_or_default();
            tokio::time::sleep(lapses.clamp(Duration::from_millis(1), Duration::from_millis(50))).await;
        }
    };
    within(&format!("the line of `{key}` has {places} places"), look).await?
}
