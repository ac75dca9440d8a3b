//! Wrong ways on SQL servers.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use tenure_core::ClaimId;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::{
    Mutant,
    poll::{believed_until, until_granted},
};
use crate::{
    clock::{nanos, now},
    history::{Freed, Nanos},
    locks::{Held, Locks, Look, Unanswered, Wish},
    wire::{KeySpec, Proof, Spec},
};

const POLL: Duration = Duration::from_millis(10);
const TABLE: &str = "CREATE TABLE IF NOT EXISTS mutant_locks \
                     (name VARCHAR(200) PRIMARY KEY, owner VARCHAR(64) NOT NULL, until DATETIME(6) NOT NULL)";
const TAKE: &str = "INSERT INTO mutant_locks VALUES (?, ?, NOW(6) + INTERVAL ? MICROSECOND) ON DUPLICATE KEY UPDATE \
                    owner = IF(until <= NOW(6), VALUES(owner), owner), \
                    until = IF(owner = VALUES(owner), VALUES(until), until)";

pub(super) async fn open(mutant: Mutant, spec: &Spec) -> Result<Arc<dyn Locks>, String> {
    if mutant == Mutant::PooledAdvisory {
        let (client, link) =
            tokio_postgres::connect(&spec.url, NoTls).await.map_err(|err| err.to_string())?;
        tokio::spawn(link);
        return Ok(Arc::new(Advisory(Arc::new(client))));
    }
    let options = mysql_async::Opts::from_url(&spec.url).map_err(|err| err.to_string())?;
    let mut link = mysql_async::Conn::new(options).await.map_err(|err| err.to_string())?;
    link.query_drop(TABLE).await.map_err(|err| err.to_string())?;
    if spec.slot == 0 {
        // As one host would whose driver sets the zone of its users.
        link.query_drop("SET time_zone = '+05:00'").await.map_err(|err| err.to_string())?;
    }
    Ok(Arc::new(Row { link: Arc::new(Mutex::new(link)), ttl: spec.ttl }))
}

struct Advisory(Arc<Client>);

struct AdvisoryHold(Arc<Client>, i64);

/// A number for a name.
fn number(name: &str) -> i64 {
    let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    (name.bytes().fold(0xcbf2_9ce4_8422_2325, mix) >> 1) as i64
}

#[async_trait]
impl Locks for Advisory {
    async fn ask(&self, key: &KeySpec, wish: &Wish) -> Result<Option<Box<dyn Held>>, Unanswered> {
        let number = number(&key.name);
        let once = || async move {
            let rows = self.0.simple_query(&format!("SELECT pg_try_advisory_lock({number})")).await;
            let got = said_true(&rows.map_err(Unanswered::maybe)?);
            Ok(got.then(|| Box::new(AdvisoryHold(self.0.clone(), number)) as Box<dyn Held>))
        };
        until_granted(wish, POLL, once).await
    }

    async fn close(&self) {}
}

fn said_true(rows: &[SimpleQueryMessage]) -> bool {
    rows.iter().any(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
        _ => false,
    })
}

#[async_trait]
impl Held for AdvisoryHold {
    fn proof(&self) -> Option<Proof> {
        None
    }

    fn look(&self) -> Look {
        Look::Until(None)
    }

    async fn release(self: Box<Self>) -> Freed {
        match self.0.simple_query(&format!("SELECT pg_advisory_unlock({})", self.1)).await {
            Ok(rows) if said_true(&rows) => Freed::Yes,
            Ok(_) => Freed::NotHeld,
            Err(_) => Freed::Unknown,
        }
    }
}

struct Row {
    link: Arc<Mutex<mysql_async::Conn>>,
    ttl: Duration,
}

struct RowHold {
    link: Arc<Mutex<mysql_async::Conn>>,
    key: String,
    owner: String,
    until: Nanos,
}

#[async_trait]
impl Locks for Row {
    async fn ask(&self, key: &KeySpec, wish: &Wish) -> Result<Option<Box<dyn Held>>, Unanswered> {
        let owner = ClaimId::fresh().to_string();
        let once = || async {
            let sent = now();
            let found: Option<String> = {
                let mut link = self.link.lock().await;
                let micros = self.ttl.as_micros() as u64;
                link.exec_drop(TAKE, (&key.name, &owner, micros)).await.map_err(Unanswered::maybe)?;
                let whose = "SELECT owner FROM mutant_locks WHERE name = ?";
                link.exec_first(whose, (&key.name,)).await.map_err(Unanswered::maybe)?
            };
            let until = sent + nanos(self.ttl.mul_f64(0.95));
            let (link, key, owner) = (self.link.clone(), key.name.clone(), owner.clone());
            Ok(found
                .filter(|found| *found == owner)
                .map(|owner| Box::new(RowHold { link, key, owner, until }) as Box<dyn Held>))
        };
        until_granted(wish, POLL, once).await
    }

    async fn close(&self) {}
}

#[async_trait]
impl Held for RowHold {
    fn proof(&self) -> Option<Proof> {
        None
    }

    fn look(&self) -> Look {
        believed_until(self.until)
    }

    async fn release(self: Box<Self>) -> Freed {
        let mut link = self.link.lock().await;
        let delete = "DELETE FROM mutant_locks WHERE name = ? AND owner = ?";
        match link.exec_drop(delete, (&self.key, &self.owner)).await {
            Ok(()) if link.affected_rows() > 0 => Freed::Yes,
            Ok(()) => Freed::NotHeld,
            Err(_) => Freed::Unknown,
        }
    }
}
