//! Keys that would end a command, and items that somebody else put where a line should be.

use tenure_core::{Answered, Claim, Engine, ErrorKind, Key, Renewal};
use tenure_testkit::{Result, ensure_eq};

use crate::support::{claim, hold, let_go, open, renew, says, server};

/// Whatever a key, a note or a namespace says, the server hears the meta commands of this engine and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_injected() -> Result {
    let server = server(&[])?;
    server.ask(b"ms victim 1\r\nx\r\n", "HD\r\n")?;
    let engine = open(&server.url()).await?;
    for key in [
        "k\r\nmd victim\r\n",
        "k md victim",
        "\r\nflush_all\r\n",
        "k 1 T1\r\nx\r\nmd victim",
        "a\nb",
        "\0",
        "%0d%0a",
    ] {
        let note = tenure_core::Note::new("a\r\nmd victim\r\n", "b\tc\r\nflush_all\r\n");
        let claim = Claim { key: Key::new(key)?, note, ..claim("k")? };
        let seq = hold(&engine, &claim).await?.seat.seq;
        ensure_eq!(
            renew(&engine, &claim, seq).await?,
            Renewal::Renewed(Some(claim.ttl.get())),
            "the renewal"
        );
        ensure_eq!(
            engine.line(&tenure_core::Filter::Key(claim.key.clone())).await?[0].note,
            claim.note,
            "the note"
        );
        let_go(&engine, &claim).await?;
    }
    server.ask(b"mg victim v\r\n", "VA 1\r\nx\r\n")?;
    ensure_eq!(server.stat("cmd_flush")?, "0", "flushes");
    Ok(())
}

/// An item that is no line of ours is neither believed nor changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_ours_is_left_alone() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let other = "tenure1 1 other\n00000000000000000000000000000001 0000000000000001 * x 1\ta\tb\n";
    for value in ["", "hello", "tenure1", "\u{0}\u{1}", other] {
        server.ask(format!("ms tenure:line:k {}\r\n{value}\r\n", value.len()).as_bytes(), "HD\r\n")?;
        let claim = claim("k")?;
        says(&engine.attempt(&claim).await.unwrap_err(), ErrorKind::Invalid, "none of tenure's")?;
        says(
            &engine.release(&claim, Answered::All).await.unwrap_err(),
            ErrorKind::Invalid,
            "none of tenure's",
        )?;
        says(
            &engine.line(&tenure_core::Filter::Key(claim.key)).await.unwrap_err(),
            ErrorKind::Invalid,
            "none of tenure's",
        )?;
        server.ask(b"mg tenure:line:k v\r\n", &format!("VA {}\r\n{value}\r\n", value.len()))?;
    }
    Ok(())
}
