use std::{sync::Arc, time::Duration};

use tenure_core::{EngineUrl, Error};
use tenure_postgres::PostgresEngine;
pub(crate) use tenure_testkit::own::{
    LIMIT, brief, claim, hold, let_go, line, queue, says, turn, until_held, wait, within,
};
use tenure_testkit::{
    Failure, Result, own,
    postgres::{Postgres, PostgresOptions},
};

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<PostgresEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = tenure_postgres::PostgresOptions::from_url(&mut url)?;
    url.no_more_options(tenure_postgres::OPTIONS)?;
    PostgresEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    own::refused(open(url).await)
}

/// A server of this test's own with these settings.
pub(crate) fn server(settings: &[&str]) -> Result<Postgres> {
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() })
}

/// How many rows there are that say something of a claim.
pub(crate) fn rows(server: &Postgres) -> Result<u64> {
    count(server, "state < 4")
}

/// How many rows there are like this.
pub(crate) fn count(server: &Postgres, which: &str) -> Result<u64> {
    let answer = server.sql(&format!("SELECT count(*) FROM tenure_places WHERE {which}"))?;
    let number = answer.first().and_then(|row| row.first()?.parse().ok());
    number.ok_or_else(|| Failure::new(format!("not a number: {answer:?}")))
}

/// Waits until a client of ours waits for a key.
pub(crate) async fn somebody_waits(server: &Postgres) -> Result {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure' AND wait_event_type = 'Lock'";
    within("somebody waits for the key", async {
        while server.sql(waits)? != vec![vec!["1".to_owned()]] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, Failure>(())
    })
    .await?
}

/// The beginning of a transaction that keeps a key to itself.
pub(crate) fn lock(key: &str) -> String {
    format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended(encode('{key}', 'hex'), \
         'tenure_places'::regclass::oid::bigint))"
    )
}
