//! The statements, with the names of the tables in them and holes for values.

use std::{fmt::Write as _, sync::Arc};

use sqlx::{Arguments as _, error::BoxDynError, mysql::MySqlArguments};
use tenure_core::{Error, Result};

/// What a value in a statement may be. Text never is: bytes are written in hexadecimal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Bytes(&'a [u8]),
    Number(u64),
    /// Statement text that was put together from the others here.
    Sql(&'a str),
    /// A name from [`Bell::name`](crate::bell::Bell::name): letters, digits and dots.
    Name(&'a str),
}

/// Statements that take a doorbell on their way, and the same for whoever has one or needs none.
#[derive(Debug)]
pub(crate) struct Belled {
    taking: Script,
    silent: Script,
}

/// Statements of one table set.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) alone: Belled,
    pub(crate) again: Belled,
    pub(crate) leave: Script,
    pub(crate) join: Belled,
    pub(crate) part: Script,
    pub(crate) create: Script,
    pub(crate) spill: Script,
    pub(crate) find: Script,
    pub(crate) purge: Script,
    pub(crate) attempt: Script,
    pub(crate) release: Script,
    pub(crate) bury: Script,
    pub(crate) downgrade: Script,
    pub(crate) evict: Script,
    pub(crate) tidy: Script,
    pub(crate) renew: Script,
    pub(crate) raise: Script,
    pub(crate) show: Script,
    pub(crate) lapsed: Script,
    pub(crate) idle: Script,
    pub(crate) sweep: Script,
    pub(crate) ring: Script,
    pub(crate) listen: Script,
    pub(crate) look: Script,
    pub(crate) pause: Script,
    pub(crate) there: Script,
    pub(crate) identity: Script,
    pub(crate) identify: Script,
}

/// The end of every transaction.
pub(crate) const COMMIT: &str = "COMMIT";

/// Integer microseconds since 1970. Sessions are in UTC, and `SYSDATE`, unlike `NOW`, is the time when it is asked.
const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', SYSDATE(6))";

/// The claim of a row in which nobody stands.
const NONE: &str = "X'00000000000000000000000000000000'";

/// Whether a key's row says that nobody wants it, by a clock that is known.
const FREE: &str = "id = {none} AND many = 0 AND life = :life";

/// An expression that is 0, and takes a doorbell.
const TAKE: &str = "0 * COALESCE(GET_LOCK(:ring, 0), 0)";

/// Whether the last of some places that start a line holds: the rule of `tenure_core::line`, on aggregates. All of
/// them hold beside each other exactly if the last one holds.
const HOLDS: &str = "COUNT(*) = 1 OR COALESCE(MIN(mode) = MAX(mode) AND (MAX(mode) = 1 OR (MAX(mode) = 2 \
                     AND MIN(total) = MAX(total) AND SUM(take) <= MAX(total))), 0)";

impl Scripts {
    pub(crate) fn new(table: &str) -> Self {
        let read = |text: &str| Script::parse(&named(table, text));
        let belled = |text: &str| Belled {
            taking: read(&text.replace("{take}", TAKE)),
            silent: read(&text.replace("{take}", "0")),
        };
        Self {
            alone: belled(include_str!("sql/alone.sql")),
            again: belled(include_str!("sql/again.sql")),
            leave: read(include_str!("sql/leave.sql")),
            join: belled(include_str!("sql/join.sql")),
            part: read(include_str!("sql/part.sql")),
            spill: read(include_str!("sql/spill.sql")),
            create: read(include_str!("sql/create.sql")),
            find: read(include_str!("sql/find.sql")),
            purge: read(include_str!("sql/purge.sql")),
            attempt: read(include_str!("sql/attempt.sql")),
            release: read(include_str!("sql/release.sql")),
            bury: read(include_str!("sql/bury.sql")),
            downgrade: read(include_str!("sql/downgrade.sql")),
            evict: read(include_str!("sql/evict.sql")),
            tidy: read(include_str!("sql/tidy.sql")),
            renew: read(include_str!("sql/renew.sql")),
            raise: read(include_str!("sql/raise.sql")),
            show: read(include_str!("sql/show.sql")),
            lapsed: read(include_str!("sql/lapsed.sql")),
            idle: read(include_str!("sql/idle.sql")),
            sweep: read(include_str!("sql/sweep.sql")),
            ring: read(include_str!("sql/ring.sql")),
            listen: read(include_str!("sql/listen.sql")),
            look: read(include_str!("sql/look.sql")),
            pause: read(include_str!("sql/pause.sql")),
            there: read(
                "SELECT bell FROM {lines} LIMIT 0; SELECT bell FROM {places} LIMIT 0; SELECT 1 FROM {marks} LIMIT 0;
                 SELECT 1 FROM {engine} LIMIT 0;",
            ),
            identity: read("SELECT identity FROM {engine} WHERE one = 1;"),
            identify: read("INSERT IGNORE INTO {engine} (one, identity) VALUES (1, :identity);"),
        }
    }
}

