//! What kind of server this is: the grade its locks deserve, and what an operator should know.

use std::collections::HashMap;

use tenure_core::{
    Crash, Error, ErrorKind, Fact, Failover, Fences, Floors, Grade, Guarantees, Key, Modes, Op, Order, Reach,
    Result, Ttl, Wake,
};

use crate::{
    ENGINE,
    answer::Answer,
    url::MysqlOptions,
    waits::{LONGEST_PAUSE, MOST_BELLS},
};

/// What decides the grade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One server whose every commit is on disk before it is acknowledged.
    Durable,
    /// The same with copies that learn of a commit later (replicas, Galera): a failover may forget it.
    Replicated,
    /// A server that may forget what it acknowledged when its machine crashes.
    Forgetful,
}

/// What the engine promises on such a server, with waiters woken like this.
#[must_use]
pub fn guarantees_of(kind: Kind, wake: Wake) -> Guarantees {
    Guarantees {
        engine: ENGINE,
        grade: match kind {
            Kind::Durable => Grade::Fenced,
            Kind::Replicated => Grade::Leased,
            Kind::Forgetful => Grade::Advisory,
        },
        reach: Reach::Network,
        modes: Modes::ALL,
        order: Order::Fifo,
        crash: Crash::Lease,
        wake,
        fences: if kind == Kind::Forgetful { Fences::ClockBound } else { Fences::Durable },
        floors: Floors::Kept,
        failover: if kind == Kind::Replicated { Failover::MayForget } else { Failover::None },
        min_ttl: Ttl::MIN,
    }
}

/// Asks a server about itself. `Uptime` is the whole seconds from the start of the server to the start of the
/// statement, both by the wall clock: between two equal readings of that clock it gives the second of the start
/// exactly, whatever the clock did since.
pub(crate) const ASK: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', \
     'hostname', 'port', 'server_id', 'server_uuid', 'datadir', 'innodb_flush_log_at_trx_commit', 'log_bin', \
     'sync_binlog', 'binlog_format', 'read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on'); \
     SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_connected', 'Rpl_semi_sync_master_clients', \
     'Rpl_semi_sync_source_clients'); \
     SELECT UNIX_TIMESTAMP(); SHOW GLOBAL STATUS LIKE 'Uptime'; SELECT UNIX_TIMESTAMP();";

/// What a server says about itself.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    says: HashMap<String, String>,
    /// The second it was started, by its clock.
    started: i64,
    incarnation: u64,
}

