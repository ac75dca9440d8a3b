use std::path::Path;

use crate::tls::Certificates;

/// How a server is set up. The default is one alone, without persistence, password or TLS.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// What it writes to its disk.
    pub persistence: Persistence,
    /// What it is in a larger whole.
    pub role: Role,
    /// The password of the default user. It stands in [`Redis::url`](super::Redis::url) as it is: letters and digits.
    pub password: Option<String>,
    /// Users, each as in an ACL file without the word `user`: `anna on >secret ~lock:* &* +@all`.
    pub acl: Vec<String>,
    /// Whether it also listens with TLS, with the certificate of [`certificates`](super::certificates).
    pub tls: bool,
    /// More settings for its command line: `["--maxmemory", "1mb"]`.
    pub args: Vec<String>,
    /// Whether it has a wall clock of its own, for [`step_clock`](crate::process::Server::step_clock).
    pub clock: bool,
    /// Whether replicas and sentinels come as a user of their own, so that they alone can be shut out. Clients must be in
    /// [`acl`](Self::acl) then, and the default user, whom whoever was refused is, must have a password.
    pub peers: bool,
}

/// What a server writes to its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Nothing: a restart forgets everything.
    #[default]
    None,
    /// Every write, flushed once a second.
    AofEverysec,
    /// Every write, flushed before it is answered.
    AofAlways,
}

/// What a server is in a larger whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Nothing: it is alone, or the master of others.
    #[default]
    Alone,
    /// A replica of the server on this port.
    ReplicaOf(u16),
    /// A node of a cluster, without slots yet.
    ClusterNode,
    /// A sentinel that watches the master on this port, under the name [`Sentinels::NAME`](super::Sentinels::NAME),
    /// with two sentinels needed to agree.
    Sentinel(u16),
}

/// The user that the harness itself is, so that a test may shut the default user out.
pub(super) const ADMIN: [&str; 2] = ["testkit-admin", "testkit-admin"];

/// The user that replicas and sentinels are, where they have one of their own.
pub(super) const PEER: [&str; 2] = ["testkit-peer", "testkit-peer"];

/// The ports of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) tls: Option<u16>,
    pub(super) bus: Option<u16>,
}

impl RedisOptions {
    /// Whether a client must say who it is.
    pub(super) fn has_users(&self) -> bool {
        self.password.is_some() || !self.acl.is_empty()
    }

    /// The file that the server reads at its start, and rewrites when a sentinel gives it another role.
    pub(super) fn config(&self, ports: Ports, dir: &Path, certificates: Option<&Certificates>) -> String {
        let mut lines = vec![
            format!("port {}", ports.plain),
            "bind 127.0.0.1".into(),
            format!("dir {}", dir.display()),
            "daemonize no".into(),
        ];
        if let Role::Sentinel(master) = self.role {
            let name = super::Sentinels::NAME;
            lines.push(format!("sentinel monitor {name} 127.0.0.1 {master} 2"));
            lines.push(format!("sentinel down-after-milliseconds {name} 700"));
            lines.push(format!("sentinel failover-timeout {name} 2000"));
            if self.peers {
                let [user, password] = PEER;
                lines.push(format!("sentinel auth-user {name} {user}"));
                lines.push(format!("sentinel auth-pass {name} {password}"));
            }
            return lines.join("\n") + "\n";
        }
        lines.push("save \"\"".into());
        // A replica is served at once; the default collects others for five seconds.
        lines.push("repl-diskless-sync-delay 0".into());
        match self.persistence {
            Persistence::None => lines.push("appendonly no".into()),
            Persistence::AofEverysec => {
                lines.extend(["appendonly yes".into(), "appendfsync everysec".into()])
            }
            Persistence::AofAlways => lines.extend(["appendonly yes".into(), "appendfsync always".into()]),
        }
        if let Role::ReplicaOf(master) = self.role {
            lines.push(format!("replicaof 127.0.0.1 {master}"));
        }
        if let Some(bus) = ports.bus {
            lines.extend([
                "cluster-enabled yes".into(),
                "cluster-config-file nodes.conf".into(),
                "cluster-node-timeout 1000".into(),
                "cluster-require-full-coverage no".into(),
                // The default is 10000 above the port, among those of outgoing connections.
                format!("cluster-port {bus}"),
            ]);
        }
        if self.has_users() {
            let users = if self.peers { vec![ADMIN, PEER] } else { vec![ADMIN] };
            for [name, password] in &users {
                lines.push(format!("user {name} on >{password} ~* &* +@all"));
            }
            // A replica proves itself to a master with the same settings by them.
            let [name, password] = users[users.len() - 1];
            lines.extend([format!("masteruser {name}"), format!("masterauth {password}")]);
        }
        lines.extend(self.password.iter().map(|password| format!("requirepass {password}")));
        lines.extend(self.acl.iter().map(|user| format!("user {user}")));
        if let (Some(port), Some(certificates)) = (ports.tls, certificates) {
            lines.extend([
                format!("tls-port {port}"),
                format!("tls-cert-file {}", certificates.cert.display()),
                format!("tls-key-file {}", certificates.key.display()),
                format!("tls-ca-cert-file {}", certificates.ca.display()),
                "tls-auth-clients optional".into(),
            ]);
        }
        lines.join("\n") + "\n"
    }
}
