use std::time::Duration;

use tenure_core::{Claim, ErrorKind, Filter, Key, Mode, Note, Standing};

use crate::{Cx, Failure, Result, ensure, ensure_eq, steps::*};

super::area! { "line":
    tells_the_truth_when_quiet (Fifo),
    shows_modes (Shared, Fifo),
    shows_the_longest_notes,
    shows_what_is_left_of_a_lease (Leases),
    shows_no_lease_where_there_is_none,
    hides_expired_places (Leases),
    filters_by_prefix (Listed),
    keeps_to_the_limit (Listed),
    keeps_lines_together (Fifo, Listed),
    refuses_to_list_what_it_cannot (Unlisted),
    of_an_unused_key_is_empty,
    changes_nothing,
}

/// Order, standing, numbers and notes are as the claims made them, for every client.
async fn tells_the_truth_when_quiet(cx: Cx) -> Result<()> {
    let claims: Vec<_> = (0..4)
        .map(|n| Claim {
            note: Note::new(&format!("user{n}@høst:{n}"), &format!("job ‘{n}’")),
            ..cx.exclusive()
        })
        .collect();
    let mut seqs = vec![hold(&cx.a, &claims[0]).await?.seat.seq];
    for claim in &claims[1..] {
        seqs.push(queue(&cx.b, claim).await?.seq);
    }
    for engine in [&cx.a, &cx.b] {
        let line = line(engine, &cx.key).await?;
        ensure_eq!(line.len(), claims.len(), "places in the line");
        for (n, place) in line.iter().enumerate() {
            let standing = if n == 0 { Standing::Holds } else { Standing::Waits };
            ensure_eq!((place.id, place.seq), (claims[n].id, seqs[n]), "claim and number of place {n}");
            ensure_eq!(place.standing, standing, "the standing of place {n}");
            ensure_eq!(place.note, claims[n].note, "the note of place {n}");
            ensure!(place.age < Duration::from_secs(60), "place {n} is said to be {:?} old", place.age);
        }
    }
    Ok(())
}

/// The mode of each place is shown as it was asked for.
async fn shows_modes(cx: Cx) -> Result<()> {
    hold(&cx.a, &cx.shared()).await?;
    queue(&cx.b, &cx.exclusive()).await?;
    queue(&cx.b, &cx.shared()).await?;
    let modes: Vec<_> = line(&cx.a, &cx.key).await?.iter().map(|place| place.mode).collect();
    ensure_eq!(modes, [Mode::Shared, Mode::Exclusive, Mode::Shared], "the modes of the line");
    Ok(())
}

/// Notes come back whole, the longest and the oddest too. (An engine may name the process where a note does not.)
async fn shows_the_longest_notes(cx: Cx) -> Result<()> {
    let notes = [
        Note::new(&("🔒".repeat(Note::MAX_WHO / 4 - 1) + ":812"), &"é".repeat(Note::MAX_LABEL / 2)),
        Note::new("u@h:1", ""),
        Note::new("it's \"me\" % _ \\ ; --:1", "{}[]$1\u{2028}"),
    ];
    for (n, note) in notes.into_iter().enumerate() {
        let key = Key::new(format!("{}/{n}", cx.key.as_str()))?;
        hold(&cx.a, &Claim { key: key.clone(), note: note.clone(), ..cx.exclusive() }).await?;
        ensure_eq!(line(&cx.b, &key).await?[0].note, note, "the note");
    }
    Ok(())
}

/// The time a place has left is never more than its ttl, and grows less.
async fn shows_what_is_left_of_a_lease(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    hold(&cx.a, &claim).await?;
    let left = async || {
        let line = line(&cx.b, &cx.key).await?;
        line[0].lease_left.ok_or_else(|| Failure::new("an engine with leases shows none"))
    };
    let first = left().await?;
    ensure!(first <= claim.ttl.get() && first > claim.ttl.get() / 2, "a fresh lease shows {first:?} left");
    cx.pass(Duration::from_secs(1)).await;
    let then = left().await?;
    ensure!(then + Duration::from_millis(900) <= first, "a second later {then:?} of {first:?} is left");
    Ok(())
}

/// A place that ends with its process or its session shows no lease; one that ends unless it is renewed does.
async fn shows_no_lease_where_there_is_none(cx: Cx) -> Result<()> {
    hold(&cx.a, &cx.exclusive()).await?;
    let left = line(&cx.b, &cx.key).await?[0].lease_left;
    ensure_eq!(left.is_some(), cx.lapses(), "whether a lease is shown to be left");
    Ok(())
}

