use std::{sync::Arc, time::Duration};

use tenure_core::{Engine, EngineUrl, Error, Op, Result};

use crate::{Client, Settings, client::limited, parse_duration};

/// Options that every engine has.
const COMMON: [&str; 2] = ["ttl", "who"];

/// How long an engine may take to open: several servers may have to be asked, one after the other.
const LIMIT: Duration = Duration::from_secs(10);

/// Opens the engine at this URL.
///
/// | URL | engine |
/// |---|---|
/// | `memory:` or `memory:name` | this process; the same name is the same engine |
/// | `file:` or `file:/path` | this machine; without a path `$XDG_STATE_HOME/tenure`, usually `~/.local/state/tenure` |
/// | `redis://[user:password@]host[:6379][/db]` | one Redis server; `rediss:` with TLS, here and below |
/// | `redis+sentinel://host1,host2,host3/name[/db]` | the master of this name, wherever it fails over to |
/// | `redis+cluster://host1,host2,…` | a Redis Cluster |
/// | `quorum+redis://host1,host2,host3` | independent Redis servers, of which more than half must agree |
/// | `memcached://host1[:11211][,host2…]` | memcached; each key is on one of the servers |
/// | `mysql://user:password@host[:3306]/database` | MySQL or MariaDB |
/// | `postgres://user:password@host[:5432]/database` | PostgreSQL |
/// | `etcd://[user:password@]host1[:2379],host2,host3` | etcd; `etcds:` with TLS |
/// | `zookeeper://host1[:2181],host2,host3[/node]` | a ZooKeeper ensemble; `zookeepers:` with TLS |
///
/// Every engine takes `?ttl=15s` (how long a lock outlives its holder) and `?who=name` (shown to people).
///
/// # Errors
/// `Invalid` for a URL, scheme or option that is wrong, naming what is right; `Unavailable` or `Denied` if the
/// engine cannot be used.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let client = tenure::connect("memory:shop?ttl=5s").await?;
/// let err = tenure::connect("memory:?tll=5s").await.unwrap_err();
/// assert!(err.to_string().contains("did you mean `ttl`?"));
/// # Ok(()) }
/// ```
pub async fn connect(url: &str) -> Result<Client> {
    let (engine, settings) = open(url).await?;
    Client::new(engine, settings)
}

/// Opens the engine at this URL without a client, to put another engine around it first: one that counts, or that
/// fails on purpose. The settings are what the URL says of a client.
///
/// # Errors
/// As [`connect`].
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let (engine, settings) = tenure::open("memory:shop?ttl=5s").await?;
/// let client = tenure::Client::new(engine, settings)?; // as `connect` does
/// # Ok(()) }
/// ```
pub async fn open(url: &str) -> Result<(Arc<dyn Engine>, Settings)> {
    let mut url: EngineUrl = url.parse()?;
    let mut settings = Settings::default();
    let [ttl, who] = COMMON.map(|name| url.option(name));
    if let Some(ttl) = ttl {
        settings.ttl = parse_duration(&ttl)?;
    }
    if let Some(who) = who {
        settings.who = who;
    }
    settings.check()?;
    let engine = limited(LIMIT, std::pin::pin!(open_engine(&mut url)))
        .await
        .unwrap_or_else(|| Err(Error::unavailable(Op::Connect, format!("no answer within {LIMIT:?}"))));
    Ok((engine.map_err(|err| err.in_op(Op::Connect))?, settings))
}

/// The features of this crate that bring engines, with their schemes.
const ENGINES: &[(&str, &[&str])] = &[
    ("local", &["memory", "file"]),
    (
        "redis",
        &[
            "redis",
            "rediss",
            "redis+sentinel",
            "rediss+sentinel",
            "redis+cluster",
            "rediss+cluster",
            "quorum+redis",
            "quorum+rediss",
        ],
    ),
    ("memcached", &["memcached"]),
    ("mysql", &["mysql", "mariadb"]),
    ("postgres", &["postgres", "postgresql"]),
    ("etcd", &["etcd", "etcds"]),
    ("zookeeper", &["zookeeper", "zookeepers"]),
];

