//! What the server writes, as values.

use tenure_core::ClaimId;
use tokio_postgres::SimpleQueryRow;

/// A value of a row, if it has so many.
pub(crate) fn field(row: &SimpleQueryRow, at: usize) -> Option<&str> {
    row.try_get(at).ok()?
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
    fn values_are_read() {
        assert_eq!(unhex("6127005c").unwrap(), b"a'\0\\");
        assert_eq!(numbers("{1,-2,3}").unwrap(), [1, -2, 3]);
        assert_eq!(numbers("{}").unwrap(), [0i64; 0]);
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
