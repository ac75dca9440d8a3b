//! A lease of one second on memcached, which counts in whole seconds and lets it live for less.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::Mutex,
};

use super::poll::{believed_until, until_granted};
use crate::{
    clock::{nanos, now},
    history::{Freed, Nanos},
    locks::{Held, Locks, Look, Unanswered, Wish},
    wire::{KeySpec, Proof, Spec},
};

const POLL: Duration = Duration::from_millis(5);
const LEASE: Duration = Duration::from_secs(1);

type Link = Arc<Mutex<BufReader<TcpStream>>>;

struct Way(Link);

pub(super) async fn open(spec: &Spec) -> Result<Arc<dyn Locks>, String> {
    let host = spec.url.trim_start_matches("memcached://");
    let stream = TcpStream::connect(host).await.map_err(|err| err.to_string())?;
    Ok(Arc::new(Way(Arc::new(Mutex::new(BufReader::new(stream))))))
}

async fn say(link: &Link, words: &str) -> std::io::Result<String> {
    let mut link = link.lock().await;
    link.write_all(words.as_bytes()).await?;
    let mut line = String::new();
    link.read_line(&mut line).await?;
    Ok(line.trim().to_owned())
}

struct Hold {
    link: Link,
    key: String,
    until: Nanos,
}

#[async_trait]
impl Locks for Way {
    async fn ask(&self, key: &KeySpec, wish: &Wish) -> Result<Option<Box<dyn Held>>, Unanswered> {
        let once = || async {
            let (key, sent) = (key.name.clone(), now());
            let answer = say(&self.0, &format!("add {key} 0 {} 1\r\n1\r\n", LEASE.as_secs())).await;
            let stored = answer.map_err(Unanswered::maybe)? == "STORED";
            let until = sent + nanos(LEASE.mul_f64(0.95));
            let link = self.0.clone();
            Ok(stored.then(|| Box::new(Hold { link, key, until }) as Box<dyn Held>))
        };
        until_granted(wish, POLL, once).await
    }

    async fn close(&self) {}
}

#[async_trait]
impl Held for Hold {
    fn proof(&self) -> Option<Proof> {
        None
    }

    fn look(&self) -> Look {
        believed_until(self.until)
    }

    async fn release(self: Box<Self>) -> Freed {
        if now() >= self.until {
            return Freed::NotHeld;
        }
        match say(&self.link, &format!("delete {}\r\n", self.key)).await.as_deref() {
            Ok("DELETED") => Freed::Yes,
            Ok(_) => Freed::NotHeld,
            Err(_) => Freed::Unknown,
        }
    }
}
