use std::{
    fmt,
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{Error, Result};

/// The identity of one wish to hold a key: fresh for every acquisition, never used again.
///
/// 80 random bits drawn once per process and a 48-bit count, so that drawing one costs no system call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(u128);

impl ClaimId {
    /// Draws an id that no other process and no earlier call has.
    ///
    /// # Panics
    /// If the operating system has no randomness to give, once, at the first call of a process.
    #[must_use]
    pub fn fresh() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        static PROCESS: OnceLock<u128> = OnceLock::new();
        let process = *PROCESS.get_or_init(|| random() << 48);
        let count = COUNT.fetch_add(1, Ordering::Relaxed) & ((1 << 48) - 1);
        Self(process | u128::from(count))
    }

    /// The id as 16 bytes, in the order of its text form.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id that [`ClaimId::to_bytes`] gave.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId({self})")
    }
}

impl FromStr for ClaimId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("`{text}` is no claim id; one has 32 hexadecimal digits"));
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| wrong())
    }
}

/// Which engine this is, whatever its URL calls it: stored in the engine itself, drawn at its first use.
///
/// `Multi` orders keys of several engines by it, so that two processes that spell a host differently still take
/// their locks in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId(u128);

impl EngineId {
    /// Draws an identity for a new engine.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn fresh() -> Self {
        Self(random())
    }

    /// The identity as 16 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The identity that [`EngineId::to_bytes`] gave.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_survive_text_and_bytes() {
        let (a, b) = (ClaimId::fresh(), ClaimId::fresh());
        assert_ne!(a, b);
        assert_eq!(a.to_string().parse::<ClaimId>().unwrap(), a);
        assert_eq!(ClaimId::from_bytes(a.to_bytes()), a);
        for text in ["", "+1", "zz", &"g".repeat(32), &"0".repeat(33), "+0000000000000000000000000000001"] {
            assert!(text.parse::<ClaimId>().is_err(), "{text}");
        }
    }
}
