use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::JARS;
use crate::process::Launch;

/// How a server is set up. The default forgets nothing that it has acknowledged, in a directory in memory.
#[derive(Clone, Debug)]
pub struct ZookeeperOptions {
    /// The unit of all its times, in milliseconds.
    pub tick: u32,
    /// The shortest session it gives, in milliseconds.
    pub shortest: u32,
    /// Within so many ticks a new leader and its followers must have found together.
    pub init_limit: u32,
    /// After so many ticks without word from its leader a follower gives it up.
    pub sync_limit: u32,
    /// Listens with TLS, too.
    pub tls: bool,
    /// Keeps its data on a disk: to measure what that costs.
    pub on_disk: bool,
    /// More settings, each as in its settings file.
    pub settings: Vec<String>,
}

impl Default for ZookeeperOptions {
    fn default() -> Self {
        Self {
            tick: 200,
            shortest: 1000,
            init_limit: 50,
            sync_limit: 20,
            tls: false,
            on_disk: false,
            settings: Vec::new(),
        }
    }
}

/// What one server is told about itself and its ensemble.
#[derive(Debug)]
pub(super) struct Config<'a> {
    pub(super) client: SocketAddr,
    pub(super) tls: Option<SocketAddr>,
    /// Lines such as `server.1=127.0.0.1:2888:3888`.
    pub(super) members: &'a [String],
    pub(super) dir: &'a Path,
}

impl ZookeeperOptions {
    pub(super) fn config(&self, config: &Config<'_>) -> String {
        let dir = config.dir.display();
        let mut lines = vec![
            format!("tickTime={}", self.tick),
            format!("initLimit={}", self.init_limit),
            format!("syncLimit={}", self.sync_limit),
            format!("dataDir={dir}/data"),
            format!("clientPort={}", config.client.port()),
            format!("clientPortAddress={}", config.client.ip()),
            "maxClientCnxns=0".into(),
            format!("minSessionTimeout={}", self.shortest),
            "maxSessionTimeout=60000".into(),
            "admin.enableServer=false".into(),
            "4lw.commands.whitelist=ruok,srvr,mntr,cons,dump,wchs".into(),
        ];
        if let Some(tls) = config.tls {
            lines.extend([
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".into(),
                format!("secureClientPort={}", tls.port()),
                format!("secureClientPortAddress={}", tls.ip()),
                format!("ssl.keyStore.location={dir}/server.pem"),
                format!("ssl.trustStore.location={dir}/ca.pem"),
                "ssl.clientAuth=none".into(),
            ]);
        }
        lines.extend(config.members.iter().cloned());
        lines.extend(self.settings.iter().cloned());
        lines.join("\n") + "\n"
    }

    /// The command line: what `zkServer.sh` would run, without a shell and small.
    pub(super) fn launch(&self, file: &Path) -> Launch {
        // What Netty needs for TLS is not in the class path that the package itself has.
        let jars = [
            "zookeeper",
            "slf4j-simple",
            "netty-codec",
            "netty-resolver",
            "netty-transport-native-unix-common",
        ];
        let jars = jars.map(|jar| PathBuf::from(JARS).join(jar).with_extension("jar").display().to_string());
        let mut args: Vec<String> = ["-Xms16m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            .into_iter()
            .chain(["-Xshare:auto", "-XX:-UsePerfData", "-Dzookeeper.jmx.log4j.disable=true"])
            .chain(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"])
            // A word that is lost in an election is said again after twice as long each time, up to a minute.
            .chain(["-Dzookeeper.fastleader.maxNotificationInterval=1000"])
            .map(Into::into)
            .collect();
        args.extend(["-cp".into(), jars.join(":")]);
        args.extend(["org.apache.zookeeper.server.quorum.QuorumPeerMain".into(), file.display().to_string()]);
        Launch::new("java", args)
    }
}
