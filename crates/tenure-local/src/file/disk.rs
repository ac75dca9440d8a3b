//! The few things that are done to a line file's bytes.
//!
//! A trait, so that tests can write down each change in the order in which it is made, and read what a process that was
//! killed between two of them leaves behind.

use std::{fs::File, io, os::unix::fs::FileExt};

use rustix::{
    fs::FallocateFlags,
    io::{Errno, retry_on_intr},
};

pub(super) trait Disk {
    fn size(&self) -> io::Result<u64>;

    /// Reads all of these bytes. `UnexpectedEof` if the file ends before.
    fn fill(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of these bytes. Those of one page come at once for whoever reads after a kill.
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Makes the file at least so long, with room for what will be written there.
    fn allocate(&self, at: u64, len: usize) -> io::Result<()>;

    /// Leaves off what is behind.
    fn cut(&self, size: u64) -> io::Result<()>;
}

impl Disk for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn fill(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(bytes, at)
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn allocate(&self, at: u64, len: usize) -> io::Result<()> {
        match retry_on_intr(|| rustix::fs::fallocate(self, FallocateFlags::empty(), at, len as u64)) {
            // Not every file system can promise room; written zeros are nearly as good.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_all_at(&vec![0; len], at),
            done => Ok(done?),
        }
    }

    fn cut(&self, size: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(self, size)?)
    }
}
