use tenure_core::{Claim, Filter, Key};

use crate::{Cx, Result, ensure_eq, steps::*};

super::area! { "keys":
    each_locks_only_itself,
    case_counts,
    the_longest_are_told_apart,
    every_text_is_a_key,
    come_back_as_they_were (Listed),
}

/// Keys that look alike to something on the way: a path, a pattern, a statement, a protocol, a collation.
fn names(cx: &Cx) -> Vec<String> {
    let base = cx.key.as_str();
    let tails = [
        "/",
        "//",
        "/a",
        "/a/",
        "/a/b",
        "/.",
        "/..",
        "/../a",
        "/a\0b",
        "\0",
        " ",
        "  ",
        "\t",
        "a b",
        "a  b",
        "{",
        "}",
        "{a}",
        "{a}b",
        "{}",
        "*",
        "?",
        "[a]",
        "%",
        "_",
        "%2F",
        "%252F",
        "~",
        "#",
        ":",
        "::",
        "\\",
        "'",
        "''",
        "\"",
        "`",
        ";",
        "'; DROP TABLE tenure; --",
        "' OR '1'='1",
        "$1",
        "${x}",
        "\r\nDEL x\r\n",
        "\n",
        "\r",
        "-n",
        "--",
        "é",
        "e\u{301}",
        "É",
        "ß",
        "ss",
        "ẞ",
        "ı",
        "i",
        "İ",
        "I",
        "🔒",
        "🔓",
        "🧑‍🔧",
        "\u{200b}",
        "\u{feff}",
        "\u{202e}",
        "ﬁ",
        "fi",
        "K",
        "\u{212a}",
        "Å",
        "\u{212b}",
        "\u{7f}",
        "\u{1b}[2J",
        "null",
        "0",
    ];
    let mut names = vec![base.to_owned()];
    names.extend(tails.iter().map(|tail| format!("{base}{tail}")));
    names
}

/// Whatever its letters, a key locks itself and no other.
async fn each_locks_only_itself(cx: Cx) -> Result<()> {
    let names = names(&cx);
    let mut held = Vec::new();
    for name in &names {
        let claim = Claim { key: Key::new(name.as_str())?, ..cx.exclusive() };
        hold(&cx.a, &claim).await.map_err(|e| crate::Failure::new(format!("{name:?}: {e}")))?;
        held.push(claim);
    }
    for claim in &held {
        wait(&cx.b, &Claim { key: claim.key.clone(), ..cx.hasty_exclusive() }).await?;
        ensure_eq!(line(&cx.b, &claim.key).await?.len(), 1, "places of the key {:?}", claim.key.as_str());
    }
    for claim in &held {
        let_go(&cx.a, claim).await?;
    }
    Ok(())
}

/// Keys that differ only by case are different keys.
async fn case_counts(cx: Cx) -> Result<()> {
    let lower = Claim { key: Key::new(format!("{}/case/a", cx.key.as_str()))?, ..cx.exclusive() };
    let upper = Claim { key: Key::new(format!("{}/CASE/A", cx.key.as_str()))?, ..cx.exclusive() };
    hold(&cx.a, &lower).await?;
    hold(&cx.b, &upper).await?;
    wait(&cx.b, &Claim { key: lower.key.clone(), ..cx.hasty_exclusive() }).await?;
    Ok(())
}

/// Keys of the greatest length that differ only in their last letter are different keys.
async fn the_longest_are_told_apart(cx: Cx) -> Result<()> {
    let base = cx.key.as_str();
    let long =
        |end: &str| Key::new(format!("{base}{}{end}", "k".repeat(Key::MAX_BYTES - base.len() - end.len())));
    let mut held = Vec::new();
    for end in ["a", "b", "é", "/", "\0"] {
        let claim = Claim { key: long(end)?, ..cx.exclusive() };
        hold(&cx.a, &claim).await?;
        wait(&cx.b, &Claim { key: claim.key.clone(), ..cx.hasty_exclusive() }).await?;
        held.push(claim);
    }
    for claim in &held {
        let_go(&cx.a, claim).await?;
    }
    Ok(())
}

/// Any text will do: short, wide and full of what escapes grow by.
async fn every_text_is_a_key(cx: Cx) -> Result<()> {
    let base = cx.key.as_str();
    let room = Key::MAX_BYTES - base.len();
    for name in
        ["\0".repeat(room), "/".repeat(room), "%".repeat(room), "🔒".repeat(room / 4), "é".repeat(room / 2)]
    {
        let claim = Claim { key: Key::new(format!("{base}{name}"))?, ..cx.exclusive() };
        let seq = hold(&cx.a, &claim).await?.seat.seq;
        wait(&cx.b, &Claim { key: claim.key.clone(), ..cx.hasty_exclusive() }).await?;
        still_holds(&cx.a, &claim, seq).await?;
        let_go(&cx.a, &claim).await?;
    }
    Ok(())
}

/// A listing names every key as it was given, the long and the odd ones too.
async fn come_back_as_they_were(cx: Cx) -> Result<()> {
    let base = cx.key.as_str();
    let mut names = vec![format!("{base}/{}", "🔒".repeat(200)), format!("{base}/{}", "k".repeat(900))];
    names.extend(["/../x", "/a b", "/é", "/e\u{301}", "/\0", "/'\""].map(|tail| format!("{base}{tail}")));
    for name in &names {
        hold(&cx.a, &Claim { key: Key::new(name.as_str())?, ..cx.exclusive() }).await?;
    }
    let places = cx.b.line(&Filter::Prefix(format!("{base}/"), 100)).await?;
    let mut shown: Vec<_> = places.iter().map(|place| place.key.as_str().to_owned()).collect();
    shown.sort();
    names.sort();
    ensure_eq!(shown, names, "the keys of a listing");
    Ok(())
}
