//! What the functions of the database are given: in a statement that was prepared, or as SQL text where nothing may stay
//! in the session. Such a text has only numbers, hexadecimal digits and names of our own, so there is nothing to escape.

use std::fmt::{self, Write as _};

use tenure_core::ClaimId;
use tokio_postgres::types::ToSql;

pub(crate) enum Arg<'a> {
    Bytes(&'a [u8]),
    Id(ClaimId),
    Small(i16),
    Number(i64),
    Flag(bool),
    /// The name of a channel.
    Name(&'a str),
    ManyBytes(Vec<&'a [u8]>),
    Ids(Vec<ClaimId>),
    Numbers(Vec<i64>),
}

/// The call of a function with these arguments, as text.
pub(crate) fn text(function: &str, args: &[Arg<'_>]) -> String {
    call(function, args, |_, arg| arg.to_string())
}

/// The same with places for the arguments.
pub(crate) fn template(function: &str, args: &[Arg<'_>]) -> String {
    call(function, args, |at, arg| format!("${}::{}", at + 1, arg.kind()))
}

fn call(function: &str, args: &[Arg<'_>], word: impl Fn(usize, &Arg<'_>) -> String) -> String {
    let words: Vec<String> = args.iter().enumerate().map(|(at, arg)| word(at, arg)).collect();
    format!("SELECT {function}({})::text", words.join(","))
}

impl Arg<'_> {
    /// As what it is bound, and what becomes of it.
    fn kind(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "bytea",
            Self::Id(_) => "text::uuid",
            Self::Small(_) => "smallint",
            Self::Number(_) => "bigint",
            Self::Flag(_) => "boolean",
            Self::Name(_) => "text",
            Self::ManyBytes(_) => "bytea[]",
            Self::Ids(_) => "text[]::uuid[]",
            Self::Numbers(_) => "bigint[]",
        }
    }

    pub(crate) fn bind(&self) -> Box<dyn ToSql + Sync + Send + '_> {
        match self {
            Self::Bytes(bytes) => Box::new(*bytes),
            Self::Id(id) => Box::new(id.to_string()),
            Self::Small(number) => Box::new(*number),
            Self::Number(number) => Box::new(*number),
            Self::Flag(flag) => Box::new(*flag),
            Self::Name(name) => Box::new(*name),
            Self::ManyBytes(many) => Box::new(many.as_slice()),
            Self::Ids(ids) => Box::new(ids.iter().map(ToString::to_string).collect::<Vec<_>>()),
            Self::Numbers(numbers) => Box::new(numbers.as_slice()),
        }
    }
}

impl fmt::Display for Arg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => Bytes(bytes).fmt(f),
            Self::Id(id) => write!(f, "'{id}'::uuid"),
            Self::Small(number) => write!(f, "{number}::smallint"),
            Self::Number(number) => write!(f, "{number}::bigint"),
            Self::Flag(flag) => flag.fmt(f),
            Self::Name(name) => write!(f, "'{name}'::text"),
            Self::ManyBytes(many) => f.write_str(&array("bytea", many.iter().map(|bytes| Bytes(bytes)))),
            Self::Ids(ids) => f.write_str(&array("uuid", ids.iter().map(|id| format!("'{id}'")))),
            Self::Numbers(numbers) => f.write_str(&array("bigint", numbers.iter())),
        }
    }
}

/// Bytes as a literal, whatever the server thinks of backslashes.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("E'\\\\x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("'::bytea")
    }
}

/// An array of literals.
fn array<T: fmt::Display>(kind: &str, values: impl Iterator<Item = T>) -> String {
    let mut text = "ARRAY[".to_owned();
    for (at, value) in values.enumerate() {
        // Writing to a string never fails.
        let _ = write!(text, "{}{value}", if at > 0 { "," } else { "" });
    }
    text + "]::" + kind + "[]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_text_or_a_template() {
        let id = ClaimId::fresh();
        let args = [
            Arg::Bytes(b"a'\0\\"),
            Arg::Id(id),
            Arg::Small(-1),
            Arg::Number(2),
            Arg::Flag(true),
            Arg::Name("c"),
            Arg::ManyBytes(vec![b"a", b"b"]),
            Arg::Ids(vec![id]),
            Arg::Numbers(vec![1, 2]),
        ];
        assert_eq!(
            text("f", &args),
            format!(
                "SELECT f(E'\\\\x6127005c'::bytea,'{id}'::uuid,-1::smallint,2::bigint,true,'c'::text,\
                 ARRAY[E'\\\\x61'::bytea,E'\\\\x62'::bytea]::bytea[],ARRAY['{id}']::uuid[],ARRAY[1,2]::bigint[])::text"
            )
        );
        assert_eq!(
            template("f", &args),
            "SELECT f($1::bytea,$2::text::uuid,$3::smallint,$4::bigint,$5::boolean,$6::text,$7::bytea[],\
             $8::text[]::uuid[],$9::bigint[])::text"
        );
    }
}
