mod bytes;
mod damage;
mod evict;
mod former;
mod garbage;
mod kill;
mod numbers;
mod order;

use std::{
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
    sync::{Mutex, atomic::AtomicU32},
};

use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Engine, ErrorKind, Evicted, Eviction, Filter, Grant, Held, Key,
    Mode, Note, Patience, Permits, Released, Renewal, Seat, Seq, Standing, Turn, When,
};

use super::*;

const HOUR: u64 = 3_600_000_000;

fn claim(key: &str, mode: Mode, patience: Patience) -> Claim {
    Claim {
        key: Key::new(key).unwrap(),
        id: ClaimId::fresh(),
        mode,
        patience,
        ttl: Ttl::new(Duration::from_secs(3)).unwrap(),
        floor: Seq::ZERO,
        note: Note::new("ann@host", "test"),
    }
}

fn exclusive(key: &str) -> Claim {
    claim(key, Mode::Exclusive, Patience::Queue)
}

fn options(dir: &Path) -> FileOptions {
    FileOptions { dir: dir.join("locks"), network_fs: NetworkFs::Refuse }
}

async fn open(dir: &Path) -> Arc<FileEngine> {
    quiet(FileEngine::open(options(dir)).await.unwrap()).await
}

/// An engine whose wall clock the test sets.
async fn open_at(dir: &Path, clock: &Arc<AtomicU64>) -> Arc<FileEngine> {
    let clock = clock.clone();
    let wall = Arc::new(move || clock.load(Ordering::SeqCst));
    quiet(FileEngine::open_with(options(dir), wall).await.unwrap()).await
}

/// Waits for the end of the sweep that comes with opening, lest it sweep what the test counts.
async fn quiet(engine: Arc<FileEngine>) -> Arc<FileEngine> {
    soon(async {
        while engine.sweeping.load(Ordering::Acquire) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    engine
}

async fn granted(engine: &FileEngine, claim: &Claim) -> Seat {
    match engine.attempt(claim).await.unwrap() {
        Attempt::Granted(Grant { seat, ttl: None, remembers: None }) => seat,
        other => panic!("{other:?}"),
    }
}

async fn waits(engine: &FileEngine, claim: &Claim) -> Busy {
    match engine.attempt(claim).await.unwrap() {
        Attempt::Busy(busy) => busy,
        other @ Attempt::Granted(_) => panic!("{other:?}"),
    }
}

async fn release(engine: &FileEngine, claim: &Claim) -> Released {
    engine.release(claim, Answered::All).await.unwrap()
}

/// Bounds every wait of a test.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), what).await.expect("within 10 s")
}

async fn error(options: FileOptions) -> Error {
    FileEngine::open(options).await.unwrap_err()
}

fn line_file(dir: &Path, key: &str) -> PathBuf {
    dir.join("locks/line").join(Key::new(key).unwrap().to_path_element(lines::NAME_BYTES))
}

fn control_state(dir: &Path) -> control::State {
    control::State::decode(&std::fs::read(dir.join("locks/engine")).unwrap()).unwrap()
}

#[tokio::test]
async fn a_release_tells_the_next_process_that_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (open(dir.path()).await, open(dir.path()).await);
    let (first, second) = (exclusive("k"), exclusive("k"));
    let held = granted(&a, &first).await;
    let busy = waits(&b, &second).await;
    assert_eq!((busy.ahead, busy.blocker), (Some(1), Some(Mode::Exclusive)));
    assert!(busy.seat.unwrap().seq > held.seq);
    assert_eq!(waits(&b, &second).await.seat, busy.seat, "one id, one place");
    let mut turn = b.turn(&second);
    assert!(futures_pending(&mut turn).await);
    assert_eq!(release(&a, &first).await, Released::Freed);
    assert_eq!(soon(turn).await, Turn::Holds(busy.seat.unwrap()));
    assert_eq!(granted(&b, &second).await, busy.seat.unwrap());
    assert_eq!(release(&a, &first).await, Released::NotHeld);
    assert_eq!(release(&b, &second).await, Released::Freed);
    assert_eq!(a.identity(), b.identity());
}

/// Whether a future is not ready after everything else had a chance to run.
async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
    let mut ready = false;
    for _ in 0..10 {
        let polled = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_ready())
        });
        ready |= polled.await;
        tokio::task::yield_now().await;
    }
    !ready
}

#[tokio::test]
async fn an_impatient_claim_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (open(dir.path()).await, open(dir.path()).await);
    let holder = exclusive("k");
    let _ = granted(&a, &holder).await;
    assert_eq!(waits(&b, &claim("k", Mode::Shared, Patience::Try)).await.seat, None);
    let line = a.line(&Filter::Key(holder.key.clone())).await.unwrap();
    assert_eq!(line.len(), 1);
    assert_eq!(line[0].note.who(), format!("ann@host pid {}", std::process::id()));
    assert_eq!((line[0].standing, line[0].lease_left), (Standing::Holds, None));
}