/// A place whose lease has ended is not shown, though nothing else happened on the key since.
async fn hides_expired_places(cx: Cx) -> Result<()> {
    let dead = cx.brief();
    hold(&cx.a, &dead).await?;
    cx.lapse(&dead).await;
    if cx.listed {
        let all = cx.b.line(&Filter::Prefix(cx.key.as_str().to_owned(), 100)).await?;
        ensure!(all.is_empty(), "a listing shows an expired place: {all:?}");
    }
    nobody(&cx.b, &cx.key).await
}

async fn three_keys(cx: &Cx) -> Result<()> {
    for name in ["x/1", "x/2", "y/1"] {
        let key = Key::new(format!("{}/{name}", cx.key.as_str()))?;
        hold(&cx.a, &Claim { key, ..cx.exclusive() }).await?;
    }
    Ok(())
}

/// A prefix shows the keys that start so, and no others; its letters mean only themselves.
async fn filters_by_prefix(cx: Cx) -> Result<()> {
    three_keys(&cx).await?;
    let shown = async |suffix: &str| {
        let filter = Filter::Prefix(format!("{}{suffix}", cx.key.as_str()), 100);
        let places = cx.b.line(&filter).await?;
        ensure!(places.iter().all(|place| filter.shows(&place.key)), "a prefix shows {places:?}");
        Ok(places.len())
    };
    for (suffix, count) in
        [("/", 3), ("/x/", 2), ("/x/1", 1), ("/z", 0), ("/*", 0), ("/%", 0), ("/_/1", 0), ("/?", 0)]
    {
        ensure_eq!(shown(suffix).await?, count, "places of the keys under `{suffix}`");
    }
    Ok(())
}

/// A listing has at most as many places as were asked for.
async fn keeps_to_the_limit(cx: Cx) -> Result<()> {
    three_keys(&cx).await?;
    for (limit, count) in [(0, 0), (1, 1), (2, 2), (50, 3)] {
        let places = cx.b.line(&Filter::Prefix(format!("{}/", cx.key.as_str()), limit)).await?;
        ensure_eq!(places.len(), count, "places of a listing of at most {limit}");
    }
    Ok(())
}

/// A listing of many keys shows each line in one piece and in order.
async fn keeps_lines_together(cx: Cx) -> Result<()> {
    let keys: Vec<_> =
        (0..4).map(|n| Key::new(format!("{}/{n}", cx.key.as_str()))).collect::<tenure_core::Result<_>>()?;
    for round in 0..3 {
        for key in &keys {
            let claim = Claim { key: key.clone(), ..cx.exclusive() };
            if round == 0 {
                hold(&cx.a, &claim).await.map(drop)?
            } else {
                queue(&cx.b, &claim).await.map(drop)?
            }
        }
    }
    let places = cx.b.line(&Filter::Prefix(format!("{}/", cx.key.as_str()), 100)).await?;
    let pieces: Vec<_> = places.chunk_by(|a, b| a.key == b.key).collect();
    ensure_eq!(pieces.len(), keys.len(), "pieces that the lines are shown in");
    for line in pieces {
        ensure!(line.is_sorted_by(|a, b| a.seq < b.seq), "a line is not in order: {line:?}");
        ensure_eq!(line.iter().filter(|p| p.standing == Standing::Holds).count(), 1, "holders of one line");
    }
    Ok(())
}

/// An engine without a list of its keys says so: nothing found would look like nobody there.
async fn refuses_to_list_what_it_cannot(cx: Cx) -> Result<()> {
    hold(&cx.a, &cx.exclusive()).await?;
    for prefix in ["", cx.key.as_str()] {
        match cx.b.line(&Filter::Prefix(prefix.to_owned(), 10)).await {
            Err(err) => ensure_eq!(err.kind(), ErrorKind::Unsupported, "the kind of the refusal"),
            Ok(places) => return Err(Failure::new(format!("an engine that cannot list shows {places:?}"))),
        }
    }
    Ok(())
}

/// A key that nobody used has no line.
async fn of_an_unused_key_is_empty(cx: Cx) -> Result<()> {
    nobody(&cx.a, &cx.key).await
}

/// Looking changes nothing.
async fn changes_nothing(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    for _ in 0..5 {
        let _ = line(&cx.b, &cx.key).await?;
        if cx.listed {
            let _ = cx.b.line(&Filter::Prefix(cx.key.as_str().to_owned(), 10)).await?;
        }
    }
    still_holds(&cx.a, &claim, seq).await
}
