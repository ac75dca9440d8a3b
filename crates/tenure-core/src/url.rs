use std::{fmt, str::FromStr};

use percent_encoding::percent_decode_str;

use crate::{Address, Error, Result};

/// Where an engine is: `scheme:[//[user[:password]@]host[:port][,host…]][/path][?option=value&…]`.
///
/// Neither `Display` nor `Debug` shows the password. Options are strict: an engine [takes](Self::option) those
/// it knows and then [refuses](Self::no_more_options) the rest by name.
///
/// # Examples
/// ```
/// use tenure_core::EngineUrl;
///
/// let mut url: EngineUrl = "redis://app:secret@h1:6379,h2/3?ttl=5s".parse()?;
/// assert_eq!(url.hosts(), ["h1:6379", "h2"]);
/// assert_eq!(url.option("ttl").as_deref(), Some("5s"));
/// assert_eq!(url.to_string(), "redis://app:***@h1:6379,h2/3");
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone)]
pub struct EngineUrl {
    scheme: String,
    user: Option<String>,
    password: Option<String>,
    hosts: Vec<String>,
    path: String,
    options: Vec<(String, String)>,
}

impl EngineUrl {
    /// The longest URL, in bytes.
    pub const MAX_BYTES: usize = 8 * 1024;

    /// What stands before the first colon, in lower case.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The user, decoded.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password, decoded. Do not print it.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The hosts with their ports, as given.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The hosts with their ports, read.
    ///
    /// # Errors
    /// `Invalid` for one that is none, and if there is none at all, with the example of a URL that has one.
    pub fn addresses(&self, default_port: u16, example: &str) -> Result<Vec<Address>> {
        if self.hosts.is_empty() {
            return Err(Error::invalid(format!("the URL has no host: {example}")));
        }
        self.hosts.iter().map(|host| Address::parse(host, default_port)).collect()
    }

    /// What stands between the hosts and the options, decoded; empty if nothing does.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Takes an option out, decoded; the last one if it was given twice.
    pub fn option(&mut self, name: &str) -> Option<String> {
        let value = self.options.iter().rfind(|(n, _)| n == name).map(|(_, value)| value.clone());
        self.options.retain(|(n, _)| n != name);
        value
    }

    /// Takes `ns=` out, which keeps locks apart that share a server: `tenure` if it was not given.
    ///
    /// # Errors
    /// `Invalid` unless it is 1 to 64 letters, digits, dots, colons, hyphens and underscores.
    pub fn namespace(&mut self) -> Result<String> {
        let ns = self.option("ns").unwrap_or_else(|| "tenure".to_owned());
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        if (1..=64).contains(&ns.len()) && ns.bytes().all(fine) {
            Ok(ns)
        } else {
            Err(Error::invalid("ns= is 1 to 64 letters, digits, dots, colons, hyphens and underscores"))
        }
    }

    /// Refuses what no one has taken out.
    ///
    /// # Errors
    /// `Invalid`, naming the option, the nearest valid one and all valid ones.
    pub fn no_more_options(&self, valid: &[&str]) -> Result<()> {
        let Some((name, _)) = self.options.first() else { return Ok(()) };
        let near = valid.iter().min_by_key(|v| distance(name, v)).filter(|v| distance(name, v) <= 2);
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let all = if valid.is_empty() { "none".to_owned() } else { valid.join(", ") };
        Err(Error::invalid(format!(
            "unknown option `{}` for {}:{hint} (options: {all})",
            name.escape_debug(),
            self.scheme
        )))
    }
}

impl FromStr for EngineUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // Messages never quote the text itself: it may hold a password.
        if text.len() > Self::MAX_BYTES {
            return Err(Error::invalid(format!("the engine URL is longer than {} bytes", Self::MAX_BYTES)));
        }
        let (scheme, rest) =
            text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).ok_or_else(|| {
                Error::invalid(
                    "the engine URL has no scheme; it starts with a word and a colon, such as `file:`",
                )
            })?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (user, password) =
            match login.map(|login| login.split_once(':').map_or((login, None), |(u, p)| (u, Some(p)))) {
                Some((user, password)) => (Some(decode(user)?), password.map(decode).transpose()?),
                None => (None, None),
            };
        let hosts: Vec<String> = hosts.split(',').filter(|h| !h.is_empty()).map(str::to_owned).collect();
        if hosts.iter().any(|h| !h.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]%".contains(&b))) {
            return Err(Error::invalid("a host in the engine URL has a character that no host name has"));
        }
        let options = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((decode(name)?, decode(value)?))
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            user: user.filter(|user| !user.is_empty()),
            password,
            hosts,
            path: decode(path)?,
            options,
        })
    }
}

