use std::path::Path;

use crate::step::{Call, Outcome};

/// Runs simulated schedules with these options; the program explains them.
pub(crate) fn run(root: &Path, options: &[&str]) -> Outcome {
    let call = Call::new("cargo run --release --quiet --package tenure-verify --example simulate --");
    options.iter().fold(call, |call, &option| call.arg(option)).step("simulate", root)
}
