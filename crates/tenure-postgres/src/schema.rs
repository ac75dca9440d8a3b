//! What is kept in the database, and what it is called there.

use std::fmt::Write as _;

use crate::url::PostgresOptions;

/// The version of tables and functions. Functions carry it in their name, so that processes of two versions can share
/// the tables.
pub(crate) const VERSION: i32 = 1;

const FUNCTIONS: &[&str] = &[
    include_str!("sql/settle.sql"),
    include_str!("sql/purge.sql"),
    include_str!("sql/attempt.sql"),
    include_str!("sql/renew.sql"),
    include_str!("sql/downgrade.sql"),
    include_str!("sql/release.sql"),
    include_str!("sql/evict.sql"),
    include_str!("sql/holds.sql"),
    include_str!("sql/sweep.sql"),
];

/// What functions have in common stands in files of its own.
const PARTS: &[(&str, &str)] = &[
    ("-- [level.sql]\n", include_str!("sql/level.sql")),
    ("-- [clock.sql]\n", include_str!("sql/clock.sql")),
    ("-- [lock.sql]\n", include_str!("sql/lock.sql")),
];

/// The same of the statements that are no functions.
const CLOCK: &str = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";
const LIFE: &str = "(date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint";
const LOCK: &str = "hashtextextended(encode($1, 'hex'), '@places'::regclass::oid::bigint)";

/// The tables and functions as SQL, for a person who may create them, to be used by one who may not.
#[must_use]
pub fn schema(options: &PostgresOptions) -> String {
    let names = Names::new(options);
    let mut text = format!("BEGIN;\n\n{}\nCOMMIT;\n\n", create(&names));
    let _ = write!(
        text,
        "-- What a user needs who only takes locks:\n\
         --   GRANT USAGE ON SCHEMA {schema} TO someone;\n\
         --   GRANT SELECT ON {about} TO someone;\n\
         --   GRANT SELECT, INSERT, UPDATE, DELETE ON {places} TO someone;\n\
         --   GRANT USAGE ON SEQUENCE {numbers} TO someone;\n",
        schema = names.schema,
        about = names.about,
        places = names.places,
        numbers = names.numbers,
    );
    text
}

/// The question whether a lock is still held, for a transaction that may only be committed if it is.
///
/// The parameters are the key as `bytea`, the claim's id as text and the whole fence as `bigint`; the answer is a
/// boolean. Once it is true, nobody else is granted anything on the key before the transaction ends: ask it at any
/// time in the transaction, best as the last thing before `COMMIT`, and roll back unless it is true. How long the
/// transaction then takes does not matter to its safety; others who ask for the key wait meanwhile.
///
/// It works in every isolation level. Above `READ COMMITTED` it may also fail with 40001, as any statement there, and
/// the lease is not renewed until the transaction ends.
///
/// # Examples
/// ```
/// use tenure_postgres::{PostgresOptions, holds};
///
/// assert_eq!(
///     holds(&PostgresOptions::default()),
///     "SELECT \"public\".tenure_v1_holds($1::bytea, $2::text::uuid, $3::bigint)"
/// );
/// ```
#[must_use]
pub fn holds(options: &PostgresOptions) -> String {
    format!("SELECT {}($1::bytea, $2::text::uuid, $3::bigint)", Names::new(options).function("holds"))
}

/// The tables and functions without a transaction of their own.
pub(crate) fn create(names: &Names) -> String {
    let mut text = names.fill(include_str!("sql/tables.sql"));
    for function in FUNCTIONS {
        text.push('\n');
        text.push_str(&names.fill(function));
    }
    text.push('\n');
    text.push_str(&names.fill(include_str!("sql/about.sql")));
    text
}

/// A statement without its comments, on one line.
fn code_of(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("--")).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// A verb that needs no function where it meets nobody.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShortWay {
    /// What the statement that is `alone` goes by.
    pub(crate) name: &'static str,
    /// Changes no row if somebody is met.
    pub(crate) alone: String,
    /// Calls the function then, and answers as that does. To begin it takes longer, because it is a plan of more parts.
    pub(crate) surely: String,
}

