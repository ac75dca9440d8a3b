//! Work that is dropped half-way leaves nothing behind, and its answer goes to nobody else.

use std::{sync::Arc, time::Duration};

use crate::bed::{client, empties, millis, secs, server, value, within};

/// Tasks that lose patience after any time, on few keys, beside tasks that do not: each lock that is had is had alone,
/// and in the end the table is empty long before any lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn impatience_leaves_nothing_behind() {
    let server = server(&[]);
    let clients = [client(&server.url(), secs(60)).await, client(&server.url(), secs(60)).await];
    let inside = Arc::new([const { std::sync::atomic::AtomicU32::new(0) }; 3]);
    let tasks: Vec<_> = (0..120_u64)
        .map(|task| {
            let (client, inside) = (clients[task as usize % 2].clone(), inside.clone());
            tokio::spawn(async move {
                let key = task as usize % 3;
                let mutex = client.mutex(format!("k/{key}")).unwrap();
                let mutex = if task % 4 == 0 { mutex.fair() } else { mutex };
                let held = async {
                    let guard = mutex.acquire().await.unwrap();
                    let others = inside[key].fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert_eq!(others, 0, "two hold the lock");
                    // Not an await: what is inside cannot be cancelled half-way.
                    inside[key].fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    tokio::time::sleep(millis(1)).await;
                    drop(guard);
                };
                let patience =
                    if task % 5 == 0 { secs(20) } else { Duration::from_micros(fastrand::u64(0..20_000)) };
                tokio::time::timeout(patience, held).await.is_ok()
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += u32::from(within("all have ended", task).await.unwrap());
    }
    assert!(done >= 24, "the patient ones had the lock: {done}");
    for key in 0..3 {
        empties(&clients[0], &format!("k/{key}")).await;
    }
    // What is left are the graves of attempts whose answer nobody waited for.
    assert_eq!(value(&server, "SELECT count(*) FROM tenure_places WHERE state < 2"), "0");
}
