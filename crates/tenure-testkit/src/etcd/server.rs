use std::{net::SocketAddr, sync::OnceLock, time::Duration};

use super::Admin;
use crate::{
    Result,
    process::{Launch, Port, Room, Server},
    tls::certificates,
};

/// How long a server may take until it answers, on a machine busy with other things.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How a server is set up. The default is one alone, in memory where there is such a place.
#[derive(Clone, Debug, Default)]
pub struct EtcdOptions {
    /// Whether it also listens with TLS, with the certificate of [`certificates`](super::certificates).
    pub tls: bool,
    /// Whether clients need a certificate of their own then.
    pub client_certificates: bool,
    /// Whether its data are where temporary files are, which is on a disk as a rule.
    pub on_disk: bool,
    /// More settings for its command line.
    pub args: Vec<String>,
}

/// Where others reach a member of a cluster.
pub(super) struct Membership {
    pub(super) name: String,
    /// The address that others are told.
    pub(super) advertised: SocketAddr,
    /// All members: `n0=http://…,n1=http://…`.
    pub(super) all: String,
}

/// One private etcd server; gone when dropped.
#[derive(Debug)]
pub struct Etcd {
    server: Server,
    port: Port,
    tls_port: Option<Port>,
    _peers: Port,
}

impl Etcd {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// If it does not; the message has the end of its log.
    pub fn start(options: EtcdOptions) -> Result<Self> {
        let peers = Port::claim()?;
        let all = format!("n0=http://{}", peers.addr());
        let alone = Membership { name: "n0".into(), advertised: peers.addr(), all };
        let etcd = Self::launch(options, peers, &alone)?;
        etcd.wait_ready()?;
        Ok(etcd)
    }

    /// One server that the tests of one binary share.
    ///
    /// # Errors
    /// If it did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Etcd>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(EtcdOptions::default())).as_ref().map_err(Clone::clone)
    }

    pub(super) fn launch(options: EtcdOptions, peers: Port, member: &Membership) -> Result<Self> {
        let room = if options.on_disk { Room::on_disk()? } else { Room::new()? };
        let port = Port::claim()?;
        let tls_port = options.tls.then(Port::claim).transpose()?;
        let plain = format!("http://{}", port.addr());
        let private = tls_port.as_ref().map(|port| format!("https://{}", port.addr()));
        let listens = [Some(plain.clone()), private].into_iter().flatten().collect::<Vec<_>>().join(",");
        let data = room.path().join("data").display().to_string();
        let mut args = vec![
            "--name".into(),
            member.name.clone(),
            "--data-dir".into(),
            data,
            "--listen-client-urls".into(),
            listens,
            "--advertise-client-urls".into(),
            plain,
            "--listen-peer-urls".into(),
            format!("http://{}", peers.addr()),
            "--initial-advertise-peer-urls".into(),
            format!("http://{}", member.advertised),
            "--initial-cluster".into(),
            member.all.clone(),
            "--initial-cluster-state".into(),
            "new".into(),
            "--initial-cluster-token".into(),
            format!("tenure-testkit-{}", member.advertised.port()),
            "--logger".into(),
            "zap".into(),
            "--log-level".into(),
            "warn".into(),
            // Ten times as quick as usual: leases of one second, and an election within half of one.
            "--heartbeat-interval".into(),
            "20".into(),
            "--election-timeout".into(),
            "200".into(),
        ];
        if options.tls {
            let certificates = certificates()?;
            // To name an authority is to ask for certificates.
            let authority = options.client_certificates.then_some(("--trusted-ca-file", &certificates.ca));
            let own = [("--cert-file", &certificates.cert), ("--key-file", &certificates.key)];
            for (flag, file) in own.into_iter().chain(authority) {
                args.extend([flag.to_owned(), file.display().to_string()]);
            }
        }
        args.extend(options.args);
        let mut launch = Launch::new("etcd", args);
        // The gateway of a server dials the server itself, whatever proxy this machine uses.
        launch.env = vec![("NO_PROXY".into(), "*".into())];
        let server = Server::start(launch, room)?;
        Ok(Self { server, port, tls_port, _peers: peers })
    }

    /// Waits until the server answers and knows a leader.
    pub(super) fn wait_ready(&self) -> Result {
        self.server.wait_ready(START_LIMIT, || self.admin().health())
    }

    /// Its address without TLS.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// What a client opens it with.
    #[must_use]
    pub fn url(&self) -> String {
        format!("etcd://{}", self.addr())
    }

    /// What a client opens it with by TLS, if it listens with that. It must trust the authority of
    /// [`certificates`](super::certificates).
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        let port = self.tls_port.as_ref()?;
        Some(format!("etcds://localhost:{}", port.number()))
    }

    /// Somebody who asks it beside the code that is tested.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.addr())
    }

    crate::process::operated!();
}
