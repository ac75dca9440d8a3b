use std::path::Path;

/// How a server is set up. The default has the settings that MariaDB itself has (so text is `latin1`, and a commit is
/// flushed before it is answered), with small buffers, no binary log and no TLS.
#[derive(Clone, Debug, Default)]
pub struct MariaDbOptions {
    /// More settings, each as on its command line without the dashes: `wait_timeout=1`,
    /// `transaction_isolation=SERIALIZABLE`, `innodb_flush_log_at_trx_commit=2`.
    pub settings: Vec<String>,
    /// Whether clients may ask for TLS, with the certificate of [`certificates`](crate::tls::certificates).
    pub tls: bool,
    /// Whether its data are where temporary files are, which is on a disk as a rule, and not in memory.
    pub on_disk: bool,
    /// Whether it has a wall clock of its own, for [`step_clock`](crate::process::Server::step_clock).
    pub clock: bool,
}

/// What a data directory is made with and must be started with.
pub(super) const LOG_SIZE: &str = "--innodb-log-file-size=8M";

impl MariaDbOptions {
    /// The command line of a server in this directory.
    pub(super) fn args(&self, dir: &Path, port: u16) -> Vec<String> {
        let dir = dir.display();
        let mut args = vec![
            "--no-defaults".into(),
            format!("--datadir={dir}/data"),
            // The default is a place that all servers of a machine would share.
            format!("--socket={dir}/socket"),
            format!("--pid-file={dir}/pid"),
            format!("--tmpdir={dir}"),
            "--bind-address=127.0.0.1".into(),
            format!("--port={port}"),
            "--skip-name-resolve".into(),
            "--skip-log-bin".into(),
            "--performance-schema=OFF".into(),
            "--innodb-buffer-pool-size=16M".into(),
            LOG_SIZE.into(),
            "--innodb-flush-log-at-trx-commit=1".into(),
        ];
        if self.tls {
            args.extend([
                format!("--ssl-ca={dir}/ca.crt"),
                format!("--ssl-cert={dir}/server.crt"),
                format!("--ssl-key={dir}/server.key"),
            ]);
        }
        args.extend(self.settings.iter().map(|setting| format!("--{setting}")));
        args
    }
}
