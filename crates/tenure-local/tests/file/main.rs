//! What the file engine promises about processes and disks, which no rule for all engines can know.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

mod crowd;

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, Engine, ErrorKind, Filter, Key, Mode, Note, Patience, Released, Seat,
    Seq, Ttl, Turn,
};
use tenure_local::file::{FileEngine, FileOptions, NetworkFs};

const HELPER: &str = "TENURE_FILE_HELPER";

fn claim(key: &str, ttl: Duration) -> Claim {
    Claim {
        key: Key::new(key).unwrap(),
        id: ClaimId::fresh(),
        mode: Mode::Exclusive,
        patience: Patience::Queue,
        ttl: Ttl::new(ttl).unwrap(),
        floor: Seq::ZERO,
        note: Note::new("", ""),
    }
}

fn queued(key: &str) -> Claim {
    claim(key, Duration::from_secs(9))
}

async fn open(dir: &Path) -> Arc<FileEngine> {
    FileEngine::open(FileOptions { dir: dir.join("locks"), network_fs: NetworkFs::Refuse }).await.unwrap()
}

async fn acquire(engine: &FileEngine, claim: &Claim) -> Seat {
    loop {
        match engine.attempt(claim).await.unwrap() {
            Attempt::Granted(grant) => return grant.seat,
            Attempt::Busy(busy) => match soon(engine.turn(claim)).await {
                Turn::Holds(seat) if Some(seat) == busy.seat => return seat,
                _ => {}
            },
        }
    }
}

async fn is_busy(engine: &FileEngine, claim: &Claim) -> bool {
    matches!(engine.attempt(claim).await.unwrap(), Attempt::Busy(_))
}

/// Bounds every wait of a test.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("within 20 s")
}

/// Another process: this binary again, running only [`helper`].
struct Helper {
    child: Child,
    says: BufReader<std::process::ChildStdout>,
}

