use std::{
    collections::BTreeSet,
    env, fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::step::{Call, Outcome};

/// A server that the tests of an engine start.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// What the tests run.
    program: &'static str,
    /// The Debian package that has it.
    package: &'static str,
}

/// The programs the tests need.
const SERVERS: &[Server] = &[
    Server { program: "redis-server", package: "redis-server" },
    Server { program: "redis-sentinel", package: "redis-sentinel" },
    Server { program: "mariadbd", package: "mariadb-server" },
    Server { program: "mariadb-install-db", package: "mariadb-server" },
    Server { program: "mariadb", package: "mariadb-client" },
    Server { program: "memcached", package: "memcached" },
    Server { program: "postgres", package: "postgresql" },
    Server { program: "initdb", package: "postgresql" },
    Server { program: "psql", package: "postgresql" },
    Server { program: "pgbouncer", package: "pgbouncer" },
    Server { program: "etcd", package: "etcd-server" },
    Server { program: "java", package: "default-jre-headless" },
    Server { program: "zookeeper.jar", package: "zookeeper" },
    Server { program: "slf4j-simple.jar", package: "libslf4j-java" },
    // Opens the page of a sale.
    Server { program: "chromium", package: "chromium" },
    // Makes the certificates for servers with TLS.
    Server { program: "openssl", package: "openssl" },
    // Sets the clock of one server.
    Server { program: "faketime", package: "faketime" },
];

/// Where Debian keeps PostgreSQL, in a directory for each version.
const POSTGRESQL: &str = "/usr/lib/postgresql";

/// What Debian's packages ask before they start their server.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Sees to it that every server the tests start is there.
///
/// # Errors
/// The one command to run, when something is missing and only root may install it.
pub(crate) fn ensure(root: &Path) -> Outcome {
    let is_root = || Call::new("test -w /var/lib/dpkg").succeeds(root);
    match plan(SERVERS, installed, is_root) {
        Plan::Ready => Ok(()),
        Plan::Install(calls) => {
            let _quiet =
                Policy::against_starting(Path::new(POLICY)).map_err(|err| format!("{POLICY}: {err}"))?;
            calls.iter().try_for_each(|call| call.step("servers", root))
        }
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

/// Keeps packages from starting their servers while it lives: the tests start their own, with ports and data of their
/// own, and nobody asked for another one on this machine.
#[derive(Debug)]
struct Policy {
    /// Nothing where the machine has a policy already, as containers do: that one stands.
    ours: Option<PathBuf>,
}

impl Policy {
    /// 101 is "do not". If this process is killed before it takes the file away, the file does so itself the next time
    /// it is asked.
    fn against_starting(path: &Path) -> io::Result<Self> {
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(path) {
            Ok(mut file) => {
                let policy = Self { ours: Some(path.to_owned()) };
                let pid = std::process::id();
                write!(file, "#!/bin/sh\n[ -d /proc/{pid} ] && exit 101\nrm -f \"$0\"\nexit 0\n")?;
                Ok(policy)
            }
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(Self { ours: None }),
            Err(err) => Err(err),
        }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if let Some(path) = &self.ours {
            let _ = fs::remove_file(path);
        }
    }
}

/// Where Debian keeps what is written in Java.
const JARS: &str = "/usr/share/java";

/// Whether a program is on the search path or where Debian keeps servers.
fn installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut dirs = env::split_paths(&path)
        .chain(["/usr/sbin".into(), JARS.into()])
        .chain(versions(Path::new(POSTGRESQL)));
    dirs.any(|dir| dir.join(program).is_file())
}

/// Where the programs of each version are, of a package that has several side by side.
fn versions(home: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(home).into_iter().flatten().flatten().map(|version| version.path().join("bin"))
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
    fn a_program_is_found_in_the_directory_of_any_version() {
        let home = env::temp_dir().join(format!("tenure-versions-{}", std::process::id()));
        fs::create_dir_all(home.join("9/bin")).unwrap();
        fs::create_dir_all(home.join("10/bin")).unwrap();
        let dirs: BTreeSet<_> = versions(&home).collect();
        fs::remove_dir_all(&home).unwrap();
        assert_eq!(dirs, [home.join("10/bin"), home.join("9/bin")].into());
        assert_eq!(versions(&home).count(), 0, "where there is none");
    }

    #[test]
    fn servers_are_not_started_meanwhile_and_a_policy_of_the_machine_stands() {
        let path = env::temp_dir().join(format!("tenure-policy-{}", std::process::id()));
        let answer = || std::process::Command::new("sh").arg(&path).status().unwrap().code();
        let policy = Policy::against_starting(&path).unwrap();
        assert_eq!(answer(), Some(101));
        drop(Policy::against_starting(&path).unwrap());
        assert_eq!(answer(), Some(101), "the policy of another is not taken away");
        // As if this process had been killed: no process has the number 0.
        let left = fs::read_to_string(&path).unwrap().replace(&std::process::id().to_string(), "0");
        fs::write(&path, left).unwrap();
        assert_eq!(answer(), Some(0));
        assert!(!path.exists(), "a policy that was left behind takes itself away");
        drop(policy);
        drop(Policy::against_starting(&path).unwrap());
        assert!(!path.exists());
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
