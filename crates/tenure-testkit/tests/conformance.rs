//! Asks every rule of every engine: `cargo test -p tenure-testkit --test conformance -- memory::fence`.

use std::process::ExitCode;

use tenure_testkit::{helper, servers, trials};

fn main() -> ExitCode {
    if let Some(code) = helper::run_if_asked() {
        return code;
    }
    let mut args = libtest_mimic::Arguments::from_args();
    // Most trials spend their time waiting for a lease to end.
    args.test_threads.get_or_insert(8);
    libtest_mimic::run(&args, trials(servers::all())).exit_code()
}
