//! What keeps the numbers rising, and what is forgotten meanwhile.

use super::*;

#[tokio::test]
async fn a_renewal_raises_the_keys_last_number_to_the_floor() {
    let dir = tempfile::tempdir().unwrap();
    let a = open(dir.path()).await;
    let mut holder = exclusive("k");
    let seat = granted(&a, &holder).await;
    holder.floor = Seq::new(seat.seq.get() + 3 * HOUR).unwrap();
    assert_eq!(renew(&a, &holder, seat).await, Renewal::Renewed(None));
    assert!(control_state(dir.path()).ceiling > holder.floor.get());
    let _ = release(&a, &holder).await;
    assert!(granted(&a, &exclusive("k")).await.seq > holder.floor);
}

#[tokio::test]
async fn numbers_rise_when_the_clock_is_set_back_and_the_engine_reopened() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicU64::new(100 * HOUR));
    let engine = open_at(dir.path(), &clock).await;
    let first = exclusive("k");
    let before = granted(&engine, &first).await.seq;
    let _ = release(&engine, &first).await;
    drop(engine);
    clock.store(5, Ordering::SeqCst);
    let engine = open_at(dir.path(), &clock).await;
    assert!(granted(&engine, &exclusive("k")).await.seq > before);
}

#[tokio::test]
async fn numbers_are_given_only_below_what_is_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicU64::new(100 * HOUR));
    let engine = open_at(dir.path(), &clock).await;
    for hours in [100, 101, 150, 149, 151] {
        clock.store(hours * HOUR, Ordering::SeqCst);
        let claim = exclusive("k");
        let seq = granted(&engine, &claim).await.seq;
        assert!(seq.get() < control_state(dir.path()).ceiling, "at {hours} h");
        let _ = release(&engine, &claim).await;
    }
}

#[tokio::test]
async fn a_restart_of_the_machine_frees_everything_and_numbers_rise_above_all_before() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicU64::new(100 * HOUR));
    let engine = open_at(dir.path(), &clock).await;
    let before = granted(&engine, &exclusive("k")).await.seq;
    let identity = engine.identity();
    drop(engine);
    // A loss of power: files as they were, the line perhaps older, another boot id, a clock that starts in 1970.
    let state = control_state(dir.path());
    let rebooted = control::State { boot: [7; 16], ..state };
    std::fs::write(dir.path().join("locks/engine"), rebooted.encode()).unwrap();
    std::fs::write(dir.path().join("locks/proc/0123"), "").unwrap();
    std::fs::write(line_file(dir.path(), "half"), "half a file").unwrap();
    clock.store(1, Ordering::SeqCst);
    let engine = open_at(dir.path(), &clock).await;
    assert!(!line_file(dir.path(), "k").exists() && !line_file(dir.path(), "half").exists());
    assert_eq!(std::fs::read_dir(dir.path().join("locks/proc")).unwrap().count(), 1);
    assert_eq!(engine.identity(), identity);
    for key in ["k", "half", "new"] {
        let after = granted(&engine, &exclusive(key)).await.seq;
        assert!(after > before && after.get() > state.ceiling, "{key}: {after}");
        assert!(after.get() < control_state(dir.path()).ceiling);
    }
}

#[tokio::test]
async fn another_boot_id_is_no_restart_while_somebody_lives() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let holder = exclusive("k");
    let _ = granted(&engine, &holder).await;
    let elsewhere = control::State { boot: [7; 16], ..control_state(dir.path()) };
    std::fs::write(dir.path().join("locks/engine"), elsewhere.encode()).unwrap();
    let other = open(dir.path()).await;
    let waiter = exclusive("k");
    let _ = waits(&other, &waiter).await;
    assert_eq!(release(&engine, &holder).await, Released::Freed);
    assert!(matches!(soon(other.turn(&waiter)).await, Turn::Holds(_)));
}

#[tokio::test]
async fn a_swept_key_starts_above_its_last_number() {
    let dir = tempfile::tempdir().unwrap();
    // Beyond the files' own times, so that they look old.
    let clock = Arc::new(AtomicU64::new(wall_micros() + 10 * HOUR));
    let engine = open_at(dir.path(), &clock).await;
    let (first, held) = (exclusive("k"), exclusive("held"));
    let before = granted(&engine, &first).await.seq;
    let _ = granted(&engine, &held).await;
    let _ = release(&engine, &first).await;
    assert_eq!(sweep_all(&engine), 0, "the clock has not passed its last number");
    clock.fetch_add(1000, Ordering::SeqCst);
    File::create(line_file(dir.path(), "never begun")).unwrap();
    assert_eq!(sweep_all(&engine), 2);
    assert!(!line_file(dir.path(), "k").exists() && line_file(dir.path(), "held").exists());
    clock.store(5, Ordering::SeqCst);
    // The engine still has the old file open.
    let again = exclusive("k");
    assert!(granted(&engine, &again).await.seq > before);
    let other = open_at(dir.path(), &clock).await;
    let _ = waits(&other, &exclusive("k")).await;
}

