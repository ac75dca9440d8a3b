use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{Failure, Result};

/// How often a condition outside this process is looked at.
const EVERY: Duration = Duration::from_millis(3);

/// Looks until it is so. A failure from `look` means "not yet, because"; the last one is told when the limit passes.
///
/// # Errors
/// If it is not so within the limit; the last look is after it.
#[expect(
    clippy::disallowed_methods,
    reason = "a server gives no notice of its state: it is asked again after a pause, within a limit"
)]
pub fn wait_until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        let last_chance = start.elapsed() >= limit;
        match look() {
            Ok(value) => return Ok(value),
            Err(why) if last_chance => {
                let message = format!("waited {limit:?} in vain until {what}: {why}");
                return Err(Failure::of_the_trial(message));
            }
            Err(_) => thread::sleep(EVERY),
        }
    }
}
