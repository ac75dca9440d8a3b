//! One line file: a head that names the key, and a ring of slots, one for each place.
//!
//! The places stand in the ring in the order of the line, so that nobody has to sort them: a newcomer takes the slot behind
//! the last one. What a place is stands in its slot, of 512 bytes; whether it stands there, and in which mode, in an *entry* of
//! four bytes, and all entries beside each other in the *map*. A verb reads the map and the few slots that it needs.
//!
//! Every change counts by one last write inside one page, so a process that is killed before or after it leaves a whole
//! line: a place comes and goes with its entry, and a ring of another size is written beside the old one before the
//! *status*, in the first page, names it. The last number of the key stands in the status before the place that got it
//! counts; a number that nobody got is no harm.

use std::{io, ops::Range};

use tenure_core::{
    Claim, ClaimId, Key, Mode, Seq,
    line::{self, Front},
};

use super::{
    disk::Disk,
    former,
    record::{Entry, Record, SLOT, State, u32_at},
    ring::{Ring, STATUS, STATUS_LEN},
};

const MAGIC: [u8; 8] = *b"tenure\0L";
const VERSION: u32 = 2;
const KEY_LEN: usize = 12;
const KEY: usize = 16;
/// In the status: whether the file is retired. What is behind it is written as one.
const RETIRED: usize = 0;
pub(super) const PAGE: usize = 4096;
/// Rings of up to so many slots are not worth cutting the file for. They give way to the one in the first page alone.
const ROOMY: usize = 64;
/// So many entries that are free again are read in front of the first place before the status forgets them.
const DRIFT: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Live,
    /// Made, but nobody has written to it yet.
    Empty,
    /// Of version 1: see [`former`].
    Former,
    /// Unlinked: whoever has it open must open the key's new file.
    Retired,
}

/// The line as it was read under the file's lock; it stays true while the lock is held.
///
/// Places go by their index in the ring, counted from its first slot in use: those ahead have smaller ones. Between
/// them may be slots that are free again. An index stays what it is until a place is appended.
///
/// The buffers live as long as the open file, so that a verb on a short line allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Whether the head was checked; the key of a file never changes.
    checked: bool,
    /// The first page from the status on.
    page: Vec<u8>,
    ring: Ring,
    /// The last number of the key.
    pub(super) last: Seq,
    /// The entries of the ring in order, behind `skipped` free ones.
    map: Vec<u8>,
    skipped: usize,
    /// The page of slots that was read last, and where it is; none is at 0.
    slots: Vec<u8>,
    slots_at: u64,
    /// The first place that did not hold before this verb took any from the line.
    first_waiting: Option<usize>,
}

impl Line {
    /// Reads the file. `InvalidData` says what is wrong with it.
    pub(super) fn read(&mut self, file: &impl Disk, key: &Key) -> io::Result<Head> {
        if !self.checked {
            if is_empty(file)? {
                return Ok(Head::Empty);
            }
            let (version, found) = head_of(file)?;
            if found != key.as_str() {
                return Err(invalid(format!("the line of the key `{}`", found.escape_debug())));
            }
            if version == former::VERSION {
                return Ok(Head::Former);
            }
            self.checked = true;
        }
        self.read_ring(file)
    }

