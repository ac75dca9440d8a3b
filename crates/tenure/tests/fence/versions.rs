//! Optimistic versions on rows of real databases.

use std::convert::Infallible;

use tenure::versioned::{Limits, Outcome, Tries};

use crate::{
    bed::{fresh, within},
    links::Link,
};

/// Several count up one row at once, with no lock: every update that was done is in the count.
async fn nothing_is_lost<L: Link>() {
    let table = fresh("versioned").replace('-', "_");
    let mut link = L::open().await;
    link.sql(&format!("CREATE TABLE {table} (id INT PRIMARY KEY, version BIGINT, value BIGINT)"))
        .await
        .unwrap();
    link.sql(&format!("INSERT INTO {table} VALUES (1, 0, 0)")).await.unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let table = table.clone();
            tokio::spawn(async move {
                let mut link = L::open().await;
                for _ in 0..5 {
                    let mut tries = Tries::new(Limits::default().tries(100));
                    loop {
                        let version = link.one(&format!("SELECT version FROM {table}")).await;
                        let sql = format!(
                            "UPDATE {table} SET value = value + 1, version = {version} + 1 WHERE version = {version}"
                        );
                        match Outcome::of_rows(link.run(&sql, &[]).await.unwrap().affected, ()) {
                            Outcome::Done(()) => break,
                            Outcome::Conflict => tries.again::<Infallible>().await.unwrap(),
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        within("all are done", task).await.unwrap();
    }
    assert_eq!(link.one(&format!("SELECT value FROM {table}")).await, "20");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlx_mysql() {
    nothing_is_lost::<sqlx::MySqlConnection>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_async() {
    nothing_is_lost::<mysql_async::Conn>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlx_postgres() {
    nothing_is_lost::<sqlx::PgConnection>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokio_postgres() {
    nothing_is_lost::<tokio_postgres::Client>().await;
}
