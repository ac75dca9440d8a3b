use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use rustix::process::Signal;

use super::{
    DATABASE,
    family::{Family, Guard},
    options::PostgresOptions,
    probe::probe,
    programs,
    template::{USER, template},
};
use crate::{
    Failure, Result,
    process::{Launch, Port, Room, Server, WallClock},
    programs::{copy, run, unless_root},
    sql::{Client, Rows, Session},
    tls::certificates,
};

/// How long a server may take until it answers, on a machine busy with other things.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Who may do everything.
pub(crate) const ADMIN: &str = "postgres";

/// One private PostgreSQL server; gone when dropped.
///
/// Its administrator is `postgres`, who may come from loopback without a password; there are no other users at first.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    options: PostgresOptions,
    port: Port,
    /// What is stopped with the server, while it is.
    paused: Mutex<Option<(Family, Guard)>>,
}

impl Postgres {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// If it does not; the message has the end of its log.
    pub fn start(options: PostgresOptions) -> Result<Self> {
        let room = if options.on_disk { Room::on_disk()? } else { Room::new()? };
        let port = Port::claim()?;
        copy(&template()?, &room.path().join("data"))?;
        Self::start_in(room, port, options)
    }

    /// Starts a server that copies this one as it goes on, and waits until it answers. `SELECT pg_promote()` makes it
    /// one of its own.
    ///
    /// # Errors
    /// If it does not; the message has the end of its log.
    pub fn standby(&self, options: PostgresOptions) -> Result<Self> {
        let room = Room::new()?;
        let port = Port::claim()?;
        let user = unless_root(USER);
        if let Some(user) = &user {
            room.give_to(user)?;
        }
        let line = format!(
            "--host=127.0.0.1 --port={} --username={ADMIN} --checkpoint=fast --no-sync --write-recovery-conf \
             --wal-method=stream --pgdata={}/data",
            self.port(),
            room.path().display()
        );
        let args: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let program = programs().map_err(Failure::of_the_trial)?.join("pg_basebackup");
        run(user.as_deref(), &program, &args, None)?;
        Self::start_in(room, port, options)
    }

    fn start_in(room: Room, port: Port, options: PostgresOptions) -> Result<Self> {
        if options.tls {
            certificates()?.copy_to(room.path())?;
        }
        let program = programs().map_err(Failure::of_the_trial)?.join("postgres");
        let mut launch = Launch::new(program.display().to_string(), options.args(room.path(), port.number()));
        launch.user = unless_root(USER);
        launch.clock = options.clock.then(|| WallClock::new(room.path())).transpose()?;
        // "Fast": open connections are ended. With `SIGTERM` it would wait until their clients leave.
        launch.stop = Signal::INT;
        let server = Server::start(launch, room)?;
        let postgres = Self { server, options, port, paused: Mutex::new(None) };
        postgres.wait_ready()?;
        Ok(postgres)
    }

