//! One line file: a head that names the key, and slots.
//!
//! Every change is one write inside one page, so a process that is killed between two of them leaves a whole
//! line. The last number of the key is the largest that any slot remembers, freed ones included.

use std::{fs::File, io, os::unix::fs::FileExt};

use rustix::{
    fs::FallocateFlags,
    io::{Errno, retry_on_intr},
};
use tenure_core::{Claim, ClaimId, Key, Mode, Seq, line};

use super::record::{self, MODE_AT, Record, SLOT, State, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"tenure\0L";
const VERSION: u32 = 1;
const KEY_LEN: usize = 12;
const KEY: usize = 16;
/// What changes of the head: whether the file is retired, and a number that it remembers besides the slots'.
const STATUS: usize = 1536;
const RETIRED: usize = 0;
const LAST: usize = 8;
/// Where the slots begin.
const HEAD: usize = 2048;
const PAGE: u64 = 4096;
/// Above so many slots, a file that needs few of them is cut.
const ROOMY: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Live,
    /// Made, but nobody has written to it yet.
    Empty,
    /// Unlinked: whoever has it open must open the key's new file.
    Retired,
}

/// The line as it was read under the file's lock; it stays true while the lock is held.
///
/// The buffers live as long as the open file, so that a verb on a short line allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Whether the head was checked; the key of a file never changes.
    checked: bool,
    bytes: Vec<u8>,
    slots: usize,
    /// The first free slot, if there is one.
    free: Option<usize>,
    /// The last number of the key.
    pub(super) last: Seq,
    /// The places in order.
    pub(super) places: Vec<Record>,
    /// Evicted claims whose owner has not let go yet.
    pub(super) graves: Vec<Record>,
    pub(super) modes: Vec<Mode>,
}

impl Line {
    /// Reads the file. `InvalidData` says what is wrong with it.
    pub(super) fn read(&mut self, file: &File, key: &Key) -> io::Result<Head> {
        if !self.checked {
            if is_empty(file)? {
                return Ok(Head::Empty);
            }
            let found = key_of(file)?;
            if found != key.as_str() {
                return Err(invalid(format!("the line of the key `{}`", found.escape_debug())));
            }
            self.checked = true;
        }
        self.read_slots(file)
    }

