//! `tenure schema`: the tables of an engine as SQL, for those who may create them on behalf of those who may not.

use tenure::{EngineUrl, Result};
use tenure_mysql::MysqlOptions;
use tenure_postgres::PostgresOptions;

use crate::{
    args::{Dialect, SchemaArgs},
    exit::{self, Code, Failure},
    out,
};

pub(crate) fn main(args: &SchemaArgs) -> Result<Code, Failure> {
    out::answer(&text(args).map_err(|err| Failure::usage(err.message()))?);
    Ok(exit::OK)
}

/// The names are read as they would be from the engine's URL, so that what is printed is what it will look for.
fn text(args: &SchemaArgs) -> Result<String> {
    let names = [("schema", &args.schema), ("table", &args.table)];
    let options: Vec<_> = names
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", encoded(value.as_deref()?))))
        .collect();
    let scheme = match args.dialect {
        Dialect::Mysql => "mysql",
        Dialect::Postgres => "postgres",
    };
    let mut url: EngineUrl = format!("{scheme}://user@host/database?{}", options.join("&")).parse()?;
    match args.dialect {
        Dialect::Mysql => {
            let options = MysqlOptions::from_url(&mut url)?;
            url.no_more_options(&["table"])?;
            Ok(options.schema())
        }
        Dialect::Postgres => Ok(tenure_postgres::schema(&PostgresOptions::from_url(&mut url)?)),
    }
}

/// So that nothing in a name can end its option: every byte that is no letter or digit is escaped.
fn encoded(name: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    name.bytes().map(escape).collect()
}
