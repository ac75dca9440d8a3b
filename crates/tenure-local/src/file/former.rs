//! Line files of version 1, as programs wrote them before there was a ring: slots in no order, each with its state and its mode
//! in its first two bytes, and with its number also when it is free again.
//!
//! Nobody is added to such a file any more. While somebody who lives stands in it, it is refused; after that it is retired as a
//! sweep retires an idle file, and the key begins one of this version. Its last number goes into the floor, it is marked, and
//! its name is removed, all under its own lock. Programs of either version look for the mark, at the same byte, and for
//! the name when they have got the lock. So nobody stands in a file that others do not find.

use std::io;

use tenure_core::{ClaimId, Note, Seq};

use super::{
    disk::Disk,
    line::{fill, head_of, invalid},
    record::{self, Entry, Record, SLOT, array, u64_at},
    ring::{LAST, Ring, STATUS},
};

pub(super) const VERSION: u32 = 1;
const SLOTS: u64 = 2048;

/// Who stands in a file of version 1, graves too, in the order of their numbers, and the key's last number.
pub(super) struct Former {
    pub(super) places: Vec<(Record, Note)>,
    pub(super) last: Seq,
}

impl Former {
    /// Reads the file, which has a head. `InvalidData` says what is wrong with it, or that it is of another version.
    pub(super) fn read(file: &impl Disk) -> io::Result<Self> {
        if head_of(file)?.0 != VERSION {
            return Err(invalid("another version"));
        }
        let slots = file.size()?.saturating_sub(SLOTS) / SLOT as u64;
        if slots > Ring::MOST as u64 {
            return Err(invalid("more slots than anybody needs"));
        }
        let mut number = [0; 8];
        fill(file, &mut number, (STATUS + LAST) as u64, "less than a head")?;
        let mut last = u64::from_le_bytes(number);
        let mut places = Vec::new();
        for slot in 0..slots {
            let mut bytes = [0; SLOT];
            fill(file, &mut bytes, SLOTS + slot * SLOT as u64, "less than its slots")?;
            last = last.max(u64_at(&bytes, record::SEQ));
            let place = place(bytes).map_err(|what| invalid(format!("{what} in slot {slot}")))?;
            places.extend(place);
        }
        places.sort_unstable_by_key(|(place, _)| place.seq);
        Ok(Self { places, last: Seq::new(last).ok_or_else(|| invalid("a number out of range"))? })
    }
}

/// The place in a slot. But for its first two bytes the slot is as it still is.
fn place(mut bytes: [u8; SLOT]) -> Result<Option<(Record, Note)>, &'static str> {
    let [state, mode] = array(&bytes, 0);
    bytes[..2].fill(0);
    if state == 0 {
        return Ok(None);
    }
    let entry = Entry::of_codes(state, mode, ClaimId::from_bytes(array(&bytes, record::ID)))?;
    let place = Record::decode(entry, &bytes)?;
    Ok(Some((place, record::note(&bytes, place.pid))))
}
