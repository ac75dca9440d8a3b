//! The line as people see it.

use tenure_core::{Filter, Key, Note, Op, Place, Result, Seq, Standing, line};
use tokio_postgres::SimpleQueryRow;

use crate::{
    answer::{duration, mode_of, nonsense},
    arg::Bytes,
    links::{Links, UNHURRIED, Use},
    text,
};

/// Holders and waiters, as they are now.
pub(crate) async fn places(links: &Links, filter: &Filter) -> Result<Vec<Place>> {
    let which = match filter {
        Filter::Key(key) => format!("place.key = {}", Bytes(key.as_str().as_bytes())),
        Filter::Prefix(prefix, _) => starts_with(prefix.as_bytes()),
    };
    let limit = i64::try_from(filter.limit()).unwrap_or(i64::MAX);
    // If another clock wrote a line, the first verb will give it a whole lease.
    let sql = format!(
        "SELECT encode(place.key,'hex'),place.id,place.seq,place.mode,place.take,place.total,\
         CASE WHEN place.life = clock.life THEN least(place.deadline - clock.now, place.ttl) ELSE place.ttl END,\
         greatest(0, clock.now - place.taken),encode(place.note,'hex') \
         FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now,\
         (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint AS life OFFSET 0) AS clock,\
         {} AS place WHERE {which} AND place.state <= 1 \
         AND (place.life <> clock.life OR clock.now < place.deadline) \
         ORDER BY place.key,place.slot LIMIT {limit}",
        links.names.places
    );
    let rows = links.run(Op::Line, Use::Attempt, UNHURRIED, &sql).await?;
    let places: Option<Vec<Place>> = rows.iter().map(place).collect();
    let mut places = places.ok_or_else(|| nonsense(Op::Line))?;
    for line in places.chunk_by_mut(|one, next| one.key == next.key) {
        let holders = line::holders(line.iter().map(|place| place.mode));
        line[..holders].iter_mut().for_each(|place| place.standing = Standing::Holds);
    }
    Ok(places)
}

/// The condition for keys that start so.
fn starts_with(prefix: &[u8]) -> String {
    let from = format!("place.key >= {}", Bytes(prefix));
    // The first key after all those: with the last byte that can be raised, raised.
    match prefix.iter().rposition(|&byte| byte < 0xff) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            format!("{from} AND place.key < {}", Bytes(&end))
        }
        None => from,
    }
}

fn place(row: &SimpleQueryRow) -> Option<Place> {
    let number = |at: usize| text::field(row, at)?.parse::<i64>().ok();
    let note = text::unhex(text::field(row, 8)?)?;
    let note = String::from_utf8_lossy(&note);
    let (who, label) = note.split_once('\n').unwrap_or((&note, ""));
    Some(Place {
        key: Key::new(String::from_utf8(text::unhex(text::field(row, 0)?)?).ok()?).ok()?,
        id: text::id(text::field(row, 1)?)?,
        seq: Seq::new(u64::try_from(number(2)?).ok()?)?,
        mode: mode_of(number(3)?, number(4)?, number(5)?)?,
        standing: Standing::Waits,
        note: Note::new(who, label),
        age: duration(number(7)?),
        lease_left: Some(duration(number(6)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_no_key_starts_so_any_more() {
        assert_eq!(
            starts_with(b"ab"),
            "place.key >= E'\\\\x6162'::bytea AND place.key < E'\\\\x6163'::bytea"
        );
        assert_eq!(
            starts_with(b"a\xff"),
            "place.key >= E'\\\\x61ff'::bytea AND place.key < E'\\\\x62'::bytea"
        );
        assert_eq!(starts_with(b""), "place.key >= E'\\\\x'::bytea");
    }
}
