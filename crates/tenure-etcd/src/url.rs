use tenure_core::{Address, EngineUrl, Error, Result, TlsFiles};

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
    pub(crate) tls: Option<TlsFiles>,
}

/// Who this client is.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
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
        let hosts = url.addresses(PORT, "etcd://host1,host2,host3")?;
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
        let tls = TlsFiles::from_url(url, private, "etcds:")?;
        // It has no slash, so that no namespace is within another.
        Ok(Self { hosts, login, ns: url.namespace()?, tls })
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
