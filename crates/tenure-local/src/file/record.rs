//! One slot of a line file as bytes: a place, or the memory of one.

use tenure_core::{Claim, ClaimId, Mode, Note, Permits, Seq};

/// The size of a slot. It divides a page, so a slot never crosses one and is written whole or not at all.
pub(super) const SLOT: usize = 512;

const STATE: usize = 0;
const MODE: usize = 1;
const WHO_LEN: usize = 2;
const LABEL_LEN: usize = 4;
const SEQ: usize = 8;
const TAKE: usize = 16;
const OF: usize = 20;
const PID: usize = 24;
const ID: usize = 32;
const NONCE: usize = 48;
const TAKEN: usize = 64;
/// A checksum over everything between the mode and itself. State and mode are outside, because they change in
/// place; they have few values, each checked when read.
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
    /// Which slot of the file.
    pub(super) slot: usize,
    pub(super) state: State,
    pub(super) mode: Mode,
    pub(super) seq: Seq,
    pub(super) id: ClaimId,
    pub(super) nonce: Nonce,
    pub(super) pid: u32,
    /// When the place was taken, in nanoseconds of the machine's uptime.
    pub(super) taken: u64,
    /// Whether it held when the line was read, or was told since.
    pub(super) held: bool,
}

impl Record {
    /// The number that a slot remembers, and the place in it if there is one.
    ///
    /// `Err` says what is wrong with the bytes.
    pub(super) fn decode(slot: usize, bytes: &[u8]) -> Result<(Seq, Option<Self>), &'static str> {
        let seq = Seq::new(u64_at(bytes, SEQ)).ok_or("a number out of range")?;
        let state = match bytes[STATE] {
            0 => return Ok((seq, None)),
            1 => State::Live,
            2 => State::Stopped,
            3 => State::Grave,
            _ => return Err("an impossible state"),
        };
        if u64_at(bytes, CHECK) != checksum(bytes) {
            return Err("a wrong checksum");
        }
        let mode = match bytes[MODE] {
            1 => Mode::Exclusive,
            2 => Mode::Shared,
            3 => Permits::new(u32_at(bytes, TAKE), u32_at(bytes, OF))
                .map(Mode::Permits)
                .map_err(|_| "impossible permits")?,
            _ => return Err("an impossible mode"),
        };
        Ok((
            seq,
            Some(Self {
                slot,
                state,
                mode,
                seq,
                id: ClaimId::from_bytes(array(bytes, ID)),
                nonce: array(bytes, NONCE),
                pid: u32_at(bytes, PID),
                taken: u64_at(bytes, TAKEN),
                held: false,
            }),
        ))
    }

    /// The bytes of this place with the claim's note, and how many of them say something.
    pub(super) fn encode(&self, claim: &Claim) -> ([u8; SLOT], usize) {
        let mut bytes = [0; SLOT];
        bytes[STATE] = state_byte(self.state);
        bytes[MODE] = mode_byte(self.mode);
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

/// The byte at the start of a slot that says so; 0 frees it.
pub(super) const fn state_byte(state: State) -> u8 {
    match state {
        State::Live => 1,
        State::Stopped => 2,
        State::Grave => 3,
    }
}

/// Where in a slot the mode stands.
pub(super) const MODE_AT: u64 = MODE as u64;

pub(super) const fn mode_byte(mode: Mode) -> u8 {
    match mode {
        Mode::Exclusive => 1,
        Mode::Shared => 2,
        Mode::Permits(_) => 3,
    }
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
    let first = u64_at(bytes, 0) & !0xffff; // without state and mode
    mix(std::iter::once(first).chain((SEQ..CHECK).step_by(8).map(|at| u64_at(bytes, at))))
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
        (Record { slot: 3, state, mode, seq, id, nonce, pid: 812, taken: 5, held: false }, claim)
    }

    #[test]
    fn a_place_survives_its_bytes_and_damage_is_noticed() {
        let long = Note::new(&"w".repeat(500), &"l".repeat(500));
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits(Permits::new(2, 3).unwrap())] {
            let (record, claim) = sample(mode, long.clone());
            let (bytes, used) = record.encode(&claim);
            assert!(used <= SLOT);
            let (seq, back) = Record::decode(3, &bytes).unwrap();
            let back = back.unwrap();
            assert_eq!((seq, back.mode, back.id, back.nonce), (record.seq, mode, record.id, record.nonce));
            for at in (0..CHECK + 8).filter(|&at| at != STATE && at != MODE) {
                let mut damaged = bytes;
                damaged[at] ^= 0x40;
                assert!(Record::decode(3, &damaged).is_err(), "byte {at}");
            }
            for (at, value) in [(STATE, 4), (MODE, 0), (MODE, 9)] {
                let mut damaged = bytes;
                damaged[at] = value;
                assert!(Record::decode(3, &damaged).is_err(), "byte {at}");
            }
            let mut freed = bytes;
            freed[STATE] = 0;
            assert_eq!(Record::decode(3, &freed).unwrap().0, record.seq);
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
