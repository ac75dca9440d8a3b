//! The server takes transactions back (40001, 40P01), or a stranger keeps a key: nobody fails who can wait.

use std::time::Instant;

use tenure::Loss;

use crate::bed::{
    Work, client, empties, gets, renewed_since, runs_down_to, secs, server, told, value, waits,
};

/// Every third change of a line is taken back, as by a deadlock or a failed serialization.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_is_tried_again() {
    const ROUNDS: usize = 12;
    for code in ["40001", "40P01"] {
        let server = server(&[]);
        let (ttl, url) = (secs(6), server.url());
        let clients = [client(&url, ttl).await, client(&url, ttl).await, client(&url, ttl).await];
        server
            .sql(&format!(
                "CREATE SEQUENCE provoked; \
                 CREATE FUNCTION provoke() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF nextval('provoked') % 3 = 0 THEN RAISE EXCEPTION 'provoked' USING ERRCODE = '{code}'; END IF; \
                 RETURN NULL; END $$; \
                 CREATE TRIGGER provoke AFTER INSERT OR UPDATE OR DELETE ON tenure_places FOR EACH ROW \
                 EXECUTE FUNCTION provoke()"
            ))
            .unwrap();
        Work::start(clients.clone(), "k", ROUNDS).done().await;
        let provoked: u32 = value(&server, "SELECT last_value FROM provoked").parse().unwrap();
        assert!(provoked > 50, "only {provoked} changes");
        server.sql("DROP TRIGGER provoke ON tenure_places").unwrap();
        empties(&clients[0], "k").await;
    }
}

/// The row of a hold is locked by a stranger, who lets go in time, or does not: then the holder is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_in_the_table_is_waited_for_until_the_lease_ends() {
    let server = server(&[]);
    let ttl = secs(4);
    let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let mut stranger = server.admin().unwrap();
    let lock = "BEGIN; SELECT 1 FROM tenure_places WHERE key = 'k' FOR UPDATE";
    stranger.sql(lock).unwrap();
    runs_down_to(&held, secs(2)).await;
    stranger.sql("ROLLBACK").unwrap();
    renewed_since(&held, ttl, Instant::now()).await;

    let waiting = waits(&there, "k").await;
    stranger.sql(lock).unwrap();
    assert_eq!(told(&held, ttl).await, Loss::Expired);
    drop(held);
    stranger.sql("ROLLBACK").unwrap();
    gets(waiting).await.release().await.unwrap();
    empties(&there, "k").await;
}
