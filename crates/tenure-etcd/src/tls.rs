//! TLS, always with a certificate that is checked.

use std::{fmt, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tenure_core::{Address, Error, ErrorKind, Op, Result};
use tokio::net::TcpStream;

use crate::{ENGINE, link::Wire, url::Tls};

/// Whom to trust, and who this client is.
#[derive(Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Reads the certificates of this authority, or of those that the machine trusts.
    pub(crate) async fn load(tls: &Tls) -> Result<Self> {
        let tls = tls.clone();
        let read = tokio::task::spawn_blocking(move || config(&tls));
        let config = read.await.map_err(|_| invalid("the certificates cannot be read".into()))??;
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

fn config(tls: &Tls) -> Result<ClientConfig> {
    let wrong = |err: rustls::Error| invalid(format!("TLS cannot be set up: {err}"));
    let ring = rustls::crypto::ring::default_provider();
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(ring))
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_root_certificates(roots(tls.ca.as_deref())?);
    let mut config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let certs = certificates(cert)?;
            let unread = |err| invalid(format!("cannot read a key from {}: {err}", key.display()));
            let key = PrivateKeyDer::from_pem_file(key).map_err(unread)?;
            builder.with_client_auth_cert(certs, key).map_err(wrong)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
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
    for cert in certificates(ca)? {
        roots.add(cert).map_err(|err| unread(ca, &err))?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let certs = CertificateDer::pem_file_iter(file).map_err(|err| unread(file, &err))?;
    let certs = certs.collect::<Result<Vec<_>, _>>().map_err(|err| unread(file, &err))?;
    if certs.is_empty() { Err(unread(file, &"there is none")) } else { Ok(certs) }
}

fn unread(file: &Path, err: &dyn fmt::Display) -> Error {
    invalid(format!("cannot read certificates from {}: {err}", file.display()))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, Op::Connect, message).with_engine(ENGINE).not_applied()
}
