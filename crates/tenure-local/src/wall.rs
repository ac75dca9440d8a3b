use std::time::{SystemTime, UNIX_EPOCH};

/// The machine's wall clock in microseconds since 1970, for the hybrid clock and for people.
///
/// Local engines are their own server, so this is the server's clock. It decides nothing but numbers, which
/// rise whatever it does.
#[expect(clippy::disallowed_methods, reason = "the one reading of the wall clock among the local engines")]
pub(crate) fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
