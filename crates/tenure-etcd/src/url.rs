use std::path::PathBuf;

use tenure_core::{Address, EngineUrl, Error, Result};

/// The options of the URL.
pub const OPTIONS: &[&str] = &["ca", "cert", "key", "ns"];

const PORT: u16 = 2379;

/// Where the servers are and how they are used.
#[derive(Clone)]
pub struct EtcdOptions {
    /// Asked in this order.
    pub(crate) hosts: Vec<Address>,
    pub(crate) login: Option<Login>,
    pub(crate) ns: String,
    pub(crate) tls: Option<Tls>,
}

/// Who this client is.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Files for TLS, where the machine's own authorities are not meant.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "read only where TLS is compiled in"))]
pub(crate) struct Tls {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

impl Default for EtcdOptions {
    /// A server on this machine.
    fn default() -> Self {
        let hosts = vec![Address { host: "localhost".into(), port: PORT }];
        Self { hosts, login: None, ns: "tenure".into(), tls: None }
    }
}

impl EtcdOptions {
    /// Reads `etcd[s]://[user:password@]host1[:2379],host2,…`, and takes the options out.
    ///
    /// # Errors
    /// `Invalid` for what is wrong, with what is right.
    pub fn from_url(url: &mut EngineUrl) -> Result<Self> {
        let private = match url.scheme() {
            "etcd" => false,
            "etcds" => true,
            _ => return Err(Error::invalid("an etcd URL starts with etcd: or etcds:")),
        };
        let hosts = url.hosts().iter().map(|host| Address::parse(host, PORT)).collect::<Result<Vec<_>>>()?;
        if hosts.is_empty() {
            return Err(Error::invalid("the URL has no host: etcd://host1,host2,host3"));
        }
        if url.path().split('/').any(|part| !part.is_empty()) {
            return Err(Error::invalid("an etcd URL has no path; use `ns=` to keep locks apart"));
        }
        let login = match (url.user(), url.password()) {
            (None, None) => None,
            (Some(user), Some(password)) => {
                Some(Login { user: user.to_owned(), password: password.to_owned() })
            }
            _ => return Err(Error::invalid("a user and a password go together: etcd://user:password@host")),
        };
        Ok(Self { hosts, login, ns: namespace(url)?, tls: tls(url, private)? })
    }
}

/// Has no slash, so that no namespace is within another.
fn namespace(url: &mut EngineUrl) -> Result<String> {
    let ns = url.option("ns").unwrap_or_else(|| "tenure".to_owned());
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    if (1..=64).contains(&ns.len()) && ns.bytes().all(fine) {
        Ok(ns)
    } else {
        Err(Error::invalid("ns= is 1 to 64 letters, digits, dots, colons, hyphens and underscores"))
    }
}

fn tls(url: &mut EngineUrl, private: bool) -> Result<Option<Tls>> {
    let [ca, cert, key] = ["ca", "cert", "key"].map(|name| url.option(name).map(PathBuf::from));
    let client = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return Err(Error::invalid("cert= and key= go together")),
    };
    if private {
        Ok(Some(Tls { ca, client }))
    } else if ca.is_some() || client.is_some() {
        Err(Error::invalid("ca=, cert= and key= are for TLS; write `etcds:`"))
    } else {
        Ok(None)
    }
}

impl std::fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("hosts", &self.hosts)
            .field("ns", &self.ns)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<EtcdOptions> {
        let mut url: EngineUrl = url.parse()?;
        let options = EtcdOptions::from_url(&mut url)?;
        url.no_more_options(OPTIONS)?;
        Ok(options)
    }

    #[test]
    fn every_form_is_read() {
        let full = read("etcds://app:s%40cret@a:1,[::1],c/?ns=shop&ca=/ca&cert=/c&key=/k").unwrap();
        let hosts: Vec<_> = full.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["a:1", "[::1]:2379", "c:2379"]);
        assert_eq!(full.ns, "shop");
        assert!(!format!("{full:?}").contains("cret"));
        let login = full.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("app", "s@cret"));
        let tls = full.tls.unwrap();
        assert_eq!((tls.ca, tls.client), (Some("/ca".into()), Some(("/c".into(), "/k".into()))));
        let short = read("etcd://h").unwrap();
        assert_eq!(short.ns, "tenure");
        assert!(short.tls.is_none() && short.login.is_none());
        assert!(read("etcds://h").unwrap().tls.is_some());
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right() {
        for (url, said) in [
            ("etcd://", "has no host"),
            ("etcd://h/locks", "use `ns=`"),
            ("etcd://u@h", "go together"),
            ("etcd://:p@h", "go together"),
            ("etcd://h?ns=", "1 to 64"),
            ("etcd://h?ns=a/b", "1 to 64"),
            ("etcd://h?ca=/x", "write `etcds:`"),
            ("etcds://h?cert=/x", "cert= and key= go together"),
            ("etcd://h?nss=x", "did you mean `ns`?"),
            ("http://h", "starts with etcd:"),
        ] {
            let err = read(url).unwrap_err().to_string();
            assert!(err.contains(said), "{url}: {err}");
        }
    }
}
