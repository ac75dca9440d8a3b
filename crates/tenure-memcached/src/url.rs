use tenure_core::{Address, EngineUrl, Error, Result};

/// The options of the URL.
pub const OPTIONS: &[&str] = &["ns"];

const PORT: u16 = 11211;

/// The most servers that one client uses.
const MOST_SERVERS: usize = 100;

/// Where the servers are and how they are used.
#[derive(Clone)]
pub struct MemcachedOptions {
    pub(crate) hosts: Vec<Address>,
    pub(crate) login: Option<Login>,
    pub(crate) ns: String,
}

#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl MemcachedOptions {
    /// Reads `memcached://[user:password@]host1[:11211][,host2…]` and takes the options out.
    ///
    /// # Errors
    /// `Invalid` for what is wrong, with what is right.
    pub fn from_url(url: &mut EngineUrl) -> Result<Self> {
        if url.scheme() != "memcached" {
            return Err(Error::invalid("a memcached URL starts with memcached:"));
        }
        if !matches!(url.path(), "" | "/") {
            return Err(Error::invalid("memcached: has no path; use `ns=` to keep locks apart"));
        }
        let hosts = url.addresses(PORT, "memcached://host:11211")?;
        if hosts.len() > MOST_SERVERS {
            return Err(Error::invalid(format!("the URL has more than {MOST_SERVERS} hosts")));
        }
        if (1..hosts.len()).any(|at| hosts[..at].contains(&hosts[at])) {
            return Err(Error::invalid("the URL names one host twice"));
        }
        Ok(Self { hosts, login: login(url)?, ns: namespace(url)? })
    }
}

fn login(url: &EngineUrl) -> Result<Option<Login>> {
    match (url.user(), url.password()) {
        (None, None) => Ok(None),
        (Some(user), Some(password)) => {
            // The server reads `user password` as one line of words.
            let fine = |word: &str| !word.is_empty() && !word.contains([' ', '\r', '\n']);
            if !fine(user) || !fine(password) {
                return Err(Error::invalid(
                    "a user and a password of memcached have no spaces and no line ends",
                ));
            }
            Ok(Some(Login { user: user.to_owned(), password: password.to_owned() }))
        }
        _ => Err(Error::invalid("a user and a password go together: memcached://user:password@host")),
    }
}

fn namespace(url: &mut EngineUrl) -> Result<String> {
    let ns = url.option("ns").unwrap_or_else(|| "tenure".to_owned());
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=64).contains(&ns.len()) && ns.bytes().all(fine) {
        Ok(ns)
    } else {
        Err(Error::invalid("ns= is 1 to 64 letters, digits, dots, hyphens and underscores"))
    }
}

impl std::fmt::Debug for MemcachedOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemcachedOptions")
            .field("hosts", &self.hosts)
            .field("ns", &self.ns)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<MemcachedOptions> {
        let mut url: EngineUrl = url.parse()?;
        let options = MemcachedOptions::from_url(&mut url)?;
        url.no_more_options(OPTIONS)?;
        Ok(options)
    }

    #[test]
    fn every_part_is_found() {
        let options = read("memcached://anna:p%40s@h1,h2:1,[::1]/?ns=shop").unwrap();
        let hosts: Vec<_> = options.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["h1:11211", "h2:1", "[::1]:11211"]);
        let login = options.login.as_ref().unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("anna", "p@s"));
        assert_eq!(options.ns, "shop");
        assert!(!format!("{options:?}").contains("p@s"));
        assert_eq!(read("memcached://h").unwrap().ns, "tenure");
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for (url, hint) in [
            ("memcached:", "no host"),
            ("memcached://h/1", "no path"),
            ("memcached://h,h:11211", "twice"),
            ("memcached://h:0", "no host and port"),
            ("memcached://anna@h", "go together"),
            ("memcached://:secret@h", "go together"),
            ("memcached://anna:se%20cret@h", "no spaces"),
            ("memcached://anna:se%0d%0acret@h", "no spaces"),
            ("memcached://h?ns=", "ns="),
            ("memcached://h?ns=a%20b", "ns="),
            ("memcached://h?ns=a%0d%0aflush_all", "ns="),
            ("memcached://h?nss=a", "did you mean `ns`?"),
        ] {
            let err = read(url).unwrap_err().to_string();
            assert!(err.contains(hint) && !err.contains("cret"), "{url}: {err}");
        }
    }
}
