use std::{fmt, io::Write as _};

use crate::link::Life;

/// Room for the commands of most verbs, made at once.
const PACKET: usize = 256;

/// Meta commands for one packet. Each has exactly one reply, and a server does them in this order.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

/// The unique number of one version of an item, worth something only in the life of the server that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cas {
    pub(crate) number: u64,
    pub(crate) life: Life,
}

impl Commands {
    /// Reads an item: its value, its number and how many seconds it has left.
    pub(crate) fn get(&mut self, item: &str) {
        self.line(format_args!("mg {item} v c t"));
    }

    /// The same, and lets it live for so many seconds from now.
    pub(crate) fn get_and_touch(&mut self, item: &str, seconds: u64) {
        self.line(format_args!("mg {item} v c t T{seconds}"));
    }

    /// Asks whether an item is there: the cheapest question there is.
    pub(crate) fn look(&mut self, item: &str) {
        self.line(format_args!("mg {item}"));
    }

    /// Makes an item, unless it is there.
    pub(crate) fn add(&mut self, item: &str, seconds: u64, value: &[u8]) {
        self.store(format_args!("ms {item} {} ME T{seconds} c", value.len()), value);
    }

    /// Gives an item that is there another value.
    pub(crate) fn replace(&mut self, item: &str, seconds: u64, value: &[u8]) {
        self.store(format_args!("ms {item} {} MR T{seconds} c", value.len()), value);
    }

    /// Gives an item a value, whether it is there or not.
    pub(crate) fn set(&mut self, item: &str, seconds: u64, value: &[u8]) {
        self.store(format_args!("ms {item} {} T{seconds} c", value.len()), value);
    }

    /// Gives an item another value if it is still this version.
    pub(crate) fn swap(&mut self, item: &str, cas: Cas, seconds: u64, value: &[u8]) {
        self.store(format_args!("ms {item} {} C{} T{seconds} c", value.len(), cas.number), value);
    }

    /// Adds to the end of an item that is there; when it ends stays as it is.
    pub(crate) fn append(&mut self, item: &str, value: &[u8]) {
        self.store(format_args!("ms {item} {} MA c", value.len()), value);
    }

    /// Removes an item.
    pub(crate) fn delete(&mut self, item: &str) {
        self.line(format_args!("md {item}"));
    }

    /// Removes an item if it is still this version.
    pub(crate) fn delete_if(&mut self, item: &str, cas: Cas) {
        self.line(format_args!("md {item} C{}", cas.number));
    }

    fn line(&mut self, command: fmt::Arguments<'_>) {
        self.bytes.reserve(PACKET);
        // A vector takes whatever is written to it.
        let _ = write!(self.bytes, "{command}\r\n");
        self.count += 1;
    }

    fn store(&mut self, command: fmt::Arguments<'_>, value: &[u8]) {
        self.line(command);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }
}
