//! Lines, tickets, majorities and words on Redis, each with its mistake.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{
    POLL, Way,
    ask::{Got, TAKE},
    give,
};
use crate::{clock::now, locks::Unanswered, wire::KeySpec};

impl Way {
    pub(super) async fn majority(&self, name: &str, id: &str) -> Option<u64> {
        let (inner, fences, ttl) = (&self.inner, format!("{name}:fence"), self.inner.millis());
        let asked = (0..inner.servers.len()).map(|server| {
            let (fences, ttl) = (fences.as_str(), ttl.as_str());
            async move {
                let answer = inner.script(server, TAKE, [name, fences], [id, ttl]);
                timeout(Duration::from_millis(50), answer).await.ok()?.ok()
            }
        });
        let answers = futures_util::future::join_all(asked).await;
        let granted: Vec<u64> = answers.into_iter().flatten().filter(|got| *got > 0).collect();
        if granted.len() > inner.servers.len() / 2 {
            return granted.into_iter().max();
        }
        give(inner, name, id).await;
        sleep(POLL.mul_f64(fastrand::f64())).await;
        None
    }

    pub(super) async fn wait_for_word(&self, key: &KeySpec, deadline: Instant) {
        // A connection of its own: it blocks. And one that does not give up by itself after a while, as drivers do: that would
        // be to ask again.
        let blocking = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let Ok(mut own) = self.client.get_multiplexed_async_connection_with_config(&blocking).await else {
            return sleep(POLL).await;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let mut word = redis::cmd("BLPOP");
        word.arg(format!("{}:word", key.name)).arg(0);
        let _ = timeout(left, word.query_async::<redis::Value>(&mut own)).await;
    }

    /// Takes a place in a line, waits for who is before it, and does not look at its own place again.
    pub(super) async fn in_line(
        &self,
        key: &KeySpec,
        id: &str,
        deadline: Instant,
    ) -> Result<Got, Unanswered> {
        let (inner, name) = (&self.inner, key.name.as_str());
        let (line, fences, ttl) = (format!("{name}:line"), format!("{name}:fence"), inner.millis());
        let place = |id: &str| format!("{name}:place:{id}");
        let number: u64 = inner.run(0, &["INCR", &fences]).await.map_err(Unanswered::maybe)?;
        inner.run::<()>(0, &["SET", &place(id), "1", "PX", &ttl]).await.map_err(Unanswered::maybe)?;
        let join = ["ZADD", &line, &number.to_string(), id];
        inner.run::<()>(0, &join).await.map_err(Unanswered::maybe)?;
        loop {
            let (sent, below) = (now(), format!("({number}"));
            let before: Vec<String> =
                inner.run(0, &["ZRANGEBYSCORE", &line, "-inf", &below]).await.map_err(Unanswered::maybe)?;
            let mut waits = false;
            for other in before {
                let lives: u64 =
                    inner.run(0, &["EXISTS", &place(&other)]).await.map_err(Unanswered::maybe)?;
                waits |= lives > 0;
            }
            if !waits {
                return Ok(Some((Some(number << 10), Some(inner.safe_from(sent)))));
            }
            if Instant::now() >= deadline {
                give(inner, name, id).await;
                return Ok(None);
            }
            sleep(POLL).await;
            inner.run::<()>(0, &["PEXPIRE", &place(id), &ttl]).await.map_err(Unanswered::maybe)?;
        }
    }

    /// Draws a number, and another one if nobody answers; then waits until it is called.
    pub(super) async fn ticket(&self, key: &KeySpec, deadline: Instant) -> Result<Got, Unanswered> {
        let (inner, name) = (&self.inner, key.name.as_str());
        let (drawn, served) = (format!("{name}:drawn"), format!("{name}:served"));
        let mut number = None;
        while number.is_none() {
            let draw = ["INCR", drawn.as_str()];
            number = timeout(inner.ttl / 2, inner.run::<u64>(0, &draw)).await.ok().and_then(Result::ok);
        }
        let number = number.unwrap_or_default();
        loop {
            let last: Option<u64> = inner.run(0, &["GET", &served]).await.map_err(Unanswered::maybe)?;
            if last.unwrap_or_default() + 1 == number {
                if Instant::now() >= deadline {
                    // Too late for whoever asked; the next one is called.
                    give(inner, name, "").await;
                    return Ok(None);
                }
                return Ok(Some((Some(number << 10), None)));
            }
            sleep(POLL).await;
        }
    }
}
