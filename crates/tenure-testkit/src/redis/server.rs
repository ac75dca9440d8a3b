use std::{fs, net::SocketAddr, sync::OnceLock, time::Duration};

use super::{
    admin::{Admin, Reply},
    options::{ADMIN, Ports, RedisOptions, Role},
};
use crate::{
    Failure, Result, ensure,
    process::{Launch, Port, Room, Server, WallClock, wait_until},
    tls::certificates,
};

/// How long a server may take until it answers, on a machine busy with other things.
const START_LIMIT: Duration = Duration::from_secs(10);

/// One private Redis server; gone when dropped.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    options: RedisOptions,
    port: Port,
    tls_port: Option<Port>,
    bus_port: Option<Port>,
}

impl Redis {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// If it does not; the message has the end of its log.
    pub fn start(options: RedisOptions) -> Result<Self> {
        let redis = Self::launch(options)?;
        redis.wait_ready()?;
        Ok(redis)
    }

    /// One server without persistence that the tests of one binary share.
    ///
    /// # Errors
    /// If it did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Redis>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(RedisOptions::default())).as_ref().map_err(Clone::clone)
    }

    pub(super) fn launch(options: RedisOptions) -> Result<Self> {
        let room = Room::new()?;
        let port = Port::claim()?;
        let tls_port = options.tls.then(Port::claim).transpose()?;
        let bus_port = (options.role == Role::ClusterNode).then(Port::claim).transpose()?;
        let certificates = if options.tls { Some(certificates()?) } else { None };
        let ports = Ports {
            plain: port.number(),
            tls: tls_port.as_ref().map(Port::number),
            bus: bus_port.as_ref().map(Port::number),
        };
        let file = room.path().join("redis.conf");
        fs::write(&file, options.config(ports, room.path(), certificates))?;
        let program =
            if matches!(options.role, Role::Sentinel(_)) { "redis-sentinel" } else { "redis-server" };
        let args = [file.display().to_string()].into_iter().chain(options.args.iter().cloned());
        let mut launch = Launch::new(program, args);
        launch.clock = options.clock.then(|| WallClock::new(room.path())).transpose()?;
        let server = Server::start(launch, room)?;
        Ok(Self { server, options, port, tls_port, bus_port })
    }

    /// Waits until the server answers and has read its data.
    pub(super) fn wait_ready(&self) -> Result {
        self.server.wait_ready(START_LIMIT, || {
            let pong = self.command(&["PING"])?;
            ensure!(pong.text() == Some("PONG"), "a PING was answered with {pong:?}");
            Ok(())
        })?;
        if matches!(self.options.role, Role::Sentinel(_)) {
            // Sentinels look at the world once a second and talk every two; like this a failover takes 1.5 s. With
            // still shorter pings it fails now and then: what a sentinel knows of a replica must not be older than
            // five of them, and it asks once a second.
            let periods = "INFO-PERIOD 500 PING-PERIOD 250 PUBLISH-PERIOD 100 ASK-PERIOD 100";
            let words: Vec<_> = ["SENTINEL", "DEBUG"].into_iter().chain(periods.split(' ')).collect();
            self.command(&words)?;
        }
        Ok(())
    }

    /// Its port without TLS.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its address without TLS.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// What a client opens it with, with the password of the default user if it has one.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}{}", self.user_info(), self.addr())
    }

    /// What a client opens it with by TLS, if it listens with that. It must trust the authority of
    /// [`certificates`](super::certificates).
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        let port = self.tls_port.as_ref()?;
        Some(format!("rediss://{}localhost:{}", self.user_info(), port.number()))
    }

    /// The address it listens on with TLS.
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls_port.as_ref().map(Port::addr)
    }

    pub(super) fn bus_port(&self) -> Option<u16> {
        self.bus_port.as_ref().map(Port::number)
    }

    pub(super) fn has_users(&self) -> bool {
        self.options.has_users()
    }

    fn user_info(&self) -> String {
        self.options.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default()
    }

    crate::process::operated!();

    /// Opens a plain connection, as a user who may do everything.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn admin(&self) -> Result<Admin> {
        let mut admin = Admin::connect(self.addr())?;
        if self.options.has_users() && !matches!(self.options.role, Role::Sentinel(_)) {
            let [name, password] = ADMIN;
            admin.command(&["AUTH", name, password])?;
        }
        Ok(admin)
    }

    /// Gives one command on a connection of its own.
    ///
    /// # Errors
    /// If the server does not answer, or answers with an error.
    pub fn command(&self, words: &[&str]) -> Result<Reply> {
        self.admin()?.command(words)
    }

    /// One field of `INFO`.
    ///
    /// # Errors
    /// If the server does not answer or has no such field.
    pub fn info(&self, field: &str) -> Result<String> {
        let info = self.command(&["INFO"])?;
        let lines = info.text().unwrap_or_default().lines();
        lines
            .filter_map(|line| line.split_once(':'))
            .find_map(|(name, value)| (name == field).then(|| value.to_owned()))
            .ok_or_else(|| Failure::of_the_trial(format!("INFO has no `{field}`")))
    }

    /// Its wall clock, in seconds.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn wall_clock(&self) -> Result<f64> {
        let time = self.command(&["TIME"])?;
        let part = |at: usize| time.items().get(at).and_then(Reply::text).and_then(|part| part.parse().ok());
        let (seconds, micros): (Option<f64>, Option<f64>) = (part(0), part(1));
        let both = seconds.zip(micros).map(|(seconds, micros)| seconds + micros / 1e6);
        both.ok_or_else(|| Failure::of_the_trial(format!("TIME is {time:?}")))
    }

    /// Fills its memory (limited by `--maxmemory`) with what does not expire, until there is nothing left that it could
    /// evict by a `volatile-*` policy; then makes room again. Says how many keys had to go, all of which could expire.
    ///
    /// # Errors
    /// If it does not answer, or has no limit.
    pub fn fill_until_it_evicts(&self) -> Result<u64> {
        /// Of 64 KiB each.
        const MOST: usize = 1_000;
        let evicted = || Ok::<u64, Failure>(self.info("evicted_keys")?.trim().parse().unwrap_or(0));
        let before = evicted()?;
        let mut admin = self.admin()?;
        let filler = "x".repeat(64 << 10);
        let mut names = vec!["UNLINK".to_owned()];
        loop {
            names.push(format!("testkit-filler:{}", names.len()));
            match admin.ask(&["SET", &names[names.len() - 1], &filler])? {
                Reply::Error(error) if error.starts_with("OOM") => break,
                Reply::Error(error) => return Err(Failure::of_the_trial(error)),
                _ => ensure!(names.len() <= MOST, "its memory has no limit"),
            }
        }
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        admin.command(&names)?;
        Ok(evicted()? - before)
    }

    /// Waits until a field of `INFO` has this value.
    ///
    /// # Errors
    /// If it has not within the limit.
    pub fn wait_for_info(&self, field: &str, value: &str, limit: Duration) -> Result {
        wait_until(&format!("INFO says {field}:{value}"), limit, || {
            let now = self.info(field)?;
            ensure!(now == value, "it says {now}");
            Ok(())
        })
    }
}
