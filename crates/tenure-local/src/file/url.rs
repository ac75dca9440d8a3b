//! Where the directory is.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use tenure_core::{EngineUrl, Error, Result};

use super::{FileOptions, NetworkFs};

/// The options of a `file:` URL.
pub const OPTIONS: &[&str] = &["network_fs"];

impl FileOptions {
    /// Reads `file:`, which means the user's own directory, or `file:/path`; takes out `network_fs=allow` or
    /// `refuse`.
    ///
    /// # Errors
    /// `Invalid` if the path is relative, the option is neither, or no directory is known for the user.
    pub fn from_url(url: &mut EngineUrl) -> Result<Self> {
        let network_fs = match url.option("network_fs").as_deref() {
            None | Some("refuse") => NetworkFs::Refuse,
            Some("allow") => NetworkFs::Allow,
            Some(other) => {
                let other = other.escape_debug();
                return Err(Error::invalid(format!(
                    "network_fs is `{other}`; it can be `refuse` or `allow`"
                )));
            }
        };
        if !url.hosts().is_empty() {
            return Err(Error::invalid(
                "a file: URL names no host; write file:/path with one slash, or with three",
            ));
        }
        let dir = match url.path() {
            "" => users_dir(|name| env::var_os(name))?,
            path if Path::new(path).is_absolute() => PathBuf::from(path),
            path => {
                return Err(Error::invalid(format!(
                    "the path `{}` is relative, and processes in different directories would not meet; write file:/path",
                    path.escape_debug()
                )));
            }
        };
        Ok(Self { dir, network_fs })
    }
}

/// The state directory, and the runtime directory only for users who have no home. The other way round, a job
/// of cron and a login shell of the same user would lock in different places: only the shell has a runtime
/// directory. That one is also in memory, so that a restart would forget the numbers.
fn users_dir(var: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    // What is not absolute is to be ignored, says the XDG base directory specification.
    let base = |name| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    base("XDG_STATE_HOME")
        .or_else(|| base("HOME").map(|home| home.join(".local/state")))
        .or_else(|| base("XDG_RUNTIME_DIR"))
        .map(|base| base.join("tenure"))
        .ok_or_else(|| {
            Error::invalid(
                "neither XDG_STATE_HOME, HOME nor XDG_RUNTIME_DIR is set; name a directory, as in file:/path",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> Result<FileOptions> {
        FileOptions::from_url(&mut url.parse().unwrap())
    }

    #[test]
    fn paths_are_absolute_and_options_strict() {
        assert_eq!(options("file:/a/b").unwrap().dir, Path::new("/a/b"));
        assert_eq!(options("file:///a/b").unwrap().dir, Path::new("/a/b"));
        assert_eq!(options("file:/a?network_fs=allow").unwrap().network_fs, NetworkFs::Allow);
        for (wrong, says) in [
            ("file:a/b", "relative"),
            ("file:./a", "relative"),
            ("file://host/a", "no host"),
            ("file:/a?network_fs=maybe", "`refuse` or `allow`"),
        ] {
            let err = options(wrong).unwrap_err().to_string();
            assert!(err.contains(says), "{wrong}: {err}");
        }
    }

    #[test]
    fn the_users_directory_follows_the_environment() {
        let dir = |vars: &[(&str, &str)]| {
            users_dir(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        let (run, state, home) = (("XDG_RUNTIME_DIR", "/run/me"), ("XDG_STATE_HOME", "/st"), ("HOME", "/h"));
        assert_eq!(dir(&[run, state, home]).unwrap(), Path::new("/st/tenure"));
        assert_eq!(
            dir(&[run, home]).unwrap(),
            Path::new("/h/.local/state/tenure"),
            "as cron, which has no /run/me"
        );
        assert_eq!(dir(&[("XDG_STATE_HOME", "st"), home]).unwrap(), Path::new("/h/.local/state/tenure"));
        assert_eq!(dir(&[run]).unwrap(), Path::new("/run/me/tenure"));
        assert!(dir(&[]).is_err());
    }
}
