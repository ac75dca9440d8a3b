use std::{sync::Arc, time::Duration};

use tenure_core::{Claim, ClaimId, EngineUrl, Error, Mode, Seat, Ttl};
use tenure_redis::RedisEngine;
pub(crate) use tenure_testkit::own::{
    LIMIT, claim, hold, let_go, line, queue, says, turn, until_held, wait, within,
};
use tenure_testkit::{
    Failure, Result, ensure, own,
    redis::{Admin, Persistence, Redis, RedisOptions},
};

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<RedisEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = tenure_redis::RedisOptions::from_url(&mut url)?;
    url.no_more_options(&[])?;
    RedisEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    own::refused(open(url).await)
}

/// A server of this test's own that keeps every write.
pub(crate) fn durable() -> Result<Redis> {
    Redis::start(RedisOptions { persistence: Persistence::AofAlways, ..RedisOptions::default() })
}

/// A server of this test's own that keeps nothing.
pub(crate) fn forgetful() -> Result<Redis> {
    Redis::start(RedisOptions::default())
}

/// The same with another lease.
pub(crate) fn brief(key: &str, mode: Mode, ttl: Duration) -> Result<Claim> {
    Ok(Claim { ttl: Ttl::new(ttl)?, ..claim(key, mode)? })
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

/// Waits until the line shows so many places. It shows none that has lapsed, and changes nothing.
pub(crate) async fn until_shown(engine: &Arc<RedisEngine>, key: &str, places: usize) -> Result {
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