/// What creates the tables whose names start so: the text of a migration.
///
/// # Errors
/// `Invalid` if the name is not 1 to 48 letters, digits and underscores.
pub fn schema(table: &str) -> Result<String> {
    if is_table(table) {
        Ok(schema_of(table))
    } else {
        Err(Error::invalid("the table is 1 to 48 letters, digits and underscores, and starts with a letter"))
    }
}

pub(crate) fn schema_of(table: &str) -> String {
    named(table, include_str!("sql/schema.sql"))
}

/// Whether this can start the name of a table without any quoting.
pub(crate) fn is_table(name: &str) -> bool {
    (1..=48).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn named(table: &str, text: &str) -> String {
    named_in(None, table, text)
}

/// A text with the names of the tables in it: those of a database, or of whichever the session has chosen.
pub(crate) fn named_in(database: Option<&str>, table: &str, text: &str) -> String {
    let database = database.map(|name| format!("`{name}`.")).unwrap_or_default();
    let mut text = text.to_owned();
    for kind in ["lines", "places", "marks", "engine"] {
        text = text.replace(&format!("{{{kind}}}"), &format!("{database}`{table}_{kind}`"));
    }
    text.replace("{free}", FREE).replace("{none}", NONE).replace("{clock}", CLOCK).replace("{holds}", HOLDS)
}

/// The statements of a text without its comments, on one line.
pub(crate) fn code_of(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("--")).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Statements that end in a semicolon each, with holes.
#[derive(Debug)]
pub(crate) struct Script {
    /// Text, and the name of the hole after it.
    parts: Vec<(String, String)>,
    /// The whole text with a `?` for each hole.
    bound: Arc<str>,
}

impl Belled {
    /// The statements for whoever has a doorbell to take, or none.
    pub(crate) fn with(&self, name: &str) -> &Script {
        if name.is_empty() { &self.silent } else { &self.taking }
    }
}

impl Script {
    fn parse(text: &str) -> Self {
        let code = code_of(text);
        let mut parts = Vec::new();
        let mut rest = code.as_str();
        // The only colons are those of holes, and those within a time of day, which no letter follows.
        let mut from = 0;
        while let Some(at) = rest[from..].find(':').map(|at| at + from) {
            let name: String = rest[at + 1..].chars().take_while(char::is_ascii_lowercase).collect();
            from = at + 1;
            if !name.is_empty() {
                parts.push((rest[..at].to_owned(), name.clone()));
                rest = &rest[at + 1 + name.len()..];
                from = 0;
            }
        }
        parts.push((rest.to_owned(), String::new()));
        let texts: Vec<_> = parts.iter().map(|(text, _)| text.as_str()).collect();
        let bound = texts.join("?").trim_end_matches(';').into();
        Self { parts, bound }
    }

    /// The text with values in its holes. A hole without a value stays `NULL`, which no column here takes.
    pub(crate) fn write(&self, sql: &mut String, values: &[(&str, Value<'_>)]) {
        for (text, hole) in &self.parts {
            sql.push_str(text);
            if hole.is_empty() {
                continue;
            }
            match values.iter().find(|(name, _)| name == hole) {
                Some((_, value)) => value.write(sql),
                None => {
                    debug_assert!(false, "no value for :{hole}");
                    sql.push_str("NULL");
                }
            }
        }
    }

    /// The text with a `?` for each value, the same whatever these are.
    pub(crate) fn bound(&self) -> &Arc<str> {
        &self.bound
    }

    /// The values that are sent beside that text.
    ///
    /// # Errors
    /// If one of them cannot be sent so.
    pub(crate) fn arguments(&self, values: &[(&str, Value<'_>)]) -> Result<MySqlArguments, BoxDynError> {
        let mut bound = MySqlArguments::default();
        // Each has at most the length of a hash, but for the two of the note.
        bound.reserve(self.parts.len(), 32 * self.parts.len());
        for (_, hole) in &self.parts {
            match values.iter().find(|(name, _)| name == hole) {
                Some((_, value)) => value.bind(&mut bound)?,
                None => debug_assert!(hole.is_empty(), "no value for :{hole}"),
            }
        }
        Ok(bound)
    }

    /// The text alone.
    pub(crate) fn text(&self, values: &[(&str, Value<'_>)]) -> String {
        let mut sql = String::new();
        self.write(&mut sql, values);
        sql
    }
}

impl Value<'_> {
    pub(crate) fn write(&self, sql: &mut String) {
        match self {
            Self::Bytes(bytes) => {
                sql.push_str("X'");
                push_hex(sql, bytes);
                sql.push('\'');
            }
            // Writing to a text cannot fail.
            Self::Number(number) => drop(write!(sql, "{number}")),
            Self::Sql(text) => sql.push_str(text),
            Self::Name(name) => drop(write!(sql, "'{name}'")),
        }
    }

    fn bind(&self, bound: &mut MySqlArguments) -> Result<(), BoxDynError> {
        match *self {
            Self::Bytes(bytes) => bound.add(bytes),
            Self::Number(number) => bound.add(number),
            Self::Name(name) => bound.add(name),
            Self::Sql(text) => Err(format!("{text} is no value").into()),
        }
    }
}

/// Writes bytes in hexadecimal.
pub(crate) fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_their_holes_and_cannot_leave_them() {
        let script = Script::parse("-- :x\nSELECT :h,\n  '00:00:00', :number;");
        let values = [("h", Value::Bytes(b"a'\0;")), ("number", Value::Number(7))];
        assert_eq!(script.text(&values), "SELECT X'6127003b', '00:00:00', 7;");
    }

    #[test]
    fn what_is_bound_stands_in_the_order_of_its_holes() {
        let script = Script::parse("UPDATE t SET a = :h, b = :ring WHERE c > :h AND :number;");
        assert_eq!(&**script.bound(), "UPDATE t SET a = ?, b = ? WHERE c > ? AND ?");
        let values = [("number", Value::Number(7)), ("ring", Value::Name("b")), ("h", Value::Bytes(b"x"))];
        let mut wanted = MySqlArguments::default();
        wanted.add(&b"x"[..]).unwrap();
        wanted.add("b").unwrap();
        wanted.add(&b"x"[..]).unwrap();
        wanted.add(7_u64).unwrap();
        assert_eq!(format!("{:?}", script.arguments(&values).unwrap()), format!("{wanted:?}"));
        assert!(script.arguments(&[("h", Value::Sql("1; DROP"))]).is_err(), "text is no value");
    }

    #[test]
    fn only_whoever_has_a_doorbell_to_take_takes_it() {
        let scripts = Scripts::new("t");
        for belled in [&scripts.alone, &scripts.again, &scripts.join] {
            assert_eq!(belled.with("name").bound().matches("GET_LOCK(?, 0)").count(), 1, "{belled:?}");
            assert!(!belled.with("").bound().contains("_LOCK"), "{belled:?}");
        }
    }

    #[test]
    fn the_schema_names_its_tables_and_nothing_else() {
        let text = schema("shop").unwrap();
        for table in ["shop_lines", "shop_places", "shop_marks", "shop_engine"] {
            assert!(text.contains(&format!("CREATE TABLE IF NOT EXISTS `{table}`")), "{table}");
        }
        assert!(!text.contains('{'));
        for wrong in ["", "a-b", "a`b", "1a", "é", &"a".repeat(49)] {
            assert!(schema(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_script_has_a_place_left_for_a_name() {
        let scripts = Scripts::new("t");
        assert!(
            !format!("{scripts:?}").contains(['{', '}'].map(|brace| format!("`{brace}")).join("").as_str())
        );
        assert!(!format!("{:?}", scripts.attempt).contains("{holds}"));
    }
}
