//! Fenced data.
fn main() {}
