use std::time::Duration;

use tenure_testkit::{
    Result, ensure, ensure_eq,
    mariadb::{MariaDb, MariaDbOptions},
    sql::Rows,
};

use crate::postgres::{refused, rows};

crate::tests! {
    statements_are_answered_or_refused,
    settings_are_taken,
    a_killed_server_keeps_what_was_committed_and_nothing_else,
    a_server_that_is_ended_can_be_started_again,
    a_paused_server_answers_when_it_goes_on,
    a_user_proves_itself_and_is_limited,
    tls_is_trusted_by_its_authority_only,
    a_server_that_does_not_start_shows_its_log,
    shared_servers_are_started_once,
    its_clock_is_set_and_nobody_elses,
}

/// Long enough for an answer on loopback, short enough to wait for one that must not come.
const SHORT: Duration = Duration::from_millis(100);

fn statements_are_answered_or_refused() -> Result {
    let mut admin = MariaDb::shared()?.admin()?;
    let answer = admin.sql("SELECT 1, NULL, 'a b'; SELECT 'é ERROR'")?;
    ensure_eq!(answer, rows(&[&["1", "NULL", "a b"], &["é ERROR"]]), "the rows");
    ensure_eq!(admin.sql("DO 0")?, Rows::new(), "no rows");
    refused(admin.sql("SELECT * FROM nothing"), "ERROR 1146 (42S02)")?;
    ensure_eq!(admin.sql("SELECT DATABASE()")?, rows(&[&["tenure"]]), "the session goes on");
    admin.send("DO 0")?;
    ensure!(admin.send("DO 0").is_err(), "two questions at once");
    admin.receive()?;
    ensure!(admin.receive().is_err(), "an answer to nothing");
    let id = &admin.sql("SELECT CONNECTION_ID()")?[0][0];
    MariaDb::shared()?.sql(&format!("KILL {id}"))?;
    refused(admin.sql("SELECT 1"), "ERROR 20")?;
    refused(admin.sql("SELECT 1"), "ERROR 2006")
}

fn settings_are_taken() -> Result {
    let settings = ["wait_timeout=7", "max_connections=12", "innodb_flush_log_at_trx_commit=2"];
    let settings = settings.iter().chain(&["transaction_isolation=SERIALIZABLE"]);
    let options =
        MariaDbOptions { settings: settings.map(ToString::to_string).collect(), ..MariaDbOptions::default() };
    let sql = "SELECT @@wait_timeout, @@max_connections, @@innodb_flush_log_at_trx_commit, @@tx_isolation";
    let default = rows(&[&["28800", "151", "1", "REPEATABLE-READ"]]);
    ensure_eq!(MariaDb::shared()?.sql(sql)?, default, "the default");
    ensure_eq!(MariaDb::start(options)?.sql(sql)?, rows(&[&["7", "12", "2", "SERIALIZABLE"]]), "asked for");
    Ok(())
}

