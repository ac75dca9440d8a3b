//! How the keys in the store are called.

use tenure_core::{ClaimId, Key};

use crate::spots::Spot;

/// What ends the name of a lock in the name of a place; the byte after it ends the range of its line.
const END: u8 = b'#';

/// The names under one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    ns: String,
}

impl Names {
    pub(crate) fn new(ns: &str) -> Self {
        Self { ns: ns.to_owned() }
    }

    /// Which store this is.
    pub(crate) fn about(&self) -> Vec<u8> {
        format!("{}/about", self.ns).into_bytes()
    }

    /// Lives as long as a lease, and is written by whoever evicts a place that the lease keeps.
    pub(crate) fn session(&self, lease: i64) -> Vec<u8> {
        format!("{}/session/{lease:016x}", self.ns).into_bytes()
    }

    /// Says that a claim may take no place any more.
    pub(crate) fn grave(&self, id: ClaimId) -> Vec<u8> {
        format!("{}/grave/{id}", self.ns).into_bytes()
    }

    /// A place in the line of a key.
    pub(crate) fn place(&self, key: &Key, spot: Spot) -> Vec<u8> {
        let mut name = self.line(key).0;
        name.extend_from_slice(spot.to_string().as_bytes());
        name
    }

    /// The range of all places of a key.
    pub(crate) fn line(&self, key: &Key) -> (Vec<u8>, Vec<u8>) {
        let mut start = self.lines_from(key.as_str());
        let mut end = start.clone();
        start.push(END);
        end.push(END + 1);
        (start, end)
    }

    /// The range of the places of all keys that start so.
    pub(crate) fn lines(&self, prefix: &str) -> (Vec<u8>, Vec<u8>) {
        let start = self.lines_from(prefix);
        let mut end = start.clone();
        // Names are ASCII and UTF-8, so the last byte is never 255.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (start, end)
    }

    /// Which place this is.
    pub(crate) fn read(&self, name: &[u8]) -> Option<(Key, Spot)> {
        let name = name.strip_prefix(format!("{}/line/", self.ns).as_bytes())?;
        let (key, spot) = std::str::from_utf8(name).ok()?.rsplit_once(END as char)?;
        let key = percent_encoding::percent_decode_str(key).decode_utf8().ok()?;
        Some((Key::new(&*key).ok()?, spot.parse().ok()?))
    }

    /// Escapes letter by letter, so that a prefix of a key is a prefix of its name.
    fn lines_from(&self, key: &str) -> Vec<u8> {
        let mut name = format!("{}/line/", self.ns);
        for letter in key.chars() {
            if letter == END as char || letter == '%' || letter.is_ascii_control() {
                name.push_str(&format!("%{:02X}", letter as u32));
            } else {
                name.push(letter);
            }
        }
        name.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within((start, end): &(Vec<u8>, Vec<u8>), name: &[u8]) -> bool {
        start.as_slice() <= name && name < end.as_slice()
    }

    #[test]
    fn a_line_has_the_places_of_its_key_and_no_other() {
        let names = Names::new("tenure");
        let spot = Spot { client: 7, number: 1 };
        let keys = ["a", "a#", "a#0", "a$", "ab", "a/b", "a%", "a%23", "a\0", "é", "e\u{301}", "🔒", "A"];
        for one in keys {
            let one = Key::new(one).unwrap();
            assert_eq!(names.read(&names.place(&one, spot)), Some((one.clone(), spot)));
            for two in keys {
                let two = Key::new(two).unwrap();
                assert_eq!(within(&names.line(&one), &names.place(&two, spot)), one == two, "{one} {two}");
                let starts = two.as_str().starts_with(one.as_str());
                assert_eq!(
                    within(&names.lines(one.as_str()), &names.place(&two, spot)),
                    starts,
                    "{one} {two}"
                );
            }
        }
        assert!(within(&names.lines(""), &names.place(&Key::new("\u{7f}").unwrap(), spot)));
        assert!(!within(&names.lines(""), &names.about()));
        assert_eq!(names.read(b"tenure/line/a#xyz"), None);
        assert_eq!(names.read(b"other/line/a#00"), None);
    }

    #[test]
    fn names_can_be_read_by_people() {
        let names = Names::new("shop");
        let spot = Spot { client: 0xab, number: 10 };
        let name = names.place(&Key::new("orders/close #1").unwrap(), spot);
        assert_eq!(name, b"shop/line/orders/close %231#00000000000000ab-a");
    }
}
