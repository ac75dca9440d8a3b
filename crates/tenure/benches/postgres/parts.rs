//! Where the cost of a lock comes from: the bare driver with the same statements, the engine alone, and all of it, each beside
//! a durable update in the same run.

use tenure::{ClaimId, Settings};
use tenure_postgres::PostgresEngine;
use tokio_postgres::NoTls;

use crate::{
    COMPARED, NAME, Yardstick,
    block::block,
    common::{median, report, runtime},
    server, verbs,
};

const AGAIN: &str = include_str!("../../../tenure-postgres/src/sql/again.sql");
const LEAVE: &str = include_str!("../../../tenure-postgres/src/sql/leave.sql");
const ATTEMPT: [&str; 9] = [
    "'k'::bytea",
    "$1::text::uuid",
    "0::smallint",
    "0::bigint",
    "0::bigint",
    "15000000::bigint",
    "true",
    "'c'::text",
    "'me'::bytea",
];
const RELEASE: [&str; 4] = ["'k'::bytea", "$1::text::uuid", "15000000::bigint", "false"];

/// A statement of the engine with the names of its tables in it, and all values but the claim's id.
fn statement(text: &str, values: &[&str]) -> String {
    let mut sql: String = text.lines().filter(|line| !line.starts_with("--")).collect();
    for (mark, name) in [
        ("@lock", "hashtextextended(encode($1, 'hex'), '@places'::regclass::oid::bigint)"),
        ("@clock", "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"),
        ("@life", "(date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint"),
        ("@places", "tenure_places"),
        ("@numbers", "tenure_numbers"),
        ("@v_", "tenure_v1_"),
    ] {
        sql = sql.replace(mark, name);
    }
    // The last first, because the second becomes the only one.
    for (at, value) in values.iter().enumerate().rev() {
        sql = sql.replace(&format!("${}", at + 1), if at == 1 { "\u{0}" } else { value });
    }
    sql.replace('\u{0}', values[1])
}

pub(crate) fn measure() {
    const OPS: u32 = 10;
    let server = server();
    runtime().block_on(async {
        let yardstick = Yardstick::open(&server.url()).await;
        let options = tenure_postgres::PostgresOptions::from_url(&mut server.url().parse().unwrap()).unwrap();
        let engine = PostgresEngine::open(options).await.unwrap();
        let client = tenure::Client::new(engine.clone(), Settings::default()).unwrap();
        let mutex = client.mutex("k2").unwrap();
        let (driver, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        driver.batch_execute("SET enable_seqscan=off;SET plan_cache_mode=force_generic_plan").await.unwrap();
        // The statements are for a key that was given back.
        driver
            .batch_execute(
                "SELECT tenure_v1_attempt('k', md5('k')::uuid, 0::smallint, 0, 0, 15000000, true, '', '');\
                 SELECT tenure_v1_release('k', md5('k')::uuid, 15000000, false)",
            )
            .await
            .unwrap();
        let attempt = driver.prepare(&statement(AGAIN, &ATTEMPT)).await.unwrap();
        let release = driver.prepare(&statement(LEAVE, &RELEASE)).await.unwrap();
        let [mut updates, mut bare, mut verbs, mut all] = [const { Vec::new() }; 4];
        for _ in 0..300 {
            updates.push(block(OPS, async || yardstick.once().await).await);
            bare.push(
                block(OPS, async || {
                    let id = ClaimId::fresh().to_string();
                    driver.query_one(&attempt, &[&id]).await.unwrap();
                    assert_eq!(driver.execute(&release, &[&id]).await.unwrap(), 1);
                })
                .await,
            );
            verbs.push(block(OPS, async || verbs::once(engine.as_ref()).await).await);
            all.push(block(OPS, async || mutex.acquire().await.unwrap().release().await.unwrap()).await);
        }
        let update = median(updates);
        for (what, times) in [("by the bare driver", bare), ("by the engine", verbs), ("by the library", all)]
        {
            let what = format!("{NAME}, acquire + release {what}  /  {COMPARED}");
            report(&what, median(times), update, "no bound");
        }
    });
}
