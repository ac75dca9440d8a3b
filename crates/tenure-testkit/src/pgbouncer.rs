//! Private PgBouncers: a pool of connections before a PostgreSQL server, as many put it there.

use std::{fs, net::SocketAddr, sync::OnceLock, time::Duration};

use crate::{
    Failure, Result,
    postgres::{self, ADMIN, DATABASE, Postgres, USER, probe, session},
    process::{Launch, Port, Room, Server},
    programs::{find, missing, need, unless_root},
    sql::{Rows, Session},
};

/// How long it may take until it answers, on a machine busy with other things.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The database by which PgBouncer itself is asked.
const CONSOLE: &str = "pgbouncer";

/// Says which package is missing, if one is.
///
/// # Errors
/// What to install, for [`Found::Missing`](crate::servers::Found::Missing).
pub fn installed() -> Result<(), String> {
    postgres::installed()?;
    need(&[("pgbouncer", "pgbouncer")])
}

/// How a PgBouncer is set up. The default lends a connection for one transaction.
#[derive(Clone, Debug, Default)]
pub struct PgBouncerOptions {
    /// More settings, each as in its settings file: `pool_mode=session`, `default_pool_size=1`.
    pub settings: Vec<String>,
}

/// One private PgBouncer; gone when dropped.
///
/// It lets everybody in, under any name and without a password, and comes to the server as the administrator.
#[derive(Debug)]
pub struct PgBouncer {
    server: Server,
    port: Port,
}

impl PgBouncer {
    /// Starts a PgBouncer before the server at this address (or before a proxy before it), and waits until it answers.
    ///
    /// # Errors
    /// If it does not; the message has the end of its log.
    pub fn start(target: SocketAddr, options: &PgBouncerOptions) -> Result<Self> {
        let room = Room::new()?;
        let port = Port::claim()?;
        let file = room.path().join("pgbouncer.ini");
        fs::write(&file, options.config(port.number(), target))?;
        let program =
            find("pgbouncer").ok_or_else(|| Failure::of_the_trial(missing("pgbouncer", "pgbouncer")))?;
        let mut launch = Launch::new(program.display().to_string(), [file.display().to_string()]);
        launch.user = unless_root(USER);
        let server = Server::start(launch, room)?;
        let pgbouncer = Self { server, port };
        pgbouncer.wait_ready()?;
        Ok(pgbouncer)
    }

    /// One PgBouncer with the default options before [`Postgres::shared`], that the tests of one binary share.
    ///
    /// # Errors
    /// If one of them did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<PgBouncer>> = OnceLock::new();
        let start = || Self::start(Postgres::shared()?.addr(), &PgBouncerOptions::default());
        SHARED.get_or_init(start).as_ref().map_err(Clone::clone)
    }

    /// It answers for itself, whether the server behind it does or not.
    fn wait_ready(&self) -> Result {
        self.server.wait_ready(START_LIMIT, || probe(self.addr(), ADMIN, CONSOLE))
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its address.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// What a client opens [`DATABASE`] with.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{ADMIN}@{}/{DATABASE}", self.addr())
    }

    crate::process::operated!();

    /// Opens a connection to [`DATABASE`] through the pool, as the administrator.
    ///
    /// # Errors
    /// If it, or the server behind it, does not answer.
    pub fn session(&self) -> Result<Session> {
        session(self.addr(), ADMIN, "", DATABASE)
    }

    /// Gives a command to PgBouncer itself: `SHOW POOLS`, `RECONNECT`.
    ///
    /// # Errors
    /// If it does not answer, or refuses.
    pub fn console(&self, command: &str) -> Result<Rows> {
        session(self.addr(), ADMIN, "", CONSOLE)?.sql(command)
    }
}

impl PgBouncerOptions {
    fn config(&self, port: u16, target: SocketAddr) -> String {
        let mut lines = vec![
            "[databases]".into(),
            format!("* = host={} port={} user={ADMIN}", target.ip(), target.port()),
            "[pgbouncer]".into(),
            "listen_addr = 127.0.0.1".into(),
            format!("listen_port = {port}"),
            "unix_socket_dir =".into(),
            "auth_type = any".into(),
            format!("admin_users = {ADMIN}"),
            "pool_mode = transaction".into(),
            // Many drivers send it; it only matters to versions before 12.
            "ignore_startup_parameters = extra_float_digits".into(),
        ];
        lines.extend(self.settings.iter().cloned());
        lines.join("\n") + "\n"
    }
}
