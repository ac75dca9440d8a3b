//! What is particular to Redis.

use redis::{AsyncCommands, aio::MultiplexedConnection};
use tenure::{
    ErrorKind,
    fence::{Redis, Why},
};
use tenure_testkit::redis::Redis as Server;

use crate::bed::{BEFORE, NOW, by, fresh, why, writer};

pub(crate) async fn connection() -> MultiplexedConnection {
    let client = redis::Client::open(Server::shared().unwrap().url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// Several keys of several types change together, or none of them does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_can_be_any_script() {
    let mut on = connection().await;
    let (cart, log) = (fresh("{cart}"), fresh("{cart}:log"));
    let redis = Redis::new(cart.as_str()).unwrap();
    let add = "redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])\nredis.call('RPUSH', KEYS[2], ARGV[1])";
    let keys = [cart.as_str(), log.as_str()];
    let args = ["apples", "3"];
    assert_eq!(why(redis.write_with(&mut on, writer(5), 1, add, &keys, &args).await), Why::NotClaimed);
    redis.claim(&mut on, writer(5)).await.unwrap();
    assert_eq!(redis.write_with(&mut on, writer(5), 1, add, &keys, &args).await.unwrap(), NOW);
    assert_eq!(redis.write_with(&mut on, writer(5), 1, add, &keys, &args).await.unwrap(), BEFORE);
    redis.claim(&mut on, writer(6)).await.unwrap();
    assert_eq!(why(redis.write_with(&mut on, writer(5), 2, add, &keys, &args).await), by(6));
    let (apples, lines): (u32, u32) = (on.hget(&cart, "apples").await.unwrap(), on.llen(&log).await.unwrap());
    assert_eq!((apples, lines), (3, 1));

    // A script that fails is not a write.
    let err =
        redis.write_with(&mut on, writer(6), 1, "error('no apples left')", &keys, &args).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unavailable);
    assert!(err.to_string().contains("no apples left"), "{err}");
    assert_eq!(redis.record(&mut on).await.unwrap().n(), 0);
}

/// The server knows no script any more, as after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_the_scripts_is_told_again() {
    let mut on = connection().await;
    let redis = Redis::new(fresh("forgets")).unwrap();
    for n in 1..3 {
        let _: () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut on).await.unwrap();
        redis.claim(&mut on, writer(5)).await.unwrap();
        let _: () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut on).await.unwrap();
        assert_eq!(redis.write(&mut on, writer(5), n, n).await.unwrap(), NOW);
        assert_eq!(redis.read::<_, u64>(&mut on, writer(5)).await.unwrap(), n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_wrote_there_is_no_record() {
    let mut on = connection().await;
    let key = fresh("damaged");
    let redis = Redis::new(key.as_str()).unwrap();
    for damaged in ["", "1 2 3", "x", &"9".repeat(100)] {
        let _: () = on.set(format!("{{{key}}}:fence"), damaged).await.unwrap();
        assert!(redis.claim(&mut on, writer(5)).await.is_err(), "{damaged}");
        assert_eq!(
            redis.write(&mut on, writer(5), 1, 1).await.unwrap_err().kind(),
            ErrorKind::Broken,
            "{damaged}"
        );
        assert_eq!(on.get::<_, Option<i64>>(&key).await.unwrap(), None, "{damaged}");
    }
    // A value of another type is the caller's matter.
    let _: () = on.del(format!("{{{key}}}:fence")).await.unwrap();
    redis.claim(&mut on, writer(5)).await.unwrap();
    assert_eq!(redis.write(&mut on, writer(5), 1, "words").await.unwrap(), NOW);
    assert_eq!(redis.read::<_, u64>(&mut on, writer(5)).await.unwrap_err().kind(), ErrorKind::Invalid);
}
