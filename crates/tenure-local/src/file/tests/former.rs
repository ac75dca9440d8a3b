//! Line files that programs of version 1 wrote, some of which may still run.

use std::os::unix::fs::MetadataExt;

use super::{
    line::PAGE,
    record::{Nonce, mix, u64_at},
    *,
};

const STATUS: usize = 1536;
const SLOTS: usize = 2048;
const SLOT: usize = 512;
/// States of a slot.
const FREE: u8 = 0;
const LIVE: u8 = 1;
const GRAVE: u8 = 3;
/// A process that never was.
const DEAD: Nonce = [7; 16];
/// Below the ceiling of a directory that was opened when the clock said 100 hours.
const LAST: u64 = 100 * HOUR + 1000;

/// One slot as version 1 wrote it, of an exclusive place.
fn slot(state: u8, seq: u64, nonce: Nonce) -> [u8; SLOT] {
    let mut bytes = [0; SLOT];
    bytes[..2].copy_from_slice(&[state, 1]);
    let who = b"bob@host";
    bytes[2] = who.len() as u8;
    bytes[8..16].copy_from_slice(&seq.to_le_bytes());
    bytes[24..28].copy_from_slice(&812_u32.to_le_bytes());
    bytes[32..48].copy_from_slice(&ClaimId::fresh().to_bytes());
    bytes[48..64].copy_from_slice(&nonce);
    let first = u64_at(&bytes, 0) & !0xffff; // without state and mode, which change in place
    let check = mix(std::iter::once(first).chain((8..72).step_by(8).map(|at| u64_at(&bytes, at))));
    bytes[72..80].copy_from_slice(&check.to_le_bytes());
    bytes[80..][..who.len()].copy_from_slice(who);
    bytes
}

/// A whole file as version 1 wrote it, with the last number of its head and these slots.
fn former(key: &str, last: u64, slots: &[[u8; SLOT]]) -> Vec<u8> {
    let mut bytes = vec![0; (SLOTS + slots.len().max(1) * SLOT).next_multiple_of(PAGE)];
    bytes[..8].copy_from_slice(b"tenure\0L");
    bytes[8] = 1;
    bytes[12] = key.len() as u8;
    bytes[16..][..key.len()].copy_from_slice(key.as_bytes());
    bytes[STATUS + 8..][..8].copy_from_slice(&last.to_le_bytes());
    bytes[SLOTS..][..slots.len() * SLOT].copy_from_slice(&slots.concat());
    bytes
}

fn put(dir: &Path, key: &str, bytes: &[u8]) {
    std::fs::write(line_file(dir, key), bytes).unwrap();
}

fn read(dir: &Path, key: &str) -> Vec<u8> {
    std::fs::read(line_file(dir, key)).unwrap()
}

/// An engine whose clock says less than every number of the test, so that none rises by the clock.
async fn open_with_slow_clock(dir: &Path) -> Arc<FileEngine> {
    let clock = Arc::new(AtomicU64::new(100 * HOUR));
    let engine = open_at(dir, &clock).await;
    clock.store(5, Ordering::SeqCst);
    engine
}

#[tokio::test]
async fn an_idle_file_of_version_1_gives_way_and_numbers_go_on_above() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (open_with_slow_clock(dir.path()).await, open(dir.path()).await);
    let long = [slot(FREE, LAST - 2, DEAD); 90];
    let cases = [
        ("head", former("head", LAST, &[])),
        ("slot", former("slot", 3, &[slot(FREE, LAST, DEAD), slot(FREE, LAST - 1, DEAD)])),
        ("dead", former("dead", 3, &[slot(GRAVE, LAST - 1, DEAD), slot(LIVE, LAST, DEAD)])),
        ("long", former("long", LAST, &long)),
    ];
    for (key, bytes) in cases {
        // Others' numbers are as they were, so that what is seen is the key's own.
        let state = control::State { floor: 0, ..control_state(dir.path()) };
        std::fs::write(dir.path().join("locks/engine"), state.encode()).unwrap();
        put(dir.path(), key, &bytes);
        let filter = Filter::Key(Key::new(key).unwrap());
        assert!(a.line(&filter).await.unwrap().is_empty(), "{key}");
        assert_eq!(read(dir.path(), key), bytes, "looking changes nothing");
        let first = exclusive(key);
        assert_eq!(granted(&a, &first).await.seq.get(), LAST + 1, "{key}");
        assert_eq!(read(dir.path(), key)[8], 2);
        let _ = waits(&b, &exclusive(key)).await;
        assert_eq!(a.line(&filter).await.unwrap().len(), 2);
    }
    for key in ["released", "evicted"] {
        put(dir.path(), key, &former(key, LAST, &[]));
    }
    assert_eq!(release(&a, &exclusive("released")).await, Released::NotHeld);
    let key = Key::new("evicted").unwrap();
    let order = Eviction { key, id: ClaimId::fresh(), seq: Seq::ZERO, when: When::Now };
    assert_eq!(a.evict(&order).await.unwrap(), Evicted::Gone);
}

