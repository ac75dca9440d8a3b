//! Runs the test programs of the workspace, several at a time.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use crate::{
    pool::side_by_side,
    step::{Call, Outcome, step},
};

const BUILD: &str = "cargo test --workspace --all-features --no-run";
/// Started first, since they take longest: whatever is alone at the end makes everybody wait.
const LONGEST: [&str; 3] = ["conformance", "sale", "verify"];

/// A test program, and where cargo would run it.
#[derive(Debug, PartialEq)]
struct Program {
    name: String,
    file: PathBuf,
    home: PathBuf,
}

/// Builds and runs all test programs, then the examples in the documentation.
pub(crate) fn run(root: &Path) -> Outcome {
    // Once for the eyes, since the list comes without them; the second time nothing is left to build.
    Call::new(BUILD).step("build the tests", root)?;
    let list = Call::new(BUILD).arg("--quiet").arg("--message-format=json").output(root)?;
    let programs = programs(&list)?;
    step("test", "cargo test --workspace --all-features", || run_all(programs))?;
    Call::new("cargo test --workspace --all-features --doc").step("examples", root)
}

fn programs(list: &str) -> Result<Vec<Program>, String> {
    let mut all = Vec::new();
    for line in list.lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).map_err(|err| format!("cargo said something strange: {err}"))?;
        let text = |pointer| message.pointer(pointer).and_then(serde_json::Value::as_str);
        let is_test = message.pointer("/profile/test") == Some(&true.into());
        let (Some(file), Some(manifest), Some(target), true) =
            (text("/executable"), text("/manifest_path"), text("/target/name"), is_test)
        else {
            continue;
        };
        let home = Path::new(manifest).parent().unwrap_or(Path::new(".")).to_path_buf();
        let package = home.file_name().unwrap_or_default().to_string_lossy();
        all.push(Program { name: format!("{package} {target}"), file: file.into(), home });
    }
    let rank =
        |program: &Program| LONGEST.iter().position(|long| program.name.ends_with(&format!(" {long}")));
    all.sort_by_key(|program| (rank(program).unwrap_or(LONGEST.len()), program.name.clone()));
    if all.is_empty() { Err("cargo built no test at all".to_owned()) } else { Ok(all) }
}

fn run_all(programs: Vec<Program>) -> Outcome {
    let failed: Vec<String> = side_by_side(programs, |program| {
        let start = Instant::now();
        let output = Command::new(&program.file)
            .current_dir(&program.home)
            .env("CARGO_MANIFEST_DIR", &program.home)
            .output();
        let why = match output {
            Ok(output) => tell(&program, start.elapsed(), &output),
            Err(err) => Some(format!("cannot start: {err}")),
        };
        why.map(|why| format!("{}: {why}", program.name))
    })
    .into_iter()
    .flatten()
    .collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// One line about a program that passed; all that it said if it failed, and then why.
fn tell(program: &Program, took: Duration, output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stdout);
    let result = said.lines().rfind(|line| line.starts_with("test result")).unwrap_or("it gave no result");
    let summary = format!("{:<28} {:>6.1} s  {result}", program.name, took.as_secs_f32());
    if output.status.success() && result.starts_with("test result: ok") {
        println!("{summary}");
        return None;
    }
    println!("{summary}\n{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(format!("{} ({})", result, output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/c/Cargo.toml","target":{{"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/t/{name}"}}"#
        )
    }

    #[test]
    fn every_test_program_is_found_and_the_longest_come_first() {
        let list = [message("it", true), message("tool", false), message("conformance", true)].join("\n");
        let found = programs(&list).unwrap();
        let names: Vec<&str> = found.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["c conformance", "c it"]);
        assert_eq!(
            (found[1].file.as_path(), found[1].home.as_path()),
            (Path::new("/t/it"), Path::new("/w/crates/c"))
        );
        assert!(programs(&message("tool", false)).is_err(), "no test at all is no success");
    }

    #[test]
    fn a_program_that_fails_or_says_nothing_fails_the_run() {
        let program = |file: &str| Program { name: file.to_owned(), file: file.into(), home: ".".into() };
        let why = run_all(vec![program("false"), program("true"), program("no-such-program-anywhere")])
            .unwrap_err();
        assert!(why.contains("false: it gave no result (exit status: 1)"), "{why}");
        assert!(why.contains("true: it gave no result (exit status: 0)"), "{why}");
        assert!(why.contains("no-such-program-anywhere: cannot start"), "{why}");
    }
}
