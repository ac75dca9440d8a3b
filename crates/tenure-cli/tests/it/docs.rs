//! The examples that people read are run as they stand.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use crate::{
    bed::{Bed, TENURE},
    process::Running,
};

/// Programs that the examples run, none of which needs to do anything.
const PROGRAMS: [&str; 7] =
    ["backup.sh", "report", "report.sh", "deploy", "deploy.sh", "migrate.sh", "ffmpeg"];

/// One command with what it should print; `None` if the document does not show it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Example {
    command: String,
    output: Option<String>,
    code: i32,
}

/// The commands in the `console` blocks of a document: `$ command`, the lines that it prints, and `? 75` if it
/// does not end with 0.
fn examples(document: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let blocks = document.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    for line in blocks.flat_map(str::lines) {
        if let Some(command) = line.strip_prefix("$ ") {
            examples.push(Example { command: command.to_owned(), ..Example::default() });
        } else if let (Some(example), Some(code)) = (examples.last_mut(), line.strip_prefix("? ")) {
            example.code = code.trim().parse().unwrap();
        } else if line.starts_with("tenure: waiting for") {
            // Said only while others hold the key, whom an example does not have.
        } else if let Some(example) = examples.last_mut() {
            let output = example.output.get_or_insert_default();
            output.push_str(line);
            output.push('\n');
        }
    }
    examples
}

/// Whether a line is as it is shown, where `[..]` stands for anything.
fn is_like(line: &str, shown: &str) -> bool {
    let Some((start, rest)) = shown.split_once("[..]") else { return line == shown };
    let Some(line) = line.strip_prefix(start) else { return false };
    (0..=line.len()).filter(|&at| line.is_char_boundary(at)).any(|at| is_like(&line[at..], rest))
}

fn prepare(bed: &Bed) {
    fs::create_dir(bed.path("bin")).unwrap();
    symlink(TENURE, bed.path("bin/tenure")).unwrap();
    for name in PROGRAMS {
        for path in [bed.path(name), bed.path("bin").join(name)] {
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

fn run(bed: &Bed, example: &Example) {
    let mut bash = Command::new("bash");
    // Built once for all tests, so not once more here.
    let command = example.command.replace("cargo run --", "tenure");
    bash.args(["-c", &format!("exec 2>&1; {command}")]).current_dir(bed.path(""));
    bed.environment(&mut bash);
    let path = format!("{}:{}", bed.path("bin").display(), std::env::var("PATH").unwrap());
    let done = Running::start(bash.env("PATH", path)).end();
    assert_eq!(done.status.code(), Some(example.code), "{example:?}: {done:?}");
    if let Some(output) = &example.output {
        let alike = done.out.lines().count() == output.lines().count()
            && done.out.lines().zip(output.lines()).all(|(line, shown)| is_like(line, shown));
        assert!(alike, "`{}` is shown as\n{output}\nbut prints\n{}", example.command, done.out);
    }
}

#[test]
fn the_examples_in_the_documents_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for document in ["README.md", "docs/cli.md"] {
        let text = fs::read_to_string(root.join(document)).unwrap_or_else(|err| panic!("{document}: {err}"));
        let bed = Bed::new();
        prepare(&bed);
        for example in examples(&text) {
            if example.command.starts_with("tenure ") || example.command.starts_with("cargo run -- ") {
                run(&bed, &example);
                count += 1;
            }
        }
    }
    assert!(count > 4, "only {count} examples were found");
}

#[test]
fn what_is_said_to_those_who_come_from_elsewhere_is_true() {
    let bed = Bed::new();
    prepare(&bed);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let text = fs::read_to_string(path).unwrap();
    let commands = text.lines().filter_map(|row| row.strip_prefix("| `")?.split_once("| `tenure run "));
    let commands: Vec<_> = commands.map(|(_, rest)| rest.split('`').next().unwrap()).collect();
    assert!(commands.len() > 6, "{commands:?}");
    for command in commands {
        let command =
            command.replace("A \\| B", "true | true").replace("CMD", "true").replace("URL", &bed.url());
        run_quickly(&bed, &format!("run {command}"));
    }
}

#[test]
fn the_examples_in_the_manual_and_the_help_run() {
    let bed = Bed::new();
    prepare(&bed);
    for args in [&["--help"][..], &["run", "--help"], &["run", "-h"]] {
        let help = bed.run(args).exits(0).out;
        let examples = help.split("Examples:\n").nth(1).unwrap().lines();
        let commands: Vec<_> = examples.map_while(|line| line.strip_prefix("  tenure ")).collect();
        assert!(commands.len() > 2, "{help}");
        for command in commands {
            // What it is for stands behind it.
            let command = command.split("   ").next().unwrap();
            fs::write(bed.path("in.mov"), "").unwrap();
            run_quickly(&bed, command);
        }
    }
    let manual = bed.run(&["man"]).exits(0).out.replace("\\-", "-");
    assert!(manual.contains("tenure run backup -- ./backup.sh"), "{manual}");
}

/// Runs an example whose output nobody shows. What is only kept on for a while is not waited for.
fn run_quickly(bed: &Bed, command: &str) {
    let command = format!("tenure {}", command.replace("--hold-for 30s", "--hold-for 30ms"));
    run(bed, &Example { command, ..Example::default() });
}

#[test]
fn what_a_document_shows_is_read_as_it_is_meant() {
    let text = "a\n```console\n$ one\n1 [..] x\n2\n$ two\n? 75\n```\n$ not this\n```console\n$ three\n```\n";
    let found = examples(text);
    let commands: Vec<_> = found.iter().map(|example| example.command.as_str()).collect();
    assert_eq!(commands, ["one", "two", "three"]);
    assert_eq!(found[0].output.as_deref(), Some("1 [..] x\n2\n"));
    assert_eq!((found[1].code, &found[1].output), (75, &None));
    assert!(is_like("held by é for 2s", "held by [..] for [..]s"));
    assert!(
        !is_like("held by é for 2s", "held by [..] for [..]m") && !is_like("a", "b") && is_like("a", "[..]")
    );
}
