//! Large and odd names, long notes, many holds at once.

use std::collections::BTreeSet;

use tenure_core::{Claim, Engine, Filter, Held, Mode, Note, Renewal};
use tenure_testkit::{Result, ensure_eq};

use crate::support::{calls, claim, forgetful, hold, keys, let_go, line, open};

/// Any text is a name, and shown as it was given; none is taken for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_names_are_kept_apart() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let names: Vec<String> = [
        "a",
        "A",
        "a ",
        " a",
        "a\n",
        "a\r\n*1\r\n$4\r\nPING\r\n",
        "a\0b",
        "a\0",
        "{a}",
        "a{",
        "}{",
        "*",
        "?",
        "[a-z]",
        "a\\",
        "'; return 1 --",
        "\u{1f512}",
        "lock:a",
        "tenure:lock:a",
        "line",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(["x".repeat(1024), "\u{e9}".repeat(512), format!("{}y", "x".repeat(1023))])
    .collect();
    let label = "\u{e4}".repeat(128);
    let mut held = Vec::new();
    for name in &names {
        let claim = Claim { note: Note::new("bo@host:2", &label), ..claim(name, Mode::Exclusive)? };
        let seq = hold(&engine, &claim).await?.seat.seq;
        held.push((claim, seq));
    }
    let all = engine.line(&Filter::Prefix(String::new(), 1000)).await?;
    let shown: BTreeSet<_> = all.iter().map(|place| place.key.as_str().to_owned()).collect();
    ensure_eq!(shown, names.iter().cloned().collect::<BTreeSet<_>>(), "the names that are shown");
    for (claim, seq) in &held {
        let places = line(&engine, claim.key.as_str()).await?;
        ensure_eq!(places.len(), 1, "places of one name");
        ensure_eq!(
            (places[0].seq, places[0].note.clone()),
            (*seq, claim.note.clone()),
            "what is shown of it"
        );
        ensure_eq!(places[0].note.label().len(), Note::MAX_LABEL, "the label");
        let_go(&engine, claim).await?;
    }
    ensure_eq!(keys(&server)?, ["tenure:id", "tenure:mark"], "what is left");
    Ok(())
}

/// A prefix means itself, whatever a pattern would make of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefixes_are_no_patterns() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    for name in ["a*b", "axb", "a?b", "[ab]c", "ac", "a\\b", "a\\*b", "^a", "ab", "a-z", "*"] {
        hold(&engine, &claim(name, Mode::Exclusive)?).await?;
    }
    for (prefix, shown) in [
        ("a*", &["a*b"][..]),
        ("a?", &["a?b"]),
        ("[", &["[ab]c"]),
        ("[ab]", &["[ab]c"]),
        ("a\\", &["a\\*b", "a\\b"]),
        ("^", &["^a"]),
        ("a-", &["a-z"]),
        ("*", &["*"]),
        ("zzz", &[]),
        ("a", &["a*b", "a-z", "a?b", "a\\*b", "a\\b", "ab", "ac", "axb"]),
    ] {
        let places = engine.line(&Filter::Prefix(prefix.to_owned(), 100)).await?;
        let names: Vec<_> = places.iter().map(|place| place.key.as_str()).collect();
        ensure_eq!(names, shown, "the names that start so");
    }
    ensure_eq!(engine.line(&Filter::Prefix(String::new(), 3)).await?.len(), 3, "no more than asked for");
    ensure_eq!(engine.line(&Filter::Prefix(String::new(), 0)).await?.len(), 0, "none if none is asked for");
    Ok(())
}

/// 300 holds are renewed in three commands; an answer for each, in their order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_holds_are_renewed_in_few_commands() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let mut claims = Vec::new();
    for number in 0..300 {
        let claim = claim(&format!("many/{number}"), Mode::Exclusive)?;
        let seq = hold(&engine, &claim).await?.seat.seq;
        claims.push((claim, seq));
    }
    let holds: Vec<_> = claims.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
    let gone = [7, 150, 299];
    engine.renew(&holds).await?;
    for at in gone {
        let_go(&engine, &claims[at].0).await?;
    }
    let before = calls(&server, "evalsha")?;
    let renewals = engine.renew(&holds).await?;
    ensure_eq!(calls(&server, "evalsha")? - before, 3, "commands for 300 renewals");
    let lost: Vec<_> =
        renewals.iter().enumerate().filter(|(_, one)| **one == Renewal::Lost).map(|(at, _)| at).collect();
    ensure_eq!(lost, gone, "which are lost");
    ensure_eq!(engine.renew(&[]).await?, [], "the renewal of nothing");
    let twice = [holds[0], holds[0]];
    ensure_eq!(engine.renew(&twice).await?, [renewals[0]; 2], "the same hold twice");
    Ok(())
}
