use std::{collections::BTreeSet, env, path::Path};

use crate::step::{Call, Outcome};

/// A server that the tests of an engine start.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// What the tests run.
    program: &'static str,
    /// The Debian package that has it.
    package: &'static str,
}

/// The servers the tests need. The engines there are so far need none.
const SERVERS: &[Server] = &[];

/// Sees to it that every server the tests start is there.
///
/// # Errors
/// The one command to run, when something is missing and only root may install it.
pub(crate) fn ensure(root: &Path) -> Outcome {
    let is_root = || Call::new("test -w /var/lib/dpkg").succeeds(root);
    match plan(SERVERS, installed, is_root) {
        Plan::Ready => Ok(()),
        Plan::Install(calls) => calls.iter().try_for_each(|call| call.step("servers", root)),
        Plan::Ask(command) => Err(format!("the tests need servers that are missing here; run: {command}")),
    }
}

#[derive(Debug)]
enum Plan {
    Ready,
    Install([Call; 2]),
    Ask(String),
}

fn plan(servers: &[Server], installed: impl Fn(&str) -> bool, may_install: impl Fn() -> bool) -> Plan {
    let missing: BTreeSet<&str> =
        servers.iter().filter(|server| !installed(server.program)).map(|server| server.package).collect();
    if missing.is_empty() {
        return Plan::Ready;
    }
    let update = Call::new("apt-get update");
    let mut install = Call::new("apt-get install --yes --no-install-recommends");
    for package in missing {
        install = install.arg(package);
    }
    if may_install() {
        Plan::Install([update, install].map(|call| call.env("DEBIAN_FRONTEND", "noninteractive")))
    } else {
        Plan::Ask(format!("sudo {update} && sudo {install}"))
    }
}

/// Whether a program is on the search path or where Debian keeps servers.
fn installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(["/usr/sbin".into()]).any(|dir| dir.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[Server] = &[
        Server { program: "beehived", package: "beehive-server" },
        Server { program: "beehive-watch", package: "beehive-server" },
        Server { program: "sh", package: "dash" },
    ];

    #[test]
    fn nothing_is_done_when_all_is_there() {
        assert!(matches!(plan(TWO, |_| true, || panic!("not asked")), Plan::Ready));
    }

    #[test]
    fn root_installs_each_missing_package_once() {
        let Plan::Install([update, install]) = plan(TWO, installed, || true) else { panic!("a plan") };
        assert!(update.to_string().ends_with("apt-get update"));
        assert_eq!(
            install.to_string(),
            "DEBIAN_FRONTEND=\"noninteractive\" apt-get install --yes --no-install-recommends beehive-server"
        );
    }

    #[test]
    fn others_are_told_the_one_command() {
        let Plan::Ask(command) = plan(TWO, |_| false, || false) else { panic!("a command") };
        assert_eq!(
            command,
            "sudo apt-get update && sudo apt-get install --yes --no-install-recommends beehive-server dash"
        );
    }
}