impl fmt::Display for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme)?;
        if !self.hosts.is_empty() {
            f.write_str("//")?;
            if self.user.is_some() || self.password.is_some() {
                f.write_str(self.user.as_deref().unwrap_or(""))?;
                f.write_str(if self.password.is_some() { ":***@" } else { "@" })?;
            }
            f.write_str(&self.hosts.join(","))?;
        }
        write!(f, "{}", self.path.escape_debug())
    }
}

impl fmt::Debug for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineUrl({self})")
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn decode(text: &str) -> Result<String> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) if !text.contains('\0') => Ok(text.into_owned()),
        _ => Err(Error::invalid("the engine URL has an escape that is no text")),
    }
}

/// How many letters must be added, dropped or changed to make one word the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(32).collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> EngineUrl {
        text.parse().unwrap()
    }

    #[test]
    fn every_part_is_found() {
        let full = url("Redis+Sentinel://al%40ice:p%3As@h1:1,[::1]:2/ma%20ster/0?a=1&b=%26&a=2");
        assert_eq!(full.scheme(), "redis+sentinel");
        assert_eq!((full.user(), full.password()), (Some("al@ice"), Some("p:s")));
        assert_eq!(full.hosts(), ["h1:1", "[::1]:2"]);
        assert_eq!(full.path(), "/ma ster/0");
        let mut full = full;
        assert_eq!(full.option("a").as_deref(), Some("2"));
        assert_eq!(full.option("b").as_deref(), Some("&"));
        assert_eq!(full.option("c"), None);
        assert!(full.no_more_options(&["a", "b"]).is_ok());

        assert_eq!(url("file:").path(), "");
        assert_eq!(url("file:/var/lock/x").path(), "/var/lock/x");
        assert_eq!(url("file:///var/lock/x").path(), "/var/lock/x");
        assert_eq!(url("memory:").hosts().len(), 0);
        assert_eq!(url("redis://:pw@h").password(), Some("pw"));
    }

    #[test]
    fn a_misspelt_option_is_refused_with_the_right_one() {
        let err = url("redis://h/?tll=5s").no_more_options(&["db", "ns", "ttl"]).unwrap_err().to_string();
        assert_eq!(
            err,
            "invalid: unknown option `tll` for redis:; did you mean `ttl`? (options: db, ns, ttl)"
        );
        let err = url("memory:?banana=1").no_more_options(&[]).unwrap_err().to_string();
        assert_eq!(err, "invalid: unknown option `banana` for memory: (options: none)");
    }

    #[test]
    fn nothing_shows_a_password() {
        for text in [
            "redis://u:hunter2@h/0?x=1",
            "redis://:hunter2@h",
            "redis://u:hunter2@h\u{7f}",
            "hunter2",
            "redis://u:hunter2%ff@h",
        ] {
            match text.parse::<EngineUrl>() {
                Ok(url) => assert!(!format!("{url} {url:?}").contains("hunter2"), "{text}"),
                Err(err) => assert!(!format!("{err} {err:?}").contains("hunter2"), "{text}"),
            }
        }
    }

    #[test]
    fn hosts_and_namespaces_are_read_or_refused() {
        let read = |text: &str| url(text).addresses(1, "x://host");
        let shown: Vec<_> = read("x://h,[::1]:2").unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["h:1", "[::1]:2"]);
        assert!(read("x://h:0").is_err());
        assert_eq!(read("x:").unwrap_err().to_string(), "invalid: the URL has no host: x://host");
        assert_eq!(url("x://h").namespace().unwrap(), "tenure");
        assert_eq!(url("x://h?ns=a.b:c-d_9").namespace().unwrap(), "a.b:c-d_9");
        for wrong in ["", "a/b", "a%20b", &"x".repeat(65)] {
            assert!(url(&format!("x://h?ns={wrong}")).namespace().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}|[a-z:/@?&=%,.0-9]{0,60}") {
            if let Ok(url) = text.parse::<EngineUrl>() {
                let _ = (url.to_string(), url.no_more_options(&["ttl"]));
            }
        }
    }
}