#[tokio::test]
async fn a_file_of_version_1_that_is_in_use_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, former_user) = (open(dir.path()).await, open(dir.path()).await);
    let control = control_state(dir.path());
    for (key, state) in [("holds", LIVE), ("stopped", 2), ("buried", GRAVE)] {
        let bytes = former(key, 3, &[slot(LIVE, 7, DEAD), slot(state, 9, former_user.presence.nonce)]);
        put(dir.path(), key, &bytes);
        let mut claim = exclusive(key);
        let renewed = Held { claim: &exclusive(key), seq: Seq::new(9).unwrap() };
        let errors = [
            engine.attempt(&claim).await.map(drop),
            engine.release(&claim, Answered::All).await.map(drop),
            engine.renew(&[renewed]).await.map(drop),
        ];
        claim.patience = Patience::Try;
        for err in errors.into_iter().chain([engine.attempt(&claim).await.map(drop)]) {
            let err = err.unwrap_err();
            assert_eq!((err.kind(), err.may_have_applied()), (ErrorKind::Unavailable, false), "{key}: {err}");
            let says = "was written by an older tenure and is in use by pid 812; let all who use it end";
            assert!(err.to_string().contains(says), "{err}");
        }
        assert_eq!(sweep_all(&engine), 0);
        assert_eq!(read(dir.path(), key), bytes, "{key}");
        assert_eq!(control_state(dir.path()), control);
    }
    let shown = engine.line(&Filter::Prefix(String::new(), 9)).await.unwrap();
    let shown: Vec<_> = shown.iter().map(|place| (place.key.as_str(), place.note.who())).collect();
    assert_eq!(shown, [("holds", "bob@host pid 812"), ("stopped", "bob@host pid 812")]);
    drop(former_user);
    for key in ["holds", "stopped", "buried"] {
        assert!(granted(&engine, &exclusive(key)).await.seq.get() > 9, "{key}");
    }
}

#[tokio::test]
async fn a_damaged_file_of_version_1_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let control = control_state(dir.path());
    let damage = |at: usize, to: u8| {
        let mut bytes = former("k", 3, &[slot(LIVE, 7, DEAD)]);
        bytes[at] = to;
        bytes
    };
    let cases = [
        (damage(SLOTS, 4), "an impossible state in slot 0"),
        (damage(SLOTS, 0x21), "an impossible state in slot 0"),
        (damage(SLOTS + 1, 0), "an impossible mode in slot 0"),
        (damage(SLOTS + 1, 0x11), "an impossible mode in slot 0"),
        (damage(SLOTS + 50, 9), "a wrong checksum in slot 0"),
        (damage(STATUS + 15, 0xff), "a number out of range"),
        (former("k", control.ceiling, &[]), "a number that nobody was given"),
        (former("other", 3, &[]), "the line of the key `other`"),
    ];
    for (bytes, says) in cases {
        put(dir.path(), "k", &bytes);
        let err = engine.attempt(&exclusive("k")).await.unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Broken, "{err}");
        assert!(err.to_string().contains(says), "{err}");
        assert_eq!(read(dir.path(), "k"), bytes, "{says}");
        assert_eq!(control_state(dir.path()), control);
    }
}

#[tokio::test]
async fn a_file_of_version_1_is_swept_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    put(dir.path(), "k", &former("k", 3, &[slot(LIVE, 9, DEAD)]));
    assert_eq!(sweep_all(&engine), 1);
    assert!(!line_file(dir.path(), "k").exists());
    assert_eq!(control_state(dir.path()).floor, 9);
}

