//! What kind of server this is, and what an operator should know about it.

use std::time::Duration;

use tenure_core::{Crash, Fact, Failover, Fences, Floors, Grade, Guarantees, Modes, Order, Reach, Wake};

use crate::{ENGINE, reply::Nonsense};

/// Servers count in whole seconds: a lease of one second lived for a third of it.
pub(crate) const MIN_TTL: Duration = Duration::from_secs(2);

/// A server says that it is two seconds old when it starts, and a second more at the next full one.
const A_SECOND_OLD: u64 = 4;

/// The most lines of an answer about a server.
const MOST_STATS: usize = 1000;

/// What the engine promises on any server.
#[must_use]
pub fn guarantees() -> Guarantees {
    Guarantees {
        engine: ENGINE,
        grade: Grade::Advisory,
        reach: Reach::Network,
        modes: Modes::ALL,
        order: Order::Fifo,
        crash: Crash::Lease,
        wake: Wake::Poll,
        fences: Fences::ClockBound,
        // They are the numbers that the server gives to changes.
        floors: Floors::Ignored,
        failover: Failover::None,
        min_ttl: MIN_TTL,
    }
}

/// Which server it is. Read once, when a connection is made: every verb asks for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    /// When it started, by its own clock: the same answer for as long as it lives.
    pub(crate) started: Option<u64>,
    /// Its clock, in seconds.
    pub(crate) time: u64,
    /// What tells one life of a server from another, as far as it says.
    pub(crate) incarnation: u64,
    pub(crate) is_older_than_a_second: bool,
}

/// What a server says about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    said: Vec<(String, String)>,
    refused: Option<String>,
}

impl Stats {
    /// Takes one line of the answer, and says whether it was the last.
    pub(crate) fn add(&mut self, line: &str) -> Result<bool, Nonsense> {
        match line.split_once(' ') {
            Some(("STAT", fact)) if self.said.len() < MOST_STATS => {
                let (name, value) = fact.split_once(' ').unwrap_or((fact, ""));
                self.said.push((name.to_owned(), value.to_owned()));
                Ok(false)
            }
            None if matches!(line, "END" | "RESET") => Ok(true),
            _ if ["ERROR", "CLIENT_ERROR", "SERVER_ERROR"].iter().any(|word| line.starts_with(word)) => {
                self.refused = Some(line.to_owned());
                Ok(true)
            }
            _ => Err(Nonsense),
        }
    }

    /// What the server said instead.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(said, _)| said == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    fn started(&self) -> Option<u64> {
        self.number("time")?.checked_sub(self.number("uptime")?)
    }

    /// What the verbs need of it.
    pub(crate) fn server(&self) -> Server {
        let started = self.started();
        Server {
            started,
            time: self.number("time").unwrap_or(0),
            incarnation: started.unwrap_or(0) << 24 ^ self.number("pid").unwrap_or(0),
            is_older_than_a_second: self.number("uptime").is_some_and(|uptime| uptime >= A_SECOND_OLD),
        }
    }

    /// What an operator should know; `settings` is what it says about how it was started.
    pub(crate) fn facts(&self, settings: &Self) -> Vec<Fact> {
        vec![
            Fact::good(
                "version",
                format!("memcached {}", self.get("version").unwrap_or("of an unknown version")),
            ),
            Fact::warning(
                "restart",
                "forgets who holds what; for more than fewer duplicates, choose another engine",
            ),
            self.eviction(settings),
            Fact::good("clock", "leases are counted on the server's clock and ours, never compared"),
        ]
    }

    fn eviction(&self, settings: &Self) -> Fact {
        let name = "eviction";
        let gone = self.number("evictions").unwrap_or(0);
        match settings.get("evictions") {
            Some("off") => Fact::good(name, "nothing is forgotten when memory is full (-M)"),
            _ if gone > 0 => Fact::warning(
                name,
                format!(
                    "{gone} items were forgotten because memory was full, maybe held locks; give it more (-m)"
                ),
            ),
            _ => Fact::warning(
                name,
                "held locks may be forgotten when memory is full; none of its items were so far",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(lines: &[&str]) -> Stats {
        let mut stats = Stats::default();
        for line in lines {
            assert_eq!(stats.add(line), Ok(false));
        }
        assert_eq!(stats.add("END"), Ok(true));
        stats
    }

    #[test]
    fn a_server_is_known_by_when_it_started() {
        let server = |lines: &[&str]| stats(lines).server();
        let young =
            server(&["STAT pid 7", "STAT uptime 3", "STAT time 1794824260", "STAT libevent 2.1.12-stable"]);
        let old = server(&["STAT pid 7", "STAT uptime 4", "STAT time 1794824261"]);
        assert_eq!((young.started, old.started), (Some(1_794_824_257), Some(1_794_824_257)));
        assert_eq!(young.incarnation, old.incarnation);
        let other = server(&["STAT pid 8", "STAT uptime 3", "STAT time 1794824260"]);
        assert_ne!(young.incarnation, other.incarnation);
        assert!(!young.is_older_than_a_second && old.is_older_than_a_second);
        assert_eq!(server(&["STAT uptime 3"]).started, None);
    }

    #[test]
    fn only_an_answer_about_a_server_is_taken() {
        let mut stats = Stats::default();
        assert_eq!(stats.add("CLIENT_ERROR unauthenticated"), Ok(true));
        assert_eq!(stats.refused(), Some("CLIENT_ERROR unauthenticated"));
        assert_eq!(Stats::default().add("HTTP/1.1 200 OK"), Err(Nonsense));
        let mut endless = Stats::default();
        assert!((0..=MOST_STATS).any(|_| endless.add("STAT a b").is_err()));
    }

    #[test]
    fn an_operator_is_told_what_was_forgotten() {
        let (calm, full) = (stats(&["STAT evictions 0"]), stats(&["STAT evictions 12"]));
        let (off, on) = (stats(&["STAT evictions off"]), stats(&["STAT evictions on"]));
        assert!(!calm.eviction(&off).warns && calm.eviction(&on).warns);
        assert!(full.eviction(&on).text.contains("12 items"));
    }
}
