use std::{env, fmt, path::Path, process::Command, time::Instant};

/// Nothing, or why it went wrong, in words for a person.
pub(crate) type Outcome = Result<(), String>;

/// Does one piece of work, saying its name before it and its duration after it.
///
/// A failure names the command that repeats just this step.
pub(crate) fn step(name: &str, again: impl fmt::Display, work: impl FnOnce() -> Outcome) -> Outcome {
    println!("==> {name}: {again}");
    let start = Instant::now();
    let outcome = work();
    let took = start.elapsed().as_secs_f32();
    match outcome {
        Ok(()) => {
            println!("<== {name}: ok in {took:.1} s");
            Ok(())
        }
        Err(why) => Err(format!("<== {name}: FAILED after {took:.1} s: {why}\nto repeat it alone: {again}")),
    }
}

/// A command as it would be typed at the top of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    program: String,
    args: Vec<String>,
    env: Vec<(&'static str, &'static str)>,
}

impl Call {
    pub(crate) fn new(line: &str) -> Self {
        let mut words = line.split_whitespace().map(str::to_owned);
        Self { program: words.next().unwrap_or_default(), args: words.collect(), env: Vec::new() }
    }

    pub(crate) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    /// Runs it as a step of its own, with its output shown as it comes.
    pub(crate) fn step(&self, name: &str, root: &Path) -> Outcome {
        step(name, self, || match self.command(root).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(status.to_string()),
            Err(err) => Err(format!("cannot start `{}`: {err}", self.program)),
        })
    }

    /// What it prints, once it has ended well.
    pub(crate) fn output(&self, root: &Path) -> Result<String, String> {
        let output =
            self.command(root).output().map_err(|err| format!("cannot start `{}`: {err}", self.program))?;
        if !output.status.success() {
            return Err(format!("{self}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        String::from_utf8(output.stdout).map_err(|err| format!("{self}: {err}"))
    }

    /// Whether it runs and ends well, with its output dropped.
    pub(crate) fn succeeds(&self, root: &Path) -> bool {
        self.command(root).output().is_ok_and(|output| output.status.success())
    }

    fn command(&self, root: &Path) -> Command {
        // The very cargo that runs this, not another one that a search path may find first.
        let cargo = (self.program == "cargo").then(|| env::var_os("CARGO")).flatten();
        let mut command = Command::new(cargo.unwrap_or_else(|| self.program.clone().into()));
        command.args(&self.args).envs(self.env.iter().copied()).current_dir(root);
        command
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}=\"{value}\" ")?;
        }
        f.write_str(&self.program)?;
        for arg in &self.args {
            if arg.contains(' ') { write!(f, " '{arg}'")? } else { write!(f, " {arg}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_to_repeat() {
        let call = Call::new("false").arg("two words").env("FLAGS", "-D warnings");
        let why = call.step("chore", Path::new(".")).unwrap_err();
        assert!(why.contains("chore: FAILED after"), "{why}");
        assert!(why.ends_with("FLAGS=\"-D warnings\" false 'two words'"), "{why}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let why = Call::new("no-such-program-anywhere").step("x", Path::new(".")).unwrap_err();
        assert!(why.contains("cannot start `no-such-program-anywhere`"), "{why}");
        assert!(!Call::new("no-such-program-anywhere").succeeds(Path::new(".")));
    }
}