impl Found {
    /// Reads the answer to [`ASK`]; `None` if a second began meanwhile, or it is no such answer.
    pub(crate) fn read(answer: &Answer) -> Option<Self> {
        let [variables, status, before, uptime, after] = &answer.sets[..] else { return None };
        let now = before.first()?.number(0)?;
        if after.first()?.number(0)? != now {
            return None;
        }
        // Below zero, written as a number without a sign, if the clock was set back after the start.
        let uptime: u64 = uptime.first()?.text(1).parse().ok()?;
        let started = now.wrapping_sub(uptime as i64);
        let says: HashMap<_, _> = variables
            .iter()
            .chain(status)
            .map(|row| (row.text(0).to_ascii_lowercase(), row.text(1).to_owned()))
            .collect();
        let mut found = Self { says, started, incarnation: 0 };
        let who = ["server_uuid", "hostname", "port", "server_id", "datadir"].map(|name| found.get(name));
        let digest = Key::new(format!("{}\n{started}", who.join("\n"))).ok()?.digest();
        found.incarnation = digest.iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte));
        Some(found)
    }

    /// The server's life: who it is, and the second it was started. Two starts within a second share it, and share
    /// the clock, which is what it is for.
    pub(crate) const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The second it was started, by its clock.
    pub(crate) const fn started(&self) -> i64 {
        self.started
    }

    fn get(&self, name: &str) -> &str {
        self.says.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.get(name), "ON" | "1")
    }

    /// How many replicas are seen. MySQL counts only those that acknowledge.
    fn replicas(&self) -> u64 {
        let names = ["slaves_connected", "rpl_semi_sync_master_clients", "rpl_semi_sync_source_clients"];
        names.iter().filter_map(|name| self.get(name).parse().ok()).max().unwrap_or(0)
    }

    fn is_durable(&self) -> bool {
        // A crash undoes what is prepared but not in the binary log, so that must be on disk too.
        self.get("innodb_flush_log_at_trx_commit") == "1"
            && (!self.is_on("log_bin") || self.get("sync_binlog") == "1")
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.is_durable() {
            false => Kind::Forgetful,
            true if self.replicas() > 0 || self.is_on("wsrep_on") => Kind::Replicated,
            true => Kind::Durable,
        }
    }

    /// Whether user-level locks may be asked for: Galera refuses them, or keeps them to one node.
    pub(crate) fn may_ring(&self) -> bool {
        !self.is_on("wsrep_on")
    }

    /// Refuses a server on which no lock can be granted.
    pub(crate) fn check(&self, options: &MysqlOptions) -> Result<()> {
        if ["read_only", "super_read_only", "innodb_read_only"].iter().any(|name| self.is_on(name)) {
            // Some users may write all the same, but what they write on a replica no other server knows.
            let message = format!("{} is read-only; name the primary in the URL", options.address);
            return Err(Error::new(ErrorKind::Unavailable, Op::Connect, message)
                .with_engine(ENGINE)
                .not_applied());
        }
        if self.is_on("log_bin") && self.get("binlog_format") == "STATEMENT" {
            let message = format!(
                "{} writes statements to its binary log; set binlog_format to ROW or MIXED",
                options.address
            );
            return Err(Error::invalid(message).in_op(Op::Connect).with_engine(ENGINE));
        }
        Ok(())
    }

    /// What an operator should know.
    pub(crate) fn facts(&self, options: &MysqlOptions, wake: Wake) -> Vec<Fact> {
        vec![
            Fact::good("server", options.address.to_string()),
            Fact::good("version", format!("{} ({})", self.get("version"), self.get("version_comment"))),
            self.memory(),
            self.replication(),
            self.wake(options, wake),
            Fact::good("clock", "leases are counted on the server's clock and ours, never compared"),
        ]
    }

    fn wake(&self, options: &MysqlOptions, wake: Wake) -> Fact {
        let (name, polls) = ("wake", "waiters ask again, with pauses of up to 250ms");
        match wake {
            Wake::Push => {
                let most = LONGEST_PAUSE / 1000;
                Fact::good(
                    name,
                    format!(
                        "waiters block in the server (GET_LOCK), {MOST_BELLS} at a time; more, and those for permits, \
                         look at the line every {most}ms at least"
                    ),
                )
            }
            Wake::Poll if options.poll => Fact::good(name, format!("{polls} (wake=poll)")),
            Wake::Poll if !self.may_ring() => Fact::warning(name, format!("{polls}: Galera has no GET_LOCK")),
            Wake::Poll => {
                Fact::warning(name, format!("{polls}: GET_LOCK does not work here; connect past the pooler"))
            }
        }
    }

    fn memory(&self) -> Fact {
        let (name, flush, sync) =
            ("memory", self.get("innodb_flush_log_at_trx_commit"), self.get("sync_binlog"));
        if self.is_durable() {
            return Fact::good(name, "every commit is on disk before it is acknowledged");
        }
        let what = if flush == "1" {
            format!("sync_binlog is {sync}; 1 keeps all")
        } else {
            format!("innodb_flush_log_at_trx_commit is {flush}; 1 keeps all")
        };
        Fact::warning(name, format!("a crash of the machine may forget about a second of locks ({what})"))
    }

    fn replication(&self) -> Fact {
        let name = "replicas";
        if self.is_on("wsrep_on") {
            return Fact::warning(
                name,
                "a Galera cluster, which tenure has not been tested with; use one node for all locks",
            );
        }
        match self.replicas() {
            0 if self.is_on("log_bin") => {
                Fact::good(name, "none seen; one that is promoted may have missed the last locks")
            }
            0 => Fact::good(name, "none, hence no failover that forgets"),
            count => Fact::warning(
                name,
                format!("{count}, which learn of a lock after it was granted: a failover may forget it"),
            ),
        }
    }
}
