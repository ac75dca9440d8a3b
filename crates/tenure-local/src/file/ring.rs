//! Where the slots of a line file are: its status as bytes.
//!
//! A ring of four slots stands in the first page itself, so that a line of up to four places is one page. A larger one
//! stands in a *region* behind it, its map first.

use tenure_core::Seq;

use super::{
    line::PAGE,
    record::{Entry, SLOT, mix, u32_at, u64_at},
};

/// Where the status begins in the file, and how long it is.
pub(super) const STATUS: usize = 1536;
pub(super) const STATUS_LEN: usize = 48;
/// In the first page, behind the status: the map and the slots of the ring that stands there.
const INNER_MAP: usize = STATUS + 64;
const INNER_SLOTS: usize = 2048;

pub(super) const LAST: usize = 8;
const REGION: usize = 16;
const CAPACITY: usize = 24;
const FIRST: usize = 28;
const SPAN: usize = 32;
const CHECK: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    /// Where in the file it begins; 0 is in the first page.
    pub(super) region: u64,
    /// How many slots it has.
    pub(super) capacity: usize,
    /// The first one that may be in use.
    pub(super) first: usize,
    /// How many from there on may be. All others are free.
    pub(super) span: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self { region: 0, capacity: Self::INNER, first: 0, span: 0 }
    }
}

impl Ring {
    /// The slots of the ring in the first page.
    pub(super) const INNER: usize = 4;
    /// The most slots of any: a map of 4 MiB. Nobody who reads a file needs more room than that, whatever it says.
    pub(super) const MOST: usize = 1 << 20;

    /// The ring and the key's last number in these bytes of the status, or what is wrong with them.
    pub(super) fn decode(status: &[u8]) -> Result<(Self, Seq), &'static str> {
        if u64_at(status, CHECK) != checksum(status) {
            return Err("a wrong checksum in its status");
        }
        let ring = Self {
            region: u64_at(status, REGION),
            capacity: u32_at(status, CAPACITY) as usize,
            first: u32_at(status, FIRST) as usize,
            span: u32_at(status, SPAN) as usize,
        };
        let fits = ring.region.is_multiple_of(PAGE as u64) && ring.region < 1 << 50;
        if !fits
            || ring.is_inner() != (ring.capacity == Self::INNER)
            || ring.capacity > Self::MOST
            || ring.first >= ring.capacity
            || ring.span > ring.capacity
        {
            return Err("an impossible ring");
        }
        Ok((ring, Seq::new(u64_at(status, LAST)).ok_or("a number out of range")?))
    }

    /// Writes the ring and the key's last number into these bytes of the status.
    pub(super) fn encode(&self, last: Seq, status: &mut [u8]) {
        status[LAST..][..8].copy_from_slice(&last.get().to_le_bytes());
        status[REGION..][..8].copy_from_slice(&self.region.to_le_bytes());
        for (at, number) in [(CAPACITY, self.capacity), (FIRST, self.first), (SPAN, self.span)] {
            status[at..at + 4].copy_from_slice(&(number as u32).to_le_bytes());
        }
        let check = checksum(status);
        status[CHECK..][..8].copy_from_slice(&check.to_le_bytes());
    }

    /// Whether it stands in the first page.
    pub(super) fn is_inner(&self) -> bool {
        self.region == 0
    }

    /// Which slot an index is.
    pub(super) fn position(&self, at: usize) -> usize {
        (self.first + at) % self.capacity
    }

    /// How many of the span stand before the ring begins anew.
    pub(super) fn unwrapped(&self) -> usize {
        self.span.min(self.capacity - self.first)
    }

    /// Leaves out so many at the front.
    pub(super) fn skip(&mut self, free: usize) {
        self.first = self.position(free);
        self.span -= free;
    }

    /// Where the entry of an index stands in the file.
    pub(super) fn entry_at(&self, at: usize) -> u64 {
        let map = if self.is_inner() { INNER_MAP as u64 } else { self.region };
        map + (self.position(at) * Entry::SIZE) as u64
    }

    /// Where the slot of an index stands in the file.
    pub(super) fn slot_at(&self, at: usize) -> u64 {
        let slots = if self.is_inner() { INNER_SLOTS as u64 } else { self.region + self.map_len() as u64 };
        slots + (self.position(at) * SLOT) as u64
    }

    /// Behind the map begins a slot, so that none crosses a page.
    fn map_len(&self) -> usize {
        (self.capacity * Entry::SIZE).next_multiple_of(SLOT)
    }

    /// The size of its region.
    pub(super) fn size(&self) -> usize {
        match self.is_inner() {
            true => 0,
            false => (self.map_len() + self.capacity * SLOT).next_multiple_of(PAGE),
        }
    }

    /// How long a file with this ring must be.
    pub(super) fn file_len(&self) -> u64 {
        self.region.max(if self.is_inner() { PAGE as u64 } else { 0 }) + self.size() as u64
    }

    /// A ring with so many slots in use and room for as many again, which does not touch this one unless both are in the
    /// first page, where it is one write. `None` if that would be too many.
    pub(super) fn moved(&self, used: usize) -> Option<Self> {
        let mut ring = Self { span: used, ..Self::default() };
        if used < Self::INNER {
            return Some(ring);
        }
        while ring.capacity < 2 * used {
            ring.capacity *= 4;
        }
        if ring.capacity > Self::MOST {
            return None;
        }
        ring.region = PAGE as u64;
        if !self.is_inner() && self.region < ring.file_len() {
            ring.region = self.file_len();
        }
        Some(ring)
    }
}

fn checksum(status: &[u8]) -> u64 {
    mix((LAST..CHECK).step_by(8).map(|at| u64_at(status, at)))
}