/// One arm per engine.
async fn open_engine(url: &mut EngineUrl) -> Result<Arc<dyn Engine>> {
    match url.scheme() {
        #[cfg(feature = "local")]
        "memory" => {
            url.no_more_options(&valid(&[]))?;
            if !url.hosts().is_empty() {
                return Err(Error::invalid("memory: has no host; write `memory:` or `memory:name`"));
            }
            Ok(tenure_local::Memory::named(url.path()))
        }
        #[cfg(all(feature = "local", target_os = "linux"))]
        "file" => {
            use tenure_local::file::{FileEngine, FileOptions, OPTIONS};
            let options = FileOptions::from_url(url)?;
            url.no_more_options(&valid(OPTIONS))?;
            Ok(FileEngine::open(options).await?)
        }
        #[cfg(all(feature = "local", not(target_os = "linux")))]
        "file" => Err(Error::unsupported(Op::Connect, "the file engine needs Linux")),
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster" => {
            use tenure_redis::{OPTIONS, RedisEngine, RedisOptions};
            let options = RedisOptions::from_url(url)?;
            url.no_more_options(&valid(OPTIONS))?;
            Ok(RedisEngine::open(options).await?)
        }
        #[cfg(feature = "redis")]
        "quorum+redis" | "quorum+rediss" => quorum_of_redis(url).await,
        #[cfg(feature = "memcached")]
        "memcached" => {
            use tenure_memcached::{MemcachedEngine, MemcachedOptions, OPTIONS};
            let options = MemcachedOptions::from_url(url)?;
            url.no_more_options(&valid(OPTIONS))?;
            Ok(MemcachedEngine::open(options).await?)
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => {
            use tenure_mysql::{MysqlEngine, MysqlOptions, OPTIONS};
            let options = MysqlOptions::from_url(url)?;
            url.no_more_options(&valid(OPTIONS))?;
            Ok(MysqlEngine::open(options).await?)
        }
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => {
            use tenure_etcd::{EtcdEngine, EtcdOptions, OPTIONS};
            let options = EtcdOptions::from_url(url)?;
            url.no_more_options(&valid(OPTIONS))?;
            Ok(EtcdEngine::open(options).await?)
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            use tenure_postgres::{OPTIONS, PostgresEngine, PostgresOptions};
            let options = PostgresOptions::from_url(url)?;
            url.no_more_options(&valid(OPTIONS))?;
            Ok(PostgresEngine::open(options).await?)
        }
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" => {
            use tenure_zookeeper::{OPTIONS, ZookeeperEngine, ZookeeperOptions};
            let options = ZookeeperOptions::from_url(url)?;
            url.no_more_options(&valid(OPTIONS))?;
            Ok(ZookeeperEngine::open(options).await?)
        }
        other => Err(nowhere(other)),
    }
}

/// Why no arm took this scheme: its engine is not compiled in, or there is none.
fn nowhere(scheme: &str) -> Error {
    if let Some((feature, _)) = ENGINES.iter().find(|(_, schemes)| schemes.contains(&scheme)) {
        return Error::unsupported(
            Op::Connect,
            format!(
                "`{scheme}:` is not compiled in; add the feature `{feature}` to the dependency on tenure"
            ),
        );
    }
    let known: Vec<_> =
        ENGINES.iter().flat_map(|(_, schemes)| *schemes).map(|scheme| format!("{scheme}:")).collect();
    Error::invalid(format!("no engine is called `{scheme}:`; there are {}", known.join(", ")))
}

/// Redlock: independent servers, of which more than half must agree.
#[cfg(feature = "redis")]
async fn quorum_of_redis(url: &mut EngineUrl) -> Result<Arc<dyn Engine>> {
    use futures_util::FutureExt;
    use tenure_redis::{OPTIONS, RedisEngine, RedisOptions};

    use crate::{Member, Quorum, QuorumSettings};

    const OWN: [&str; 3] = ["max_ttl", "max_skew", "member_limit"];
    let mut settings = QuorumSettings::default();
    let [max_ttl, max_skew, member_limit] = OWN.map(|name| url.option(name));
    for (given, setting) in [
        (max_ttl, &mut settings.max_ttl),
        (max_skew, &mut settings.max_skew),
        (member_limit, &mut settings.member_limit),
    ] {
        if let Some(given) = given {
            *setting = parse_duration(&given)?;
        }
    }
    let members = RedisOptions::members_from_url(url)?;
    url.no_more_options(&valid(&[OPTIONS, &OWN].concat()))?;
    let member = |(name, options): (String, RedisOptions)| {
        Member::late(name, move || {
            let options = options.clone();
            async move { Ok(RedisEngine::open(options).await? as Arc<dyn Engine>) }.boxed()
        })
    };
    Ok(Quorum::open(members.into_iter().map(member).collect(), settings).await?)
}

/// An engine's own options and those that every engine has, for the message about another.
#[cfg_attr(
    not(any(
        feature = "local",
        feature = "memcached",
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "zookeeper"
    )),
    expect(dead_code, reason = "there is no engine to take options")
)]
fn valid(own: &[&'static str]) -> Vec<&'static str> {
    own.iter().copied().chain(COMMON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(
        feature = "local",
        feature = "memcached",
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "zookeeper"
    ))]
    #[tokio::test]
    async fn every_scheme_has_an_arm() {
        for scheme in ENGINES.iter().flat_map(|(_, schemes)| *schemes) {
            let err = connect(&format!("{scheme}://host/name?no_such_option=1")).await.unwrap_err();
            assert_eq!(err.kind(), tenure_core::ErrorKind::Invalid, "{scheme}: {err}");
        }
    }

    #[cfg(not(feature = "local"))]
    #[tokio::test]
    async fn a_scheme_whose_feature_is_off_says_which() {
        for url in ["memory:", "file:"] {
            let err = connect(url).await.unwrap_err();
            assert_eq!(err.kind(), tenure_core::ErrorKind::Unsupported);
            assert!(err.to_string().contains("feature `local`"), "{err}");
        }
    }
}
