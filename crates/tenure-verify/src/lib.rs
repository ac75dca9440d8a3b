//! Prove or refute a lock where it runs.
//!
//! Workers go for the same locks, faults are aimed at the moments that matter, everything that happens is written
//! down in a [`history`], and the checks conclude from that alone.

pub mod checks;
pub mod history;
pub mod sim;