    pub(super) fn read_slots(&mut self, file: &File) -> io::Result<Head> {
        let mut len = 0;
        loop {
            if self.bytes.len() < len + 8 * SLOT {
                self.bytes.resize((2 * self.bytes.len()).max(9 * SLOT), 0);
            }
            // Most files fit: one read that comes back short has seen the end.
            match file.read_at(&mut self.bytes[len..], (STATUS + len) as u64) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
                Err(err) => return Err(err),
            }
            if len < self.bytes.len() {
                break;
            }
        }
        if len < HEAD - STATUS {
            return Err(invalid("less than a head"));
        }
        let (status, slots) = self.bytes[..len].split_at(HEAD - STATUS);
        if status[RETIRED] != 0 {
            return Ok(Head::Retired);
        }
        self.slots = slots.len() / SLOT;
        self.places.clear();
        self.graves.clear();
        self.free = None;
        self.last = Seq::new(u64_at(status, LAST)).ok_or_else(|| invalid("a number out of range"))?;
        for (slot, bytes) in slots.chunks_exact(SLOT).enumerate() {
            let (seq, record) =
                Record::decode(slot, bytes).map_err(|what| invalid(format!("{what} in slot {slot}")))?;
            self.last = self.last.max(seq);
            match record {
                Some(record) if record.state == State::Grave => self.graves.push(record),
                Some(record) => self.places.push(record),
                None => self.free = self.free.or(Some(slot)),
            }
        }
        self.places.sort_unstable_by_key(|place| place.seq);
        let holders = line::holders(self.places.iter().map(|place| place.mode));
        self.places[..holders].iter_mut().for_each(|place| place.held = true);
        Ok(Head::Live)
    }

    /// Begins an empty file. Nothing is changed if there is no room for it.
    pub(super) fn begin(&mut self, file: &File, key: &Key, floor: Seq) -> io::Result<()> {
        allocate(file, 0, PAGE)?;
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&VERSION.to_le_bytes());
        head[KEY_LEN..][..4].copy_from_slice(&(key.as_str().len() as u32).to_le_bytes());
        head[KEY..][..key.as_str().len()].copy_from_slice(key.as_str().as_bytes());
        head[STATUS + LAST..][..8].copy_from_slice(&floor.get().to_le_bytes());
        file.write_all_at(&head, 0)?;
        self.read(file, key).map(drop)
    }

    pub(super) fn find(&self, id: ClaimId) -> Option<usize> {
        self.places.iter().position(|place| place.id == id)
    }

    pub(super) fn grave(&self, id: ClaimId) -> Option<usize> {
        self.graves.iter().position(|grave| grave.id == id)
    }

    /// Appends a place at the end of the line, in a free slot or a new one.
    pub(super) fn append(&mut self, file: &File, claim: &Claim, mut record: Record) -> io::Result<()> {
        record.slot = match self.free {
            Some(slot) => slot,
            None => {
                // So that a full disk says so now, and not when half of something is written.
                let end = (HEAD + self.slots * SLOT) as u64;
                let grown = (end + 1).next_multiple_of(PAGE);
                allocate(file, end, grown - end)?;
                self.slots
            }
        };
        let (bytes, used) = record.encode(claim);
        file.write_all_at(&bytes[..used], slot_at(record.slot))?;
        self.slots = self.slots.max(record.slot + 1);
        self.free = None; // found again by the next read
        self.last = record.seq;
        self.places.push(record);
        Ok(())
    }

    /// Frees the slot of a place, which goes on remembering its number.
    pub(super) fn remove(&mut self, file: &File, at: usize) -> io::Result<()> {
        file.write_all_at(&[0], slot_at(self.places[at].slot))?;
        self.freed(self.places[at].slot);
        self.places.remove(at);
        Ok(())
    }

    pub(super) fn remove_grave(&mut self, file: &File, at: usize) -> io::Result<()> {
        file.write_all_at(&[0], slot_at(self.graves[at].slot))?;
        self.freed(self.graves[at].slot);
        self.graves.remove(at);
        Ok(())
    }

    fn freed(&mut self, slot: usize) {
        self.free = Some(self.free.map_or(slot, |free| free.min(slot)));
    }

    /// Whether a new place would make the file longer.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_none()
    }

    /// Whether the file was begun.
    pub(super) fn is_begun(&self) -> bool {
        self.checked
    }

    /// Takes a place out of the line and leaves a grave.
    pub(super) fn bury(&mut self, file: &File, at: usize) -> io::Result<()> {
        file.write_all_at(&[record::state_byte(State::Grave)], slot_at(self.places[at].slot))?;
        self.graves.push(self.places.remove(at));
        Ok(())
    }

    pub(super) fn stop(&mut self, file: &File, at: usize) -> io::Result<()> {
        file.write_all_at(&[record::state_byte(State::Stopped)], slot_at(self.places[at].slot))?;
        self.places[at].state = State::Stopped;
        Ok(())
    }

    pub(super) fn weaken(&mut self, file: &File, at: usize) -> io::Result<()> {
        file.write_all_at(&[record::mode_byte(Mode::Shared)], slot_at(self.places[at].slot) + MODE_AT)?;
        self.places[at].mode = Mode::Shared;
        Ok(())
    }

    /// Makes the file remember this number.
    pub(super) fn raise(&mut self, file: &File, last: Seq) -> io::Result<()> {
        file.write_all_at(&last.get().to_le_bytes(), (STATUS + LAST) as u64)?;
        self.last = self.last.max(last);
        Ok(())
    }

    pub(super) fn retire(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&[1], (STATUS + RETIRED) as u64)
    }

    /// Cuts a file that was long once, so that it is not read in full for ever.
    pub(super) fn trim(&mut self, file: &File) -> io::Result<()> {
        if self.slots <= ROOMY {
            return Ok(());
        }
        let used = self.places.iter().chain(&self.graves).map(|place| place.slot + 1).max().unwrap_or(0);
        if used > self.slots / 4 {
            return Ok(());
        }
        self.raise(file, self.last)?;
        let len = ((HEAD + used * SLOT) as u64).next_multiple_of(PAGE);
        rustix::fs::ftruncate(file, len)?;
        self.slots = (len as usize - HEAD) / SLOT;
        Ok(())
    }

    /// The bytes of a slot as they were read.
    pub(super) fn slot_bytes(&self, slot: usize) -> &[u8] {
        &self.bytes[HEAD - STATUS + slot * SLOT..][..SLOT]
    }
}

/// Whether nobody has begun the file yet.
pub(super) fn is_empty(file: &File) -> io::Result<bool> {
    if file.metadata()?.len() > PAGE {
        return Ok(false);
    }
    // Allocated, but not begun: all zero.
    let mut bytes = [0; PAGE as usize];
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], len as u64)? {
            0 => break,
            more => len += more,
        }
    }
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// The key that a line file says it is of.
pub(super) fn key_of(file: &File) -> io::Result<String> {
    let mut head = [0; STATUS];
    file.read_exact_at(&mut head, 0).map_err(|err| match err.kind() {
        io::ErrorKind::UnexpectedEof => invalid("less than a head"),
        _ => err,
    })?;
    if head[..8] != MAGIC {
        return Err(invalid("not the beginning of a line file"));
    }
    if u32_at(&head, 8) != VERSION {
        return Err(invalid(format!("version {} where this program knows {VERSION}", u32_at(&head, 8))));
    }
    let len = u32_at(&head, KEY_LEN) as usize;
    let key = head.get(KEY..KEY + len.min(Key::MAX_BYTES + 1)).and_then(|key| std::str::from_utf8(key).ok());
    key.filter(|key| (1..=Key::MAX_BYTES).contains(&key.len()))
        .map(str::to_owned)
        .ok_or_else(|| invalid("a key that is none"))
}

fn slot_at(slot: usize) -> u64 {
    (HEAD + slot * SLOT) as u64
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn allocate(file: &File, at: u64, len: u64) -> io::Result<()> {
    match retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), at, len)) {
        // Not every file system can promise room; written zeros are nearly as good.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.write_all_at(&vec![0; len as usize], at),
        done => Ok(done?),
    }
}
