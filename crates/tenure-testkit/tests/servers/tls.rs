use std::{net::SocketAddr, process::Command, process::Stdio};

use tenure_testkit::{
    Result, ensure_eq,
    tls::{Certificates, certificates},
};

/// A server that speaks this protocol before TLS shows a certificate for its names, signed by its authority.
pub(crate) fn is_trusted_by_its_authority_only(addr: SocketAddr, protocol: &str) -> Result {
    let Certificates { ca, stranger, .. } = certificates()?;
    for (trusted, name, good) in [
        (ca, ["-verify_hostname", "localhost"], true),
        (ca, ["-verify_ip", "127.0.0.1"], true),
        (ca, ["-verify_hostname", "example.org"], false),
        (stranger, ["-verify_hostname", "localhost"], false),
    ] {
        let status = Command::new("timeout")
            .args(["10", "openssl", "s_client", "-brief", "-verify_return_error"])
            .args(["-starttls", protocol, "-connect", &addr.to_string()])
            .args(name)
            .arg("-CAfile")
            .arg(trusted)
            .stdin(Stdio::null())
            .output()?
            .status;
        ensure_eq!(status.success(), good, "a handshake with {name:?}, trusting {}", trusted.display());
    }
    Ok(())
}
