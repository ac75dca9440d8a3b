//! Logins, and what those without one can do.

use tenure_core::{Engine, ErrorKind, Mode};
use tenure_testkit::{Result, ensure, ensure_eq};

use crate::support::{claim, corner, hold, let_go, line, open, refusal};

/// What one user has made, nobody else can use, look at or take away; passwords show nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_a_user_are_its_own() -> Result {
    let plain = corner("access")?;
    let anna = plain.replace("//", "//anna:hunter2@");
    let engine = open(&anna).await?;
    let held = claim("k", Mode::Exclusive)?;
    hold(&engine, &held).await?;
    for other in [&plain, &plain.replace("//", "//anna:hunter3@"), &plain.replace("//", "//bert:hunter2@")] {
        let err = refusal(other).await?;
        ensure_eq!(err.kind(), ErrorKind::Denied, "{err}");
        ensure!(err.to_string().contains("another user"), "{err}");
        let shown = format!("{err} {err:?}");
        ensure!(!shown.contains("hunter"), "the error shows a password: {shown}");
    }
    let again = open(&anna).await?;
    ensure_eq!(line(&again, "k").await?.len(), 1, "what the same user sees");
    let_go(&engine, &held).await?;
    let facts = engine.examine().await?;
    ensure!(facts.iter().any(|fact| fact.name == "access" && !fact.warns), "{facts:?}");
    ensure!(!format!("{engine:?}").contains("hunter2"), "the engine shows the password: {engine:?}");
    Ok(())
}

/// Without a login the doctor warns; and says what each server is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_says_what_weakens_the_locks() -> Result {
    let engine = open(&corner("doctor")?).await?;
    let facts = engine.examine().await?;
    for (name, warns, text) in
        [("server", false, "standalone"), ("ensemble", true, "run three"), ("access", true, "log in")]
    {
        let found =
            facts.iter().any(|fact| fact.name == name && fact.warns == warns && fact.text.contains(text));
        ensure!(found, "nothing about {name}: {facts:?}");
    }
    Ok(())
}
