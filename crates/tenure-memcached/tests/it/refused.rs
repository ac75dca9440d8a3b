//! Servers that will not do, and what they say.

use tenure_core::{Engine, ErrorKind};
use tenure_testkit::{
    Failure, Result, ensure,
    memcached::{Memcached, MemcachedOptions},
};

use crate::support::{claim, hold, items, let_go, open, says, server};

async fn refusal(url: &str) -> Result<tenure_core::Error> {
    match open(url).await {
        Ok(_) => Err(Failure::new("it was opened")),
        Err(err) => Ok(err),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_is_asked_for_and_never_shown() -> Result {
    let login = Some(("anna".to_owned(), "hunter2".to_owned()));
    let server = Memcached::start(MemcachedOptions { login, ..MemcachedOptions::default() })?;
    let engine = open(&server.url()).await?;
    let first = claim("k")?;
    hold(&engine, &first).await?;
    let_go(&engine, &first).await?;
    ensure!(!format!("{engine:?}").contains("hunter2"), "{engine:?}");
    for wrong in ["", "anna:hunter3@", "bert:hunter2@"] {
        let err = refusal(&format!("memcached://{wrong}{}", server.addr())).await?;
        says(&err, ErrorKind::Denied, "password")?;
        ensure!(!format!("{err:?}").contains("hunter"), "{err:?}");
    }
    Ok(())
}

/// Without unique numbers nothing could be swapped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_unique_numbers_is_refused() -> Result {
    let server = server(&["-C"])?;
    says(&refusal(&server.url()).await?, ErrorKind::Unsupported, "without -C")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_memcached_is_refused() -> Result {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("memcached://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    says(&refusal(&url).await?, ErrorKind::Unavailable, "connection")?;
    says(&refusal("memcached://127.0.0.1:1").await?, ErrorKind::Unavailable, "cannot connect")
}

/// A server that refuses to store when it is full (`-M`) grants nothing new, and lets go of what it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_that_forgets_nothing_grants_nothing() -> Result {
    let server = server(&["-M", "-m", "2"])?;
    let engine = open(&server.url()).await?;
    let first = claim("k")?;
    hold(&engine, &first).await?;
    let mut number = 0;
    let full = loop {
        let some: String =
            (0..200).map(|n| format!("ms filler:{number}:{n} 150 T0\r\n{}\r\n", "x".repeat(150))).collect();
        let answer = server.ask(format!("{some}mn\r\n").as_bytes(), "MN\r\n")?;
        number += 1;
        if answer.contains("out of memory") {
            break number;
        }
        ensure!(number < 1000, "it is never full");
    };
    ensure!(full > 1, "it was full from the start");
    let mut refused = 0;
    for n in 0..50 {
        let other = claim(&format!("other/{n}"))?;
        match engine.attempt(&other).await {
            Ok(_) => let_go(&engine, &other).await?,
            Err(err) => {
                says(&err, ErrorKind::Unavailable, "out of memory")?;
                refused += 1;
            }
        }
    }
    ensure!(refused > 0, "a full server granted everything");
    let_go(&engine, &first).await?;
    ensure!(items(&server)? == 0, "{} items are left", items(&server)?);
    Ok(())
}
