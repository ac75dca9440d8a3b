//! One place of a line file as bytes: its slot, and its entry in the map.

use tenure_core::{Claim, ClaimId, Mode, Note, Permits, Seq};

/// The size of a slot. It divides a page, so a slot never crosses one and is written whole or not at all.
pub(super) const SLOT: usize = 512;

const WHO_LEN: usize = 2;
const LABEL_LEN: usize = 4;
pub(super) const SEQ: usize = 8;
const TAKE: usize = 16;
const OF: usize = 20;
const PID: usize = 24;
pub(super) const ID: usize = 32;
const NONCE: usize = 48;
const TAKEN: usize = 64;
/// A checksum over everything before it.
const CHECK: usize = 72;
const WHO: usize = 80;
const LABEL: usize = WHO + Note::MAX_WHO;

/// The random name of one open engine: of its presence in `proc/`.
pub(super) type Nonce = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In the line.
    Live,
    /// In the line and blocking as before, but its owner was told to go.
    Stopped,
    /// Not in the line: refuses its claim's id until the owner releases it or dies.
    Grave,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) state: State,
    pub(super) mode: Mode,
    pub(super) seq: Seq,
    pub(super) id: ClaimId,
    pub(super) nonce: Nonce,
    pub(super) pid: u32,
    /// When the place was taken, in nanoseconds of the machine's uptime.
    pub(super) taken: u64,
}

impl Record {
    /// The place in a slot with this entry. `Err` says what is wrong with the bytes.
    pub(super) fn decode(entry: Entry, bytes: &[u8]) -> Result<Self, &'static str> {
        let state = entry.state().ok_or("nobody")?;
        if u64_at(bytes, CHECK) != checksum(bytes) {
            return Err("a wrong checksum");
        }
        let id = ClaimId::from_bytes(array(bytes, ID));
        let mode = match entry.simple_mode() {
            Some(mode) => mode,
            None => Permits::new(u32_at(bytes, TAKE), u32_at(bytes, OF))
                .map(Mode::Permits)
                .map_err(|_| "impossible permits")?,
        };
        if entry != Entry::of(state, mode, id) {
            return Err("another claim than its entry");
        }
        Ok(Self {
            state,
            mode,
            seq: Seq::new(u64_at(bytes, SEQ)).ok_or("a number out of range")?,
            id,
            nonce: array(bytes, NONCE),
            pid: u32_at(bytes, PID),
            taken: u64_at(bytes, TAKEN),
        })
    }

    /// The bytes of this place with the claim's note, and how many of them say something.
    pub(super) fn encode(&self, claim: &Claim) -> ([u8; SLOT], usize) {
        let mut bytes = [0; SLOT];
        let (who, label) = (claim.note.who().as_bytes(), claim.note.label().as_bytes());
        bytes[WHO_LEN..][..2].copy_from_slice(&(who.len() as u16).to_le_bytes());
        bytes[LABEL_LEN..][..2].copy_from_slice(&(label.len() as u16).to_le_bytes());
        bytes[SEQ..][..8].copy_from_slice(&self.seq.get().to_le_bytes());
        if let Mode::Permits(permits) = self.mode {
            bytes[TAKE..][..4].copy_from_slice(&permits.take().to_le_bytes());
            bytes[OF..][..4].copy_from_slice(&permits.of().to_le_bytes());
        }
        bytes[PID..][..4].copy_from_slice(&self.pid.to_le_bytes());
        bytes[ID..][..16].copy_from_slice(&self.id.to_bytes());
        bytes[NONCE..][..16].copy_from_slice(&self.nonce);
        bytes[TAKEN..][..8].copy_from_slice(&self.taken.to_le_bytes());
        bytes[WHO..][..who.len()].copy_from_slice(who);
        bytes[LABEL..][..label.len()].copy_from_slice(label);
        let check = checksum(&bytes);
        bytes[CHECK..][..8].copy_from_slice(&check.to_le_bytes());
        let end = if label.is_empty() { WHO + who.len() } else { LABEL + label.len() };
        (bytes, end)
    }
}

