use std::path::Path;

/// How a server is set up. The default has the settings that PostgreSQL itself has (so a commit is flushed before it
/// is answered), with small buffers and no TLS.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    /// More settings, each as in its settings file: `synchronous_commit=off`, `max_connections=20`,
    /// `default_transaction_isolation=serializable`.
    pub settings: Vec<String>,
    /// Whether clients may ask for TLS, with the certificate of [`certificates`](crate::tls::certificates).
    pub tls: bool,
    /// Whether its data are where temporary files are, which is on a disk as a rule, and not in memory.
    pub on_disk: bool,
    /// Whether it has a wall clock of its own, for [`step_clock`](crate::process::Server::step_clock).
    pub clock: bool,
}

impl PostgresOptions {
    /// The command line of a server in this directory.
    pub(super) fn args(&self, dir: &Path, port: u16) -> Vec<String> {
        let dir = dir.display();
        let mut settings = vec![
            format!("port={port}"),
            "listen_addresses=127.0.0.1".into(),
            "unix_socket_directories=".into(),
            "shared_buffers=16MB".into(),
            // In its own directory, where it goes with the rest after a kill.
            "dynamic_shared_memory_type=mmap".into(),
        ];
        if self.tls {
            settings.extend([
                "ssl=on".into(),
                format!("ssl_ca_file={dir}/ca.crt"),
                format!("ssl_cert_file={dir}/server.crt"),
                format!("ssl_key_file={dir}/server.key"),
            ]);
        }
        settings.extend(self.settings.iter().cloned());
        let settings = settings.into_iter().flat_map(|setting| ["-c".into(), setting]);
        ["-D".into(), format!("{dir}/data")].into_iter().chain(settings).collect()
    }
}
