//! Waiting for one's turn, by a watch on what stands in the way.

use tenure_core::{Claim, Mode, Op, Result, Seat, Turn, line};

use crate::{link::Link, pb, place::Standing, sessions::Sessions};

/// What a waiter watches.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    seat: Seat,
    watch: pb::WatchCreateRequest,
    /// When a single place was seen that is watched. What is watched from the past etcd tells of in rounds, every 100 ms; so
    /// it is watched from now, and looked at once if something has happened since.
    seen: Option<i64>,
    /// Whether nothing else stands in the way of what is watched.
    last: bool,
}

/// What became of what is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Gone,
    /// It is another now, or nobody knows what happened.
    Changed,
}

/// Leaves writes out of a watch.
const NO_WRITES: i32 = 0;

impl Wait {
    /// For a waiter of this mode behind these, as they were at this revision.
    pub(crate) fn new(
        seat: Seat,
        mode: Mode,
        ahead: &[Standing],
        line: (Vec<u8>, Vec<u8>),
        revision: i64,
    ) -> Self {
        let modes = crate::place::modes(ahead);
        let blockers = line::blockers(&modes, mode);
        if let Some([only]) = ahead.get(blockers.clone()) {
            let watch = pb::WatchCreateRequest { key: only.name.clone(), ..Default::default() };
            // Behind it stand only those who hold with this one; but of permits, all together may be too many.
            let last = blockers.start == 0 && (ahead.len() == 1 || !matches!(mode, Mode::Permits(_)));
            return Self { seat, watch, seen: Some(revision), last };
        }
        // Only the sum of permits stands in the way: whoever leaves may make room.
        let (key, range_end) = line;
        let start_revision = revision + 1;
        let watch = pb::WatchCreateRequest { key, range_end, start_revision, filters: vec![NO_WRITES] };
        Self { seat, watch, seen: None, last: false }
    }
}

/// Resolves when what the newest attempt saw in the way has changed.
pub(crate) async fn turn(sessions: &Sessions, claim: &Claim) -> Turn {
    let Some(wait) = sessions.known(claim.id).and_then(|known| known.wait) else { return Turn::Again };
    let Ok(link) = sessions.links.at(Op::Attempt).await else { return Turn::Again };
    let mut created = false;
    let news = match link.watch(wait.watch.clone()).await {
        Ok(mut watching) => loop {
            match watching.next().await {
                Ok(Some(news)) if news.created && !news.canceled => {
                    created = true;
                    let now = news.header.map_or(0, |header| header.revision);
                    match missed(&link, &wait, now).await {
                        Ok(None) => {}
                        Ok(missed) => break missed,
                        Err(_) => break None,
                    }
                }
                // It was forgotten what happened since: look again.
                Ok(Some(news)) if news.compact_revision > 0 => break Some(News::Changed),
                Ok(Some(news)) if news.canceled => break None,
                Ok(Some(news)) if news.events.iter().any(pb::Event::is_deletion) => break Some(News::Gone),
                Ok(Some(_)) => break Some(News::Changed),
                Ok(None) | Err(_) => break None,
            }
        },
        Err(_) => None,
    };
    let still = || sessions.known(claim.id).is_some_and(|known| known.seq == wait.seat.seq);
    match news {
        Some(News::Gone) if wait.last && still() => Turn::Holds(wait.seat),
        Some(_) => Turn::Again,
        None if created || !link.lives() => Turn::Again,
        // A server that refuses to be watched would be asked again and again: the time between attempts must do.
        None => std::future::pending().await,
    }
}

/// What became of the place between the attempt that saw it and this revision, from which on it is watched.
async fn missed(link: &Link, wait: &Wait, now: i64) -> Result<Option<News>> {
    let Some(seen) = wait.seen.filter(|&seen| seen < now) else { return Ok(None) };
    let look = pb::RangeRequest { key: wait.watch.key.clone(), keys_only: true, ..Default::default() };
    let found: pb::RangeResponse = link.call(Op::Attempt, "etcdserverpb.KV/Range", &look).await?;
    Ok(match found.kvs.first() {
        None => Some(News::Gone),
        Some(place) if place.mod_revision > seen => Some(News::Changed),
        Some(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{ClaimId, Incarnation, Key, Note, Permits, Seq};

    use super::*;
    use crate::words::Words;

    fn wait(mode: Mode, ahead: &[Mode]) -> Wait {
        let standing = |(at, &mode): (usize, &Mode)| Standing {
            key: Key::new("k").unwrap(),
            id: ClaimId::fresh(),
            seq: Seq::new(at as u64).unwrap(),
            lease: 1,
            name: vec![at as u8],
            words: Words { mode, ttl: Duration::ZERO, taken: 0, stopped: false, note: Note::new("", "") },
        };
        let ahead: Vec<_> = ahead.iter().enumerate().map(standing).collect();
        let seat = Seat { seq: Seq::MAX, incarnation: Incarnation(0) };
        Wait::new(seat, mode, &ahead, (vec![100], vec![101]), 41)
    }

    #[test]
    fn the_nearest_blocker_is_watched_and_what_came_before_is_asked() {
        use Mode::{Exclusive, Shared};
        let permits = |take| Mode::Permits(Permits::new(take, 3).unwrap());
        for (mode, ahead, watched, last) in [
            (Exclusive, vec![Exclusive], 0, true),
            (Exclusive, vec![Exclusive, Exclusive], 1, false),
            (Exclusive, vec![Shared, Shared], 1, false),
            (Shared, vec![Exclusive, Shared, Shared], 0, true),
            (Shared, vec![Exclusive, Exclusive, Shared], 1, false),
            (permits(1), vec![Exclusive], 0, true),
            (permits(2), vec![Exclusive, permits(1)], 0, false),
            (permits(3), vec![permits(2)], 0, true),
        ] {
            let wait = wait(mode, &ahead);
            assert_eq!((wait.watch.key, wait.last), (vec![watched], last), "{mode} behind {ahead:?}");
            assert_eq!((wait.watch.start_revision, wait.seen), (0, Some(41)));
            assert!(wait.watch.range_end.is_empty() && wait.watch.filters.is_empty());
        }
        let crowd = wait(permits(2), &[permits(1), permits(1)]);
        assert_eq!((crowd.watch.start_revision, crowd.seen, crowd.last), (42, None, false));
        assert_eq!((crowd.watch.key, crowd.watch.range_end), (vec![100], vec![101]));
    }
}
