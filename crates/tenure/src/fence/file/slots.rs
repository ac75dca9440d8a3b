use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Error, ErrorKind, Read, Result},
    os::unix::fs::FileExt,
    path::Path,
};

use tenure_core::Record;

/// A file with two copies of a record, of which the later whole one counts. A record is written over the earlier of
/// the two, so that a machine which stops meanwhile leaves the other. Locked for as long as this lives.
#[derive(Debug)]
pub(super) struct Slots {
    file: File,
    record: Record,
    /// How often a record was stored; its remainder says where the last one is.
    count: u64,
}

/// As large as what a disk writes at once, so that a write to one slot does not touch the other.
const SLOT: usize = 4096;

impl Slots {
    /// Opens and locks it, or gives `None` if somebody else has. It is made if it is not there.
    pub(super) fn open(path: &Path) -> Result<Option<Self>> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(err)) => return Err(err),
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(2 * SLOT as u64 + 1).read_to_end(&mut bytes)?;
        let newest = bytes.chunks(SLOT).filter_map(parse).max_by_key(|(count, _)| *count);
        match newest {
            Some((count, record)) => Ok(Some(Self { file, record, count })),
            // The machine stopped in the very first write, or before it.
            None if bytes.len() <= SLOT => {
                super::sync_directory(path)?;
                Ok(Some(Self { file, record: Record::default(), count: 0 }))
            }
            None => Err(Error::from(ErrorKind::InvalidData)),
        }
    }

    pub(super) fn record(&self) -> Record {
        self.record
    }

    /// Stores another record and waits for the disk.
    pub(super) fn store(&mut self, record: &Record) -> Result<()> {
        let count = self.count + 1;
        let text = format!("{count} {record}");
        let line = format!("{text} {:016x}", sum(&text));
        let slot = if count % 2 == 1 { 0 } else { SLOT as u64 };
        self.file.write_all_at(format!("{line:<width$}\n", width = SLOT - 1).as_bytes(), slot)?;
        self.file.sync_data()?;
        (self.record, self.count) = (*record, count);
        Ok(())
    }
}

fn parse(slot: &[u8]) -> Option<(u64, Record)> {
    let line = std::str::from_utf8(slot).ok()?.trim_end();
    let (text, check) = line.rsplit_once(' ')?;
    let (count, record) = text.split_once(' ')?;
    (check == format!("{:016x}", sum(text))).then_some(())?;
    Some((count.parse().ok()?, record.parse().ok()?))
}

/// FNV-1a: tells a whole line from one that was cut off.
fn sum(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use tenure_core::{ClaimId, Fence, Mode, Seq, Stamp};

    use super::*;

    fn record(seq: u64) -> Record {
        let fence = Fence::new(Seq::new(seq).unwrap(), 0);
        let stamp = Stamp::new(fence, ClaimId::from_bytes([9; 16]), Mode::Exclusive).unwrap();
        Record::default().claim(&stamp).unwrap()
    }

    fn read(path: &Path) -> Result<Record> {
        Slots::open(path).map(|slots| slots.expect("nobody else has it").record())
    }

    #[test]
    fn a_write_that_is_cut_off_leaves_the_record_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.fence");
        assert_eq!(read(&path).unwrap(), Record::default());
        for seq in 1..6 {
            let before = read(&path).unwrap();
            let old = std::fs::read(&path).unwrap();
            Slots::open(&path).unwrap().unwrap().store(&record(seq)).unwrap();
            assert_eq!(read(&path).unwrap(), record(seq));
            let whole = std::fs::read(&path).unwrap();
            let slot = if seq % 2 == 1 { 0 } else { SLOT };
            for cut in [1, 20, 60, 90] {
                // The new bytes got as far as this; behind it is what was there, or nothing.
                let mut torn = old.clone();
                torn.resize(torn.len().max(slot + cut), 0);
                torn[slot..slot + cut].copy_from_slice(&whole[slot..slot + cut]);
                std::fs::write(&path, torn).unwrap();
                assert_eq!(read(&path).unwrap(), before, "cut at {cut} of {seq}");
            }
            std::fs::write(&path, whole).unwrap();
        }
    }

    #[test]
    fn what_is_damaged_is_not_taken_for_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.fence");
        std::fs::write(&path, vec![b'x'; 2 * SLOT]).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn one_at_a_time_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.fence");
        let held = Slots::open(&path).unwrap();
        assert!(held.is_some() && Slots::open(&path).unwrap().is_none());
        drop(held);
        assert!(Slots::open(&path).unwrap().is_some());
    }
}
