//! `tenure ls`: who holds what.

use tenure::{Filter, Key, Place, Standing};

use crate::{
    args::{LsArgs, On},
    engine::{self, Target},
    exit::{self, Code, Failure},
    json::Object,
    out,
    words::{self, ms, span},
};

/// The most places that are shown.
const LIMIT: usize = 10_000;

pub(crate) fn main(on: &On, args: &LsArgs) -> Result<Code, Failure> {
    let target = Target::resolve(on)?;
    engine::block_on(async {
        let client = target.connect().await?;
        let places = client.line(&Filter::Prefix(args.prefix.clone(), LIMIT)).await?;
        let entries = entries(&places);
        if args.json {
            let lines: Vec<String> = entries.iter().map(|entry| entry.json().done() + "\n").collect();
            out::answer(&lines.concat());
        } else if !entries.is_empty() {
            let rows: Vec<Vec<String>> = entries.iter().map(Entry::row).collect();
            out::answer(&words::table(
                &["KEY", "HOLDER", "HELD FOR", "LEASE LEFT", "WAITERS", "FENCE"],
                &rows,
            ));
        }
        if places.len() >= LIMIT {
            out::say(&format!("only the first {LIMIT} places are shown; name a prefix"));
        }
        Ok(exit::OK)
    })
}

/// One holder of a key, or a key that is between two.
#[derive(Debug)]
struct Entry<'a> {
    key: &'a Key,
    holder: Option<&'a Place>,
    waiters: usize,
}

/// One entry per holder. Places of one key come together.
fn entries(places: &[Place]) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    for line in places.chunk_by(|a, b| a.key == b.key) {
        let Some(first) = line.first() else { continue };
        let (holders, waiters): (Vec<&Place>, Vec<&Place>) =
            line.iter().partition(|place| place.standing == Standing::Holds);
        let entry = |holder| Entry { key: &first.key, holder, waiters: waiters.len() };
        if holders.is_empty() {
            entries.push(entry(None));
        }
        entries.extend(holders.into_iter().map(|holder| entry(Some(holder))));
    }
    entries
}

impl Entry<'_> {
    fn row(&self) -> Vec<String> {
        let nothing = || "-".to_owned();
        let lease = |place: &Place| place.lease_left.map_or_else(nothing, span);
        vec![
            self.key.to_string(),
            self.holder.map_or_else(nothing, |place| place.note.to_string()),
            self.holder.map_or_else(nothing, |place| span(place.age)),
            self.holder.map_or_else(nothing, lease),
            self.waiters.to_string(),
            self.holder.map_or_else(nothing, |place| place.fence().to_string()),
        ]
    }

    fn json(&self) -> Object {
        let object = Object::new().text("key", self.key.as_str());
        let object = match self.holder {
            Some(place) => with_place(object, place),
            None => object.maybe_text("holder", None),
        };
        object.number("waiters", self.waiters as u64)
    }
}

/// The fields that every place has in JSON.
pub(crate) fn with_place(object: Object, place: &Place) -> Object {
    object
        .text("holder", place.note.who())
        .text("note", place.note.label())
        .text("mode", mode(place))
        .number("held_ms", ms(place.age))
        .maybe_number("lease_left_ms", place.lease_left.map(ms))
        .text("fence", &place.fence().to_string())
}

fn mode(place: &Place) -> &'static str {
    match place.mode {
        tenure::Mode::Exclusive => "exclusive",
        tenure::Mode::Shared => "shared",
        tenure::Mode::Permits(_) => "slots",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure::{ClaimId, Mode, Note, Seq};

    use super::*;

    fn place(key: &str, seq: u64, standing: Standing) -> Place {
        Place {
            key: Key::new(key).unwrap(),
            id: ClaimId::fresh(),
            seq: Seq::new(seq).unwrap(),
            mode: Mode::Shared,
            standing,
            note: Note::new("me@here:1", "x"),
            age: Duration::from_millis(1500),
            lease_left: Some(Duration::from_secs(9)),
        }
    }

    #[test]
    fn every_holder_has_an_entry_and_every_waiter_counts() {
        let places = [
            place("a", 1, Standing::Holds),
            place("a", 2, Standing::Holds),
            place("a", 3, Standing::Waits),
            place("b", 4, Standing::Waits),
        ];
        let entries = entries(&places);
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[0].row(), ["a", "me@here:1 (x)", "1.5s", "9s", "1", "1024"]);
        assert_eq!(entries[2].row(), ["b", "-", "-", "-", "1", "-"]);
        assert_eq!(
            entries[1].json().done(),
            r#"{"key":"a","holder":"me@here:1","note":"x","mode":"shared","held_ms":1500,"lease_left_ms":9000,"fence":"2048","waiters":1}"#
        );
    }
}
