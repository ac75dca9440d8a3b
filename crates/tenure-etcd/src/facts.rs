//! What kind of store this is, and what an operator should know about it.

use std::time::Duration;

use tenure_core::{
    Crash, Fact, Failover, Fences, Floors, Grade, Guarantees, Modes, Op, Order, Reach, Result, Wake,
};

use crate::{ENGINE, links::Links, pb};

/// What a server keeps by default before it refuses to write.
const QUOTA: i64 = 2 << 30;

/// The first versions without known faults of leases and reads while a server is paused.
const MENDED: [(u32, u32, u32); 3] = [(3, 4, 42), (3, 5, 28), (3, 6, 9)];

/// How many servers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One.
    Single,
    /// Several, of which more than half agree on everything.
    Cluster,
}

impl Kind {
    /// Asks who votes. A user may not be allowed to; then the URL must do.
    pub(crate) async fn find(links: &Links, hosts: usize) -> Result<Self> {
        let voters = match voters(links).await {
            Ok(voters) => voters,
            Err(err) if err.kind() == tenure_core::ErrorKind::Denied => hosts,
            Err(err) => return Err(err),
        };
        Ok(if voters > 1 { Self::Cluster } else { Self::Single })
    }
}

async fn voters(links: &Links) -> Result<usize> {
    let link = links.at(Op::Connect).await?;
    let list: pb::MemberListResponse =
        link.call(Op::Connect, "etcdserverpb.Cluster/MemberList", &pb::Empty {}).await?;
    Ok(list.members.iter().filter(|member| !member.is_learner).count())
}

/// What the engine promises on such a store.
#[must_use]
pub fn guarantees_of(kind: Kind) -> Guarantees {
    Guarantees {
        engine: ENGINE,
        grade: Grade::Fenced,
        reach: Reach::Network,
        modes: Modes::ALL,
        order: Order::Fifo,
        crash: Crash::Session,
        wake: Wake::Push,
        fences: Fences::Durable,
        // A revision is what it is.
        floors: Floors::Ignored,
        failover: match kind {
            Kind::Single => Failover::None,
            Kind::Cluster => Failover::Keeps,
        },
        // Leases have whole seconds.
        min_ttl: Duration::from_secs(1),
    }
}

/// What an operator should know.
pub(crate) async fn facts(links: &Links) -> Result<Vec<Fact>> {
    let link = links.at(Op::Examine).await?;
    let status = link.status(Op::Examine).await?;
    let mut facts = vec![
        Fact::good("server", link.address.to_string()),
        version(&status.version),
        match voters(links).await {
            Ok(1) => {
                Fact::warning("servers", "one: while it is down nobody gets a lock, and nobody keeps one")
            }
            Ok(count) => Fact::good("servers", format!("{count}, of which {} must be up", count / 2 + 1)),
            Err(_) => Fact::good("servers", "this user may not ask how many there are"),
        },
        room(status.db_size),
    ];
    facts.extend(status.errors.iter().map(|error| Fact::warning("alarm", error.clone())));
    facts.push(Fact::good("clock", "leases are counted by the leader's clock and ours, never compared"));
    Ok(facts)
}

fn version(version: &str) -> Fact {
    let numbers: Vec<u32> = version.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    let text = format!("etcd {version}");
    let old = MENDED.iter().find(|mended| {
        matches!(numbers[..], [major, minor, patch, ..] if (major, minor) == (mended.0, mended.1) && patch < mended.2)
    });
    match old {
        Some((major, minor, patch)) => Fact::warning(
            "version",
            format!(
                "{text}: a server that was paused may answer with what is no longer so; upgrade to {major}.{minor}.{patch}"
            ),
        ),
        None => Fact::good("version", text),
    }
}

fn room(size: i64) -> Fact {
    let text = format!("{} MiB of history and data", size >> 20);
    if size > QUOTA / 2 {
        let advice = "the server refuses to write at its quota (2 GiB by default); let it compact by itself \
                      (--auto-compaction-retention) and defragment it";
        Fact::warning("room", format!("{text}; {advice}"))
    } else {
        Fact::good("room", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_known_faults_are_named() {
        for (text, warns) in [
            ("3.4.23", true),
            ("3.4.42", false),
            ("3.5.27", true),
            ("3.5.28", false),
            ("3.6.0-rc.1", true),
            ("3.6.9", false),
            ("3.7.0", false),
            ("?", false),
        ] {
            assert_eq!(version(text).warns, warns, "{text}");
        }
    }

    #[test]
    fn a_store_that_fills_up_is_noticed_before_it_is_full() {
        assert!(!room(100 << 20).warns);
        assert!(room(1500 << 20).warns);
    }
}
