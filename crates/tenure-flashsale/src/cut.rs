//! A forwarder between a host and its engine that can fall silent, in both directions.

use std::net::SocketAddr;

use tenure::EngineUrl;
use tenure_core::Address;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

use crate::trouble::{Result, Trouble};

/// Forwards to one server, while it is not cut.
#[derive(Debug)]
pub(crate) struct Forwarder {
    at: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Forwarder {
    async fn start(to: Address) -> Result<Self> {
        let cannot = |err| Trouble::internal("cannot listen", err);
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(cannot)?;
        let at = listener.local_addr().map_err(cannot)?;
        let (cut, is_cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect((to.host.as_str(), to.port)).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(forward(from_client, to_server, is_cut.clone()));
                tokio::spawn(forward(from_server, to_client, is_cut.clone()));
            }
        });
        Ok(Self { at, cut })
    }

    /// Falls silent, or goes on with what was held back.
    pub(crate) fn cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }
}

/// One direction. It ends with either side, or with the forwarder.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_cut: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if is_cut.wait_for(|cut| !cut).await.is_err() || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Puts a forwarder before the one server of this URL, and gives the URL that leads there.
pub(crate) async fn before(url: &str) -> Result<(Forwarder, String)> {
    let parsed: EngineUrl = url.parse()?;
    let [host] = parsed.hosts() else {
        return Err(Trouble::Usage(format!(
            "a `cut` needs an engine with one server, which {parsed} is not"
        )));
    };
    let port = match parsed.scheme() {
        "redis" => 6379,
        "mysql" | "mariadb" => 3306,
        "postgres" | "postgresql" => 5432,
        "zookeeper" => 2181,
        "etcd" => 2379,
        "memcached" => 11211,
        other => {
            return Err(Trouble::Usage(format!("a `cut` cannot be made between a host and `{other}:`")));
        }
    };
    let forwarder = Forwarder::start(Address::parse(host, port)?).await?;
    // The host stands after the login, where an `@` can be no more than its end.
    let (head, rest) = url.split_at(url.find("//").map_or(0, |at| at + 2));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let login = rest[..end].rfind('@').map_or(0, |at| at + 1);
    let through = format!("{head}{}{}{}", &rest[..login], forwarder.at, &rest[end..]);
    Ok((forwarder, through))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_way_through_keeps_the_rest_of_the_url() {
        let (forwarder, url) = before("redis://app:s%40cret@localhost:7/3?ns=x").await.unwrap();
        assert_eq!(url, format!("redis://app:s%40cret@{}/3?ns=x", forwarder.at));
        for wrong in ["file:/x", "redis://a,b", "rediss://a", "memory:"] {
            assert!(matches!(before(wrong).await, Err(Trouble::Usage(_))), "{wrong}");
        }
    }

    #[tokio::test]
    async fn what_is_held_back_arrives_later() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = echo.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = echo.accept().await.unwrap();
            let (mut reader, mut writer) = stream.split();
            tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        });
        let (forwarder, url) = before(&format!("redis://127.0.0.1:{port}")).await.unwrap();
        let at = url.strip_prefix("redis://").unwrap();
        let mut client = TcpStream::connect(at).await.unwrap();
        let mut heard = [0; 2];
        client.write_all(b"hi").await.unwrap();
        client.read_exact(&mut heard).await.unwrap();
        forwarder.cut(true);
        client.write_all(b"yo").await.unwrap();
        let silence =
            tokio::time::timeout(std::time::Duration::from_millis(100), client.read_exact(&mut heard));
        assert!(silence.await.is_err());
        forwarder.cut(false);
        client.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"yo");
    }
}
