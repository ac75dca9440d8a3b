//! What kind of server this is: the grade its locks deserve, and what an operator should know.

use tenure_core::{
    Address, Crash, Error, Fact, Failover, Fences, Floors, Grade, Guarantees, Modes, Op, Order, Reach,
    Result, Ttl, Wake,
};
use tokio_postgres::SimpleQueryMessage;

use crate::{ENGINE, text::field};

/// `plan_cache_mode` came with it.
const OLDEST: u32 = 12;

/// Of the settings that a session of ours changes, what they are without that.
pub(crate) const QUESTION: &str = "SELECT current_setting('server_version'), current_setting('fsync'), \
    (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'), \
    current_setting('synchronous_standby_names'), pg_is_in_recovery(), \
    inet_client_port(), (SELECT count(*) FROM pg_stat_replication), \
    (SELECT reset_val FROM pg_settings WHERE name = 'default_transaction_isolation')";

/// What a server says about itself.
#[derive(Debug)]
pub(crate) struct Found {
    version: String,
    fsync: String,
    synchronous_commit: String,
    synchronous_standbys: String,
    standby: bool,
    client_port: Option<u16>,
    replicas: u32,
    isolation: String,
}

/// What decides the grade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One server that keeps what it has acknowledged, alone or with standbys that have it too.
    Durable {
        /// Whether one of these standbys could take over.
        standbys: bool,
    },
    /// Standbys learn of a lock after it was granted.
    Replicated,
    /// A crash may lose or spoil what was acknowledged (`fsync = off`).
    Forgetful,
}

/// What the engine promises on such a server, with waiters woken like this.
#[must_use]
pub fn guarantees_of(kind: Kind, wake: Wake) -> Guarantees {
    Guarantees {
        engine: ENGINE,
        grade: match kind {
            Kind::Durable { .. } => Grade::Fenced,
            Kind::Replicated => Grade::Leased,
            Kind::Forgetful => Grade::Advisory,
        },
        reach: Reach::Network,
        modes: Modes::ALL,
        order: Order::Fifo,
        crash: Crash::Lease,
        wake,
        fences: if kind == Kind::Forgetful { Fences::ClockBound } else { Fences::Durable },
        // A sequence cannot be raised without stopping everybody who draws from it.
        floors: Floors::Ignored,
        failover: match kind {
            Kind::Durable { standbys: false } | Kind::Forgetful => Failover::None,
            Kind::Durable { standbys: true } => Failover::Keeps,
            Kind::Replicated => Failover::MayForget,
        },
        min_ttl: Ttl::MIN,
    }
}

impl Found {
    /// Reads the answer to the question.
    pub(crate) fn read(answer: &[SimpleQueryMessage]) -> Self {
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let get = |at: usize| row.and_then(|row| field(row, at)).unwrap_or("").to_owned();
        Self {
            version: get(0),
            fsync: get(1),
            synchronous_commit: get(2),
            synchronous_standbys: get(3),
            standby: get(4) == "t",
            client_port: get(5).parse().ok(),
            replicas: get(6).parse().unwrap_or(0),
            isolation: get(7),
        }
    }

    /// Refuses a server that is too old.
    pub(crate) fn check(&self, address: &Address) -> Result<()> {
        let number = self.version.split(|c: char| !c.is_ascii_digit()).next();
        match number.and_then(|number| number.parse::<u32>().ok()) {
            Some(number) if number >= OLDEST => Ok(()),
            _ => {
                let message =
                    format!("{address} is PostgreSQL {}; {OLDEST} is the oldest that will do", self.version);
                Err(Error::unsupported(Op::Connect, message).with_engine(ENGINE))
            }
        }
    }

    pub(crate) fn is_standby(&self) -> bool {
        self.standby
    }

    /// The port that the server sees at the other end.
    pub(crate) fn client_port(&self) -> Option<u16> {
        self.client_port
    }

    /// How a lock is committed: as the server does it, unless it would forget.
    pub(crate) fn durable_commit(&self) -> &str {
        match self.synchronous_commit.as_str() {
            "remote_apply" => "remote_apply",
            _ => "on",
        }
    }

    /// `hosts` is how many servers the URL names.
    pub(crate) fn kind(&self, hosts: usize) -> Kind {
        if self.fsync != "on" {
            Kind::Forgetful
        } else if !self.synchronous_standbys.is_empty() {
            Kind::Durable { standbys: true }
        } else if self.replicas > 0 || hosts > 1 {
            Kind::Replicated
        } else {
            Kind::Durable { standbys: false }
        }
    }

    /// What an operator should know.
    pub(crate) fn facts(&self, direct: bool, wake: Wake) -> Vec<Fact> {
        vec![
            Fact::good("version", format!("PostgreSQL {}", self.version)),
            self.disk(),
            self.commit(),
            self.replication(),
            Fact::good(
                "isolation",
                format!("read committed for locks, whatever the default ({})", self.isolation),
            ),
            self.wake(direct, wake),
            Fact::good("clock", "leases are counted on the server's clock and ours, never compared"),
        ]
    }

    fn disk(&self) -> Fact {
        match self.fsync.as_str() {
            "on" => Fact::good("fsync", "every commit is on disk before it is acknowledged"),
            _ => Fact::warning("fsync", "off: a crash may forget or spoil any lock; set fsync = on"),
        }
    }

    fn commit(&self) -> Fact {
        let (name, now) = ("commit", &self.synchronous_commit);
        if now == self.durable_commit() {
            Fact::good(name, format!("synchronous_commit is {now}"))
        } else {
            Fact::good(name, format!("synchronous_commit is {now}, and {} for locks", self.durable_commit()))
        }
    }

    fn replication(&self) -> Fact {
        let name = "replicas";
        match (self.replicas, self.synchronous_standbys.as_str()) {
            (0, "") => Fact::good(name, "none, hence no failover that forgets"),
            (count, "") => Fact::warning(
                name,
                format!(
                    "{count}, which learn of a lock after it was granted: a failover may forget it; set \
                     synchronous_standby_names"
                ),
            ),
            (count, names) => {
                Fact::good(name, format!("{count}; a lock is granted once these have it: {names}"))
            }
        }
    }

    fn wake(&self, direct: bool, wake: Wake) -> Fact {
        let name = "wake";
        match (wake, direct) {
            (Wake::Push, true) => Fact::good(name, "waiters are told (NOTIFY)"),
            (Wake::Push, false) => Fact::good(name, "waiters are told (NOTIFY), through a proxy"),
            (Wake::Poll, _) => Fact::warning(
                name,
                "waiters ask again and again: a pooler in between lends its connections for a transaction; connect \
                 past it, or let it lend them for a session",
            ),
        }
    }
}
