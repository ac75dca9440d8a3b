use tenure_core::Key;

use crate::slot::{slot_of, tag_of};

/// What things are called in the server.
///
/// A line's name is the lock's own behind a prefix, so that a person with `redis-cli` finds it, and braces in it put
/// locks of a cluster into one slot as they do elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    lines: String,
    marks: String,
    pub(crate) identity: String,
    channels: String,
    /// In a cluster each slot has a mark of its own, beside its lines.
    by_slot: bool,
}

impl Names {
    pub(crate) fn new(ns: &str, by_slot: bool) -> Self {
        Self {
            lines: format!("{ns}:lock:"),
            marks: format!("{ns}:mark"),
            identity: format!("{ns}:id"),
            channels: format!("{ns}:wake:"),
            by_slot,
        }
    }

    pub(crate) fn line(&self, key: &Key) -> Vec<u8> {
        [self.lines.as_bytes(), key.as_str().as_bytes()].concat()
    }

    /// The mark that lies beside a line.
    pub(crate) fn mark(&self, line: &[u8]) -> Vec<u8> {
        if self.by_slot {
            format!("{}:{{{}}}", self.marks, tag_of(slot_of(line))).into_bytes()
        } else {
            self.marks.clone().into_bytes()
        }
    }

    /// The channel that only one client listens to.
    pub(crate) fn channel(&self, client: u64) -> String {
        format!("{}{client:016x}", self.channels)
    }

    /// The key whose line has this name.
    pub(crate) fn key(&self, line: &[u8]) -> Option<Key> {
        let key = line.strip_prefix(self.lines.as_bytes())?;
        Key::new(std::str::from_utf8(key).ok()?).ok()
    }

    /// A pattern for `SCAN` that finds the lines of all keys that start so, whatever they contain.
    pub(crate) fn pattern(&self, prefix: &str) -> Vec<u8> {
        let mut pattern = Vec::new();
        for byte in self.lines.bytes().chain(prefix.bytes()) {
            if b"*?[]\\^-".contains(&byte) {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        pattern.push(b'*');
        pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lies_in_the_slot_of_its_line() {
        let names = Names::new("tenure", true);
        for key in ["orders", "a{b}c", "{}", "{x", "}y{", "\u{1f512}"] {
            let line = names.line(&Key::new(key).unwrap());
            assert_eq!(slot_of(&names.mark(&line)), slot_of(&line), "{key}");
            assert_eq!(names.key(&line).unwrap().as_str(), key);
        }
    }

    #[test]
    fn a_pattern_means_its_prefix_literally() {
        let names = Names::new("t", false);
        assert_eq!(names.pattern("a*[b]\\"), b"t:lock:a\\*\\[b\\]\\\\*");
    }
}
