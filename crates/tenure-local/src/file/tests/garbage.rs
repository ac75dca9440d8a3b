//! Line files that nobody wrote: whatever stands in them is refused, and nothing else comes of it.

use super::{
    bytes::{Bytes, see},
    line::{Head, Line, PAGE},
    record::{Entry, Record, State},
    ring::{Ring, STATUS},
    *,
};

/// A file with so many places.
fn file_of(places: u64) -> Vec<u8> {
    let disk = Bytes::default();
    let mut line = Line::default();
    line.begin(&disk, &Key::new("k").unwrap(), Seq::ZERO).unwrap();
    for nth in 1..=places {
        join(&mut line, &disk, nth, ClaimId::fresh()).unwrap();
    }
    disk.bytes.into_inner()
}

fn join(line: &mut Line, disk: &Bytes, seq: u64, id: ClaimId) -> std::io::Result<()> {
    let mode = Mode::Permits(Permits::new(1, 3).unwrap());
    let claim = Claim { id, ..claim("k", mode, Patience::Queue) };
    let (state, seq) = (State::Live, Seq::new(seq).unwrap());
    line.append(disk, &claim, &Record { state, mode, seq, id, nonce: [1; 16], pid: 1, taken: 1 })
}

/// Does to a file what verbs do, as far as it lets them.
fn use_it(disk: &Bytes) -> std::io::Result<()> {
    let mut line = Line::default();
    if line.read(disk, &Key::new("k").unwrap())? != Head::Live {
        return Ok(());
    }
    let _ = see(disk);
    let _ = line.find(disk, ClaimId::fresh());
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits(Permits::new(1, 9).unwrap())] {
        let _ = line.blockers(disk, line.end(), mode);
    }
    if let Some(at) = (0..line.end()).find(|&at| line.is_in_line(at)) {
        let _ = (line.ahead(at), line.remove(disk, at), line.new_holders(disk));
    }
    let _ = line.trim(disk);
    let seq = line.last.get() % 1000 + 1;
    join(&mut line, disk, seq, ClaimId::fresh())
}

#[test]
fn garbage_is_refused_and_nothing_else_comes_of_it() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut random = move |below: u64| rng.u64(..below);
    let files = [file_of(0), file_of(3), file_of(12), file_of(90)];
    for nth in 0..20_000 {
        let mut bytes = files[nth % files.len()].clone();
        let len = bytes.len() as u64;
        for _ in 0..random(6) {
            bytes[random(len) as usize] = random(256) as u8;
        }
        if random(2) == 0 {
            // One whose checksum is right.
            let odd = |random: &mut dyn FnMut(u64) -> u64, usual: u64| match random(4) {
                0 => random(1 << 32),
                1 => random(2 * Ring::MOST as u64),
                _ => random(usual),
            } as usize;
            let ring = Ring {
                region: random(4) * PAGE as u64 + random(40) / 39 * random(1 << 50),
                capacity: odd(&mut random, 300),
                first: odd(&mut random, 64),
                span: odd(&mut random, 64),
            };
            ring.encode(Seq::new(random(1 << 40)).unwrap(), &mut bytes[STATUS..]);
        }
        if random(4) == 0 {
            bytes.truncate(random(len) as usize);
        }
        if let Err(err) = use_it(&Bytes::new(bytes)) {
            assert!(!err.to_string().is_empty());
        }
    }
}

#[test]
fn a_ring_is_believed_no_further_than_the_file_and_the_limit_go() {
    let refused = |ring: Ring, size: usize, why: &str| {
        let mut bytes = file_of(0);
        ring.encode(Seq::ZERO, &mut bytes[STATUS..]);
        bytes.resize(size, 0);
        let err = see(&Bytes::new(bytes)).unwrap_err();
        assert!(err.to_string().contains(why), "{ring:?}: {err}");
    };
    let ring = Ring { region: PAGE as u64, capacity: 64, first: 0, span: 64 };
    let whole = ring.file_len() as usize;
    refused(ring, whole - 1, "less than its ring");
    refused(Ring { capacity: 4 * Ring::MOST, ..ring }, whole, "an impossible ring");
    refused(Ring { capacity: 0, span: 0, ..ring }, whole, "an impossible ring");
    refused(Ring { first: 64, ..ring }, whole, "an impossible ring");
    refused(Ring { span: 65, ..ring }, whole, "an impossible ring");
    refused(Ring { region: 100, ..ring }, whole, "an impossible ring");
    refused(Ring { region: 0, ..ring }, whole, "an impossible ring");
    assert!(ring.moved(Ring::MOST / 2).is_some());
    assert_eq!(ring.moved(Ring::MOST / 2 + 1), None);
}

/// Two claims whose entries in the map are the same.
fn alike() -> (ClaimId, ClaimId) {
    let mut known = std::collections::HashMap::new();
    for nth in 1_u128.. {
        // As of many processes: the ids of one differ in their entries for a long time.
        let id =
            ClaimId::from_bytes(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes());
        let entry = Entry::of(State::Live, Mode::Exclusive, id).to_bytes();
        if let Some(other) = known.insert(entry, id) {
            return (other, id);
        }
    }
    unreachable!("there are more ids than entries")
}

#[tokio::test]
async fn claims_that_look_alike_in_the_map_are_not_taken_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let (a, b) = alike();
    let (first, second) = (Claim { id: a, ..exclusive("k") }, Claim { id: b, ..exclusive("k") });
    let held = granted(&engine, &first).await;
    assert_eq!(release(&engine, &second).await, Released::NotHeld, "it is another's place");
    let seat = waits(&engine, &second).await.seat.unwrap();
    assert!(seat.seq > held.seq, "a place of its own");
    assert_eq!(waits(&engine, &second).await.seat, Some(seat));
    assert_eq!(granted(&engine, &first).await, held);
    assert_eq!(release(&engine, &first).await, Released::Freed);
    assert_eq!(granted(&engine, &second).await, seat);
    assert_eq!(release(&engine, &first).await, Released::NotHeld);
    assert_eq!(release(&engine, &second).await, Released::Freed);
}