impl Helper {
    fn start(job: &str, dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper", "--nocapture", "--test-threads=1"])
            .env(HELPER, job)
            .env("TENURE_FILE_DIR", dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Self { child, says }
    }

    /// Waits for a line that ends so. The test harness writes lines, and beginnings of lines, of its own.
    fn says(&mut self, word: &str) {
        let mut line = String::new();
        while !line.trim_end().ends_with(word) {
            line.clear();
            assert!(self.says.read_line(&mut line).unwrap() > 0, "the helper ended before it said {word}");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(word: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{word}").unwrap();
    out.flush().unwrap();
}

/// The other process. Does nothing when it runs as one of the tests.
#[test]
fn helper() {
    let Ok(job) = std::env::var(HELPER) else { return };
    let dir = PathBuf::from(std::env::var("TENURE_FILE_DIR").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match &*job {
            "hold" => {
                let engine = open(&dir).await;
                let _ = acquire(&engine, &queued("k")).await;
                say("holding");
                std::future::pending::<()>().await;
            }
            "wait" => {
                let engine = open(&dir).await;
                assert!(is_busy(&engine, &queued("k")).await);
                say("waiting");
                std::future::pending::<()>().await;
            }
            "stop" | "stop control" => {
                let file = if job == "stop" { "locks/line/k" } else { "locks/engine" };
                let file = File::open(dir.join(file)).unwrap();
                file.lock().unwrap();
                say("locked");
                kill_process(rustix::process::getpid(), Signal::STOP).unwrap();
                std::future::pending::<()>().await;
            }
            "endless" => {
                let engine = open(&dir).await;
                loop {
                    let claim = queued("k");
                    let _ = acquire(&engine, &claim).await;
                    say("held");
                    let _ = engine.release(&claim, Answered::All).await.unwrap();
                }
            }
            "hammer" => {
                let engine = open(&dir).await;
                for _ in 0..200 {
                    let claim = queued("k");
                    let seat = acquire(&engine, &claim).await;
                    enter(&dir, seat.seq);
                    assert_eq!(engine.release(&claim, Answered::All).await.unwrap(), Released::Freed);
                }
                say("done");
            }
            "crowd" => crowd::work(&dir).await,
            other => panic!("no such job: {other}"),
        }
    });
}

/// Checks that nobody else is inside and that the number is above the last one.
fn enter(dir: &Path, seq: Seq) {
    let inside = dir.join("inside");
    File::create_new(&inside).expect("two holders");
    let last: u64 = std::fs::read_to_string(dir.join("last")).map_or(0, |text| text.parse().unwrap());
    assert!(seq.get() > last, "{seq} after {last}");
    std::fs::write(dir.join("last"), seq.to_string()).unwrap();
    std::fs::remove_file(inside).unwrap();
}

#[tokio::test]
async fn a_killed_process_frees_its_locks_at_once_and_wakes_who_waits() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let mut holder = Helper::start("hold", dir.path());
    holder.says("holding");
    let mut between = Helper::start("wait", dir.path());
    between.says("waiting");
    let (waiter, tried) = (queued("k"), Claim { patience: Patience::Try, ..queued("k") });
    assert!(is_busy(&engine, &waiter).await);
    let line = engine.line(&Filter::Key(waiter.key.clone())).await.unwrap();
    assert_eq!(line[0].note.who(), format!("pid {}", holder.child.id()));
    assert_eq!(line.len(), 3);
    // Both at once: the one between must not keep us waiting behind the dead holder.
    holder.signal(Signal::KILL);
    between.signal(Signal::KILL);
    let (_, _) = (holder.child.wait().unwrap(), between.child.wait().unwrap());
    let start = Instant::now();
    let seat = acquire(&engine, &waiter).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(engine.line(&Filter::Key(waiter.key.clone())).await.unwrap().len(), 1);
    let _ = engine.release(&waiter, Answered::All).await.unwrap();

    // And without waiting: whoever tries right after the death gets it, before any news could be read.
    let mut holder = Helper::start("hold", dir.path());
    holder.says("holding");
    assert!(is_busy(&engine, &tried).await);
    holder.signal(Signal::KILL);
    let _ = holder.child.wait().unwrap();
    match engine.attempt(&tried).await.unwrap() {
        Attempt::Granted(grant) => assert!(grant.seat.seq > seat.seq),
        other @ Attempt::Busy(_) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_kill_at_any_moment_leaves_a_whole_line() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let mut last = Seq::ZERO;
    for round in 0..20 {
        let mut victims: Vec<_> = (0..2).map(|_| Helper::start("endless", dir.path())).collect();
        for _ in 0..=round {
            victims[0].says("held");
        }
        for victim in &mut victims {
            victim.signal(Signal::KILL);
        }
        let claim = queued("k");
        let seq = acquire(&engine, &claim).await.seq;
        assert!(seq > last);
        last = seq;
        let line = engine.line(&Filter::Key(claim.key.clone())).await.unwrap();
        assert_eq!(line.iter().filter(|place| place.id == claim.id).count(), 1);
        assert_eq!(soon(engine.release(&claim, Answered::All)).await.unwrap(), Released::Freed);
    }
}

#[tokio::test]
async fn a_paused_holder_goes_on_holding() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let mut holder = Helper::start("hold", dir.path());
    holder.says("holding");
    holder.signal(Signal::STOP);
    let waiter = claim("k", Duration::from_millis(100));
    for _ in 0..3 {
        assert!(is_busy(&engine, &waiter).await);
    }
    holder.signal(Signal::KILL);
    assert_eq!(soon(engine.turn(&waiter)).await, Turn::Again);
    assert!(!is_busy(&engine, &waiter).await);
}

#[tokio::test]
async fn a_process_stopped_inside_a_verb_is_named_within_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let first = queued("k");
    let _ = acquire(&engine, &first).await;
    let mut stopped = Helper::start("stop", dir.path());
    stopped.says("locked");
    let start = Instant::now();
    let second = claim("k", Duration::from_millis(600));
    let err = engine.attempt(&second).await.unwrap_err();
    assert!((Duration::from_millis(200)..Duration::from_secs(5)).contains(&start.elapsed()));
    assert_eq!((err.kind(), err.may_have_applied()), (ErrorKind::Unavailable, false));
    assert!(err.to_string().contains(&format!("pid {} keeps it locked", stopped.child.id())), "{err}");
    // Other keys go on, and the line can be looked at.
    let _ = acquire(&engine, &queued("other")).await;
    assert_eq!(engine.line(&Filter::Key(first.key.clone())).await.unwrap().len(), 1);
    stopped.signal(Signal::KILL);
    assert_eq!(soon(engine.release(&first, Answered::All)).await.unwrap(), Released::Freed);
    let _ = acquire(&engine, &second).await;
}

#[test]
fn a_stopped_process_does_not_hang_the_end_of_the_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut stopped = runtime.block_on(async {
        let engine = open(dir.path()).await;
        let _ = acquire(&engine, &queued("k")).await;
        let mut stopped = Helper::start("stop", dir.path());
        stopped.says("locked");
        engine.attempt(&claim("k", Duration::from_millis(100))).await.unwrap_err();
        stopped
    });
    let start = Instant::now();
    drop(runtime);
    assert!(start.elapsed() < Duration::from_secs(5));
    stopped.child.kill().unwrap();
}