#[tokio::test]
async fn a_kill_at_any_step_of_giving_way_blocks_nobody_and_forgets_no_number() {
    let dir = tempfile::tempdir().unwrap();
    drop(open_with_slow_clock(dir.path()).await);
    let control = control_state(dir.path());
    let whole = former("k", LAST, &[]);
    let mut marked = whole.clone();
    marked[STATUS] = 1;
    let folded = control::State { floor: LAST, ..control };
    // In the order of the steps: the floor is raised, the file marked, its name removed, and a new file made and given room.
    let steps = [
        (control, Some(whole.clone())),
        (folded, Some(whole)),
        (folded, Some(marked)),
        (folded, None),
        (folded, Some(Vec::new())),
        (folded, Some(vec![0; PAGE])),
    ];
    for (nth, (control, file)) in steps.into_iter().enumerate() {
        std::fs::write(dir.path().join("locks/engine"), control.encode()).unwrap();
        match file {
            Some(bytes) => put(dir.path(), "k", &bytes),
            None => std::fs::remove_file(line_file(dir.path(), "k")).unwrap(),
        }
        let (a, b) = (open_with_slow_clock(dir.path()).await, open_with_slow_clock(dir.path()).await);
        let first = exclusive("k");
        assert_eq!(granted(&a, &first).await.seq.get(), LAST + 1, "killed after step {nth}");
        let _ = waits(&b, &exclusive("k")).await;
    }
}

#[tokio::test]
async fn a_file_of_version_1_is_marked_only_when_its_number_is_in_the_floor() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let bytes = former("k", 3, &[]);
    put(dir.path(), "k", &bytes);
    let control = File::open(dir.path().join("locks/engine")).unwrap();
    control.lock().unwrap();
    let short = Claim { ttl: Ttl::new(Ttl::MIN).unwrap(), ..exclusive("k") };
    let err = engine.attempt(&short).await.unwrap_err();
    assert!(err.to_string().contains("locks/engine could not be locked"), "{err}");
    assert_eq!(read(dir.path(), "k"), bytes);
    control.unlock().unwrap();
    let _ = granted(&engine, &exclusive("k")).await;
}

/// What a program of version 1 does, as far as it matters to others: it keeps the file open, and once it has checked the
/// version of a file it does not look at it again.
struct FormerProgram {
    path: PathBuf,
    nonce: Nonce,
    open: Option<(File, bool)>,
}

impl FormerProgram {
    /// Takes the key if it is free and says in which slot; `Err` if the file is of a version that it does not know.
    fn attempt(&mut self, seq: impl Fn(u64) -> u64) -> Result<Option<u64>, ()> {
        loop {
            let (file, checked) = self.open.get_or_insert_with(|| {
                let mut options = std::fs::OpenOptions::new();
                (options.read(true).write(true).create(true).truncate(false).open(&self.path).unwrap(), false)
            });
            file.lock().unwrap();
            let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            let is_empty = bytes.iter().all(|&byte| byte == 0);
            let has_name = file.metadata().unwrap().nlink() > 0;
            if !has_name || !is_empty && bytes[STATUS] != 0 && (*checked || bytes[8] == 1) {
                if has_name {
                    std::fs::remove_file(&self.path).unwrap();
                }
                self.open = None;
                continue;
            }
            if !*checked && !is_empty && bytes[8] != 1 {
                file.unlock().unwrap();
                return Err(());
            }
            if is_empty {
                let root = self.path.ancestors().nth(3).unwrap();
                let control = File::open(root.join("locks/engine")).unwrap();
                control.lock().unwrap();
                let floor = control_state(root).floor;
                let name = self.path.file_name().unwrap().to_str().unwrap();
                bytes = former(name, floor, &[]);
                file.write_all_at(&bytes, 0).unwrap();
            }
            *checked = true;
            let slots = bytes[SLOTS..].chunks_exact(SLOT);
            let last = slots.clone().map(|slot| u64_at(slot, 8)).fold(u64_at(&bytes, STATUS + 8), u64::max);
            let took = slots.clone().all(|slot| slot[0] == FREE).then(|| seq(last));
            if let Some(seq) = took {
                file.write_all_at(&slot(LIVE, seq, self.nonce), SLOTS as u64).unwrap();
            }
            file.unlock().unwrap();
            return Ok(took);
        }
    }

    fn release(&self) {
        let (file, _) = self.open.as_ref().unwrap();
        file.lock().unwrap();
        file.write_all_at(&[FREE], SLOTS as u64).unwrap();
        file.unlock().unwrap();
    }
}