/// What things are called in the database.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) schema: String,
    pub(crate) about: String,
    pub(crate) places: String,
    numbers: String,
    /// What the names of functions start with.
    functions: String,
    /// What the names of channels start with.
    pub(crate) channels: String,
    /// The two verbs that most often meet nobody.
    pub(crate) attempt: ShortWay,
    pub(crate) release: ShortWay,
}

impl Names {
    pub(crate) fn new(options: &PostgresOptions) -> Self {
        let (schema, table) = (&options.schema, &options.table);
        // Both are made of letters, digits and underscores; quoted, because they may be words of SQL.
        let name = |suffix: &str| format!("\"{schema}\".\"{table}{suffix}\"");
        let mut names = Self {
            schema: format!("\"{schema}\""),
            about: name("_about"),
            places: name("_places"),
            numbers: name("_numbers"),
            functions: format!("\"{schema}\".{table}_v{VERSION}"),
            channels: format!("{table}_"),
            attempt: ShortWay::default(),
            release: ShortWay::default(),
        };
        let alone = names.fill(&code_of(include_str!("sql/again.sql")));
        let surely = names.surely(&alone, "ARRAY[1, seq, life]::text", "attempt", 9);
        names.attempt = ShortWay { name: "again", alone, surely };
        let alone = names.fill(&code_of(include_str!("sql/leave.sql")));
        let surely = names.surely(&format!("{alone} RETURNING 1"), "'2'", "release", 4);
        names.release = ShortWay { name: "leave", alone, surely };
        names
    }

    /// The call of a verb's function, with places for its arguments.
    pub(crate) fn call(&self, verb: &str, args: usize) -> String {
        format!("SELECT {}", self.called(verb, args))
    }

    fn called(&self, verb: &str, args: usize) -> String {
        let places: Vec<String> = (1..=args).map(|place| format!("${place}")).collect();
        format!("{}({})::text", self.function(verb), places.join(","))
    }

    /// What does the same as the call of a verb's function, and saves it if nobody else is met.
    pub(crate) fn short_way(&self, verb: &str) -> Option<&ShortWay> {
        match verb {
            "attempt" => Some(&self.attempt),
            "release" => Some(&self.release),
            _ => None,
        }
    }

    /// What says this of the row that a statement changed, or calls the verb's function if it changed none.
    fn surely(&self, alone: &str, says: &str, verb: &str, args: usize) -> String {
        let all = self.called(verb, args);
        format!("WITH done AS ({alone}) SELECT coalesce((SELECT {says} FROM done), {all})")
    }

    /// The name of a verb's function.
    pub(crate) fn function(&self, verb: &str) -> String {
        format!("{}_{verb}", self.functions)
    }

    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (mark, part) in PARTS {
            text = text.replace(mark, part);
        }
        // `INSERT .. ON CONFLICT` knows its table by its bare name.
        let bare = self.about.rsplit('.').next().unwrap_or_default();
        for (mark, name) in [
            ("@clock", CLOCK),
            ("@life", LIFE),
            ("@lock", LOCK),
            ("@about_name", bare),
            ("@about", &self.about),
            ("@places", &self.places),
            ("@numbers", &self.numbers),
            ("@schema", &self.schema),
            ("@version", &VERSION.to_string()),
            ("@v_", &format!("{}_", self.functions)),
        ] {
            text = text.replace(mark, name);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_filled() {
        let options =
            PostgresOptions { schema: "locks".into(), table: "mine".into(), ..PostgresOptions::default() };
        let text = schema(&options);
        assert!(!text.contains('@') && !text.contains("-- ["), "{text}");
        assert!(text.contains("CREATE TABLE IF NOT EXISTS \"locks\".\"mine_places\""));
        assert!(text.contains("FUNCTION \"locks\".mine_v1_attempt("));
    }
}
