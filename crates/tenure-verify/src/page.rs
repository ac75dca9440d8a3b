//! The run as one page, with nothing to load.

use crate::RunResult;

/// Writes the page.
#[must_use]
pub fn page(result: &RunResult) -> String {
    crate::screen::table(result)
}
