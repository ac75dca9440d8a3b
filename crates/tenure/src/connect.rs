use std::sync::Arc;

use tenure_core::{Engine, EngineUrl, Error, Op, Result};

use crate::{Client, Settings, parse_duration};

/// Options that every engine has.
const COMMON: [&str; 2] = ["ttl", "who"];

/// Opens the engine at this URL.
///
/// | URL | engine |
/// |---|---|
/// | `memory:` or `memory:name` | this process; the same name is the same engine |
/// | `file:` or `file:/path` | this machine; without a path `$XDG_STATE_HOME/tenure`, usually `~/.local/state/tenure` |
/// | `redis://[user:password@]host[:6379][/db]` | one Redis server; `rediss:` with TLS, here and below |
/// | `redis+sentinel://host1,host2,host3/name[/db]` | the master of this name, wherever it fails over to |
/// | `redis+cluster://host1,host2,…` | a Redis Cluster |
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
    let engine = open(&mut url).await.map_err(|err| err.in_op(Op::Connect))?;
    Client::new(engine, settings)
}

/// One arm per engine.
async fn open(url: &mut EngineUrl) -> Result<Arc<dyn Engine>> {
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
        #[cfg(not(feature = "local"))]
        "memory" | "file" => Err(feature_off(url.scheme(), "local")),
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster" => {
            use tenure_redis::{OPTIONS, RedisEngine, RedisOptions};
            let options = RedisOptions::from_url(url)?;
            url.no_more_options(&valid(OPTIONS))?;
            Ok(RedisEngine::open(options).await?)
        }
        #[cfg(not(feature = "redis"))]
        "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster" => {
            Err(feature_off(url.scheme(), "redis"))
        }
        other => Err(Error::invalid(format!(
            "no engine is called `{other}:`; there are memory:, file:, redis:, redis+sentinel: and redis+cluster:"
        ))),
    }
}

/// An engine's own options and those that every engine has, for the message about another.
#[cfg(any(feature = "local", feature = "redis"))]
fn valid(own: &[&'static str]) -> Vec<&'static str> {
    own.iter().copied().chain(COMMON).collect()
}

#[cfg(not(all(feature = "local", feature = "redis")))]
fn feature_off(scheme: &str, feature: &str) -> Error {
    Error::unsupported(
        Op::Connect,
        format!("`{scheme}:` is not compiled in; add the feature `{feature}` to the dependency on tenure"),
    )
}

#[cfg(all(test, not(feature = "local")))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_scheme_whose_feature_is_off_says_which() {
        for url in ["memory:", "file:"] {
            let err = connect(url).await.unwrap_err();
            assert_eq!(err.kind(), tenure_core::ErrorKind::Unsupported);
            assert!(err.to_string().contains("feature `local`"), "{err}");
        }
    }
}
