use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::OnceLock,
    time::Duration,
};

use super::options::{Config, ZookeeperOptions};
use crate::{
    Failure, Result,
    process::{Port, Room, Server},
    tls::certificates,
};

/// How long a server may take until it serves, on a machine busy with other things.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to say what it is.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// One private ZooKeeper server; gone when dropped.
#[derive(Debug)]
pub struct Zookeeper {
    server: Server,
    port: Port,
    tls_port: Option<Port>,
}

/// What a server is in its ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is alone.
    Alone,
    /// All changes go through it.
    Leader,
    /// It follows the leader.
    Follower,
}

/// A server that knows its ports and is not started yet.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) room: Room,
    pub(super) port: Port,
    tls_port: Option<Port>,
}

impl Plan {
    pub(super) fn new(options: &ZookeeperOptions) -> Result<Self> {
        let room = if options.on_disk { Room::on_disk()? } else { Room::new()? };
        Ok(Self { room, port: Port::claim()?, tls_port: options.tls.then(Port::claim).transpose()? })
    }

    /// Starts it as this member of these.
    pub(super) fn start(
        self,
        options: &ZookeeperOptions,
        id: usize,
        members: &[String],
    ) -> Result<Zookeeper> {
        let dir = self.room.path();
        fs::create_dir(dir.join("data"))?;
        fs::write(dir.join("data/myid"), id.to_string())?;
        if options.tls {
            let certificates = certificates()?;
            let both = [&certificates.cert, &certificates.key].map(fs::read);
            fs::write(dir.join("server.pem"), both.into_iter().collect::<Result<Vec<_>, _>>()?.concat())?;
            fs::copy(&certificates.ca, dir.join("ca.pem"))?;
        }
        let file = dir.join("zoo.cfg");
        let config =
            Config { client: self.port.addr(), tls: self.tls_port.as_ref().map(Port::addr), members, dir };
        fs::write(&file, options.config(&config))?;
        let server = Server::start(options.launch(&file), self.room)?;
        Ok(Zookeeper { server, port: self.port, tls_port: self.tls_port })
    }
}

impl Zookeeper {
    /// Starts a server and waits until it serves.
    ///
    /// # Errors
    /// If it does not; the message has the end of its log.
    pub fn start(options: &ZookeeperOptions) -> Result<Self> {
        let server = Plan::new(options)?.start(options, 1, &[])?;
        server.wait_ready()?;
        Ok(server)
    }

    /// One server with the default options that the tests of one binary share.
    ///
    /// # Errors
    /// If it did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Zookeeper>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&ZookeeperOptions::default())).as_ref().map_err(Clone::clone)
    }

    /// Waits until it serves: a member that sees no majority does not.
    pub(super) fn wait_ready(&self) -> Result {
        self.server.wait_ready(START_LIMIT, || {
            if let Some(port) = &self.tls_port {
                TcpStream::connect_timeout(&port.addr(), ANSWER_LIMIT)?;
            }
            self.role().map(drop)
        })
    }

    /// Its address without TLS.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// What a client opens it with.
    #[must_use]
    pub fn url(&self) -> String {
        format!("zookeeper://{}/tenure", self.addr())
    }

    /// What a client opens it with by TLS, if it listens with that. It must trust the authority of
    /// [`certificates`].
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        Some(format!("zookeepers://localhost:{}/tenure", self.tls_port.as_ref()?.number()))
    }

    /// Where it keeps its data.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.server.dir().to_owned()
    }

    crate::process::operated!();

    /// Starts it again without waiting: a member serves only once it sees others.
    pub(super) fn restart_soon(&self) -> Result {
        self.server.start_again()
    }

    /// Gives one of the commands of four letters, and returns what it says.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub fn ask(&self, word: &str) -> Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.addr(), ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.write_all(word.as_bytes())?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    }

    /// What it is in its ensemble.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn role(&self) -> Result<Role> {
        let said = self.ask("srvr")?;
        match said.lines().find_map(|line| line.strip_prefix("Mode: ")) {
            Some("standalone") => Ok(Role::Alone),
            Some("leader") => Ok(Role::Leader),
            Some("follower") => Ok(Role::Follower),
            _ => Err(Failure::of_the_trial(format!("it says: {}", said.trim()))),
        }
    }

    /// How many clients are connected to it.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn connections(&self) -> Result<usize> {
        // The question itself comes by a connection without a session.
        Ok(self.ask("cons")?.lines().filter(|line| line.contains("sid=0x")).count())
    }

    /// A number that the server counts.
    ///
    /// # Errors
    /// If it does not answer, or does not count that.
    pub fn counts(&self, what: &str) -> Result<u64> {
        let said = self.ask("mntr")?;
        let field = |line: &str| {
            let (name, value) = line.split_once('\t')?;
            (name == what).then(|| value.parse::<f64>().ok())?
        };
        let number = said.lines().find_map(field);
        let number = number.ok_or_else(|| Failure::of_the_trial(format!("it does not count {what}")))?;
        Ok(number as u64)
    }
}
