//! Two processes hand a lock to each other.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tenure_testkit::{ensure, process::wait_until, redis::Persistence};

use crate::bed::{LIMIT, client, empties, eventually, line, redis, secs};

const DIR: &str = "TENURE_TEST_WORKER_DIR";
const URL: &str = "TENURE_TEST_WORKER_URL";
const DONE: &str = "done";
const ROUNDS: usize = 250;

/// What each process does. Run as a test of its own it has no server to work with and does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker() {
    let (Some(dir), Ok(url)) = (std::env::var_os(DIR).map(PathBuf::from), std::env::var(URL)) else { return };
    let client = client(&url, secs(5)).await;
    let mutex = client.mutex("counter").unwrap();
    // Both begin together, so that they meet in the line.
    fs::write(dir.join(std::process::id().to_string()), "").unwrap();
    let go = client.mutex("go").unwrap().acquire_within(LIMIT).await.unwrap();
    go.release().await.unwrap();
    let mut log = OpenOptions::new().append(true).create(true).open(dir.join("log")).unwrap();
    for round in 0..ROUNDS {
        let guard = mutex.acquire_within(LIMIT).await.unwrap();
        let next = read(&dir) + 1;
        fs::write(dir.join("counter"), next.to_string()).unwrap();
        log.write_all(format!("{next} {} {}\n", guard.fence(), std::process::id()).as_bytes()).unwrap();
        // On a busy machine one of them may work for long while the other does not run at all.
        if round % 2 == 0 {
            let other_waits = async || match line(&client, "counter").await {
                line if line.len() > 1 || dir.join(DONE).exists() => Ok(()),
                line => Err(format!("{line:?}")),
            };
            eventually("the other waits or is done", LIMIT, other_waits).await;
        }
        guard.release().await.unwrap();
    }
    fs::write(dir.join(DONE), "").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_hand_over_and_no_update_is_lost() {
    let (redis, dir) = (redis(Persistence::None), tempfile::tempdir().unwrap());
    let client = client(&redis.url(), secs(5)).await;
    let go = client.mutex("go").unwrap().acquire().await.unwrap();
    let mut workers: Vec<Worker> = (0..2).map(|_| Worker::start(dir.path(), &redis.url())).collect();
    wait_until("both are there", LIMIT, || {
        let there = fs::read_dir(dir.path())?.count();
        ensure!(there == 2, "{there} are there");
        Ok(())
    })
    .unwrap();
    go.release().await.unwrap();
    for worker in &mut workers {
        wait_until("both are done", 2 * LIMIT, || {
            let ended = worker.0.try_wait()?;
            ensure!(ended.is_some(), "one still works");
            ensure!(ended.is_some_and(|status| status.success()), "it failed");
            Ok(())
        })
        .unwrap();
    }

    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    let entries: Vec<[u64; 3]> = log
        .lines()
        .map(|line| {
            let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
            [numbers.next().unwrap(), numbers.next().unwrap(), numbers.next().unwrap()]
        })
        .collect();
    assert_eq!((entries.len(), read(dir.path())), (2 * ROUNDS, 2 * ROUNDS as u64));
    assert!(
        entries.is_sorted_by(|a, b| a[0] < b[0] && a[1] < b[1]),
        "an update was lost, or a fence went back"
    );
    let handed_over = entries.windows(2).filter(|pair| pair[0][2] != pair[1][2]).count();
    // Whoever is done first had its rounds at most two at a time, and handed over after each time but the last; so did
    // the other in between.
    assert!(handed_over >= ROUNDS - 2, "only {handed_over} times from one to the other");
    empties(&client, "counter").await;
    empties(&client, "go").await;
}

/// A process; killed when dropped.
struct Worker(Child);

impl Worker {
    fn start(dir: &Path, url: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::worker"])
            .env(DIR, dir)
            .env(URL, url)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read(dir: &Path) -> u64 {
    fs::read_to_string(dir.join("counter")).map_or(0, |text| text.parse().unwrap())
}
