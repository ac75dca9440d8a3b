use std::{fmt, str::FromStr, sync::Arc};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// Everything but letters, digits, `-`, `_` and `.` is escaped; `~` marks a shortened name.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The name of a lock: any UTF-8 text of 1 to 1,024 bytes, compared byte by byte.
///
/// A key is parsed once, at the edge of the API. Cloning it is cheap. Slashes, spaces, control characters and
/// braces are all allowed: each engine escapes them in one place.
///
/// # Examples
/// ```
/// use tenure_core::Key;
///
/// let key: Key = "orders/2026/close".parse()?;
/// assert_eq!(key.as_str(), "orders/2026/close");
/// assert!("".parse::<Key>().is_err());
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The longest key, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 1024;

    /// Takes a key.
    ///
    /// # Errors
    /// `Invalid` if the name is empty or longer than [`Key::MAX_BYTES`].
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self> {
        let name = name.into();
        match name.len() {
            0 => Err(Error::invalid("the key is empty; give the lock a name such as `orders/close`")),
            1..=Self::MAX_BYTES => Ok(Self(name)),
            n => Err(Error::invalid(format!(
                "the key has {n} bytes, at most {} are allowed; name the thing, put details in the note",
                Self::MAX_BYTES
            ))),
        }
    }

    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The SHA-256 of the name, for engines whose own names are short.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The name as one path element of at most `max_bytes` letters, digits and `-_.%~`.
    ///
    /// Different keys give different elements. A key that fits is percent-encoded, which people can read and
    /// [`Key::from_path_element`] reverses; a longer one keeps its beginning and ends in `~` and half its
    /// digest, and the engine must keep the real name beside it.
    ///
    /// # Panics
    /// If `max_bytes` is under 64, which leaves no room for the digest: a mistake of the engine, not of a user.
    #[must_use]
    pub fn to_path_element(&self, max_bytes: usize) -> String {
        assert!(max_bytes >= 64, "a path element of {max_bytes} bytes cannot tell keys apart");
        let mut name = utf8_percent_encode(&self.0, ESCAPED).to_string();
        if name.starts_with('.') {
            name.replace_range(0..1, "%2E"); // `.`, `..` and hidden files
        }
        if name.len() > max_bytes {
            let mut end = max_bytes - 33;
            while name[..end].rfind('%').is_some_and(|at| at + 3 > end) {
                end -= 1; // never cut an escape in two
            }
            name.truncate(end);
            name.push('~');
            for byte in &self.digest()[..16] {
                name.push_str(&format!("{byte:02x}"));
            }
        }
        name
    }

    /// The key of a path element, or `None` if it was shortened or is none of ours.
    #[must_use]
    pub fn from_path_element(name: &str) -> Option<Self> {
        let plain = percent_decode_str(name).decode_utf8().ok()?;
        let key = Self::new(&*plain).ok()?;
        (key.to_path_element(usize::MAX) == name).then_some(key)
    }
}

impl FromStr for Key {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<&str> for Key {
    type Error = Error;
    fn try_from(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<String> for Key {
    type Error = Error;
    fn try_from(name: String) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<&String> for Key {
    type Error = Error;
    fn try_from(name: &String) -> Result<Self> {
        Self::new(name.as_str())
    }
}

impl From<&Self> for Key {
    fn from(key: &Self) -> Self {
        key.clone()
    }
}

impl fmt::Display for Key {
    /// The name with control characters escaped, so that it cannot forge a log line or move a cursor.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c.is_control() { write!(f, "{}", c.escape_unicode())? } else { write!(f, "{c}")? }
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    #[test]
    fn length_is_checked_in_bytes() {
        assert!(Key::new("").is_err());
        assert!(Key::new("k".repeat(1024)).is_ok());
        assert!(Key::new("k".repeat(1025)).is_err());
        assert!(Key::new("é".repeat(513)).is_err());
    }

    #[test]
    fn path_elements_are_safe_and_readable() {
        assert_eq!(key("orders").to_path_element(64), "orders");
        assert_eq!(key("a/b c").to_path_element(64), "a%2Fb%20c");
        assert_eq!(key("..").to_path_element(64), "%2E.");
        assert_eq!(key(".").to_path_element(64), "%2E");
        assert_eq!(key("~x").to_path_element(64), "%7Ex");
        assert_eq!(key("\0").to_path_element(64), "%00");
        assert_ne!(key("A").to_path_element(64), key("a").to_path_element(64));
    }

    #[test]
    fn display_cannot_forge_a_log_line() {
        assert_eq!(key("a\nb\u{1b}[2J").to_string(), "a\\u{a}b\\u{1b}[2J");
    }

    proptest! {
        #[test]
        fn path_elements_are_bounded_reversible_and_distinct(a in "\\PC{1,300}|[a-c/%~.]{1,6}", b in "\\PC{1,300}|[a-c/%~.]{1,6}") {
            prop_assume!(a.len() <= Key::MAX_BYTES && b.len() <= Key::MAX_BYTES);
            let (a, b) = (key(&a), key(&b));
            for max in [64, 200, usize::MAX] {
                let element = a.to_path_element(max);
                prop_assert!(element.len() <= max);
                prop_assert!(element.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.%~".contains(&c)));
                prop_assert!(!element.starts_with('.'));
                prop_assert_eq!(element == b.to_path_element(max), a == b);
                match Key::from_path_element(&element) {
                    Some(back) => prop_assert_eq!(&back, &a),
                    None => prop_assert!(element.contains('~')),
                }
            }
        }
    }
}
