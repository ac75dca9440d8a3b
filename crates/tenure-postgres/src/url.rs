use tenure_core::{EngineUrl, Error, Op, Result};

use crate::address::Address;

/// The options of the URL.
pub const OPTIONS: &[&str] = &["schema", "table", "sslmode"];

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
        let hosts = url.hosts().iter().map(|host| Address::parse(host, PORT)).collect::<Result<Vec<_>>>()?;
        if hosts.is_empty() {
            return Err(Error::invalid("the URL has no host: postgres://user@host:5432/database"));
        }
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
        match url.option("sslmode").as_deref() {
            None | Some("disable") => {}
            Some(_) => {
                return Err(Error::unsupported(
                    Op::Connect,
                    "TLS to PostgreSQL is not built in; write sslmode=disable, or let a local proxy do it",
                ));
            }
        }
        Ok(Self { hosts, user, password, database, schema, table })
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
            ("postgres://u@h/a?sslmode=require", "not built in"),
            ("postgres://u@h/a?shema=x", "did you mean `schema`?"),
            ("mysql://u@h/a", "postgres:"),
        ] {
            let err = read(url).unwrap_err().to_string();
            assert!(err.contains(said), "{url}: {err}");
        }
    }
}
