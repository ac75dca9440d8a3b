//! Asking the sentinels who the master is.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use tenure_core::{Address, Error, Op, Result};

use crate::{ENGINE, link::client, trouble::no_connection, url::RedisOptions};

/// How long one sentinel may take.
const LIMIT: Duration = Duration::from_secs(1);

/// The master's address, from whichever sentinel answers first. It may be out of date: whoever is found there says
/// itself what it is.
pub(crate) async fn master(options: &RedisOptions, name: &str) -> Result<Address> {
    let mut answers: FuturesUnordered<_> =
        options.hosts.iter().map(|sentinel| ask(sentinel, options, name)).collect();
    let (mut unknown, mut last) = (false, None);
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(Some(master)) => return Ok(master),
            Ok(None) => unknown = true,
            Err(err) => last = Some(err),
        }
    }
    match last {
        Some(err) if !unknown => Err(err),
        _ => Err(Error::invalid(format!("no sentinel knows a master called `{}`", name.escape_debug()))
            .in_op(Op::Connect)
            .with_engine(ENGINE)),
    }
}

async fn ask(sentinel: &Address, options: &RedisOptions, name: &str) -> Result<Option<Address>> {
    let failed = |err| no_connection(Op::Connect, sentinel, options.tls.is_some(), err);
    let client =
        client(sentinel, RedisConnectionInfo::default(), &options.sentinel_login, options.tls.as_ref())?;
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(LIMIT)).set_response_timeout(Some(LIMIT));
    let mut conn = client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)?;
    let mut cmd = redis::cmd("SENTINEL");
    cmd.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let answer: Option<(String, u16)> = cmd.query_async(&mut conn).await.map_err(|err| {
        if err.kind() == redis::ServerErrorKind::ResponseError.into() {
            Error::invalid(format!("{sentinel} is no sentinel; write `redis://{sentinel}` instead"))
                .in_op(Op::Connect)
                .with_engine(ENGINE)
        } else {
            failed(err)
        }
    })?;
    Ok(answer.map(|(host, port)| Address { host, port }))
}
