use std::path::PathBuf;

use tenure_core::{Address, EngineUrl, Error, Result};

/// The options of the URL.
pub const OPTIONS: &[&str] = &["ca"];

const PORT: u16 = 2181;
/// As the quick start of ZooKeeper has it; there is no port that all agree on.
const TLS_PORT: u16 = 2281;
/// Where the lines are if the URL has no path.
const ROOT: &str = "/tenure";
/// The longest path: names of keys and claims come behind it.
const MOST_ROOT: usize = 256;

/// Where the servers are and how they are used.
#[derive(Clone)]
pub struct ZookeeperOptions {
    /// Asked in any order: all of them know the same.
    pub(crate) hosts: Vec<Address>,
    /// The node under which everything is.
    pub(crate) root: String,
    pub(crate) login: Option<(String, String)>,
    pub(crate) tls: Option<Tls>,
}

/// TLS is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    /// The authority to trust instead of the machine's own.
    pub(crate) ca: Option<PathBuf>,
}

impl Default for ZookeeperOptions {
    /// A server on this machine.
    fn default() -> Self {
        let hosts = vec![Address { host: "localhost".into(), port: PORT }];
        Self { hosts, root: ROOT.into(), login: None, tls: None }
    }
}

impl ZookeeperOptions {
    /// Reads `zookeeper://[user:password@]host1[:2181],host2,…/chroot`, or `zookeepers:` for TLS, and takes the options
    /// out.
    ///
    /// # Errors
    /// `Invalid` for what is wrong, with what is right.
    pub fn from_url(url: &mut EngineUrl) -> Result<Self> {
        let tls = match url.scheme() {
            "zookeeper" => false,
            "zookeepers" => true,
            _ => return Err(Error::invalid("a ZooKeeper URL starts with zookeeper: or zookeepers:")),
        };
        let port = if tls { TLS_PORT } else { PORT };
        let hosts = url.addresses(port, "zookeeper://host1:2181,host2:2181/locks")?;
        let login = match (url.user(), url.password()) {
            (None, None) => None,
            (Some(user), Some(password)) if !user.contains(':') => {
                Some((user.to_owned(), password.to_owned()))
            }
            (Some(user), _) if user.contains(':') => {
                return Err(Error::invalid("a user of ZooKeeper has no colon in its name"));
            }
            _ => {
                return Err(Error::invalid(
                    "a login has a user and a password: zookeeper://user:password@host",
                ));
            }
        };
        let ca = url.option("ca").map(PathBuf::from);
        if ca.is_some() && !tls {
            return Err(Error::invalid("ca= is for TLS; write zookeepers: with it"));
        }
        Ok(Self { hosts, root: root(url.path())?, login, tls: tls.then_some(Tls { ca }) })
    }
}

/// The path as ZooKeeper wants it.
fn root(path: &str) -> Result<String> {
    let root = path.trim_end_matches('/');
    if root.is_empty() {
        return Ok(ROOT.into());
    }
    let good = |name: &str| {
        !matches!(name, "" | "." | "..") && name.chars().all(|c| !c.is_control() && c != '\u{fffd}')
    };
    if root.len() <= MOST_ROOT && root[1..].split('/').all(good) && root != "/zookeeper" {
        Ok(root.to_owned())
    } else {
        Err(Error::invalid(format!(
            "the path of the URL is that of a node, such as /locks: names between slashes, none of them . or .., at most \
             {MOST_ROOT} bytes, and not /zookeeper"
        )))
    }
}

impl std::fmt::Debug for ZookeeperOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZookeeperOptions")
            .field("hosts", &self.hosts)
            .field("root", &self.root)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<ZookeeperOptions> {
        let mut url: EngineUrl = url.parse()?;
        let options = ZookeeperOptions::from_url(&mut url)?;
        url.no_more_options(OPTIONS)?;
        Ok(options)
    }

    #[test]
    fn every_form_is_read() {
        let full = read("zookeepers://app:secret@a:1,b,[::1]/shop/locks/?ca=/ca.pem").unwrap();
        assert_eq!(
            full.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["a:1", "b:2281", "[::1]:2281"]
        );
        assert_eq!(full.root, "/shop/locks");
        assert_eq!(full.login, Some(("app".into(), "secret".into())));
        assert_eq!(full.tls.as_ref().unwrap().ca, Some(PathBuf::from("/ca.pem")));
        assert!(!format!("{full:?}").contains("secret"));
        let short = read("zookeeper://h").unwrap();
        assert_eq!((short.root.as_str(), short.hosts[0].port), ("/tenure", 2181));
        assert!(short.login.is_none() && short.tls.is_none());
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right() {
        for (url, said) in [
            ("zookeeper://", "has no host"),
            ("zookeeper://u@h", "a user and a password"),
            ("zookeeper://u%3Ax:p@h", "no colon"),
            ("zookeeper://h/a//b", "names between slashes"),
            ("zookeeper://h/..", "names between slashes"),
            ("zookeeper://h/zookeeper", "not /zookeeper"),
            ("zookeeper://h/a?ca=/x", "zookeepers:"),
            ("zookeeper://h/a?cs=x", "did you mean `ca`?"),
            ("etcd://h", "zookeeper:"),
        ] {
            let err = read(url).unwrap_err().to_string();
            assert!(err.contains(said), "{url}: {err}");
        }
    }
}