#[tokio::test]
async fn whoever_has_a_removed_file_open_finds_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicU64::new(wall_micros() + 10 * HOUR));
    let (a, b) = (open_at(dir.path(), &clock).await, open_at(dir.path(), &clock).await);
    let (first, second) = (exclusive("k"), exclusive("k"));
    let _ = granted(&a, &first).await;
    let _ = release(&a, &first).await;
    clock.fetch_add(1000, Ordering::SeqCst);
    assert_eq!(sweep_all(&b), 1);
    let seat = granted(&b, &second).await;
    let order = Eviction { key: second.key.clone(), id: second.id, seq: seat.seq, when: When::Now };
    assert_eq!(a.evict(&order).await.unwrap(), Evicted::Freed, "not by sweeping alone");
    // By hand, without a mark.
    std::fs::remove_file(line_file(dir.path(), "k")).unwrap();
    let newcomer = open_at(dir.path(), &clock).await;
    let _ = granted(&newcomer, &exclusive("k")).await;
    let _ = waits(&a, &exclusive("k")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sweeping_beside_use_never_makes_two_holders() {
    let dir = tempfile::tempdir().unwrap();
    let keys = ["a", "b"];
    let inside: Arc<[AtomicU32; 2]> = Arc::default();
    let last: Arc<[Mutex<Seq>; 2]> = Arc::default();
    let mut tasks = Vec::new();
    for nth in 0..4 {
        let engine = open(dir.path()).await;
        let (inside, last) = (inside.clone(), last.clone());
        tasks.push(tokio::spawn(async move {
            let mut swept = 0;
            for round in 0..300 {
                let at = (nth + round) % 2;
                let claim = exclusive(keys[at]);
                let mut attempt = engine.attempt(&claim).await.unwrap();
                let seat = loop {
                    match attempt {
                        Attempt::Granted(grant) => break grant.seat,
                        Attempt::Busy(busy) => match soon(engine.turn(&claim)).await {
                            Turn::Holds(seat) if Some(seat) == busy.seat => break seat,
                            _ => attempt = engine.attempt(&claim).await.unwrap(),
                        },
                    }
                };
                assert_eq!(inside[at].fetch_add(1, Ordering::SeqCst), 0, "two holders");
                {
                    let mut last = last[at].lock().unwrap();
                    assert!(seat.seq > *last, "{} after {last}", seat.seq);
                    *last = seat.seq;
                }
                assert_eq!(inside[at].fetch_sub(1, Ordering::SeqCst), 1);
                assert_eq!(engine.release(&claim, Answered::All).await.unwrap(), Released::Freed);
                swept += sweep_all(&engine);
            }
            swept
        }));
    }
    let mut swept = 0;
    for task in tasks {
        swept += task.await.unwrap();
    }
    assert!(swept > 20, "only {swept} files were swept");
}

#[tokio::test]
async fn a_long_line_grows_its_file_and_shrinks_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let claims: Vec<_> = (0..300).map(|_| claim("k", Mode::Shared, Patience::Queue)).collect();
    let mut last = Seq::ZERO;
    for claim in &claims {
        let seq = granted(&engine, claim).await.seq;
        assert!(seq > last);
        last = seq;
    }
    let line = engine.line(&Filter::Key(claims[0].key.clone())).await.unwrap();
    assert!(line.iter().map(|place| place.id).eq(claims.iter().map(|claim| claim.id)));
    let long = std::fs::metadata(line_file(dir.path(), "k")).unwrap().len();
    for claim in claims.iter().rev() {
        assert_eq!(release(&engine, claim).await, Released::Freed);
    }
    assert!(std::fs::metadata(line_file(dir.path(), "k")).unwrap().len() < long / 2);
    drop(engine);
    let clock = Arc::new(AtomicU64::new(1));
    let engine = open_at(dir.path(), &clock).await;
    assert!(granted(&engine, &exclusive("k")).await.seq > last);
}

#[tokio::test]
async fn only_a_directory_on_disk_keeps_its_numbers_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    if engine.dir.fences == Fences::Durable {
        assert_eq!(engine.guarantees(), guarantees_on_disk());
    }
    if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
        assert_eq!(open(dir.path()).await.guarantees().fences, Fences::ClockBound);
    }
}
