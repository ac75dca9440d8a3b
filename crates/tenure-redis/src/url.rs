pub(crate) use tenure_core::TlsFiles as Tls;
use tenure_core::{Address, EngineUrl, Error, Result};

use crate::reader::Reader;

/// The options of the URL.
pub const OPTIONS: &[&str] =
    &["ns", "replicas", "eviction", "ca", "cert", "key", "sentinel_user", "sentinel_password"];

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where the server is and how it is used.
#[derive(Clone)]
pub struct RedisOptions {
    pub(crate) topology: Topology,
    pub(crate) hosts: Vec<Address>,
    pub(crate) login: Login,
    pub(crate) sentinel_login: Login,
    pub(crate) db: i64,
    pub(crate) ns: String,
    /// How many replicas must have a place before it counts.
    pub(crate) replicas: u32,
    pub(crate) eviction: Eviction,
    pub(crate) tls: Option<Tls>,
    pub(crate) reader: Reader,
}

/// How many servers there are, and how to find the one to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single,
    /// Whichever server the sentinels call the master of this name.
    Sentinel(String),
    /// The node that has the key's slot.
    Cluster,
}

/// What to do about a server that forgets keys when its memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Do not use it.
    Refuse,
    /// Use it all the same, as an advisory engine.
    Allow,
}

#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl RedisOptions {
    /// Reads `redis[s]://…`, `redis[s]+sentinel://…/name` and `redis[s]+cluster://…`, and takes the options out.
    ///
    /// # Errors
    /// `Invalid` for what is wrong, with what is right.
    pub fn from_url(url: &mut EngineUrl) -> Result<Self> {
        let scheme = url.scheme().to_owned();
        let (scheme, kind) = scheme.split_once('+').unwrap_or((&scheme, ""));
        let options = Self::read(url, scheme, kind)?;
        if options.hosts.len() > 1 && options.topology == Topology::Single {
            return Err(Error::invalid(
                "redis: is one server; several are redis+sentinel:, redis+cluster: or quorum+redis:",
            ));
        }
        Ok(options)
    }

    /// Reads `quorum+redis[s]://host1,host2,host3`: the name of each member, and its options.
    ///
    /// # Errors
    /// `Invalid` for what is wrong, with what is right.
    pub fn members_from_url(url: &mut EngineUrl) -> Result<Vec<(String, Self)>> {
        let scheme = url.scheme().to_owned();
        let all = Self::read(url, scheme.strip_prefix("quorum+").unwrap_or(&scheme), "")?;
        let all = Self { reader: Reader::one(), ..all };
        let member = |host: &Address| (host.to_string(), Self { hosts: vec![host.clone()], ..all.clone() });
        Ok(all.hosts.iter().map(member).collect())
    }

    fn read(url: &mut EngineUrl, scheme: &str, kind: &str) -> Result<Self> {
        let tls = match scheme {
            "redis" => false,
            "rediss" => true,
            _ => return Err(Error::invalid("a Redis URL starts with redis: or rediss:")),
        };
        let mut path: Vec<String> =
            url.path().split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let topology = match kind {
            "" => Topology::Single,
            "sentinel" if !path.is_empty() => Topology::Sentinel(path.remove(0)),
            "sentinel" => {
                return Err(Error::invalid(
                    "the URL does not name the master: redis+sentinel://host1,host2,host3/name",
                ));
            }
            "cluster" => Topology::Cluster,
            _ => return Err(Error::invalid("there are redis:, redis+sentinel: and redis+cluster:")),
        };
        let db = match path.as_slice() {
            [] => 0,
            [db] => db.parse().ok().filter(|db| (0..=65_535).contains(db)).ok_or_else(|| {
                Error::invalid(format!("`{}` is no number of a database", db.escape_debug()))
            })?,
            _ => return Err(Error::invalid("the URL's path has more parts than the number of a database")),
        };
        if topology == Topology::Cluster && db != 0 {
            return Err(Error::invalid("a cluster has only database 0; use `ns=` to keep locks apart"));
        }
        let port = if matches!(topology, Topology::Sentinel(_)) { SENTINEL_PORT } else { PORT };
        let hosts = url.addresses(port, "redis://host:6379")?;
        let user = |name: Option<&str>| name.map(str::to_owned);
        let login = Login { user: user(url.user()), password: user(url.password()) };
        let sentinel_login =
            Login { user: url.option("sentinel_user"), password: url.option("sentinel_password") };
        Ok(Self {
            topology,
            hosts,
            login,
            sentinel_login,
            db,
            ns: url.namespace()?,
            replicas: replicas(url)?,
            eviction: eviction(url)?,
            tls: Tls::from_url(url, tls, "rediss:")?,
            reader: Reader::default(),
        })
    }
}

