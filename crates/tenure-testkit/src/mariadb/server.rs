use std::{
    io::Read,
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use super::{
    DATABASE, LOOK_AGAIN,
    options::MariaDbOptions,
    template::{USER, template},
};
use crate::{
    Failure, Result, ensure, own,
    process::{Launch, Port, Room, Server, WallClock},
    programs::{copy, find, missing, unless_root},
    sql::{Client, Rows, Session},
    tls::certificates,
};

/// How long a server may take until it answers, on a machine busy with other things.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long it may take to greet a connection.
const GREETING_LIMIT: Duration = Duration::from_secs(2);

/// The version of the protocol, the fifth byte of every greeting. An error has 255 there.
const PROTOCOL: u8 = 10;

/// One private MariaDB server; gone when dropped.
///
/// Its administrator is `root`, who may come from loopback without a password; there are no other users at first.
#[derive(Debug)]
pub struct MariaDb {
    server: Server,
    options: MariaDbOptions,
    port: Port,
}

impl MariaDb {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// If it does not; the message has the end of its log.
    pub fn start(options: MariaDbOptions) -> Result<Self> {
        let room = if options.on_disk { Room::on_disk()? } else { Room::new()? };
        let port = Port::claim()?;
        copy(&template()?, &room.path().join("data"))?;
        if options.tls {
            certificates()?.copy_to(room.path())?;
        }
        let program =
            find("mariadbd").ok_or_else(|| Failure::of_the_trial(missing("mariadbd", "mariadb-server")))?;
        let mut launch = Launch::new(program.display().to_string(), options.args(room.path(), port.number()));
        launch.user = unless_root(USER);
        launch.clock = options.clock.then(|| WallClock::new(room.path())).transpose()?;
        let server = Server::start(launch, room)?;
        let mariadb = Self { server, options, port };
        mariadb.wait_ready()?;
        Ok(mariadb)
    }

    /// One server with the default options that the tests of one binary share.
    ///
    /// # Errors
    /// If it did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<MariaDb>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(MariaDbOptions::default())).as_ref().map_err(Clone::clone)
    }

    fn wait_ready(&self) -> Result {
        self.server.wait_ready(START_LIMIT, || {
            let mut stream = TcpStream::connect_timeout(&self.addr(), GREETING_LIMIT)?;
            stream.set_read_timeout(Some(GREETING_LIMIT))?;
            let mut greeting = [0; 5];
            stream.read_exact(&mut greeting)?;
            ensure!(greeting[4] == PROTOCOL, "a connection was greeted with {greeting:?}");
            Ok(())
        })
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
        format!("mysql://root@{}/{DATABASE}", self.addr())
    }

    /// What a client opens [`DATABASE`] with as this user.
    #[must_use]
    pub fn url_of(&self, user: &str, password: &str) -> String {
        format!("mysql://{user}:{password}@{}/{DATABASE}", self.addr())
    }

    /// What a client that asks for TLS opens [`DATABASE`] with as the administrator, if the server offers it: the
    /// same port by the name in the certificate. It must trust the authority of
    /// [`certificates`](crate::tls::certificates); how TLS is asked for is the client's own matter.
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        self.options.tls.then(|| format!("mysql://root@localhost:{}/{DATABASE}", self.port()))
    }

    crate::process::operated!();

    /// Makes a user who proves itself by a password (letters and digits) and may do nothing yet but come in: what
    /// else it may is granted with [`MariaDb::sql`], as in ``GRANT SELECT ON tenure.* TO anna``.
    ///
    /// # Errors
    /// If there is such a user already.
    pub fn add_user(&self, name: &str, password: &str) -> Result {
        // Without any right on the database it could not even be named in a URL.
        self.sql(&format!(
            "CREATE USER {name} IDENTIFIED BY '{password}'; GRANT SHOW VIEW ON {DATABASE}.* TO {name}"
        ))
        .map(drop)
    }

    /// Opens a connection to [`DATABASE`] as the administrator.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn admin(&self) -> Result<Session> {
        self.session("root", "")
    }

    /// Opens a connection to [`DATABASE`] as a user.
    ///
    /// # Errors
    /// If the server does not answer, or refuses the user.
    pub fn session(&self, user: &str, password: &str) -> Result<Session> {
        let program =
            find("mariadb").ok_or_else(|| Failure::of_the_trial(missing("mariadb", "mariadb-client")))?;
        let mut command = Command::new(program);
        // `force` goes on after an error; a client in `batch` mode never connects again by itself.
        command
            .args(["--no-defaults", "--batch", "--skip-column-names", "--unbuffered", "--force"])
            .args(["--skip-ssl", "--protocol=tcp", "--host=127.0.0.1"])
            .args(["--connect-timeout=10", "--default-character-set=utf8mb4"])
            .arg(format!("--port={}", self.port()))
            .arg(format!("--user={user}"))
            .arg(DATABASE)
            .env_clear()
            .env("MYSQL_PWD", password);
        Session::open(Client::MariaDb, command)
    }

    /// Its wall clock, in seconds.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn wall_clock(&self) -> Result<f64> {
        let time = self.sql("SELECT UNIX_TIMESTAMP(SYSDATE(6))")?.concat().concat();
        time.parse().map_err(|_| Failure::of_the_trial(format!("its time is `{time}`")))
    }

    /// Waits until some transaction waits for a row.
    ///
    /// # Errors
    /// If none does within the limit, or the server does not answer.
    pub async fn until_waiting(&self) -> Result {
        let waits = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'";
        own::within("some transaction waits for a row", async {
            loop {
                // One at a time: whoever looks keeps the others from seeing anything new.
                static LOOK: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
                let _alone = LOOK.lock().await;
                tokio::time::sleep(LOOK_AGAIN).await;
                if self.sql(waits)? != [["0"]] {
                    return Ok(());
                }
            }
        })
        .await?
    }

    /// Gives statements on a connection of its own, as the administrator.
    ///
    /// # Errors
    /// If the server does not answer, or refuses one.
    pub fn sql(&self, sql: &str) -> Result<Rows> {
        self.admin()?.sql(sql)
    }
}
