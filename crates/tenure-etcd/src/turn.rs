//! Waiting for one's turn, by a watch on what stands in the way.

use std::collections::BTreeSet;

use tenure_core::{Claim, Mode, Op, Result, Seat, Turn, line};

use crate::{
    link::{Link, Watching},
    names::Names,
    pb,
    place::Standing,
    sessions::Sessions,
    spots::Spot,
};

/// Up to so many places ahead are known one by one to a waiter for permits. It then need not ask whether it holds.
const MOST_KNOWN: usize = 1_000;

/// What a waiter watches. What is watched from the past etcd tells of in rounds, every 100 ms; so it is watched from now,
/// and looked at once if something has happened since.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    seat: Seat,
    watch: pb::WatchCreateRequest,
    /// As of when is known who stands in the way.
    seen: i64,
    blocked: Blocked,
}

/// By whom a waiter is blocked.
#[derive(Clone, Debug)]
enum Blocked {
    /// By one place; and whether it holds when that is gone.
    One { last: bool },
    /// By too many permits.
    Many(Crowd),
}

/// Places ahead of a waiter that stand in its way by their sum.
#[derive(Clone, Debug)]
struct Crowd {
    mode: Mode,
    places: Vec<(Spot, Mode)>,
    /// Whether these are all there are ahead, or only so many that it cannot hold while they stand.
    all: bool,
}

/// What became of what is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// It holds now, if nobody took its own place.
    Holds,
    /// It may hold now, or nobody knows what happened.
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
            return Self { seat, watch, seen: revision, blocked: Blocked::One { last } };
        }
        // Only the sum of permits stands in the way: whoever leaves may make room.
        let all = ahead.len() <= MOST_KNOWN;
        let some = if all { ahead } else { &ahead[blockers] };
        let places = some.iter().map(|place| (place.spot, place.words.mode)).collect();
        let (key, range_end) = line;
        let watch = pb::WatchCreateRequest { key, range_end, filters: vec![NO_WRITES], ..Default::default() };
        Self { seat, watch, seen: revision, blocked: Blocked::Many(Crowd { mode, places, all }) }
    }
}

impl Crowd {
    /// What it means that some have left.
    fn after(&mut self, left: impl Fn(Spot) -> bool) -> Option<News> {
        let before = self.places.len();
        self.places.retain(|&(spot, _)| !left(spot));
        if self.all {
            let holds = line::would_hold(self.places.iter().map(|&(_, mode)| mode), self.mode);
            return holds.then_some(News::Holds);
        }
        (self.places.len() < before).then_some(News::Changed)
    }
}

impl Blocked {
    /// What these events mean to the waiter, if anything.
    fn hears(&mut self, names: &Names, events: &[pb::Event]) -> Option<News> {
        let mut gone = events.iter().filter(|event| event.is_deletion());
        match self {
            Self::One { last } => {
                Some(if *last && gone.next().is_some() { News::Holds } else { News::Changed })
            }
            Self::Many(crowd) => {
                let which = |event: &pb::Event| Some(names.read(&event.kv.as_ref()?.key)?.1);
                let gone: BTreeSet<Spot> = gone.filter_map(which).collect();
                crowd.after(|spot| gone.contains(&spot))
            }
        }
    }
}

/// Resolves when what the newest attempt saw in the way has changed.
pub(crate) async fn turn(sessions: &Sessions, claim: &Claim) -> Turn {
    let Some(wait) = sessions.known(claim.id).and_then(|known| known.wait) else { return Turn::Again };
    let Ok(link) = sessions.links.at(Op::Attempt).await else { return Turn::Again };
    let mut created = false;
    let news = match link.watch(wait.watch.clone()).await {
        Ok(watching) => listen(&sessions.names, &link, &wait, watching, &mut created).await,
        Err(_) => None,
    };
    let still = || sessions.known(claim.id).is_some_and(|known| known.seq == wait.seat.seq);
    match news {
        Some(News::Holds) if still() => Turn::Holds(wait.seat),
        Some(_) => Turn::Again,
        None if created || !link.lives() => Turn::Again,
        // A server that refuses to be watched would be asked again and again: the time between attempts must do.
        None => std::future::pending().await,
    }
}

/// Listens until there is something to tell; `None` if the watch ended before.
async fn listen(
    names: &Names,
    link: &Link,
    wait: &Wait,
    mut watching: Watching,
    created: &mut bool,
) -> Option<News> {
    let mut blocked = wait.blocked.clone();
    loop {
        let heard = match watching.next().await {
            Ok(Some(news)) if news.created && !news.canceled => {
                *created = true;
                let now = news.header.map_or(0, |header| header.revision);
                if now > wait.seen { missed(names, link, wait, &mut blocked).await.ok()? } else { None }
            }
            // It was forgotten what happened since: look again.
            Ok(Some(news)) if news.compact_revision > 0 => Some(News::Changed),
            Ok(Some(news)) if news.canceled => return None,
            Ok(Some(news)) => blocked.hears(names, &news.events),
            Ok(None) | Err(_) => return None,
        };
        if heard.is_some() {
            return heard;
        }
    }
}