fn replicas(url: &mut EngineUrl) -> Result<u32> {
    let Some(text) = url.option("replicas") else { return Ok(0) };
    text.parse()
        .ok()
        .filter(|count| (0..=100).contains(count))
        .ok_or_else(|| Error::invalid("replicas= is a number from 0 to 100"))
}

fn eviction(url: &mut EngineUrl) -> Result<Eviction> {
    match url.option("eviction").as_deref() {
        None | Some("refuse") => Ok(Eviction::Refuse),
        Some("allow") => Ok(Eviction::Allow),
        Some(_) => Err(Error::invalid("eviction= is refuse or allow")),
    }
}

impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisOptions")
            .field("topology", &self.topology)
            .field("hosts", &self.hosts)
            .field("db", &self.db)
            .field("ns", &self.ns)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<RedisOptions> {
        let mut url: EngineUrl = url.parse()?;
        let options = RedisOptions::from_url(&mut url)?;
        url.no_more_options(OPTIONS)?;
        Ok(options)
    }

    #[test]
    fn every_form_is_read() {
        let one = read("redis://app:secret@h/3?ns=shop&replicas=2").unwrap();
        assert_eq!((one.topology, one.db, one.ns.as_str(), one.replicas), (Topology::Single, 3, "shop", 2));
        let sentinel = read("rediss+sentinel://a,b:1/main/2?ca=/x&sentinel_password=p").unwrap();
        assert_eq!(sentinel.topology, Topology::Sentinel("main".into()));
        assert_eq!(sentinel.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:26379", "b:1"]);
        assert!(sentinel.tls.is_some() && sentinel.db == 2);
        assert_eq!(read("redis+cluster://a,b,c").unwrap().topology, Topology::Cluster);
        assert!(!format!("{sentinel:?}").contains("password"));
        let mut url = "quorum+rediss://a,b:1,[::1]?ns=shop".parse().unwrap();
        let members = RedisOptions::members_from_url(&mut url).unwrap();
        assert_eq!(
            members.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["a:6379", "b:1", "[::1]:6379"]
        );
        assert!(members.iter().all(|(_, one)| one.hosts.len() == 1 && one.ns == "shop" && one.tls.is_some()));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right() {
        for (url, said) in [
            ("redis://", "has no host"),
            ("redis://a,b", "quorum+redis:"),
            ("redis+sentinel://a", "name the master"),
            ("redis+ring://a", "redis+cluster:"),
            ("redis+cluster://a/1", "database 0"),
            ("redis://a/x", "no number"),
            ("redis://a/1/2", "more parts"),
            ("redis://a?ns=", "1 to 64"),
            ("redis://a?ns=a*b", "1 to 64"),
            ("redis://a?replicas=-1", "0 to 100"),
            ("redis://a?eviction=maybe", "refuse or allow"),
            ("redis://a?ca=/x", "rediss:"),
            ("rediss://a?cert=/x", "go together"),
            ("redis://a?replica=1", "did you mean `replicas`?"),
        ] {
            let err = read(url).unwrap_err().to_string();
            assert!(err.contains(said), "{url}: {err}");
        }
    }
}
