//! One line in, one line out: hand-off, crash, and many held locks.

use std::{
    io::{BufRead, Write},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use crate::{Result, now, place};

/// How long all locks of `hold` may take, and one of them.
const ALL: u64 = 150_000_000_000;
const ONE: Duration = Duration::from_secs(10);

pub(crate) async fn run(engine: &str) -> Result {
    let client = place::open(engine).await?;
    let mut guards = Vec::new();
    let mut lines = lines();
    say(&json!({ "ev": "ready" }));
    while let Some(line) = lines.recv().await {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["acquire", key] => match client.mutex(key)?.acquire().await {
                Ok(guard) => {
                    say(&json!({ "ev": "acquired", "t": now() }));
                    guards.push(guard);
                }
                Err(err) => say(&failed(&err)),
            },
            ["release"] => {
                let guard = guards.pop().ok_or("nothing is held")?;
                let began = now();
                match guard.release().await {
                    Ok(()) => say(&json!({ "ev": "released", "t0": began, "t1": now() })),
                    Err(err) => say(&failed(&err)),
                }
            }
            ["hold", count, prefix] => {
                let (count, began, mut error): (usize, _, _) = (count.parse()?, now(), String::new());
                while guards.len() < count && now() - began < ALL {
                    let mutex = client.mutex(format!("{prefix}/{}", guards.len()))?;
                    match timeout(ONE, mutex.acquire()).await {
                        Ok(Ok(guard)) => guards.push(guard),
                        Ok(Err(err)) => error = err.to_string(),
                        Err(_) => error = "acquire hung 10 s".into(),
                    }
                    if !error.is_empty() {
                        break;
                    }
                }
                let seconds = (now() - began) as f64 / 1e9;
                say(&json!({ "ev": "held", "n": guards.len(), "secs": seconds, "err": error }));
            }
            _ => break,
        }
    }
    Ok(())
}

fn failed(err: &tenure::Error) -> Value {
    json!({ "ev": "error", "err": err.to_string() })
}

fn say(words: &Value) {
    println!("{words}");
    std::io::stdout().flush().unwrap();
}

fn lines() -> mpsc::UnboundedReceiver<String> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    told
}
