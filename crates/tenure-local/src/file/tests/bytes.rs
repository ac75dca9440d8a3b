//! Line files whose changes are written down, and made again up to any word.

use std::{cell::RefCell, io};

use super::{
    disk::Disk,
    line::{Head, Line, PAGE},
    record::{Entry, State},
    *,
};

/// One change of a file.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write(u64, Vec<u8>),
    Allocate(u64, usize),
    Cut(u64),
}

impl Change {
    pub(super) fn make(&self, on: &impl Disk) {
        match *self {
            Self::Write(at, ref bytes) => on.write(bytes, at),
            Self::Allocate(at, len) => on.allocate(at, len),
            Self::Cut(size) => on.cut(size),
        }
        .unwrap();
    }

    /// The change as far as a kill may let it come: up to the end of a page.
    pub(super) fn pages(&self) -> Vec<Self> {
        let Self::Write(at, bytes) = self else { return Vec::new() };
        let ends = (1..bytes.len()).filter(|len| (at + *len as u64).is_multiple_of(PAGE as u64));
        ends.map(|len| Self::Write(*at, bytes[..len].to_vec())).collect()
    }

    /// The change up to each of its words. Inside one nothing is torn: a piece of an entry may be the entry of another claim.
    pub(super) fn pieces(&self) -> Vec<Self> {
        let Self::Write(at, bytes) = self else { return Vec::new() };
        let ends = (1..bytes.len()).filter(|len| (at + *len as u64).is_multiple_of(Entry::SIZE as u64));
        ends.map(|len| Self::Write(*at, bytes[..len].to_vec())).collect()
    }
}

/// A file in memory. Keeps the changes that were made to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    pub(super) bytes: RefCell<Vec<u8>>,
    pub(super) changes: RefCell<Vec<Change>>,
}

impl Bytes {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: RefCell::new(bytes), changes: RefCell::default() }
    }
}

impl Disk for Bytes {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.borrow().len() as u64)
    }

    fn fill(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let all = self.bytes.borrow();
        let found = all.get(at as usize..at as usize + bytes.len());
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        // Nothing is written where no room was made.
        self.bytes.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        self.changes.borrow_mut().push(Change::Write(at, bytes.to_vec()));
        Ok(())
    }

    fn allocate(&self, at: u64, len: usize) -> io::Result<()> {
        let mut all = self.bytes.borrow_mut();
        let size = all.len().max(at as usize + len);
        all.resize(size, 0);
        self.changes.borrow_mut().push(Change::Allocate(at, len));
        Ok(())
    }

    fn cut(&self, size: u64) -> io::Result<()> {
        self.bytes.borrow_mut().resize(size as usize, 0);
        self.changes.borrow_mut().push(Change::Cut(size));
        Ok(())
    }
}

/// All that stands in a file, graves too, and the key's last number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) places: Vec<(ClaimId, Mode, State)>,
    pub(super) last: Seq,
}

/// What somebody sees who opens the file.
pub(super) fn see(disk: &impl Disk) -> io::Result<Seen> {
    let mut line = Line::default();
    assert_eq!(line.read(disk, &Key::new("k").unwrap())?, Head::Live);
    let mut places = Vec::new();
    for at in 0..line.end() {
        if line.state(at).is_some() {
            let record = line.record(disk, at)?;
            places.push((record.id, record.mode, record.state));
        }
    }
    Ok(Seen { places, last: line.last })
}
