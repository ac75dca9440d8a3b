//! Values as SQL text. Only numbers and hexadecimal digits ever come from outside, so there is nothing to escape.

use std::fmt::{self, Write as _};

use tenure_core::ClaimId;

/// Bytes as a literal, whatever the server thinks of backslashes.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("E'\\\\x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("'::bytea")
    }
}

/// A claim's id as a literal.
pub(crate) struct Id(pub(crate) ClaimId);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'::uuid", self.0)
    }
}

/// An array of literals.
pub(crate) fn array<T: fmt::Display>(kind: &str, values: impl Iterator<Item = T>) -> String {
    let mut text = "ARRAY[".to_owned();
    for (at, value) in values.enumerate() {
        // Writing to a string never fails.
        let _ = write!(text, "{}{value}", if at > 0 { "," } else { "" });
    }
    text + "]::" + kind + "[]"
}

/// The numbers of an array that the server wrote: `{1,2,3}`.
pub(crate) fn numbers(text: &str) -> Option<Vec<i64>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    inner.split(',').map(|number| number.parse().ok()).collect()
}

/// The bytes that the server wrote as hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    digits.chunks_exact(2).map(|pair| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()).collect()
}

/// A claim's id as the server writes it, with hyphens.
pub(crate) fn id(text: &str) -> Option<ClaimId> {
    text.replace('-', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_way_to_text_and_back() {
        assert_eq!(Bytes(b"a'\0\\").to_string(), "E'\\\\x6127005c'::bytea");
        assert_eq!(unhex("6127005c").unwrap(), b"a'\0\\");
        assert_eq!(numbers("{1,-2,3}").unwrap(), [1, -2, 3]);
        assert_eq!(numbers("{}").unwrap(), [0i64; 0]);
        assert_eq!(array("bigint", [1, 2].iter()), "ARRAY[1,2]::bigint[]");
        let claim = ClaimId::fresh();
        let digits = claim.to_string();
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        assert_eq!(id(&parts.join("-")), Some(claim));
    }

    #[test]
    fn nonsense_is_nothing() {
        assert!(numbers("1,2").is_none() && numbers("{1,x}").is_none());
        assert!(unhex("abc").is_none() && unhex("zz").is_none());
        assert!(id("x").is_none());
    }
}
