//! A connection to a server, made and greeted: a wire of our own, or the driver's where there is TLS.

use std::{io, sync::Arc, time::Duration};

#[cfg(feature = "tls")]
use redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo,
    aio::MultiplexedConnection,
};
use redis::{Cmd, RedisResult, Value};
use tenure_core::{Address, Op, Result};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    link::UNTAKEN,
    trouble::no_connection,
    url::RedisOptions,
    wire::{Hear, Wire},
};

/// How long a connection may take to make.
const CONNECT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) enum Conn {
    Plain(Wire),
    #[cfg(feature = "tls")]
    Tls(MultiplexedConnection),
}

impl Conn {
    pub(crate) async fn open(address: &Address, options: &RedisOptions, hear: Arc<dyn Hear>) -> Result<Self> {
        let failed = |err| no_connection(Op::Connect, address, options.tls.is_some(), err);
        if options.tls.is_some() {
            return Self::open_tls(address, options, hear).await;
        }
        let open = async {
            let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
            stream.set_nodelay(true)?;
            #[cfg(target_os = "linux")]
            socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(UNTAKEN))?;
            let wire = Wire::start(stream, hear, &options.reader);
            wire.greet(&options.login, options.db).await?;
            Ok(wire)
        };
        let late = || failed(io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into());
        timeout(CONNECT, open).await.map_err(|_| late())?.map_err(failed).map(Self::Plain)
    }

    #[cfg(feature = "tls")]
    async fn open_tls(address: &Address, options: &RedisOptions, hear: Arc<dyn Hear>) -> Result<Self> {
        let failed = |err| no_connection(Op::Connect, address, true, err);
        let info = RedisConnectionInfo::default().set_db(options.db).set_protocol(ProtocolVersion::RESP3);
        let client = crate::link::client(address, info, &options.login, options.tls.as_ref())?;
        let hear = move |push: PushInfo| -> Result<(), ()> {
            match push.kind {
                PushKind::Message => {
                    if let Some(Value::BulkString(message)) = push.data.last() {
                        hear.message(message);
                    }
                }
                PushKind::Disconnection => hear.ended(),
                _ => {}
            }
            Ok(())
        };
        // The library above knows how long a verb may take.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(None)
            .set_push_sender(hear);
        let conn = client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)?;
        Ok(Self::Tls(conn))
    }

    #[cfg(not(feature = "tls"))]
    async fn open_tls(address: &Address, options: &RedisOptions, _: Arc<dyn Hear>) -> Result<Self> {
        // It says what is missing.
        crate::link::client(
            address,
            redis::RedisConnectionInfo::default(),
            &options.login,
            options.tls.as_ref(),
        )?;
        Err(no_connection(Op::Connect, address, true, io::Error::from(io::ErrorKind::Unsupported).into()))
    }

    /// Sends a command and waits for its answer.
    pub(crate) async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Plain(wire) => wire.ask(cmd).await,
            #[cfg(feature = "tls")]
            Self::Tls(conn) => Box::pin(cmd.query_async(&mut conn.clone())).await,
        }
    }

    /// The same, and has the server push what the command publishes before it answers, if it can be had to.
    pub(crate) async fn ask_and_be_answered_last(&self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Plain(wire) => wire.ask_and_be_answered_last(cmd).await,
            #[cfg(feature = "tls")]
            Self::Tls(_) => self.ask(cmd).await,
        }
    }

    /// Listens to a channel.
    pub(crate) async fn subscribe(&self, channel: &str) -> RedisResult<()> {
        match self {
            Self::Plain(wire) => wire.ask(redis::cmd("SUBSCRIBE").arg(channel)).await.map(drop),
            #[cfg(feature = "tls")]
            Self::Tls(conn) => conn.clone().subscribe(channel).await,
        }
    }
}