/// What happened between the attempt that saw who stands in the way and the moment from which on that is watched.
async fn missed(names: &Names, link: &Link, wait: &Wait, blocked: &mut Blocked) -> Result<Option<News>> {
    let (key, range_end) = (wait.watch.key.clone(), wait.watch.range_end.clone());
    let look = pb::RangeRequest { key, range_end, keys_only: true, ..Default::default() };
    let found: pb::RangeResponse = link.call(Op::Attempt, "etcdserverpb.KV/Range", &look).await?;
    Ok(match blocked {
        Blocked::One { last } => match found.kvs.first() {
            None if *last => Some(News::Holds),
            Some(place) if place.mod_revision <= wait.seen => None,
            _ => Some(News::Changed),
        },
        Blocked::Many(crowd) => {
            // Whoever came since may stand at the spot of one who left.
            let before = found.kvs.iter().filter(|kv| kv.create_revision <= wait.seen);
            let there: BTreeSet<Spot> = before.filter_map(|kv| Some(names.read(&kv.key)?.1)).collect();
            crowd.after(|spot| !there.contains(&spot))
        }
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
            spot: Spot { client: 1, number: at as u32 },
            seq: Seq::new(at as u64).unwrap(),
            lease: 1,
            name: vec![at as u8],
            words: Words {
                id: ClaimId::fresh(),
                mode,
                ttl: Duration::ZERO,
                taken: 0,
                stopped: false,
                note: Note::new("", ""),
            },
        };
        let ahead: Vec<_> = ahead.iter().enumerate().map(standing).collect();
        let seat = Seat { seq: Seq::MAX, incarnation: Incarnation(0) };
        Wait::new(seat, mode, &ahead, (vec![100], vec![101]), 41)
    }

    #[test]
    fn the_nearest_blocker_is_watched_and_what_came_before_is_asked() {
        use Mode::{Exclusive, Shared};
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
            assert_eq!(wait.watch.key, vec![watched], "{mode} behind {ahead:?}");
            assert!(
                matches!(wait.blocked, Blocked::One { last: found } if found == last),
                "{mode} behind {ahead:?}"
            );
            assert_eq!((wait.watch.start_revision, wait.seen), (0, 41));
            assert!(wait.watch.range_end.is_empty() && wait.watch.filters.is_empty());
        }
    }

    fn permits(take: u32) -> Mode {
        Mode::Permits(Permits::new(take, 3).unwrap())
    }

    fn crowd(mode: Mode, ahead: &[Mode]) -> Crowd {
        let wait = wait(mode, ahead);
        assert_eq!((wait.watch.start_revision, wait.seen), (0, 41));
        assert_eq!((wait.watch.key, wait.watch.range_end), (vec![100], vec![101]));
        match wait.blocked {
            Blocked::Many(crowd) => crowd,
            Blocked::One { .. } => panic!("one place stands in the way"),
        }
    }

    #[test]
    fn among_permits_each_departure_is_counted_and_only_the_last_one_needed_is_news() {
        let mut waiter = crowd(permits(1), &[permits(1); 5]);
        let spots: Vec<Spot> = waiter.places.iter().map(|&(spot, _)| spot).collect();
        assert_eq!(waiter.after(|_| false), None);
        assert_eq!(waiter.after(|spot| spot == Spot { client: 2, number: 0 }), None, "a stranger left");
        assert_eq!(waiter.after(|spot| spot == spots[3]), None, "four are left of three permits");
        assert_eq!(waiter.after(|spot| spot == spots[3]), None, "told twice");
        assert_eq!(waiter.after(|spot| spot == spots[0]), None, "three are left");
        assert_eq!(waiter.after(|spot| spot == spots[1]), Some(News::Holds));
    }

    #[test]
    fn in_a_long_line_only_the_nearest_count_and_whoever_of_them_leaves_is_news() {
        let mut waiter = crowd(permits(1), &vec![permits(1); MOST_KNOWN + 1]);
        assert_eq!((waiter.places.len(), waiter.all), (3, false));
        let nearest = waiter.places[2].0;
        assert_eq!(waiter.after(|spot| spot == Spot { client: 2, number: 0 }), None);
        assert_eq!(waiter.after(|spot| spot == nearest), Some(News::Changed));
    }
}
