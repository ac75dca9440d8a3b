//! The engines of `tenure` that need no server.
//!
//! [`Memory`] is the reference engine: lines in a map, for tasks and threads of one process.
//! [`FileEngine`](file::FileEngine) is the default one: lines in a directory, for the processes of one machine.

#[cfg(target_os = "linux")]
pub mod file;
mod memory;
mod wall;

pub use memory::Memory;
