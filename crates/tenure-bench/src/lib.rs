//! What a lock costs on the engine you run, as ratios to the engine's own round trip.

mod counting;

pub use self::counting::{Counter, Counting, Verbs};
