//! TLS, with a certificate that is checked, and one of the client's own.

#![cfg(feature = "tls")]

use tenure_core::ErrorKind;
use tenure_testkit::{
    Result,
    etcd::{Etcd, EtcdOptions, certificates},
};

use crate::support::{claim, hold, let_go, open, refusal, says};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_who_it_should_be_or_it_is_not_spoken_to() -> Result {
    let strict = Etcd::start(EtcdOptions { tls: true, ..EtcdOptions::default() })?;
    let mutual = Etcd::start(EtcdOptions { tls: true, client_certificates: true, ..EtcdOptions::default() })?;
    let files = certificates()?;
    let [ca, cert, key, stranger] =
        [&files.ca, &files.cert, &files.key, &files.stranger].map(|file| file.display().to_string());
    let url = strict.tls_url().unwrap();
    let engine = open(&format!("{url}?ca={ca}")).await?;
    let claim = claim("k")?;
    hold(&engine, &claim).await?;
    let_go(&engine, &claim).await?;
    says(&refusal(&format!("{url}?ca={stranger}")).await?, ErrorKind::Denied, "not who it should be")?;
    says(&refusal(&format!("{url}?ca=/nowhere")).await?, ErrorKind::Invalid, "/nowhere")?;
    // The port without TLS does not speak it, and the other way round; neither falls back.
    let plain = strict.addr();
    says(
        &refusal(&format!("etcds://localhost:{}?ca={ca}", plain.port())).await?,
        ErrorKind::Unavailable,
        "connect",
    )?;
    says(&refusal(&url.replace("etcds", "etcd")).await?, ErrorKind::Unavailable, "connect")?;
    let url = mutual.tls_url().unwrap();
    open(&format!("{url}?ca={ca}&cert={cert}&key={key}")).await?;
    says(&refusal(&format!("{url}?ca={ca}")).await?, ErrorKind::Unavailable, "connect")
}