#[tokio::test]
async fn whoever_has_a_file_of_version_1_open_when_it_gives_way_finds_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, former_user) = (open(dir.path()).await, open(dir.path()).await, open(dir.path()).await);
    let (path, nonce) = (line_file(dir.path(), "k"), former_user.presence.nonce);
    let mut program = FormerProgram { path, nonce, open: None };
    assert_eq!(program.attempt(|last| last + 1), Ok(Some(1)));
    for engine in [&a, &b] {
        assert_eq!(engine.attempt(&exclusive("k")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    program.release();
    let (first, second) = (exclusive("k"), exclusive("k"));
    let _ = granted(&a, &first).await;
    let _ = waits(&b, &second).await;
    assert_eq!(program.attempt(|last| last + 1), Err(()), "it knows the old file, and may not believe it");
    assert_eq!(release(&a, &first).await, Released::Freed);
    assert!(matches!(soon(b.turn(&second)).await, Turn::Holds(_)));
}

/// One key, and who is believed to hold it.
#[derive(Default)]
struct Watched {
    inside: AtomicU32,
    last: AtomicU64,
    /// Whether a program of version 1 has tried to take it, and whether one of this version has taken it.
    is_tried: AtomicBool,
    is_taken_over: AtomicBool,
}

impl Watched {
    async fn hold(&self, seq: u64) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
        let last = self.last.swap(seq, Ordering::SeqCst);
        assert!(seq > last, "{seq} after {last}");
        tokio::task::yield_now().await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes it a few times as a program of version 1, and returns when others have taken it over.
    async fn use_as_former(&self, mut program: FormerProgram) -> usize {
        let mut took = 0;
        for _ in 0..6 {
            let attempt = program.attempt(|last| last + 1);
            self.is_tried.store(true, Ordering::SeqCst);
            match attempt {
                Ok(Some(seq)) => {
                    took += 1;
                    self.hold(seq).await;
                    program.release();
                }
                Ok(None) => {}
                Err(()) => break,
            }
            tokio::task::yield_now().await;
        }
        wait_for(&self.is_taken_over).await;
        took
    }

    /// Takes it twice, once a program of version 1 has tried.
    async fn take_over(&self, engine: &FileEngine, key: &str) {
        wait_for(&self.is_tried).await;
        let mut held = 0;
        while held < 2 {
            let claim = claim(key, Mode::Exclusive, Patience::Try);
            match engine.attempt(&claim).await {
                Ok(Attempt::Granted(grant)) => {
                    self.is_taken_over.store(true, Ordering::SeqCst);
                    self.hold(grant.seat.seq.get()).await;
                    assert_eq!(release(engine, &claim).await, Released::Freed);
                    held += 1;
                }
                Ok(Attempt::Busy(_)) => {}
                Err(err) => assert!(err.to_string().contains("older tenure and is in use"), "{err}"),
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn programs_of_both_versions_at_once_never_make_two_holders() {
    const KEYS: usize = 300;
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicU64::new(100 * HOUR));
    let [a, b, former_user] =
        [open_at(dir.path(), &clock).await, open_at(dir.path(), &clock).await, open(dir.path()).await];
    clock.store(5, Ordering::SeqCst);
    let keys: Arc<Vec<_>> = Arc::new((0..KEYS).map(|nth| (nth.to_string(), Watched::default())).collect());
    for (key, _) in keys.iter() {
        put(dir.path(), key, &former(key, LAST, &[]));
    }
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (keys, root, nonce) = (keys.clone(), dir.path().to_owned(), former_user.presence.nonce);
        old.push(tokio::spawn(async move {
            let mut took = 0;
            for (key, watched) in keys.iter() {
                let program = FormerProgram { path: line_file(&root, key), nonce, open: None };
                took += watched.use_as_former(program).await;
            }
            took
        }));
    }
    for engine in [a, b] {
        let keys = keys.clone();
        new.push(tokio::spawn(async move {
            for (key, watched) in keys.iter() {
                watched.take_over(&engine, key).await;
            }
        }));
    }
    for task in new {
        soon(task).await.unwrap();
    }
    let mut took = 0;
    for task in old {
        took += soon(task).await.unwrap();
    }
    assert!(took >= KEYS, "whoever tries first finds the key free");
}