#[tokio::test]
async fn an_engine_that_goes_frees_its_places_and_wakes_who_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (open(dir.path()).await, open(dir.path()).await);
    let (first, second) = (exclusive("k"), exclusive("k"));
    let _ = granted(&a, &first).await;
    let _ = waits(&b, &second).await;
    drop(a);
    assert_eq!(soon(b.turn(&second)).await, Turn::Again);
    let _ = granted(&b, &second).await;
    assert_eq!(b.line(&Filter::Key(second.key.clone())).await.unwrap().len(), 1);
    assert_eq!(std::fs::read_dir(dir.path().join("locks/proc")).unwrap().count(), 1);
}

#[tokio::test]
async fn permits_wait_for_any_of_those_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, c) = (open(dir.path()).await, open(dir.path()).await, open(dir.path()).await);
    let permits = |take| claim("k", Mode::Permits(Permits::new(take, 3).unwrap()), Patience::Queue);
    let (one, two, three) = (permits(1), permits(2), permits(1));
    let _ = (granted(&a, &one).await, granted(&b, &two).await);
    let _ = waits(&c, &three).await;
    drop(a);
    assert_eq!(soon(c.turn(&three)).await, Turn::Again);
    let _ = granted(&c, &three).await;
    let fourth = permits(3);
    let _ = waits(&c, &fourth).await;
    let _ = release(&b, &two).await;
    let _ = release(&c, &three).await;
    assert!(matches!(soon(c.turn(&fourth)).await, Turn::Holds(_)));
}

#[tokio::test]
async fn a_reader_whose_death_nobody_watched_keeps_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, c) = (open(dir.path()).await, open(dir.path()).await, open(dir.path()).await);
    let reader = || claim("k", Mode::Shared, Patience::Queue);
    let (first, second, writer) = (reader(), reader(), exclusive("k"));
    let _ = (granted(&a, &first).await, granted(&b, &second).await);
    let seat = waits(&c, &writer).await.seat.unwrap();
    // The writer watches the nearer one.
    drop(a);
    assert_eq!(release(&b, &second).await, Released::Freed);
    assert_eq!(soon(c.turn(&writer)).await, Turn::Holds(seat));
}

#[tokio::test]
async fn a_downgrade_lets_readers_in_and_keeps_the_number() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (open(dir.path()).await, open(dir.path()).await);
    let (writer, reader) = (exclusive("k"), claim("k", Mode::Shared, Patience::Queue));
    let seat = granted(&a, &writer).await;
    let _ = waits(&b, &reader).await;
    let held = Held { claim: &writer, seq: seat.seq };
    assert_eq!(a.downgrade(held).await.unwrap(), Renewal::Renewed(None));
    assert!(matches!(soon(b.turn(&reader)).await, Turn::Holds(_)));
    assert_eq!(a.downgrade(held).await.unwrap(), Renewal::Renewed(None));
    assert_eq!(granted(&a, &writer).await, seat);
}

fn sweep_all(engine: &FileEngine) -> usize {
    let broom = Broom { idle: Duration::ZERO, most: 1000, start: 3 };
    sweep::sweep(&engine.dir, &engine.control, (engine.wall)(), broom).unwrap()
}

async fn renew(engine: &FileEngine, claim: &Claim, seat: Seat) -> Renewal {
    engine.renew(&[Held { claim, seq: seat.seq }]).await.unwrap()[0]
}

#[tokio::test]
async fn an_attempt_given_up_while_it_waits_for_the_file_never_takes_effect() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let first = exclusive("k");
    let _ = granted(&engine, &first).await;
    let _ = release(&engine, &first).await;
    let file = File::open(line_file(dir.path(), "k")).unwrap();
    file.lock().unwrap();
    let second = exclusive("k");
    let waiting = engine.attempt(&second);
    assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
    let mut short = exclusive("k");
    short.ttl = Ttl::new(Ttl::MIN).unwrap();
    let err = engine.attempt(&short).await.unwrap_err();
    assert_eq!((err.kind(), err.may_have_applied()), (ErrorKind::Unavailable, false));
    assert!(err.to_string().contains(&format!("pid {} keeps it locked", std::process::id())), "{err}");
    let line = engine.line(&Filter::Key(second.key.clone())).await.unwrap();
    assert!(line.is_empty(), "looking waits for nobody");
    file.unlock().unwrap();
    assert_eq!(engine.release(&second, Answered::InDoubt).await.unwrap(), Released::NotHeld);
    let _ = granted(&engine, &exclusive("k")).await;
    assert_eq!(engine.line(&Filter::Key(second.key.clone())).await.unwrap().len(), 1);
}

#[tokio::test]
async fn lines_are_shown_by_prefix_in_order_up_to_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let long = format!("a/{}", "x".repeat(1000));
    for key in ["b", "a/2", "a/1", &long] {
        let _ = granted(&engine, &exclusive(key)).await;
        let _ = waits(&engine, &exclusive(key)).await;
    }
    let show = async |prefix: &str, limit| -> Vec<String> {
        let line = engine.line(&Filter::Prefix(prefix.into(), limit)).await.unwrap();
        line.iter().map(|place| place.key.as_str().to_owned()).collect()
    };
    assert_eq!(show("a/", 100).await, ["a/1", "a/1", "a/2", "a/2", &long, &long]);
    assert_eq!(show("", 3).await, ["a/1", "a/1", "a/2"]);
    assert_eq!(show("c", 3).await, [""; 0]);
}
