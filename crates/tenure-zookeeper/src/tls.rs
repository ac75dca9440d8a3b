//! TLS, always with a certificate that is checked.

use std::{fmt, path::Path, sync::Arc};

use rustls::{ClientConfig, pki_types::ServerName};
use tenure_core::{Address, Error, ErrorKind, Op, Result, TlsFiles};
use tokio::net::TcpStream;

use crate::{
    ENGINE,
    link::{Stream, Trouble},
};

/// Whom to trust.
#[derive(Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Reads the certificates of this authority, or of those that the machine trusts.
    pub(crate) async fn load(ca: Option<&Path>) -> Result<Self> {
        let files = TlsFiles { ca: ca.map(Path::to_owned), client: None };
        let read = tokio::task::spawn_blocking(move || files.client_config());
        let read = read.await.map_err(|_| invalid("the certificates cannot be read".into()))?;
        Ok(Self(Arc::new(read.map_err(|err| err.with_engine(ENGINE))?)))
    }

    /// Makes a connection to this server private.
    pub(crate) async fn wrap(
        &self,
        address: &Address,
        stream: TcpStream,
    ) -> std::result::Result<Box<dyn Stream>, Trouble> {
        let name = ServerName::try_from(address.host.clone())
            .map_err(|_| Trouble::Tls(invalid(format!("`{}` is no name for a certificate", address.host))))?;
        let connector = tokio_rustls::TlsConnector::from(self.0.clone());
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, Op::Connect, message).with_engine(ENGINE).not_applied()
}
