use std::path::PathBuf;

use tenure_core::{Address, EngineUrl, Error, Result};

/// The options of the URL.
pub const OPTIONS: &[&str] = &["ca", "schema", "sslmode", "table"];

const PORT: u16 = 5432;
/// The longest name of a schema or of what a table's name starts with: names of PostgreSQL have 63 bytes.
const MOST_NAME: usize = 40;

/// Where the server is and how it is used.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Asked in this order: the first that is no standby is used.
    pub(crate) hosts: Vec<Address>,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) tls: Option<Tls>,
}

/// TLS is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    /// The authority to trust instead of the machine's own.
    pub(crate) ca: Option<PathBuf>,
}

impl Default for PostgresOptions {
    /// A server on this machine, with the usual names.
    fn default() -> Self {
        Self {
            hosts: vec![Address { host: "localhost".into(), port: PORT }],
            user: "postgres".into(),
            password: None,
            database: "postgres".into(),
            schema: "public".into(),
            table: "tenure".into(),
            tls: None,
        }
    }
}

impl PostgresOptions {
    /// Reads `postgres://user:password@host[:5432]/database`, and takes the options out.
    ///
    /// # Errors
    /// `Invalid` for what is wrong, with what is right.
    pub fn from_url(url: &mut EngineUrl) -> Result<Self> {
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(Error::invalid("a PostgreSQL URL starts with postgres: or postgresql:"));
        }
        let hosts = url.addresses(PORT, "postgres://user@host:5432/database")?;
        let Some(user) = url.user().map(str::to_owned) else {
            return Err(Error::invalid("the URL has no user: postgres://user@host:5432/database"));
        };
        let mut path = url.path().split('/').filter(|part| !part.is_empty());
        // As everywhere in PostgreSQL, the database is called like the user unless it is named.
        let database = path.next().unwrap_or(&user).to_owned();
        if path.next().is_some() {
            return Err(Error::invalid("the URL's path has more parts than the name of a database"));
        }
        let password = url.password().map(str::to_owned);
        let (schema, table) = (name(url, "schema", "public")?, name(url, "table", "tenure")?);
        let tls = tls(url)?;
        Ok(Self { hosts, user, password, database, schema, table, tls })
    }
}

/// With TLS the certificate is always checked; the modes that would not, or that would go on without, are refused.
fn tls(url: &mut EngineUrl) -> Result<Option<Tls>> {
    let ca = url.option("ca").map(PathBuf::from);
    match url.option("sslmode").as_deref() {
        None | Some("disable") if ca.is_some() => {
            Err(Error::invalid("ca= is for TLS; write sslmode=verify-full with it"))
        }
        None | Some("disable") => Ok(None),
        // What others take for "whoever it is" is checked here too.
        Some("require" | "verify-full") => Ok(Some(Tls { ca })),
        Some(_) => Err(Error::invalid(
            "sslmode= is disable, or require or verify-full: both check who the server is",
        )),
    }
}

fn name(url: &mut EngineUrl, option: &str, default: &str) -> Result<String> {
    let name = url.option(option).unwrap_or_else(|| default.to_owned());
    let first = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let rest = |byte: u8| first(byte) || byte.is_ascii_digit();
    if name.len() <= MOST_NAME && name.bytes().next().is_some_and(first) && name.bytes().all(rest) {
        Ok(name)
    } else {
        Err(Error::invalid(format!(
            "{option}= is 1 to {MOST_NAME} lower-case letters, digits and underscores, and starts with no digit"
        )))
    }
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("hosts", &self.hosts)
            .field("database", &self.database)
            .field("schema", &self.schema)
            .field("table", &self.table)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<PostgresOptions> {
        let mut url: EngineUrl = url.parse()?;
        let options = PostgresOptions::from_url(&mut url)?;
        url.no_more_options(OPTIONS)?;
        Ok(options)
    }

    #[test]
    fn every_form_is_read() {
        let full =
            read("postgresql://app:secret@a:1,[::1]/shop?schema=locks&table=t_1&sslmode=disable").unwrap();
        assert_eq!(full.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:1", "[::1]:5432"]);
        assert_eq!((full.user.as_str(), full.password.as_deref()), ("app", Some("secret")));
        assert_eq!(
            (full.database.as_str(), full.schema.as_str(), full.table.as_str()),
            ("shop", "locks", "t_1")
        );
        assert!(!format!("{full:?}").contains("secret"));
        assert!(full.tls.is_none());
        for mode in ["require", "verify-full"] {
            let private = read(&format!("postgres://anna@h?sslmode={mode}&ca=/ca.pem")).unwrap();
            assert_eq!(private.tls.unwrap().ca, Some(PathBuf::from("/ca.pem")));
        }
        let short = read("postgres://anna@h").unwrap();
        assert_eq!(
            (short.database.as_str(), short.schema.as_str(), short.table.as_str()),
            ("anna", "public", "tenure")
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right() {
        for (url, said) in [
            ("postgres://", "has no host"),
            ("postgres://h/db", "has no user"),
            ("postgres://u@h/a/b", "more parts"),
            ("postgres://u@h/a?schema=", "1 to 40"),
            ("postgres://u@h/a?table=a\"b", "1 to 40"),
            ("postgres://u@h/a?table=1a", "1 to 40"),
            ("postgres://u@h/a?table=Locks", "lower-case"),
            ("postgres://u@h/a?sslmode=prefer", "verify-full"),
            ("postgres://u@h/a?sslmode=verify-ca", "verify-full"),
            ("postgres://u@h/a?ca=/x", "sslmode=verify-full"),
            ("postgres://u@h/a?ca=/x&sslmode=disable", "sslmode=verify-full"),
            ("postgres://u@h/a?shema=x", "did you mean `schema`?"),
            ("mysql://u@h/a", "postgres:"),
        ] {
            let err = read(url).unwrap_err().to_string();
            assert!(err.contains(said), "{url}: {err}");
        }
    }
}
