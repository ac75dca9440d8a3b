//! TLS, always with a certificate that is checked.

use std::{fmt, sync::Arc};

use rustls::{ClientConfig, pki_types::ServerName};
use tenure_core::{Address, Error, ErrorKind, Op, Result, TlsFiles};
use tokio::net::TcpStream;

use crate::{ENGINE, link::Wire};

/// Whom to trust, and who this client is.
#[derive(Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Reads the certificates of this authority, or of those that the machine trusts.
    pub(crate) async fn load(files: &TlsFiles) -> Result<Self> {
        let files = files.clone();
        let read = tokio::task::spawn_blocking(move || files.client_config());
        let read = read.await.map_err(|_| invalid("the certificates cannot be read"))?;
        let mut config = read.map_err(|err| err.with_engine(ENGINE))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Makes a connection private.
    pub(crate) async fn wrap(&self, stream: TcpStream, address: &Address) -> std::io::Result<Box<dyn Wire>> {
        let name = ServerName::try_from(address.host.clone()).map_err(std::io::Error::other)?;
        let connector = tokio_rustls::TlsConnector::from(self.0.clone());
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::Invalid, Op::Connect, message).with_engine(ENGINE).not_applied()
}
