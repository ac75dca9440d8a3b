//! The loop that most people write: `SET NX PX`, a sleep of 100 ms when that fails, compare-and-delete.

use std::time::Duration;

use redis::{Script, aio::MultiplexedConnection};
use tenure_testkit::redis::Redis;

pub(crate) struct Rival {
    conn: MultiplexedConnection,
    task: usize,
    grants: u64,
    release: Script,
}

impl Rival {
    pub(crate) const NAME: &str = "classic loop";
    pub(crate) const REQUESTS: &str = "commands";

    pub(crate) async fn open(url: &str, task: usize) -> Self {
        let conn = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
        let release = Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
        );
        Self { conn, task, grants: 0, release }
    }

    pub(crate) async fn acquire(&mut self) {
        self.grants += 1;
        loop {
            let mut set = redis::cmd("SET");
            set.arg("classic").arg(self.me()).arg("NX").arg("PX").arg(15_000);
            if set.query_async::<Option<String>>(&mut self.conn).await.unwrap().is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn release(&mut self) {
        let me = self.me();
        let _: i64 = self.release.key("classic").arg(me).invoke_async(&mut self.conn).await.unwrap();
    }

    fn me(&self) -> String {
        format!("{}/{}/{}", std::process::id(), self.task, self.grants)
    }

    /// What clients sent, without what scripts did inside.
    pub(crate) fn requests(server: &Redis) -> f64 {
        let stats = server.command(&["INFO", "commandstats"]).unwrap();
        let calls = |name: &str| {
            let line =
                stats.text().unwrap().lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
            line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0.0)
        };
        let scripts = calls("evalsha") + calls("eval");
        // In the classic loop `SET` is sent by clients; in a script of tenure it is not.
        if calls("hset") > 0.0 { scripts } else { scripts + calls("set") }
    }
}
