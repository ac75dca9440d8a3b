use std::path::PathBuf;

use crate::{EngineUrl, Error, Result};

/// The files that TLS starts from, where the machine's own authorities are not meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority to trust instead of the machine's own.
    pub ca: Option<PathBuf>,
    /// Who this client is: its certificate, and the key to it.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Takes `ca=`, `cert=` and `key=` out of a URL whose scheme says whether there is TLS: `private` is the one that does.
    ///
    /// # Errors
    /// `Invalid` for files without TLS, and for a certificate without its key.
    pub fn from_url(url: &mut EngineUrl, tls: bool, private: &str) -> Result<Option<Self>> {
        let [ca, cert, key] = ["ca", "cert", "key"].map(|name| url.option(name).map(PathBuf::from));
        let client = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(Error::invalid("cert= and key= go together")),
        };
        if tls {
            Ok(Some(Self { ca, client }))
        } else if ca.is_some() || client.is_some() {
            Err(Error::invalid(format!("ca=, cert= and key= are for TLS; write `{private}`")))
        } else {
            Ok(None)
        }
    }
}

#[cfg(feature = "tls")]
mod config {
    use std::{fmt, path::Path, sync::Arc};

    use rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    };

    use super::TlsFiles;
    use crate::{Error, ErrorKind, Op, Result};

    impl TlsFiles {
        /// Reads the files, or what the machine trusts; a certificate is always checked. Blocks on the disk.
        ///
        /// # Errors
        /// `Invalid` for a file that cannot be read, and if nobody is trusted.
        pub fn client_config(&self) -> Result<ClientConfig> {
            let wrong = |err: rustls::Error| invalid(format!("TLS cannot be set up: {err}"));
            let ring = rustls::crypto::ring::default_provider();
            let builder = rustls::ClientConfig::builder_with_provider(Arc::new(ring))
                .with_safe_default_protocol_versions()
                .map_err(wrong)?
                .with_root_certificates(roots(self.ca.as_deref())?);
            let Some((cert, key)) = &self.client else { return Ok(builder.with_no_client_auth()) };
            let unread = |err| invalid(format!("cannot read a key from {}: {err}", key.display()));
            let key = PrivateKeyDer::from_pem_file(key).map_err(unread)?;
            builder.with_client_auth_cert(certificates(cert)?, key).map_err(wrong)
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
        Error::new(ErrorKind::Invalid, Op::Connect, message).not_applied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_for_tls_and_a_certificate_has_its_key() {
        let read = |url: &str, tls| TlsFiles::from_url(&mut url.parse().unwrap(), tls, "xs:");
        let full = read("xs://h?ca=/ca&cert=/c&key=/k", true).unwrap().unwrap();
        assert_eq!(full, TlsFiles { ca: Some("/ca".into()), client: Some(("/c".into(), "/k".into())) });
        assert_eq!(read("xs://h", true).unwrap(), Some(TlsFiles::default()));
        assert_eq!(read("x://h", false).unwrap(), None);
        for (url, tls, said) in [
            ("x://h?ca=/ca", false, "write `xs:`"),
            ("x://h?cert=/c&key=/k", false, "write `xs:`"),
            ("xs://h?cert=/c", true, "go together"),
            ("xs://h?key=/k", true, "go together"),
        ] {
            let err = read(url, tls).unwrap_err().to_string();
            assert!(err.contains(said), "{url}: {err}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_file_without_certificates_is_named() {
        let files = TlsFiles { ca: Some("Cargo.toml".into()), client: None };
        let err = files.client_config().unwrap_err();
        assert!(err.kind() == crate::ErrorKind::Invalid && !err.may_have_applied(), "{err}");
        assert!(err.to_string().contains("cannot read certificates from Cargo.toml"), "{err}");
    }
}
