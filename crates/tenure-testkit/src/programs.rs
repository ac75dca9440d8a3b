//! Where the programs of servers are, and how one that ends by itself is run.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::geteuid;

use crate::{Failure, Result};

/// How long a program that prepares something may take, in seconds, on a machine busy with other things.
const LIMIT: &str = "60";

/// Finds a program on the search path, or where Debian keeps servers, which is not on everybody's path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut files = env::split_paths(&path).chain(["/usr/sbin".into()]).map(|dir| dir.join(program));
    files.find(|file| file.is_file())
}

/// Says which package is missing, if one of the programs is.
pub(crate) fn need(programs: &[(&str, &str)]) -> Result<(), String> {
    match programs.iter().find(|(program, _)| find(program).is_none()) {
        Some((program, package)) => Err(missing(program, package)),
        None => Ok(()),
    }
}

/// What to say when a program is not there.
pub(crate) fn missing(program: &str, package: &str) -> String {
    format!("`{program}` is not installed; run: apt-get install {package}")
}

/// Whom to run a server as that refuses to be root: this user if the test is root, else the user of the test.
pub(crate) fn unless_root(user: &str) -> Option<String> {
    geteuid().is_root().then(|| user.to_owned())
}

/// Runs a program to its end as this user, with a file as its input if there is one; stops it after a minute.
pub(crate) fn run(
    user: Option<&str>,
    program: &Path,
    args: &[String],
    input: Option<&Path>,
) -> Result<String> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "1", LIMIT, "setpriv"]);
    if let Some(user) = user {
        command.args(["--reuid", user, "--regid", user, "--init-groups"]);
    }
    command.arg("--").arg(program).args(args).current_dir("/");
    command.stdin(input.map(fs::File::open).transpose()?.map_or_else(Stdio::null, Stdio::from));
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    let why = why.join("\n");
    Err(Failure::of_the_trial(format!(
        "`{}` ended with {}: {}",
        program.display(),
        output.status,
        why.trim()
    )))
}

/// Copies a directory with all that is in it and whom it belongs to.
pub(crate) fn copy(from: &Path, to: &Path) -> Result {
    let args = ["-a".into(), from.display().to_string(), to.display().to_string()];
    run(None, Path::new("cp"), &args, None).map(drop)
}