    pub(super) fn read_ring(&mut self, file: &impl Disk) -> io::Result<Head> {
        (self.first_waiting, self.slots_at, self.skipped) = (None, 0, 0);
        self.page.resize(PAGE - STATUS, 0);
        fill(file, &mut self.page, STATUS as u64, "less than a head")?;
        if self.page[RETIRED] != 0 {
            return Ok(Head::Retired);
        }
        let (ring, last) = Ring::decode(&self.page).map_err(invalid)?;
        // Files are cut only behind their ring, so that it is enough to look once for each.
        if (ring.region, ring.capacity) != (self.ring.region, self.ring.capacity)
            && file.size()? < ring.file_len()
        {
            return Err(invalid("less than its ring"));
        }
        (self.ring, self.last) = (ring, last);
        self.map.resize(self.ring.span * Entry::SIZE, 0);
        let (first, wrapped) = self.map.split_at_mut(self.ring.unwrapped() * Entry::SIZE);
        for (piece, nth) in [(first, 0), (wrapped, self.ring.unwrapped())] {
            if piece.is_empty() {
                continue;
            }
            let at = self.ring.entry_at(nth);
            if self.ring.is_inner() {
                let at = at as usize - STATUS;
                piece.copy_from_slice(&self.page[at..at + piece.len()]);
            } else {
                fill(file, piece, at, "less than its map")?;
            }
        }
        if let Some(nth) = Entry::find_impossible(&self.map) {
            return Err(self.broken(nth, self.entry(nth).what_is_wrong()));
        }
        self.skipped = Entry::free_ahead(&self.map);
        self.ring.skip(self.skipped);
        Ok(Head::Live)
    }

    /// Whether nobody has joined the line or moved its ring since it was read.
    pub(super) fn is_as_read(&self, file: &impl Disk) -> io::Result<bool> {
        let mut status = [0; STATUS_LEN];
        fill(file, &mut status, STATUS as u64, "less than a head")?;
        Ok(status == self.page[..STATUS_LEN])
    }

