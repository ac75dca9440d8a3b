//! Certificates for servers with TLS.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{Failure, Result, process::Room};

/// A certificate for `localhost` and 127.0.0.1, and the authority that signed it, as PEM files.
#[derive(Debug)]
pub struct Certificates {
    /// The authority's certificate, which a client must trust.
    pub ca: PathBuf,
    /// The certificate, good for a server and for a client.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// An authority that signed nothing.
    pub stranger: PathBuf,
    _room: Room,
}

impl Certificates {
    /// Copies the authority's certificate, the certificate and its key into a directory, as `ca.crt`, `server.crt`
    /// and `server.key`: servers that run as another user must own their key.
    pub(crate) fn copy_to(&self, dir: &Path) -> Result {
        for (file, name) in [(&self.ca, "ca.crt"), (&self.cert, "server.crt"), (&self.key, "server.key")] {
            fs::copy(file, dir.join(name))?;
        }
        Ok(())
    }
}

/// The certificates of this test process, made when they are first asked for, good for two days.
///
/// The `openssl` command makes them: it is on every Debian that can check a certificate at all (ca-certificates
/// needs it), where a crate would be built for these tests alone.
///
/// # Errors
/// If `openssl` is not there or fails.
pub fn certificates() -> Result<&'static Certificates> {
    static CERTIFICATES: OnceLock<Result<Certificates>> = OnceLock::new();
    CERTIFICATES.get_or_init(make).as_ref().map_err(Clone::clone)
}

/// The whole of what `openssl` is to know, so that its own settings on this machine add nothing.
const SETTINGS: &str = "
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
";

fn make() -> Result<Certificates> {
    let room = Room::new()?;
    let dir = room.path();
    fs::write(dir.join("settings"), SETTINGS)?;
    for (name, more) in [
        ("ca", "-extensions authority"),
        ("stranger", "-extensions authority"),
        ("server", "-extensions server -CA ca.crt -CAkey ca.key"),
    ] {
        sign(dir, name, more)?;
    }
    Ok(Certificates {
        ca: dir.join("ca.crt"),
        cert: dir.join("server.crt"),
        key: dir.join("server.key"),
        stranger: dir.join("stranger.crt"),
        _room: room,
    })
}

fn sign(dir: &Path, name: &str, more: &str) -> Result {
    let line = format!(
        "req -x509 -config settings -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
         -subj /CN=tenure-test-{name} -keyout {name}.key -out {name}.crt {more}"
    );
    let output = Command::new("openssl").args(line.split_whitespace()).current_dir(dir).output()?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Failure::of_the_trial(format!("`openssl {line}` failed: {}", why.trim())))
}