#[tokio::test]
async fn opening_is_bounded_while_somebody_is_stopped_with_the_control_file() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    let mut stopped = Helper::start("stop control", dir.path());
    stopped.says("locked");
    let options = FileOptions { dir: dir.path().join("locks"), network_fs: NetworkFs::Refuse };
    let err = soon(FileEngine::open(options)).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unavailable);
    assert!(err.to_string().contains(&format!("pid {} keeps it locked", stopped.child.id())), "{err}");
}

#[tokio::test]
async fn processes_that_fight_for_a_key_hold_it_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut helpers: Vec<_> = (0..3).map(|_| Helper::start("hammer", dir.path())).collect();
    for helper in &mut helpers {
        helper.says("done");
        assert!(helper.child.wait().unwrap().success());
    }
    let proc = std::fs::read_dir(dir.path().join("locks/proc")).unwrap().count();
    assert_eq!(proc, 0, "whoever ends in order leaves no pipe");
}

/// A small file system that is unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"]).arg(dir.path()).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_cleanly_and_what_is_held_can_be_released() {
    let Some(disk) = SmallDisk::mount() else {
        println!("skipped: only root may mount a small file system to fill");
        return;
    };
    let dir = disk.0.path();
    let engine = open(dir).await;
    let held = queued("held");
    let before = acquire(&engine, &held).await;
    let mut filler = File::create(dir.join("filler")).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}

    let refused = |err: tenure_core::Error| {
        assert_eq!((err.kind(), err.may_have_applied()), (ErrorKind::Unavailable, false), "{err}");
        assert!(err.to_string().contains("free some space"), "{err}");
    };
    refused(engine.attempt(&queued("new")).await.unwrap_err());
    // The line's page takes three more; then it cannot grow.
    let waiters: Vec<_> = (0..4).map(|_| queued("held")).collect();
    for waiter in &waiters[..3] {
        assert!(is_busy(&engine, waiter).await);
    }
    refused(engine.attempt(&waiters[3]).await.unwrap_err());
    assert_eq!(engine.line(&Filter::Key(held.key.clone())).await.unwrap().len(), 4);
    assert_eq!(engine.release(&held, Answered::All).await.unwrap(), Released::Freed);
    assert!(acquire(&engine, &waiters[0]).await.seq > before.seq);

    // Not by unlinking: until it runs its program, a child that another test starts has this file open too.
    filler.set_len(0).unwrap();
    let _ = acquire(&engine, &queued("new")).await;
    assert!(is_busy(&engine, &waiters[3]).await);
}
