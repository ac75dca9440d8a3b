//! Which engine is meant, and opening it.

use std::{env, fs::File, future::Future, io::Read, path::PathBuf, time::Duration};

use tenure::{Client, EngineUrl, Settings, Ttl, parse_duration};
use tokio::runtime::Builder;

use crate::{
    args::On,
    exit::{self, Failure},
    out,
};

/// The engine of those who say nothing.
const DEFAULT: &str = "file:";
/// The variable that names the engine. Jobs do not inherit it: it may hold a password.
pub(crate) const URL_VARIABLE: &str = "TENURE_URL";

/// An engine by its URL. Neither `Display` nor `Debug` shows a password.
#[derive(Debug)]
pub(crate) struct Target {
    secret: Secret,
    url: EngineUrl,
}

struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.url.fmt(f)
    }
}

impl Target {
    /// The engine that the flags name, else the environment, else the files of this machine.
    pub(crate) fn resolve(on: &On) -> Result<Self, Failure> {
        if let Some(target) = Self::named(on)? {
            return Ok(target);
        }
        match env::var_os(URL_VARIABLE).filter(|url| !url.is_empty()) {
            Some(url) => {
                Self::parse(url.into_string().map_err(|_| {
                    Failure::new(exit::CONFIG, format!("the URL in {URL_VARIABLE} is no text"))
                })?)
            }
            None => Self::parse(DEFAULT.to_owned()),
        }
    }

    /// The engine that was named on the command line, where a password does not belong.
    pub(crate) fn from_words(url: &str) -> Result<Self, Failure> {
        let target = Self::parse(url.to_owned())?;
        if target.url.password().is_some() {
            out::say(&format!(
                "a password on the command line shows in the list of processes; put the URL into {URL_VARIABLE} or into a file for --on-file"
            ));
        }
        Ok(target)
    }

    /// The engine that the flags name, if they name one.
    pub(crate) fn named(on: &On) -> Result<Option<Self>, Failure> {
        match (&on.on, &on.on_file) {
            (Some(url), _) => Self::from_words(url).map(Some),
            (None, Some(path)) => Self::parse(read(path)?).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The URL with its password, for a process of our own.
    pub(crate) fn secret(&self) -> &str {
        &self.secret.0
    }

    fn parse(text: String) -> Result<Self, Failure> {
        let url = text.parse().map_err(config)?;
        Ok(Self { secret: Secret(text), url })
    }

    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        tenure::connect(&self.secret.0).await.map_err(config)
    }

    /// The lease that the URL asks for, else the usual one.
    pub(crate) fn ttl(&self) -> Result<Duration, Failure> {
        match self.url.clone().option("ttl") {
            Some(ttl) => parse_duration(&ttl).map_err(config),
            None => Ok(Ttl::default().get()),
        }
    }

    /// Who we are in a line.
    pub(crate) fn who(&self) -> String {
        self.url.clone().option("who").unwrap_or_else(|| Settings::default().who)
    }
}

/// A mistake in a URL is one of configuration, wherever in the library it was noticed.
pub(crate) fn config(err: tenure::Error) -> Failure {
    let failure = Failure::from(err);
    if failure.code == exit::USAGE { Failure { code: exit::CONFIG, ..failure } } else { failure }
}

/// The first line of a file, which must not be larger than a URL can be.
fn read(path: &PathBuf) -> Result<String, Failure> {
    let wrong = |err: &dyn std::fmt::Display| {
        Failure::new(exit::CONFIG, format!("cannot read an engine URL from {}: {err}", path.display()))
    };
    let mut text = String::new();
    let limit = EngineUrl::MAX_BYTES as u64 + 2;
    File::open(path)
        .and_then(|file| file.take(limit).read_to_string(&mut text))
        .map_err(|err| wrong(&err))?;
    match text.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(wrong(&"it is empty")),
    }
}

/// Runs a verb to its end on a runtime of one thread.
pub(crate) fn block_on<T>(verb: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| Failure::internal("cannot start", err))?;
    runtime.block_on(verb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_the_password() {
        let target = Target::parse("redis://app:hunter2@h/0?ttl=5s&who=ci".to_owned()).unwrap();
        assert!(!format!("{target} {target:?}").contains("hunter2"));
        assert_eq!(target.to_string(), "redis://app:***@h/0");
        assert_eq!(target.ttl().unwrap(), Duration::from_secs(5));
        assert_eq!(target.who(), "ci");
    }

    #[test]
    fn a_wrong_url_is_a_matter_of_configuration() {
        assert_eq!(Target::parse("hunter2".to_owned()).unwrap_err().code, exit::CONFIG);
        assert_eq!(Target::parse("file:?ttl=soon".to_owned()).unwrap().ttl().unwrap_err().code, exit::CONFIG);
    }
}
