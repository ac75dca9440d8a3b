use std::{fmt, path::PathBuf};

use tenure_core::{Address, EngineUrl, Error, Result};

use crate::script::is_table;

/// The options of the URL.
pub const OPTIONS: &[&str] = &["table", "tls", "ca", "wake"];

const PORT: u16 = 3306;
/// The longest name of a database.
const MAX_NAME: usize = 64;

/// Where the server is and how it is used.
#[derive(Clone)]
pub struct MysqlOptions {
    pub(crate) address: Address,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    /// What the names of the tables start with.
    pub(crate) table: String,
    pub(crate) tls: Option<Tls>,
    /// Whether waiters ask again even where they could be told.
    pub(crate) poll: bool,
}

/// The server must prove who it is.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "read only where TLS is compiled in"))]
pub(crate) struct Tls {
    /// The file of its authority, where the machine's own are not meant.
    pub(crate) ca: Option<PathBuf>,
}

impl MysqlOptions {
    /// Reads `mysql://user:password@host[:3306]/database` (or `mariadb:`), and takes the options out.
    ///
    /// # Errors
    /// `Invalid` for what is wrong, with what is right.
    pub fn from_url(url: &mut EngineUrl) -> Result<Self> {
        let form = "mysql://user:password@host:3306/database";
        if !matches!(url.scheme(), "mysql" | "mariadb") {
            return Err(Error::invalid("a MySQL URL starts with mysql: or mariadb:"));
        }
        let address = match url.hosts() {
            [host] => Address::parse(host, PORT)?,
            [] => return Err(Error::invalid(format!("the URL has no host: {form}"))),
            _ => return Err(Error::invalid("mysql: is one server; name its primary")),
        };
        let Some(user) = url.user().map(str::to_owned) else {
            return Err(Error::invalid(format!("the URL has no user: {form}")));
        };
        let database = url.path().trim_matches('/').to_owned();
        if database.is_empty() {
            return Err(Error::invalid(format!("the URL does not name a database: {form}")));
        }
        if !is_database(&database) {
            return Err(Error::invalid("the URL's path is not the name of a database"));
        }
        let table = url.option("table").unwrap_or_else(|| "tenure".to_owned());
        if !is_table(&table) {
            return Err(Error::invalid(
                "table= is 1 to 48 letters, digits and underscores, and starts with a letter",
            ));
        }
        let password = url.password().map(str::to_owned);
        let poll = match url.option("wake").as_deref() {
            None | Some("auto") => false,
            Some("poll") => true,
            Some(_) => return Err(Error::invalid("wake= is auto or poll")),
        };
        Ok(Self { address, user, password, database, table, tls: tls(url)?, poll })
    }

    /// What creates the tables, for those who may: see [`schema`](crate::schema).
    #[must_use]
    pub fn schema(&self) -> String {
        crate::script::schema_of(&self.table)
    }
}

/// Whether this can be the name of a database, and stand in backticks.
pub(crate) fn is_database(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.contains(['/', '\\', '.', '`', '\0'])
}

fn tls(url: &mut EngineUrl) -> Result<Option<Tls>> {
    let ca = url.option("ca").map(PathBuf::from);
    match url.option("tls").as_deref() {
        Some("verify") => Ok(Some(Tls { ca })),
        None | Some("off") if ca.is_some() => Err(Error::invalid("ca= is for TLS; add tls=verify")),
        None | Some("off") => Ok(None),
        Some(_) => Err(Error::invalid("tls= is verify or off")),
    }
}

impl fmt::Debug for MysqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlOptions")
            .field("address", &self.address)
            .field("database", &self.database)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<MysqlOptions> {
        let mut url: EngineUrl = url.parse()?;
        let options = MysqlOptions::from_url(&mut url)?;
        url.no_more_options(OPTIONS)?;
        Ok(options)
    }

    #[test]
    fn every_part_is_read_and_no_password_is_shown() {
        let one = read("mysql://app:hunter2@h:1/shop?table=locks&tls=verify&ca=/x").unwrap();
        assert_eq!((one.address.to_string().as_str(), one.user.as_str()), ("h:1", "app"));
        assert_eq!((one.database.as_str(), one.table.as_str()), ("shop", "locks"));
        assert!(one.tls.is_some() && one.password.as_deref() == Some("hunter2"));
        assert!(!format!("{one:?}").contains("hunter2"));
        let plain = read("mariadb://root@h/d").unwrap();
        assert_eq!((plain.address.port, plain.table.as_str()), (3306, "tenure"));
        assert!(plain.tls.is_none() && plain.password.is_none() && !plain.poll);
        assert!(
            read("mysql://u@h/d?wake=poll").unwrap().poll && !read("mysql://u@h/d?wake=auto").unwrap().poll
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right() {
        for (url, said) in [
            ("mysql://", "has no host"),
            ("mysql://u@a,b/d", "one server"),
            ("mysql://h/d", "has no user"),
            ("mysql://u@h", "name a database"),
            ("mysql://u@h/a/b", "not the name"),
            ("mysql://u@h/d?table=", "table= is"),
            ("mysql://u@h/d?table=a`b", "table= is"),
            ("mysql://u@h/d?table=1a", "table= is"),
            ("mysql://u@h/d?tls=maybe", "verify or off"),
            ("mysql://u@h/d?ca=/x", "tls=verify"),
            ("mysql://u@h/d?wake=push", "auto or poll"),
            ("mysql://u@h/d?tabel=x", "did you mean `table`?"),
            ("postgres://u@h/d", "mysql: or mariadb:"),
        ] {
            let err = read(url).unwrap_err().to_string();
            assert!(err.contains(said), "{url}: {err}");
        }
    }
}