    /// One server with the default options that the tests of one binary share.
    ///
    /// # Errors
    /// If it did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Postgres>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(PostgresOptions::default())).as_ref().map_err(Clone::clone)
    }

    fn wait_ready(&self) -> Result {
        self.server.wait_ready(START_LIMIT, || probe(self.addr(), ADMIN, DATABASE))?;
        self.disown_memory();
        Ok(())
    }

    /// Marks the server's System V segment for removal: it goes with the last process that uses it.
    ///
    /// It is a few bytes by which a second server on the same data would be noticed, which goes on to work, but a
    /// server that is killed leaves it behind, and a machine has only so many.
    fn disown_memory(&self) {
        let file = fs::read_to_string(self.server.dir().join("data/postmaster.pid")).unwrap_or_default();
        // The seventh line is its key and its number.
        if let Some(number) = file.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
            // Without the program, or after a change of that file, it stays as it would without a test.
            let _ = run(None, Path::new("ipcrm"), &["-m".into(), number.to_owned()], None);
        }
    }

    /// Its port, for clients with and without TLS.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its address, for clients with and without TLS.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// What a client opens [`DATABASE`] with as the administrator.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{ADMIN}@{}/{DATABASE}", self.addr())
    }

    /// What a client opens [`DATABASE`] with as this user.
    #[must_use]
    pub fn url_of(&self, user: &str, password: &str) -> String {
        format!("postgres://{user}:{password}@{}/{DATABASE}", self.addr())
    }

    /// What a client that asks for TLS opens [`DATABASE`] with as the administrator, if the server offers it: the
    /// same port by the name in the certificate. It must trust the authority of
    /// [`certificates`](crate::tls::certificates); how TLS is asked for is the client's own matter.
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        self.options.tls.then(|| format!("postgres://{ADMIN}@localhost:{}/{DATABASE}", self.port()))
    }

    /// The process, for its directory and log. Pause and kill the server with the methods here: it has more processes.
    #[must_use]
    pub const fn process(&self) -> &Server {
        &self.server
    }

    /// Kills all its processes without warning; nothing answers until [`Postgres::restart`].
    ///
    /// # Errors
    /// If a signal cannot be sent.
    pub fn kill(&self) -> Result {
        let mut paused = self.paused();
        if self.server.is_running() {
            if paused.is_none() {
                // So that it makes no more of them.
                self.server.pause()?;
            }
            if let Some(id) = self.server.id() {
                Family::of(id)?.kill()?;
            }
        }
        *paused = None;
        self.server.kill()
    }

    /// Ends it as an operator would, with open connections. After a pause it goes on first.
    ///
    /// # Errors
    /// If it is down or does not end in time.
    pub fn terminate(&self) -> Result {
        self.resume()?;
        self.server.terminate()
    }

    /// Starts it again on the same port and data, killing it first if it runs, and waits until it answers.
    ///
    /// # Errors
    /// If it does not.
    pub fn restart(&self) -> Result {
        self.kill()?;
        self.server.start_again()?;
        self.wait_ready()
    }

    /// Freezes all its processes: it accepts connections and answers nothing.
    ///
    /// # Errors
    /// If it is down.
    pub fn pause(&self) -> Result {
        let mut paused = self.paused();
        if paused.is_some() {
            return Ok(());
        }
        self.server.pause()?;
        let id = self.server.id().ok_or_else(|| Failure::of_the_trial("it is down"))?;
        let family = Family::of(id)?;
        let guard = family.guard()?;
        family.stop()?;
        *paused = Some((family, guard));
        Ok(())
    }

    /// Lets it go on after a pause.
    ///
    /// # Errors
    /// If it is down.
    pub fn resume(&self) -> Result {
        if let Some((family, guard)) = self.paused().take() {
            drop(guard);
            family.resume()?;
        }
        self.server.resume()
    }

    /// Makes a user who proves itself by a password (letters and digits) and may do nothing yet but come in: what
    /// else it may is granted with [`Postgres::sql`], as in `GRANT SELECT ON ALL TABLES IN SCHEMA public TO anna`.
    ///
    /// # Errors
    /// If there is such a user already.
    pub fn add_user(&self, name: &str, password: &str) -> Result {
        self.sql(&format!("CREATE ROLE {name} LOGIN PASSWORD '{password}'")).map(drop)
    }

    /// Opens a connection to [`DATABASE`] as the administrator.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn admin(&self) -> Result<Session> {
        self.session(ADMIN, "")
    }

    /// Opens a connection to [`DATABASE`] as a user.
    ///
    /// # Errors
    /// If the server does not answer, or refuses the user.
    pub fn session(&self, user: &str, password: &str) -> Result<Session> {
        session(self.addr(), user, password, DATABASE)
    }

    /// Its wall clock, in seconds.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn wall_clock(&self) -> Result<f64> {
        let time = self.sql("SELECT extract(epoch FROM clock_timestamp())")?.concat().concat();
        time.parse().map_err(|_| Failure::of_the_trial(format!("its time is `{time}`")))
    }

    /// Gives statements on a connection of its own, as the administrator.
    ///
    /// # Errors
    /// If the server does not answer, or refuses one.
    pub fn sql(&self, sql: &str) -> Result<Rows> {
        self.admin()?.sql(sql)
    }

    fn paused(&self) -> MutexGuard<'_, Option<(Family, Guard)>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // There is nobody to tell; what is left notices that its parent is gone.
        let _ = self.kill();
    }
}

/// Opens a connection to a PostgreSQL server, or to what stands before it.
pub(crate) fn session(addr: SocketAddr, user: &str, password: &str, database: &str) -> Result<Session> {
    let program = programs().map_err(Failure::of_the_trial)?.join("psql");
    let mut command = Command::new(program);
    command
        .args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--field-separator=\t"])
        .args(["--pset=null=NULL", "--no-password", "--host=127.0.0.1"])
        .arg(format!("--port={}", addr.port()))
        .arg(format!("--username={user}"))
        .arg(format!("--dbname={database}"))
        // Its own settings on this machine add nothing.
        .env_clear()
        .envs([("PGPASSWORD", password), ("PGPASSFILE", "/dev/null"), ("PGCONNECT_TIMEOUT", "10")])
        .envs([("PGSSLMODE", "disable"), ("PGGSSENCMODE", "disable"), ("PGCLIENTENCODING", "UTF8")]);
    Session::open(Client::Psql, command)
}
