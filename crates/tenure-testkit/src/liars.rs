//! Engines that each break one clause, among them the wrong ways that locks are known to be built.
//!
//! All are one small honest engine over the pure [`model`](crate::model), in which one [`Lie`] changes one step.
//! Each lie names the rules that must catch it; without a lie the engine passes every rule.

mod engine;
mod lab;
mod lies;

pub use lab::site;
pub use lies::Lie;
