use std::time::Duration;

use tenure::Quorum;
use tenure_core::{Crash, Grade, Guarantees, Wake};
use tenure_etcd as etcd;
use tenure_mysql as mysql;
use tenure_postgres as postgres;
use tenure_redis::{Kind, guarantees_of};
use tenure_zookeeper as zookeeper;

/// What every engine of this workspace promises, in the order of the table.
pub(super) fn all() -> Vec<Guarantees> {
    // What Redis promises depends on how it is run, so it has a row for each.
    let redis = |engine, kind| Guarantees { engine, ..guarantees_of(kind) };
    let mysql = |engine, kind| Guarantees { engine, ..mysql::guarantees_of(kind, Wake::Push) };
    let postgres = |engine, kind| Guarantees { engine, ..postgres::guarantees_of(kind, Wake::Push) };
    vec![
        tenure_local::Memory::guarantees(),
        tenure_local::file::guarantees_on_disk(),
        redis("redis, appendfsync always", Kind::Durable),
        redis("redis", Kind::Forgetful),
        redis("redis+sentinel, redis+cluster", Kind::FailingOver),
        Quorum::guarantees_over(&guarantees_of(Kind::Forgetful)),
        tenure_memcached::guarantees(),
        mysql("mysql", mysql::Kind::Durable),
        mysql("mysql with replicas", mysql::Kind::Replicated),
        postgres("postgres", postgres::Kind::Durable { standbys: false }),
        postgres("postgres, asynchronous standbys", postgres::Kind::Replicated),
        etcd::guarantees_of(etcd::Kind::Cluster),
        // As short as it is unless the servers are told otherwise: two ticks of two seconds.
        zookeeper::guarantees_of(Duration::from_secs(4)),
    ]
}

/// One row for each engine.
pub(super) fn table(engines: &[Guarantees]) -> String {
    let mut table = "| engine | grade | keeps apart | locks | order | a dead holder is noticed by | waiters | fences rise over a restart |\n\
                     | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for g in engines {
        table.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
            g.engine, g.grade, g.reach, g.modes, g.order, g.crash, g.wake, g.fences,
        ));
    }
    table
}

/// One row for each promise of one engine.
pub(super) fn promises(g: &Guarantees) -> String {
    let rows = [
        ("Grade", format!("**{}**: {}", g.grade, grade(g.grade))),
        ("Keeps apart", g.reach.to_string()),
        ("Locks", g.modes.to_string()),
        ("Order of waiters", g.order.to_string()),
        ("A dead holder is noticed by", format!("{}: {}", g.crash, crash(g.crash))),
        ("Waiters learn of their turn by", g.wake.to_string()),
        ("Fences rise over a restart", g.fences.to_string()),
        ("Can be a member of a fenced quorum", g.floors.to_string()),
        ("A failover", g.failover.to_string()),
        (
            "Shortest lease",
            if g.crash == Crash::Process { "no lease".into() } else { format!("{:?}", g.min_ttl) },
        ),
    ];
    let mut table = "| promise | here |\n| --- | --- |\n".to_owned();
    for (promise, here) in rows {
        table.push_str(&format!("| {promise} | {here} |\n"));
    }
    table
}

const fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::Advisory => "fewer duplicates; two holders are possible, and the fence is what saves the data",
        Grade::Leased => "exclusion within the lease while clocks drift by less than the margin",
        Grade::Fenced => "a unique, rising fence through crash, pause, partition and failover",
    }
}

const fn crash(crash: Crash) -> &'static str {
    match crash {
        Crash::Lease => "it ends when nobody renews it; a holder paused for longer is a dead one",
        Crash::Session => "it ends when the engine hears nothing; a holder paused for longer is a dead one",
        Crash::Process => "the operating system tells at once; a paused holder goes on holding",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_row_and_every_row_all_columns() {
        let engines = all();
        let table = table(&engines);
        let columns = |line: &str| line.matches(" | ").count();
        assert_eq!(table.lines().count(), engines.len() + 2);
        assert!(table.lines().all(|line| columns(line) == 7), "{table}");
        assert!(engines.iter().all(|g| promises(g).lines().all(|line| columns(line) == 1)));
    }

    #[test]
    fn a_changed_promise_changes_the_text() {
        let before = tenure_local::Memory::guarantees();
        let after = Guarantees { grade: Grade::Advisory, ..before.clone() };
        assert_ne!(table(std::slice::from_ref(&before)), table(std::slice::from_ref(&after)));
        assert_ne!(promises(&before), promises(&after));
    }
}
