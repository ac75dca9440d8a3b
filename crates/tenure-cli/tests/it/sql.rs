//! `tenure` on MariaDB and PostgreSQL, and the tables it prints for those who may not create them.

use serde_json::Value;
use tenure_testkit::{
    mariadb::{MariaDb, MariaDbOptions},
    postgres::{Postgres, PostgresOptions},
};

use crate::{
    bed::Bed,
    remote::{SECRET, a_job_is_stopped, a_job_runs, refused, run},
};

#[test]
fn a_job_runs_under_a_lock_that_others_see_and_nothing_stays() {
    a_job_runs(&MariaDb::shared().unwrap().url());
    a_job_runs(&Postgres::shared().unwrap().url());
}

#[test]
fn a_job_whose_server_dies_or_freezes_is_stopped_before_its_lease_ends() {
    for goes_away in [MariaDb::kill, MariaDb::pause] {
        let server = MariaDb::start(MariaDbOptions::default()).unwrap();
        a_job_is_stopped(&server.url(), || goes_away(&server).unwrap());
    }
    for goes_away in [Postgres::kill, Postgres::pause] {
        let server = Postgres::start(PostgresOptions::default()).unwrap();
        a_job_is_stopped(&server.url(), || goes_away(&server).unwrap());
    }
}

fn schema(args: &[&str]) -> String {
    Bed::new().run(&[&["schema"], args].concat()).exits(0).out
}

#[test]
fn one_who_may_create_no_tables_is_told_what_to_run_and_it_is_enough() {
    let server = MariaDb::start(MariaDbOptions::default()).unwrap();
    server.add_user("app", SECRET).unwrap();
    server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.* TO app").unwrap();
    let url = server.url_of("app", SECRET);
    refused(&url, 77, "tenure schema mysql");
    server.sql(&schema(&["mysql"])).unwrap();
    a_job_runs(&url);
    let other = format!("{url}?table=spare");
    refused(&other, 77, "tenure schema mysql");
    server.sql(&schema(&["mariadb", "--table", "spare"])).unwrap();
    run(&Bed::new(), &other, &["run", "k", "--", "true"]).exits(0);

    let server = Postgres::start(PostgresOptions::default()).unwrap();
    server.add_user("app", SECRET).unwrap();
    server.sql("CREATE SCHEMA locks").unwrap();
    let url = format!("{}?schema=locks&table=t", server.url_of("app", SECRET));
    refused(&url, 77, "tenure schema postgres");
    let text = schema(&["postgres", "--schema", "locks", "--table", "t"]);
    server.sql(&text).unwrap();
    // What it says at its end is what such a user needs.
    let rights = text.lines().filter_map(|line| line.strip_prefix("--   GRANT"));
    for right in rights {
        server.sql(&format!("GRANT{}", right.replace("someone", "app"))).unwrap();
    }
    run(&Bed::new(), &url, &["run", "k", "--", "true"]).exits(0);
}

#[test]
fn a_name_that_could_be_more_than_a_name_is_refused() {
    let bed = Bed::new();
    for name in ["t;DROP TABLE x", "t`", "t\"", "1t", "", "t&schema=x", "T T"] {
        for engine in ["mysql", "postgres"] {
            bed.run(&["schema", engine, "--table", name]).exits(64).prints("").complains(&["letters"]);
        }
    }
    bed.run(&["schema", "postgres", "--schema", "a.b"]).exits(64).prints("");
    bed.run(&["schema", "mysql", "--schema", "s"]).exits(64).prints("").complains(&["schema"]);
    bed.run(&["schema", "oracle"]).exits(64).prints("").complains(&["mysql", "postgres"]);
}

#[test]
fn what_cannot_be_opened_says_why_and_no_password() {
    for (url, code, said) in [
        (MariaDb::shared().unwrap().url_of("nobody", SECRET), 77, "password"),
        (Postgres::shared().unwrap().url_of("nobody", SECRET), 77, "password"),
        (format!("mysql://app:{SECRET}@127.0.0.1:1/x"), 69, "cannot connect"),
        (format!("postgres://app:{SECRET}@127.0.0.1:1/x"), 69, "cannot connect"),
        (format!("mysql://app:{SECRET}@h/x?tabel=t"), 78, "did you mean `table`?"),
        (format!("postgres://app:{SECRET}@h/x?tabel=t"), 78, "did you mean `table`?"),
    ] {
        refused(&url, code, said);
    }
}

#[test]
fn the_doctor_grades_what_the_server_keeps() {
    let bed = Bed::new();
    let grade = |url: &str| {
        let seen: Value = serde_json::from_str(&run(&bed, url, &["doctor", "--json"]).exits(0).out).unwrap();
        seen["guarantees"]["grade"].as_str().unwrap().to_owned()
    };
    assert_eq!(grade(&MariaDb::shared().unwrap().url()), "fenced");
    assert_eq!(grade(&Postgres::shared().unwrap().url()), "fenced");
    let settings = vec!["innodb_flush_log_at_trx_commit=2".to_owned()];
    let server = MariaDb::start(MariaDbOptions { settings, ..MariaDbOptions::default() }).unwrap();
    assert_eq!(grade(&server.url()), "advisory");
    let settings = vec!["fsync=off".to_owned()];
    let server = Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() }).unwrap();
    assert_eq!(grade(&server.url()), "advisory");
}
