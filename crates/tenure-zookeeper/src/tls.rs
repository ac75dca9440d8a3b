//! TLS, always with a certificate that is checked.

use std::{fmt, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tenure_core::{Address, Error, ErrorKind, Op, Result};
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
        let ca = ca.map(Path::to_owned);
        let read = tokio::task::spawn_blocking(move || roots(ca.as_deref()));
        let roots = read.await.map_err(|_| invalid("the certificates cannot be read".into()))??;
        let ring = rustls::crypto::ring::default_provider();
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring))
            .with_safe_default_protocol_versions()
            .map_err(|err| invalid(format!("TLS cannot be set up: {err}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
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

fn roots(ca: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(ca) = ca else {
        let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if added == 0 {
            return Err(invalid("this machine trusts no authority; name one with ca=FILE".into()));
        }
        return Ok(roots);
    };
    let file = ca.display();
    let wrong = |err: &dyn fmt::Display| invalid(format!("cannot read certificates from {file}: {err}"));
    for cert in CertificateDer::pem_file_iter(ca).map_err(|err| wrong(&err))? {
        roots.add(cert.map_err(|err| wrong(&err))?).map_err(|err| wrong(&err))?;
    }
    if roots.is_empty() { Err(wrong(&"there is none")) } else { Ok(roots) }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, Op::Connect, message).with_engine(ENGINE).not_applied()
}
