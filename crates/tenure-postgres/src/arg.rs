//! What the functions of the database are given: in a statement that was prepared, or as SQL text where nothing may stay
//! in the session. Such a text has only numbers, hexadecimal digits and names of our own, so there is nothing to escape.

use std::{
    error::Error,
    fmt::{self, Write as _},
};

use bytes::{BufMut, BytesMut};
use tenure_core::ClaimId;
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};

#[derive(Debug)]
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

/// A statement with these arguments, of which there are at most nine, in the places of `$1` and so on.
pub(crate) fn text(statement: &str, args: &[Arg<'_>]) -> String {
    let mut parts = statement.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut rest = part.chars();
        let digit = rest.next().unwrap_or_default();
        match digit.to_digit(10).and_then(|at| args.get((at as usize).checked_sub(1)?)) {
            Some(arg) => text += &arg.to_string(),
            None => debug_assert!(false, "no argument for ${part}"),
        }
        text += rest.as_str();
    }
    text
}

impl Arg<'_> {
    /// As what it is bound.
    pub(crate) fn kind(&self) -> Type {
        match self {
            Self::Bytes(_) => Type::BYTEA,
            Self::Id(_) => Type::UUID,
            Self::Small(_) => Type::INT2,
            Self::Number(_) => Type::INT8,
            Self::Flag(_) => Type::BOOL,
            Self::Name(_) => Type::TEXT,
            Self::ManyBytes(_) => Type::BYTEA_ARRAY,
            Self::Ids(_) => Type::UUID_ARRAY,
            Self::Numbers(_) => Type::INT8_ARRAY,
        }
    }
}

/// Bound as it is, without a box around each.
impl ToSql for Arg<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Bytes(bytes) => bytes.to_sql_checked(kind, out),
            Self::Id(id) => Uuid(*id).to_sql_checked(kind, out),
            Self::Small(number) => number.to_sql_checked(kind, out),
            Self::Number(number) => number.to_sql_checked(kind, out),
            Self::Flag(flag) => flag.to_sql_checked(kind, out),
            Self::Name(name) => name.to_sql_checked(kind, out),
            Self::ManyBytes(many) => many.to_sql_checked(kind, out),
            Self::Ids(ids) => ids.iter().copied().map(Uuid).collect::<Vec<_>>().to_sql_checked(kind, out),
            Self::Numbers(numbers) => numbers.to_sql_checked(kind, out),
        }
    }

    /// Each value knows what it can be.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
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

/// A claim's id as it is bound.
#[derive(Debug)]
struct Uuid(ClaimId);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0.to_bytes());
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
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
    fn a_statement_as_text() {
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
            text("SELECT f($1,$2,$3,$4,$5,$6,$7,$8,$9),$1", &args),
            format!(
                "SELECT f(E'\\\\x6127005c'::bytea,'{id}'::uuid,-1::smallint,2::bigint,true,'c'::text,\
                 ARRAY[E'\\\\x61'::bytea,E'\\\\x62'::bytea]::bytea[],ARRAY['{id}']::uuid[],ARRAY[1,2]::bigint[]),\
                 E'\\\\x6127005c'::bytea"
            )
        );
    }
}
