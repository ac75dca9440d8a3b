use std::{path::PathBuf, str::FromStr, time::Duration};

use crate::trouble::{Result, Trouble};

/// The most processes and tasks in each, and locks.
const MAX_PROCESSES: u32 = 256;
const MAX_TASKS: u32 = 10_000;
const MAX_LOCKS: u32 = 1_000_000;
/// Less than this measures nothing.
const LEAST: Duration = Duration::from_secs(1);

/// One thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Acquire and release, with nobody else.
    Alone,
    /// From a release to the hold of whoever waited.
    Handoff,
    /// Many on one key.
    Hot,
    /// A holder is killed.
    Crash,
    /// Many locks at once.
    Held,
}

impl Measure {
    /// All, in the order in which they are measured.
    pub const ALL: [Self; 5] = [Self::Alone, Self::Handoff, Self::Hot, Self::Crash, Self::Held];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Handoff => "handoff",
            Self::Hot => "hot",
            Self::Crash => "crash",
            Self::Held => "held",
        }
    }

    /// What is measured, for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Alone => "acquire and release, alone",
            Self::Handoff => "hand-off",
            Self::Hot => "one hot key",
            Self::Crash => "crash of a holder",
            Self::Held => "many held locks",
        }
    }

    /// Its part of the time.
    const fn weight(self) -> u32 {
        match self {
            Self::Alone | Self::Handoff => 4,
            Self::Hot | Self::Held => 5,
            Self::Crash => 6,
        }
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|measure| measure.name() == name).ok_or_else(|| {
            format!(
                "`{name}` is nothing that is measured; there are {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

/// What a bench is to do.
#[derive(Clone)]
pub struct Options {
    /// The engine; files in a folder of the bench's own if none is named.
    pub on: Option<String>,
    /// How long it may take in all, about.
    pub time: Duration,
    /// What is measured.
    pub only: Vec<Measure>,
    /// How many processes contend for the hot key.
    pub processes: u32,
    /// How many tasks in each.
    pub tasks: u32,
    /// How many locks are held at once.
    pub locks: u32,
    /// The engine's process, if it runs on this machine and its memory is to be measured too.
    pub engine_process: Option<u32>,
    /// The program that becomes another process when its first word is [`PART_WORD`](crate::PART_WORD).
    pub program: PathBuf,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may hold a password.
        f.debug_struct("Options").field("only", &self.only).finish_non_exhaustive()
    }
}

impl Options {
    /// The bench of those who say nothing: everything, in half a minute.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self {
            on: None,
            time: Duration::from_secs(30),
            only: Measure::ALL.to_vec(),
            processes: 4,
            tasks: 8,
            locks: 10_000,
            engine_process: None,
            program,
        }
    }

    /// Whether it can be done.
    ///
    /// # Errors
    /// `Usage`, naming the option and what is possible.
    pub fn check(&self) -> Result<(), Trouble> {
        let within = |name: &str, value: u32, most: u32| match value {
            1.. if value <= most => Ok(()),
            _ => Err(Trouble::Usage(format!("{name} is {value}; there can be 1 to {most}"))),
        };
        within("--processes", self.processes, MAX_PROCESSES)?;
        within("--tasks", self.tasks, MAX_TASKS)?;
        within("--locks", self.locks, MAX_LOCKS)?;
        if self.time < LEAST {
            return Err(Trouble::Usage(format!(
                "--for is {:?}; less than {LEAST:?} measures nothing",
                self.time
            )));
        }
        if self.only.is_empty() {
            return Err(Trouble::Usage("--only names nothing".into()));
        }
        Ok(())
    }

    /// The time of one measurement.
    pub(crate) fn share(&self, measure: Measure) -> Duration {
        let all: u32 = self.only.iter().map(|measure| measure.weight()).sum();
        self.time * measure.weight() / all.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_strictly() {
        let good = Options::new(PathBuf::new());
        good.check().unwrap();
        for (change, word) in [
            ((|o| o.processes = 0) as fn(&mut Options), "--processes"),
            (|o| o.tasks = 20_000, "--tasks"),
            (|o| o.locks = 0, "--locks"),
            (|o| o.time = Duration::from_millis(10), "--for"),
            (|o| o.only.clear(), "--only"),
        ] {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(bad.check().unwrap_err().to_string().starts_with(word));
        }
        assert!("hotter".parse::<Measure>().unwrap_err().contains("alone, handoff, hot, crash, held"));
    }

    #[test]
    fn the_time_is_shared_out() {
        let options = Options::new(PathBuf::new());
        let all: Duration = Measure::ALL.into_iter().map(|measure| options.share(measure)).sum();
        assert!(all <= options.time && all > options.time * 9 / 10);
    }
}