/// What the map says of a slot, in four bytes: state, mode, and enough of the claim's id to find its place without
/// reading many slots. All zero is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

const STATE: u32 = 0xf;
const MODE: u32 = 0xf0;
const PART: u32 = !(STATE | MODE);
/// So many entries are compared at once.
const AT_ONCE: usize = 32;

impl Entry {
    pub(super) const SIZE: usize = 4;
    pub(super) const FREE: Self = Self(0);

    pub(super) fn of(state: State, mode: Mode, id: ClaimId) -> Self {
        Self(part(id)).with_state(state).with_mode(mode)
    }

    /// The entry of a place whose state and mode stand beside each other as they do here.
    pub(super) fn of_codes(state: u8, mode: u8, id: ClaimId) -> Result<Self, &'static str> {
        let codes = Self(u32::from(state.min(15)) | u32::from(mode.min(15)) << 4);
        if codes.is_impossible() { Err(codes.what_is_wrong()) } else { Ok(Self(codes.0 | part(id))) }
    }

    pub(super) const fn with_state(self, state: State) -> Self {
        let state = match state {
            State::Live => 1,
            State::Stopped => 2,
            State::Grave => 3,
        };
        Self(self.0 & !STATE | state)
    }

    pub(super) const fn with_mode(self, mode: Mode) -> Self {
        let mode = match mode {
            Mode::Exclusive => 0x10,
            Mode::Shared => 0x20,
            Mode::Permits(_) => 0x30,
        };
        Self(self.0 & !MODE | mode)
    }

    pub(super) const fn to_bytes(self) -> [u8; Self::SIZE] {
        self.0.to_le_bytes()
    }

    /// One entry of a map.
    pub(super) fn read(map: &[u8], nth: usize) -> Self {
        Self(u32_at(map, nth * Self::SIZE))
    }

    pub(super) const fn state(self) -> Option<State> {
        match self.0 & STATE {
            1 => Some(State::Live),
            2 => Some(State::Stopped),
            3 => Some(State::Grave),
            _ => None,
        }
    }

    /// The mode, if it is not one of permits, of which the slot says more.
    pub(super) const fn simple_mode(self) -> Option<Mode> {
        match self.0 & MODE {
            0x10 => Some(Mode::Exclusive),
            0x20 => Some(Mode::Shared),
            _ => None,
        }
    }

    /// Whether it stands in the line: live or stopped.
    pub(super) const fn is_in_line(self) -> bool {
        (self.0 & STATE).wrapping_sub(1) < 2
    }

    const fn is_impossible(self) -> bool {
        let possible = (self.0 & STATE).wrapping_sub(1) < 3 && (self.0 & MODE).wrapping_sub(0x10) <= 0x20;
        self.0 != 0 && !possible
    }

    /// What is wrong with an impossible entry.
    pub(super) const fn what_is_wrong(self) -> &'static str {
        if (self.0 & STATE).wrapping_sub(1) < 3 { "an impossible mode" } else { "an impossible state" }
    }

    /// The first entry of a map that nobody writes.
    pub(super) fn find_impossible(map: &[u8]) -> Option<usize> {
        find(map, Self::is_impossible)
    }

    /// The first entry of a map that may be of this claim.
    pub(super) fn find_candidate(map: &[u8], id: ClaimId) -> Option<usize> {
        let part = part(id);
        find(map, |entry| entry.0 & PART == part && entry.0 & STATE != 0)
    }

    /// The last place of a map beside which one of this mode, exclusive or shared, cannot hold.
    pub(super) fn rfind_other(map: &[u8], mode: Mode) -> Option<usize> {
        let shared = mode == Mode::Shared;
        rfind(map, |entry| entry.is_in_line() & !(shared & entry.is_shared()))
    }

    /// The first place of a map, and the first that is not for readers.
    pub(super) fn find_first(map: &[u8]) -> Option<usize> {
        find(map, Self::is_in_line)
    }

    pub(super) fn find_unshared(map: &[u8]) -> Option<usize> {
        find(map, |entry| entry.is_in_line() & !entry.is_shared())
    }

    const fn is_shared(self) -> bool {
        self.0 & MODE == 0x20
    }

    /// How many entries of a map are free before the first that is not.
    pub(super) fn free_ahead(map: &[u8]) -> usize {
        find(map, |entry| entry.0 != 0).unwrap_or(map.len() / Self::SIZE)
    }

    /// How many entries of a map stand in the line.
    pub(super) fn count_in_line(map: &[u8]) -> usize {
        entries(map).map(|entry| u32::from(entry.is_in_line())).sum::<u32>() as usize
    }

    /// How many entries of a map are not free.
    pub(super) fn count_used(map: &[u8]) -> usize {
        entries(map).map(|entry| u32::from(entry.0 != 0)).sum::<u32>() as usize
    }
}

