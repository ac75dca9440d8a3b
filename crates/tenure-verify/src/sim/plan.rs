//! What will happen, drawn from the seed before anything runs.

use fastrand::Rng;

use super::{Mutant, weather::Kind, weather::Window};
use crate::history::Nanos;

pub(super) const MS: Nanos = 1_000_000;

/// One schedule.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) ttl: Nanos,
    /// The longest that a message takes when nothing is wrong.
    pub(super) latency: Nanos,
    pub(super) clients: Vec<ClientPlan>,
    /// One, or the members of a quorum.
    pub(super) servers: Vec<ServerPlan>,
    pub(super) windows: Vec<Window>,
    pub(super) strikes: Vec<Strike>,
    /// The mode that all ask for, or a mix of readers and writers, or permits.
    pub(super) kind: LockKind,
    pub(super) keys: u32,
}

#[derive(Clone, Debug)]
pub(super) struct ClientPlan {
    /// How fast its clock runs, in parts per million of too much.
    pub(super) drift: i64,
    /// How many tasks of it ask for locks.
    pub(super) tasks: u32,
    /// How often each does.
    pub(super) rounds: u32,
    /// How far its wall clock is ahead.
    pub(super) ahead: Nanos,
    /// When its wall clock is set back and by how much, which only a mutant looks at.
    pub(super) set_back: (Nanos, Nanos),
}

#[derive(Clone, Debug)]
pub(super) struct ServerPlan {
    pub(super) drift: i64,
    /// How far its clock is ahead.
    pub(super) ahead: Nanos,
    /// When it restarts, and whether it then knows nothing any more.
    pub(super) restarts: Vec<(Nanos, Memory)>,
    /// When its clock is set back and by how much.
    pub(super) set_back: Option<(Nanos, Nanos)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Kept,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockKind {
    Mutex,
    ReadersWriter,
    Permits(u32),
}

/// Something done to a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strike {
    pub(super) client: usize,
    pub(super) when: When,
    pub(super) what: Blow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    At(Nanos),
    /// So long after it was granted a lock for the nth time: the moments that matter.
    Granted {
        nth: u32,
        after: Nanos,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    /// Nothing of it runs for so long.
    Pause(Nanos),
    /// The same, and its timers go on where they were: its background work lags by this much more.
    Suspend(Nanos, Nanos),
    Kill,
    /// An operator breaks what it holds, gently: its renewals are refused.
    Break,
}

impl Plan {
    pub(super) fn draw(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x7e6e_5eed);
        let quorum = mutant.map_or(seed % 8 == 7, Mutant::needs_a_quorum);
        let ttl = rng.u64(4..=20) * 100 * MS;
        let span = 5 * ttl;
        let kind = match rng.u8(0..10) {
            _ if mutant.is_some_and(Mutant::needs_readers) => LockKind::ReadersWriter,
            _ if mutant.is_some_and(Mutant::needs_permits) => LockKind::Permits(2),
            0..=6 => LockKind::Mutex,
            7 | 8 => LockKind::ReadersWriter,
            _ if quorum => LockKind::ReadersWriter,
            _ => LockKind::Permits(rng.u32(2..=3)),
        };
        let clients = (0..rng.u32(2..=3))
            .map(|_| ClientPlan {
                drift: rng.i64(-10_000..=10_000),
                tasks: 1 + u32::from(rng.u8(0..4) == 0),
                rounds: rng.u32(1..=3),
                ahead: rng.u64(0..=SKEW),
                set_back: (rng.u64(0..span), rng.u64(ttl / 4..3 * ttl)),
            })
            .collect::<Vec<_>>();
        let servers = (0..if quorum { 3 } else { 1 })
            .map(|_| ServerPlan {
                drift: rng.i64(-10_000..=10_000),
                ahead: if quorum { rng.u64(0..=SKEW) } else { 0 },
                restarts: Vec::new(),
                set_back: None,
            })
            .collect();
        let latency = rng.u64(1..=15) * MS;
        let (windows, strikes) = (Vec::new(), Vec::new());
        let keys = 1 + u32::from(rng.u8(0..5) == 0);
        let mut plan = Self { ttl, latency, clients, servers, windows, strikes, kind, keys };
        for _ in 0..rng.u8(1..=5) {
            plan.trouble(&mut rng, span, quorum);
        }
        plan
    }

    fn trouble(&mut self, rng: &mut Rng, span: Nanos, quorum: bool) {
        let ttl = self.ttl;
        let from = rng.u64(0..span);
        let long = rng.u64(ttl / 8..2 * ttl);
        let client = rng.usize(0..self.clients.len());
        let of_client = Some(client);
        // Most of what befalls a quorum befalls one member, or it could promise nothing but to keep holders apart.
        let server = match rng.u8(0..8) {
            _ if !quorum => None,
            0..=4 => Some(0),
            5 => Some(rng.usize(0..self.servers.len())),
            _ => None,
        };
        let when = if rng.bool() {
            When::At(from)
        } else {
            When::Granted { nth: rng.u32(1..=2), after: rng.u64(0..ttl) }
        };
        let window = |kind, client, percent| Window { from, to: from + long, kind, client, server, percent };
        let forgets = quorum && rng.u8(0..4) == 0;
        match if forgets { 14 } else { rng.u8(0..17) } {
            0..=2 => self.strikes.push(Strike { client, when, what: Blow::Pause(long) }),
            3 => {
                let what = Blow::Suspend(long, rng.u64(0..ttl / 2));
                self.strikes.push(Strike { client, when, what });
            }
            4 => self.strikes.push(Strike { client, when, what: Blow::Kill }),
            5 => self.windows.push(window(Kind::CutRequests, of_client, 100)),
            6 => self.windows.push(window(Kind::CutReplies, of_client, 100)),
            7 => self.windows.push(window(Kind::CutRequests, None, rng.u8(20..=100))),
            8 => self.windows.push(window(Kind::CutReplies, None, rng.u8(20..=100))),
            9 => self.windows.push(window(Kind::Slow(rng.u64(MS..ttl)), None, 50)),
            10 => self.windows.push(window(Kind::Double(rng.u64(MS..2 * ttl)), None, 60)),
            11 => self.windows.push(window(Kind::HoldBack(rng.u64(MS..2 * ttl)), of_client, 30)),
            12 => self.windows.push(window(Kind::EnginePause, None, 100)),
            13 => {
                let long = 4 * long;
                let kind = *rng
                    .choice(&[Kind::PushLost, Kind::PushLate(2 * ttl), Kind::PushDouble(2 * ttl)])
                    .unwrap_or(&Kind::PushLost);
                self.windows.push(Window { to: from + long, ..window(kind, None, rng.u8(50..=100)) });
            }
            14 => {
                let memory = if quorum { Memory::Lost } else { Memory::Kept };
                self.servers[0].restarts.push((from, memory));
                let down = rng.u64(MS..ttl / 2);
                for kind in [Kind::CutRequests, Kind::CutReplies] {
                    let server = Some(0);
                    self.windows.push(Window { to: from + down, server, ..window(kind, None, 100) });
                }
            }
            15 => self.servers[0].set_back = Some((from, rng.u64(MS..ttl))),
            _ => {
                let when = When::Granted { nth: rng.u32(1..=2), after: rng.u64(0..ttl / 4) };
                self.strikes.push(Strike { client, when, what: Blow::Break });
            }
        }
    }
}

/// The largest difference between the clocks of two members.
pub(super) const SKEW: Nanos = 200 * MS;
