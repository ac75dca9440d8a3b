//! Several processes, several tasks in each, one file engine, and some of them killed on the way.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tenure::connect;

const DIR: &str = "TENURE_TEST_WORKER_DIR";
const TASKS: usize = 4;
const ROUNDS: usize = 60;

/// What a worker process does. Run as a test of its own it has no directory to work in and does nothing.
#[test]
fn worker() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(&url(&dir)).await.unwrap();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (mutex, dir) = (client.mutex("counter").unwrap(), dir.clone());
                let mutex = if task == 0 { mutex.fair() } else { mutex };
                tokio::spawn(async move {
                    for _ in 0..ROUNDS {
                        let guard = mutex.acquire().await.unwrap();
                        let next = read(&dir) + 1;
                        tokio::task::yield_now().await; // a second holder would read the same here
                        fs::write(dir.join("next"), next.to_string()).unwrap();
                        fs::rename(dir.join("next"), dir.join("counter")).unwrap();
                        let mut log =
                            OpenOptions::new().append(true).create(true).open(dir.join("log")).unwrap();
                        log.write_all(format!("{next} {}\n", guard.fence()).as_bytes()).unwrap();
                        if next.is_multiple_of(2) { drop(guard) } else { guard.release().await.unwrap() }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn no_update_is_lost_between_processes_and_a_killed_one_blocks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut workers: Vec<Child> = (0..4).map(|_| start(dir.path())).collect();
    // Two are killed in the middle, wherever they are: waiting, holding, or in the middle of a write.
    for (i, at) in [(0, 60), (1, 150)] {
        let began = Instant::now();
        while read(dir.path()) < at {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing moves");
            std::thread::yield_now();
        }
        workers[i].kill().unwrap();
    }
    for (i, worker) in workers.iter_mut().enumerate() {
        assert_eq!(worker.wait().unwrap().success(), i >= 2, "worker {i}");
    }

    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    let entries: Vec<(u64, u64)> = log
        .lines()
        .map(|line| {
            line.split_once(' ').map(|(n, fence)| (n.parse().unwrap(), fence.parse().unwrap())).unwrap()
        })
        .collect();
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "two wrote the same, or a fence went back");
    // Each killed process may have counted once without logging it.
    let unlogged = read(dir.path()) - entries.len() as u64;
    assert!(unlogged <= 2, "{unlogged} updates were lost");
    assert!(entries.len() >= 2 * TASKS * ROUNDS, "the others did all their work");
}

fn start(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::worker"])
        .env(DIR, dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn url(dir: &Path) -> String {
    format!("file:{}/engine", dir.display())
}

fn read(dir: &Path) -> u64 {
    fs::read_to_string(dir.join("counter")).map_or(0, |text| text.parse().unwrap())
}
