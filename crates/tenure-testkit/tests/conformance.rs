//! Asks every rule of every engine: `cargo test -p tenure-testkit --test conformance -- memory::fence`.

use std::process::ExitCode;

use tenure_testkit::{helper, servers, trials};

fn main() -> ExitCode {
    if let Some(code) = helper::run_if_asked() {
        return code;
    }
    let args = libtest_mimic::Arguments::from_args();
    libtest_mimic::run(&args, trials(servers::all())).exit_code()
}
