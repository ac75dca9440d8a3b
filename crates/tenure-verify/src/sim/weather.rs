//! What the network does to a message.

use super::plan::MS;
use crate::{checks::WAKE_UP, history::Nanos};

/// A time in which messages fare badly.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) kind: Kind,
    /// Whose messages; everybody's if none.
    pub(super) client: Option<usize>,
    /// To and from which server; every one if none.
    pub(super) server: Option<usize>,
    /// How many in a hundred.
    pub(super) percent: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    CutRequests,
    CutReplies,
    /// Up to so much slower, in order.
    Slow(Nanos),
    /// A request arrives once more, up to so much later.
    Double(Nanos),
    /// A request is overtaken by what was sent up to so much later.
    HoldBack(Nanos),
    /// Nothing is handled before it is over.
    EnginePause,
    PushLost,
    PushLate(Nanos),
    PushDouble(Nanos),
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::CutRequests => "cut requests",
            Self::CutReplies => "cut replies",
            Self::Slow(_) => "slow",
            Self::Double(_) => "double",
            Self::HoldBack(_) => "hold back",
            Self::EnginePause => "engine pause",
            Self::PushLost | Self::PushLate(_) | Self::PushDouble(_) => WAKE_UP,
        }
    }
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Request,
    Reply,
    Push,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    pub(super) delay: Nanos,
    pub(super) lost: bool,
    /// It arrives a second time, so much later.
    pub(super) again: Option<Nanos>,
    /// It does not keep its place in the order.
    pub(super) astray: bool,
    /// Not before this.
    pub(super) not_before: Nanos,
}

/// How often a window struck, and when its last message arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Struck {
    pub(super) times: u32,
    pub(super) reach: Nanos,
}

/// Draws the fate of a message, and marks the windows that had a part in it.
pub(super) fn fate(
    windows: &[Window],
    struck: &mut [Struck],
    (way, client, server): (Way, usize, usize),
    now: Nanos,
    latency: Nanos,
) -> Fate {
    let mut fate = Fate { delay: MS + fastrand::u64(0..=latency), ..Fate::default() };
    for (window, struck) in windows.iter().zip(struck) {
        let here = (window.from..window.to).contains(&now)
            && window.client.is_none_or(|one| one == client)
            && window.server.is_none_or(|one| one == server);
        if !here || fastrand::u8(0..100) >= window.percent {
            continue;
        }
        let before = fate;
        match (window.kind, way) {
            (Kind::CutRequests, Way::Request) | (Kind::CutReplies, Way::Reply | Way::Push) => {
                fate.lost = true
            }
            (Kind::Slow(most), Way::Request | Way::Reply) => fate.delay += fastrand::u64(0..most),
            (Kind::Double(most), Way::Request) => fate.again = Some(fastrand::u64(0..most)),
            (Kind::HoldBack(most), Way::Request) => {
                fate.delay += fastrand::u64(0..most);
                fate.astray = true;
            }
            (Kind::EnginePause, Way::Request) => fate.not_before = window.to,
            (Kind::PushLost, Way::Push) => fate.lost = true,
            (Kind::PushLate(most), Way::Push) => fate.delay += fastrand::u64(0..most),
            (Kind::PushDouble(most), Way::Push) => fate.again = Some(fastrand::u64(0..most)),
            _ => continue,
        }
        if fate.lost != before.lost
            || fate.delay != before.delay
            || fate.again != before.again
            || fate.not_before > now
        {
            struck.times += 1;
            struck.reach = struck.reach.max(now + fate.delay + fate.again.unwrap_or(0)).max(fate.not_before);
        }
    }
    fate
}