    /// Begins an empty file. Nothing is changed if there is no room for it.
    pub(super) fn begin(&mut self, file: &impl Disk, key: &Key, floor: Seq) -> io::Result<()> {
        file.allocate(0, PAGE)?;
        let mut head = [0; STATUS + STATUS_LEN];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&VERSION.to_le_bytes());
        head[KEY_LEN..][..4].copy_from_slice(&(key.as_str().len() as u32).to_le_bytes());
        head[KEY..][..key.as_str().len()].copy_from_slice(key.as_str().as_bytes());
        Ring::default().encode(floor, &mut head[STATUS..]);
        file.write(&head, 0)?;
        self.read(file, key).map(drop)
    }

    /// Whether the file was begun.
    pub(super) fn is_begun(&self) -> bool {
        self.checked
    }

    /// The index behind the last place.
    pub(super) fn end(&self) -> usize {
        self.ring.span
    }

    fn entry(&self, at: usize) -> Entry {
        Entry::read(&self.map, self.skipped + at)
    }

    fn entries(&self, range: Range<usize>) -> &[u8] {
        &self.map[(self.skipped + range.start) * Entry::SIZE..(self.skipped + range.end) * Entry::SIZE]
    }

    pub(super) fn state(&self, at: usize) -> Option<State> {
        self.entry(at).state()
    }

    pub(super) fn is_in_line(&self, at: usize) -> bool {
        self.entry(at).is_in_line()
    }

    /// The first place.
    pub(super) fn first(&self) -> Option<usize> {
        Entry::find_first(self.entries(0..self.end()))
    }

    /// How many stand ahead of this index.
    pub(super) fn ahead(&self, at: usize) -> usize {
        Entry::count_in_line(self.entries(0..at))
    }

    /// The place in the line, or the grave, of this claim.
    pub(super) fn find(&mut self, file: &impl Disk, id: ClaimId) -> io::Result<Option<usize>> {
        let mut from = 0;
        while let Some(nth) = Entry::find_candidate(self.entries(from..self.end()), id) {
            if self.record(file, from + nth)?.id == id {
                return Ok(Some(from + nth));
            }
            from += nth + 1;
        }
        Ok(None)
    }

    /// What stands at an index that is not free.
    pub(super) fn record(&mut self, file: &impl Disk, at: usize) -> io::Result<Record> {
        let entry = self.entry(at);
        let record = Record::decode(entry, self.slot_bytes(file, at)?);
        record.map_err(|what| self.broken(at, what))
    }

    /// The bytes of a slot.
    pub(super) fn slot_bytes(&mut self, file: &impl Disk, at: usize) -> io::Result<&[u8]> {
        let slot_at = self.ring.slot_at(at);
        if self.ring.is_inner() {
            return Ok(&self.page[slot_at as usize - STATUS..][..SLOT]);
        }
        let page_at = slot_at - slot_at % PAGE as u64;
        if self.slots_at != page_at {
            self.slots_at = 0;
            self.slots.resize(PAGE, 0);
            fill(file, &mut self.slots, page_at, "less than its slots")?;
            self.slots_at = page_at;
        }
        Ok(&self.slots[(slot_at - page_at) as usize..][..SLOT])
    }

    pub(super) fn mode(&mut self, file: &impl Disk, at: usize) -> io::Result<Mode> {
        match self.entry(at).simple_mode() {
            Some(mode) => Ok(mode),
            None => Ok(self.record(file, at)?.mode),
        }
    }

    /// Who keeps a claim of this mode before this index from holding, or `None` if it holds there. As
    /// [`line::blockers`], but of those ahead it reads no more permits than it needs to know that they are too many, and
    /// then looks for other modes alone.
    pub(super) fn blockers(
        &mut self,
        file: &impl Disk,
        at: usize,
        mode: Mode,
    ) -> io::Result<Option<Range<usize>>> {
        let Mode::Permits(mine) = mode else {
            let other = Entry::rfind_other(self.entries(0..at), mode);
            return Ok(other.map(|other| other..other + 1));
        };
        let mut taken = u64::from(mine.take());
        let mut too_many = None;
        for other in (0..at).rev() {
            if !self.is_in_line(other) || (too_many.is_some() && self.entry(other).simple_mode().is_none()) {
                continue;
            }
            let theirs = self.mode(file, other)?;
            if !line::compatible(theirs, mode) {
                return Ok(Some(other..other + 1));
            }
            if let Mode::Permits(theirs) = theirs {
                taken += u64::from(theirs.take());
                if taken > u64::from(mine.of()) {
                    too_many = Some(other);
                }
            }
        }
        Ok(too_many.map(|first| first..at))
    }

    /// The places that hold now and did not before this verb took others from the line.
    pub(super) fn new_holders(&mut self, file: &impl Disk) -> io::Result<Vec<Record>> {
        let Some(before) = self.first_waiting.take() else { return Ok(Vec::new()) };
        let now = self.first_waiting(file)?;
        let new = (before..now).filter(|&at| self.is_in_line(at)).collect::<Vec<_>>();
        new.into_iter().map(|at| self.record(file, at)).collect()
    }

    /// The first place that does not hold, or the end.
    fn first_waiting(&mut self, file: &impl Disk) -> io::Result<usize> {
        let Some(first) = self.first() else { return Ok(self.end()) };
        if self.entry(first).simple_mode() == Some(Mode::Shared) {
            return Ok(Entry::find_unshared(self.entries(0..self.end())).unwrap_or(self.end()));
        }
        let mut front = Front::default();
        for at in first..self.end() {
            if self.is_in_line(at) && !front.admit(self.mode(file, at)?) {
                return Ok(at);
            }
        }
        Ok(self.end())
    }

    /// Before a change by which others may hold.
    fn mark(&mut self, file: &impl Disk) -> io::Result<()> {
        if self.first_waiting.is_none() {
            self.first_waiting = Some(self.first_waiting(file)?);
        }
        Ok(())
    }

    /// Appends a place at the end of the line. Changes indices.
    pub(super) fn append(&mut self, file: &impl Disk, claim: &Claim, record: &Record) -> io::Result<()> {
        self.forget_free_end();
        if self.is_full() {
            self.move_ring(file)?;
        }
        let at = self.ring.span;
        self.ring.span += 1;
        self.last = record.seq;
        let entry = Entry::of(record.state, record.mode, record.id);
        let (bytes, used) = record.encode(claim);
        self.map.truncate((self.skipped + at) * Entry::SIZE);
        self.map.extend_from_slice(&entry.to_bytes());
        self.ring.encode(self.last, &mut self.page);
        if self.ring.is_inner() {
            // Status, entry and slot are in one page, and so in one write.
            self.put(self.ring.entry_at(at), &entry.to_bytes());
            self.put(self.ring.slot_at(at), &bytes);
            let end = self.ring.slot_at(at) as usize - STATUS + used;
            return file.write(&self.page[RETIRED + 8..end], (STATUS + RETIRED + 8) as u64);
        }
        self.slots_at = 0;
        file.write(&bytes[..used], self.ring.slot_at(at))?;
        self.write_status(file)?;
        file.write(&entry.to_bytes(), self.ring.entry_at(at))
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.page[at as usize - STATUS..][..bytes.len()].copy_from_slice(bytes);
    }

    fn write_status(&mut self, file: &impl Disk) -> io::Result<()> {
        self.ring.encode(self.last, &mut self.page);
        file.write(&self.page[RETIRED + 8..STATUS_LEN], (STATUS + RETIRED + 8) as u64)
    }

    fn set(&mut self, file: &impl Disk, at: usize, entry: Entry) -> io::Result<()> {
        file.write(&entry.to_bytes(), self.ring.entry_at(at))?;
        self.map[(self.skipped + at) * Entry::SIZE..][..Entry::SIZE].copy_from_slice(&entry.to_bytes());
        if self.ring.is_inner() {
            self.put(self.ring.entry_at(at), &entry.to_bytes());
        }
        Ok(())
    }

    /// Takes a place out of the line.
    pub(super) fn remove(&mut self, file: &impl Disk, at: usize) -> io::Result<()> {
        self.mark(file)?;
        self.set(file, at, Entry::FREE)
    }

    pub(super) fn remove_grave(&mut self, file: &impl Disk, at: usize) -> io::Result<()> {
        self.set(file, at, Entry::FREE)
    }

    /// Takes a place out of the line and leaves a grave.
    pub(super) fn bury(&mut self, file: &impl Disk, at: usize) -> io::Result<()> {
        self.mark(file)?;
        self.set(file, at, self.entry(at).with_state(State::Grave))
    }

    pub(super) fn stop(&mut self, file: &impl Disk, at: usize) -> io::Result<()> {
        self.set(file, at, self.entry(at).with_state(State::Stopped))
    }

    pub(super) fn weaken(&mut self, file: &impl Disk, at: usize) -> io::Result<()> {
        self.mark(file)?;
        self.set(file, at, self.entry(at).with_mode(Mode::Shared))
    }

    /// Whether a new place needs another ring.
    pub(super) fn is_full(&self) -> bool {
        self.ring.span == self.ring.capacity && self.state(self.ring.span - 1).is_some()
    }

    /// Makes the file remember this number.
    pub(super) fn raise(&mut self, file: &impl Disk, last: Seq) -> io::Result<()> {
        self.last = self.last.max(last);
        self.write_status(file)
    }

    /// Forgets what only makes a line longer to read: free entries in front, and a ring that was needed once.
    pub(super) fn trim(&mut self, file: &impl Disk) -> io::Result<()> {
        // A ring that goes back into the first page waits until the next slot is its first, so that a line which is long
        // now and then does not move each time.
        let comes_round = !self.ring.is_inner() && self.ring.position(self.ring.span) == 0;
        let few = match self.ring.capacity {
            capacity if capacity > ROOMY => Some(capacity / 16),
            _ => comes_round.then_some(Ring::INNER / 2),
        };
        if few.is_some_and(|few| Entry::count_used(self.entries(0..self.end())) <= few) {
            return self.move_ring(file);
        }
        if self.skipped > DRIFT { self.write_status(file) } else { Ok(()) }
    }

    fn forget_free_end(&mut self) {
        while self.ring.span > 0 && self.state(self.ring.span - 1).is_none() {
            self.ring.span -= 1;
        }
    }

    /// Moves all that is in use, without the free slots between, into a ring with room for as many again. Nothing is
    /// changed if there is no room for it.
    fn move_ring(&mut self, file: &impl Disk) -> io::Result<()> {
        let used: Vec<_> = (0..self.end()).filter(|&at| self.state(at).is_some()).collect();
        let new = self.ring.moved(used.len()).ok_or_else(too_long)?;
        let (mut map, mut slots) = (Vec::new(), Vec::new());
        for &at in &used {
            map.extend_from_slice(&self.entry(at).to_bytes());
            slots.extend_from_slice(self.slot_bytes(file, at)?);
        }
        let was_small = self.ring.capacity <= ROOMY;
        if new.is_inner() {
            self.ring = new;
            self.put(new.entry_at(0), &[0; Ring::INNER * Entry::SIZE]);
            self.put(new.entry_at(0), &map);
            self.put(new.slot_at(0), &slots);
            self.ring.encode(self.last, &mut self.page);
            file.write(&self.page[RETIRED + 8..], (STATUS + RETIRED + 8) as u64)?;
        } else {
            if let Err(err) = file.allocate(new.region, new.size()) {
                // What was got of it is of no use.
                let _ = file.cut(self.ring.file_len());
                return Err(err);
            }
            file.write(&slots, new.slot_at(0))?;
            // All of it: what stood there before may be of an older ring.
            let entries = map.len();
            map.resize(new.capacity * Entry::SIZE, 0);
            file.write(&map, new.entry_at(0))?;
            map.truncate(entries);
            self.ring = new;
            self.write_status(file)?;
        }
        (self.map, self.skipped, self.slots_at) = (map, 0, 0);
        if !(was_small && new.capacity <= ROOMY) {
            // A chore. What is left behind is overwritten by the next ring, for which a little room is kept.
            let _ = file.cut(new.file_len());
        }
        Ok(())
    }

    fn broken(&self, at: usize, what: &str) -> io::Error {
        invalid(format!("{what} in slot {}", self.ring.position(at)))
    }
}

