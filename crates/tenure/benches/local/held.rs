//! What 100,000 held locks cost: memory for each, and the watchdog's share of a core.

use std::time::Duration;

use tenure::{Client, Guard};

use crate::{
    common::{cpu_time, resident},
    file_client, runtime,
};

const LOCKS: usize = 100_000;
/// Two whole renewals of the default ttl.
const WATCHED: Duration = Duration::from_secs(10);

/// Each engine in a process of its own: memory that another one gave back would hide what is taken.
pub(crate) fn measure(engine: &str) {
    assert!(crate::child(engine).status().unwrap().success());
}

pub(crate) fn child(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let client = match engine {
            "memory" => tenure::connect("memory:held").await.unwrap(),
            _ => file_client(dir.path()).await,
        };
        hold(engine, &client).await;
    });
}

async fn hold(engine: &str, client: &Client) {
    let before = resident();
    let mut guards: Vec<Guard> = Vec::with_capacity(LOCKS);
    for i in 0..LOCKS {
        guards.push(client.mutex(format!("held/{i}")).unwrap().acquire().await.unwrap());
    }
    let each = (resident() - before) / LOCKS;
    let cpu = cpu_time();
    tokio::time::sleep(WATCHED).await;
    let share = (cpu_time() - cpu).as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    println!(
        "{engine}, 100,000 held locks: {each} bytes each (at most 1024), watchdog {share:.2} % of a core (under 3)"
    );
}
