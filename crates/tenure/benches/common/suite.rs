//! What is measured on every engine that has a server, and the parts that processes play for it.

#[path = "handoff.rs"]
pub(crate) mod handoff;
#[path = "held.rs"]
pub(crate) mod held;
#[path = "hot.rs"]
pub(crate) mod hot;
#[path = "uncontended.rs"]
pub(crate) mod uncontended;

use crate::common::{PART, run_wanted};

/// Runs what is wanted of these, or plays the part that this process was started for.
pub(crate) fn run(all: &[(&str, fn())]) {
    match std::env::var(PART).as_deref() {
        Err(_) => run_wanted(all),
        Ok("handoff") => handoff::child(),
        Ok("held") => held::child(),
        Ok(part) => hot::child(part),
    }
}