fn entries(map: &[u8]) -> impl Iterator<Item = Entry> {
    map.chunks_exact(Entry::SIZE).map(|bytes| Entry(u32_at(bytes, 0)))
}

/// The first entry that is so. Many are looked at without a branch for each, which a processor does at once.
fn find(map: &[u8], is: impl Fn(Entry) -> bool) -> Option<usize> {
    let mut chunks = map.chunks(AT_ONCE * Entry::SIZE).enumerate();
    let (nth, chunk) = chunks.find(|(_, chunk)| entries(chunk).fold(false, |any, entry| any | is(entry)))?;
    entries(chunk).position(is).map(|at| nth * AT_ONCE + at)
}

/// The last entry that is so.
fn rfind(map: &[u8], is: impl Fn(Entry) -> bool) -> Option<usize> {
    let mut chunks = map.chunks(AT_ONCE * Entry::SIZE).enumerate().rev();
    let (nth, chunk) = chunks.find(|(_, chunk)| entries(chunk).fold(false, |any, entry| any | is(entry)))?;
    let all = entries(chunk).enumerate().filter(|&(_, entry)| is(entry));
    all.last().map(|(at, _)| nth * AT_ONCE + at)
}

/// The part of an id that stands in its entry.
fn part(id: ClaimId) -> u32 {
    let bytes = id.to_bytes();
    (mix([u64_at(&bytes, 0), u64_at(&bytes, 8)].into_iter()) >> 32) as u32 & PART
}

/// Who stands at the place in these bytes. The process is named even if its owner did not; one that did is
/// believed, because inside a container it goes by another number.
pub(super) fn note(bytes: &[u8], pid: u32) -> Note {
    let text = |len: usize, at: usize, max: usize| {
        let len = usize::from(u16::from_le_bytes(array(bytes, len))).min(max);
        String::from_utf8_lossy(&bytes[at..at + len])
    };
    let who = text(WHO_LEN, WHO, Note::MAX_WHO);
    let label = text(LABEL_LEN, LABEL, Note::MAX_LABEL);
    let named = |(_, pid): (&str, &str)| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit());
    if who.rsplit_once(':').is_some_and(named) {
        Note::new(&who, &label)
    } else if who.is_empty() {
        Note::new(&format!("pid {pid}"), &label)
    } else {
        let pid = format!(" pid {pid}");
        let room = who.floor_char_boundary(Note::MAX_WHO - pid.len());
        Note::new(&(who[..room].to_owned() + &pid), &label)
    }
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Tells damage from data; nobody has to be kept from forging it in a directory of our own.
pub(super) fn mix(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
        let sum = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^ (sum >> 32)
    })
}

fn checksum(bytes: &[u8]) -> u64 {
    mix((0..CHECK).step_by(8).map(|at| u64_at(bytes, at)))
}

#[cfg(test)]
mod tests {
    use tenure_core::{Key, Patience, Ttl};

