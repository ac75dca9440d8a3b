//! Where the harness has its engines.

use tenure::Client;

use crate::Result;

/// The URL of an engine of the harness.
pub(crate) fn url(engine: &str) -> Result<String> {
    let var = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let ttl = std::env::var("TTL_MS").unwrap_or_else(|_| "10000".into());
    let url = match engine {
        "redis" => var("REDIS_URL")?,
        "zk" => format!("zookeeper://{}", var("ZK_HOSTS")?),
        "etcd" => var("ETCD_URL")?.replacen("http://", "etcd://", 1),
        "mysql" => var("MYSQL_URL")?,
        "postgres" => var("PG_URL")?,
        "memcached" => format!("memcached://{}", var("MEMCACHED")?),
        // A directory beside the others' files, which nobody but its owner may enter.
        "file" => format!("file:{}/tenure", var("LOCK_DIR")?),
        "memory" => "memory:peer".into(),
        other => return Err(format!("unknown engine {other}").into()),
    };
    Ok(format!("{url}?ttl={ttl}ms"))
}

pub(crate) async fn open(engine: &str) -> Result<Client> {
    Ok(tenure::connect(&url(engine)?).await?)
}
