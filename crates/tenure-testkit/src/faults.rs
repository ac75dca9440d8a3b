//! Decorators that make an honest engine misbehave on cue: each forwards every verb.
//!
//! [`Faulty`] follows a script kept in a shared handle, [`Faults`]; [`Yielding`] waits once before and once after
//! every verb; [`Silent`] never pushes. They can be stacked.

mod faulty;
mod script;
mod silent;
mod yielding;

#[cfg(test)]
mod tests;

pub use faulty::Faulty;
pub use script::{Fault, Faults, Gate, Nth, Verb};
pub use silent::Silent;
pub use yielding::Yielding;