    use super::*;

    fn sample(mode: Mode, note: Note) -> (Record, Claim) {
        let claim = Claim {
            key: Key::new("k").unwrap(),
            id: ClaimId::fresh(),
            mode,
            patience: Patience::Queue,
            ttl: Ttl::default(),
            floor: Seq::ZERO,
            note,
        };
        let seq = Seq::new(7).unwrap();
        let (state, id, nonce) = (State::Live, claim.id, [9; 16]);
        (Record { state, mode, seq, id, nonce, pid: 812, taken: 5 }, claim)
    }

    #[test]
    fn a_place_survives_its_bytes_and_damage_is_noticed() {
        let long = Note::new(&"w".repeat(500), &"l".repeat(500));
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits(Permits::new(2, 3).unwrap())] {
            let (record, claim) = sample(mode, long.clone());
            let (bytes, used) = record.encode(&claim);
            assert!(used <= SLOT);
            let entry = Entry::of(record.state, mode, record.id);
            let back = Record::decode(entry, &bytes).unwrap();
            assert_eq!(
                (back.seq, back.mode, back.id, back.nonce),
                (record.seq, mode, record.id, record.nonce)
            );
            for at in 0..CHECK + 8 {
                let mut damaged = bytes;
                damaged[at] ^= 0x40;
                assert!(Record::decode(entry, &damaged).is_err(), "byte {at}");
            }
            let other = Entry::of(record.state, mode, ClaimId::fresh());
            assert!(Record::decode(other, &bytes).is_err(), "the entry of another claim");
        }
    }

    #[test]
    fn a_map_of_any_length_is_searched_as_a_whole() {
        let claims: Vec<_> = (0..100).map(|_| ClaimId::fresh()).collect();
        let states = [None, Some(State::Live), Some(State::Stopped), Some(State::Grave)];
        for len in 0..claims.len() {
            let entry = |at: usize| {
                states[at % 4].map_or(Entry::FREE, |state| Entry::of(state, Mode::Exclusive, claims[at]))
            };
            let mut map: Vec<u8> = (0..len).flat_map(|at| entry(at).to_bytes()).collect();
            for (at, &id) in claims[..len].iter().enumerate() {
                assert_eq!(Entry::find_candidate(&map, id), states[at % 4].map(|_| at));
            }
            assert_eq!(Entry::count_in_line(&map), (0..len).filter(|at| matches!(at % 4, 1 | 2)).count());
            assert_eq!(Entry::count_used(&map), (0..len).filter(|at| at % 4 != 0).count());
            assert_eq!(Entry::free_ahead(&map), len.min(1));
            let last = (0..len).rfind(|at| matches!(at % 4, 1 | 2));
            assert_eq!(Entry::rfind_other(&map, Mode::Shared), last);
            assert_eq!(Entry::find_unshared(&map), (len > 1).then_some(1));
            assert_eq!(Entry::find_impossible(&map), None);
            for impossible in [0x04, 0x14, 0x01, 0x41, 0x10] {
                let Some(at) = len.checked_sub(1) else { continue };
                map[at * Entry::SIZE] = impossible;
                assert_eq!(Entry::find_impossible(&map), Some(at), "{impossible:#x}");
            }
        }
    }

    #[test]
    fn the_process_is_named_even_if_its_owner_did_not() {
        let named = |who: &str| {
            let (record, claim) = sample(Mode::Shared, Note::new(who, "nightly"));
            note(&record.encode(&claim).0, record.pid)
        };
        assert_eq!(named("ann@host:812").who(), "ann@host:812");
        assert_eq!(named("ann@host:1").who(), "ann@host:1");
        assert_eq!(named("ann@host:").who(), "ann@host: pid 812");
        assert_eq!(named("").who(), "pid 812");
        assert!(named(&"w".repeat(128)).who().ends_with(" pid 812"));
        assert_eq!(named("").label(), "nightly");
    }
}