/// Marks a file, of either version, that is about to be unlinked.
pub(super) fn retire(file: &impl Disk) -> io::Result<()> {
    file.write(&[1], (STATUS + RETIRED) as u64)
}

/// Whether nobody has begun the file yet.
pub(super) fn is_empty(file: &impl Disk) -> io::Result<bool> {
    let size = file.size()?;
    if size > PAGE as u64 {
        return Ok(false);
    }
    // Allocated, but not begun: all zero.
    let mut bytes = [0; PAGE];
    fill(file, &mut bytes[..size as usize], 0, "less than it had")?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// The version of a line file, and the key that it says it is of.
pub(super) fn head_of(file: &impl Disk) -> io::Result<(u32, String)> {
    let mut head = [0; STATUS];
    fill(file, &mut head, 0, "less than a head")?;
    if head[..8] != MAGIC {
        return Err(invalid("not the beginning of a line file"));
    }
    let version = u32_at(&head, 8);
    if ![VERSION, former::VERSION].contains(&version) {
        return Err(invalid(format!("version {version} where this program knows {VERSION}")));
    }
    let len = u32_at(&head, KEY_LEN) as usize;
    let key = head.get(KEY..KEY + len.min(Key::MAX_BYTES + 1)).and_then(|key| std::str::from_utf8(key).ok());
    key.filter(|key| (1..=Key::MAX_BYTES).contains(&key.len()))
        .map(|key| (version, key.to_owned()))
        .ok_or_else(|| invalid("a key that is none"))
}

pub(super) fn fill(file: &impl Disk, bytes: &mut [u8], at: u64, short: &str) -> io::Result<()> {
    file.fill(bytes, at).map_err(|err| match err.kind() {
        io::ErrorKind::UnexpectedEof => invalid(short),
        _ => err,
    })
}

pub(super) fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, "a line with more places than a file has room for")
}
