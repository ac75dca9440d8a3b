//! Which store this is, and who makes its tables.

use std::time::Duration;

use tenure_core::{EngineId, Error, ErrorKind, Op, Result};
use tokio_postgres::SimpleQueryRow;

use crate::{
    ENGINE,
    answer::nonsense,
    limits::Limits,
    links::{Links, UNHURRIED, Use},
    schema::{VERSION, create},
    text,
    trouble::is_missing,
};

/// For those who create: each waits for all before it.
const CREATING: Limits = Limits { wait: Duration::from_secs(20), all: Duration::from_secs(30) };
/// What a newcomer waits for who finds others creating the tables.
const CREATION: &str = "SELECT pg_advisory_xact_lock(hashtext('tenure'), hashtext(";

/// The identity that is kept in the database, with tables made if there are none, or only older ones.
pub(crate) async fn identity(links: &Links) -> Result<EngineId> {
    let op = Op::Connect;
    let question = format!("SELECT version,identity FROM {}", links.names.about);
    let ask = async || links.run(op, Use::Attempt, UNHURRIED, &question).await;
    let read = |rows: &[SimpleQueryRow]| -> Option<(i32, EngineId)> {
        let row = rows.first()?;
        let id = EngineId::from_bytes(text::id(text::field(row, 1)?)?.to_bytes());
        Some((text::field(row, 0)?.parse().ok()?, id))
    };
    let found = match ask().await {
        Ok(rows) => read(&rows),
        Err(err) if is_missing(&err) => None,
        Err(err) => return Err(err.not_applied()),
    };
    if let Some((version, id)) = found
        && version >= VERSION
    {
        return Ok(id);
    }
    // One after the other: to create the same thing twice at once is an error even where it may be there already.
    let sql = format!("{CREATION}'{}'));{}", links.names.about.replace('"', ""), create(&links.names));
    links.run(op, Use::Attempt, CREATING, &sql).await.map_err(|err| {
        if err.kind() == ErrorKind::Denied {
            let message = format!(
                "there are no tables of tenure in schema {} and this user may not create them; let somebody who may \
                 run what `tenure schema postgres` prints",
                links.names.schema
            );
            return Error::new(ErrorKind::Denied, op, message).with_engine(ENGINE).with_source(err).not_applied();
        }
        err.not_applied()
    })?;
    read(&ask().await.map_err(Error::not_applied)?).map(|(_, id)| id).ok_or_else(|| nonsense(op))
}