fn a_killed_server_keeps_what_was_committed_and_nothing_else() -> Result {
    let mariadb = MariaDb::start(MariaDbOptions::default())?;
    ensure_eq!(mariadb.url(), format!("mysql://root@127.0.0.1:{}/tenure", mariadb.port()), "the URL");
    let mut admin = mariadb.admin()?;
    admin.sql("CREATE TABLE t (n INT PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    admin.sql("BEGIN; INSERT INTO t VALUES (2)")?;
    mariadb.kill()?;
    ensure!(!mariadb.process().is_running(), "it is down");
    refused(mariadb.sql("SELECT 1"), "ERROR 2002")?;
    refused(admin.sql("COMMIT"), "ERROR 20")?;
    mariadb.restart()?;
    ensure_eq!(mariadb.sql("SELECT n FROM t")?, rows(&[&["1"]]), "after a kill");
    Ok(())
}

fn a_server_that_is_ended_can_be_started_again() -> Result {
    let mariadb = MariaDb::start(MariaDbOptions::default())?;
    let mut admin = mariadb.admin()?;
    admin.sql("CREATE TABLE t (n INT)")?;
    mariadb.terminate()?;
    ensure!(mariadb.process().log_tail().contains("Shutdown complete"), "it was asked, not killed");
    ensure!(mariadb.pause().is_err() && mariadb.terminate().is_err(), "what is down cannot be stopped");
    mariadb.restart()?;
    mariadb.restart()?;
    ensure_eq!(mariadb.sql("SELECT * FROM t")?, Rows::new(), "the table");
    Ok(())
}

fn a_paused_server_answers_when_it_goes_on() -> Result {
    let mariadb = MariaDb::start(MariaDbOptions::default())?;
    let mut admin = mariadb.admin()?;
    mariadb.pause()?;
    admin.send("SELECT 1")?;
    admin.set_patience(SHORT);
    refused(admin.receive(), "no answer within 100ms")?;
    ensure!(mariadb.process().is_running(), "it is paused, not gone");
    mariadb.resume()?;
    admin.set_patience(Duration::from_secs(10));
    ensure_eq!(admin.receive()?, rows(&[&["1"]]), "the late answer");
    Ok(())
}

fn a_user_proves_itself_and_is_limited() -> Result {
    let mariadb = MariaDb::start(MariaDbOptions::default())?;
    let users = mariadb.sql("SELECT DISTINCT User FROM mysql.global_priv ORDER BY User")?;
    ensure_eq!(users, rows(&[&["mariadb.sys"], &["root"]]), "the users at first");
    mariadb.add_user("anna", "annas")?;
    ensure!(mariadb.add_user("anna", "again").is_err(), "there is one already");
    let url = format!("mysql://anna:annas@127.0.0.1:{}/tenure", mariadb.port());
    ensure_eq!(mariadb.url_of("anna", "annas"), url, "her URL");
    refused(mariadb.session("anna", "wrong"), "ERROR 1045 (28000)")?;
    refused(mariadb.session("anna", ""), "ERROR 1045 (28000)")?;
    mariadb.sql("CREATE TABLE t (n INT)")?;
    let mut anna = mariadb.session("anna", "annas")?;
    refused(anna.sql("CREATE TABLE u (n INT)"), "ERROR 1142 (42000)")?;
    refused(anna.sql("INSERT INTO t VALUES (1)"), "ERROR 1142 (42000)")?;
    mariadb.sql("GRANT SELECT, INSERT ON tenure.t TO anna")?;
    anna.sql("INSERT INTO t VALUES (1)")?;
    ensure_eq!(anna.sql("SELECT n FROM t")?, rows(&[&["1"]]), "what she may");
    refused(anna.sql("CREATE TABLE u (n INT)"), "ERROR 1142 (42000)")
}

fn tls_is_trusted_by_its_authority_only() -> Result {
    let mariadb = MariaDb::start(MariaDbOptions { tls: true, ..MariaDbOptions::default() })?;
    let url = format!("mysql://root@localhost:{}/tenure", mariadb.port());
    ensure_eq!(mariadb.tls_url(), Some(url), "the URL");
    mariadb.sql("SELECT 1")?;
    ensure_eq!(MariaDb::shared()?.tls_url(), None, "without TLS");
    crate::tls::is_trusted_by_its_authority_only(mariadb.addr(), "mysql")
}

fn a_server_that_does_not_start_shows_its_log() -> Result {
    let options = MariaDbOptions { settings: vec!["no-such-setting=1".into()], ..MariaDbOptions::default() };
    let outcome = MariaDb::start(options);
    refused(outcome.as_ref().map_err(Clone::clone), "ended before it answered")?;
    refused(outcome, "no-such-setting")
}

fn shared_servers_are_started_once() -> Result {
    ensure!(std::ptr::eq(MariaDb::shared()?, MariaDb::shared()?), "one server");
    Ok(())
}

fn its_clock_is_set_and_nobody_elses() -> Result {
    let server = MariaDb::start(MariaDbOptions { clock: true, ..MariaDbOptions::default() })?;
    crate::clock_is_set(
        || server.wall_clock(),
        |millis| server.process().step_clock(millis),
        || server.restart(),
    )
}
