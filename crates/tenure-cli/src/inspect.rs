//! `tenure inspect`: one key in full.

use tenure::{Filter, Mode, Place, Standing};

use crate::{
    args::{InspectArgs, On},
    doctor,
    engine::{self, Target},
    exit::{self, Code, Failure},
    json::Object,
    ls::with_place,
    out,
    words::{ms, span, table},
};

pub(crate) fn main(on: &On, args: &InspectArgs) -> Result<Code, Failure> {
    let target = Target::resolve(on)?;
    engine::block_on(async {
        let client = target.connect().await?;
        let line = client.line(&Filter::Key(args.key.clone())).await?;
        let (holders, waiters): (Vec<&Place>, Vec<&Place>) =
            line.iter().partition(|place| place.standing == Standing::Holds);
        if args.json {
            let object = Object::new()
                .text("key", args.key.as_str())
                .text("engine", &target.to_string())
                .flag("held", !holders.is_empty())
                .list("holders", holders.iter().map(|place| with_place(Object::new(), place)))
                .list("waiters", waiters.iter().enumerate().map(|(nth, place)| waiter(nth + 1, place)))
                .object("guarantees", doctor::promises_json(client.guarantees()));
            out::answer(&(object.done() + "\n"));
            return Ok(exit::OK);
        }
        let mut text = format!("`{}` on {target}\n", args.key);
        if holders.is_empty() {
            text.push_str("\nNobody holds it.\n");
        }
        for place in &holders {
            text.push_str(&card(place));
        }
        if !waiters.is_empty() {
            let rows: Vec<Vec<String>> =
                waiters.iter().enumerate().map(|(nth, place)| row(nth + 1, place)).collect();
            text.push_str("\nThe line:\n");
            text.push_str(&table(&["#", "WHO", "WAITS FOR", "MODE"], &rows));
        }
        text.push_str("\nWhat the engine promises:\n");
        text.push_str(&doctor::promises(client.guarantees()));
        out::answer(&text);
        Ok(exit::OK)
    })
}

/// What people want to know about a holder.
pub(crate) fn card(place: &Place) -> String {
    let lease = match place.lease_left {
        Some(left) => format!("{} left unless it is renewed", span(left)),
        None => "none: it holds while its process lives".to_owned(),
    };
    let mut rows = vec![("held by", place.note.who().to_owned())];
    if !place.note.label().is_empty() {
        rows.push(("for", place.note.label().to_owned()));
    }
    rows.push(("since", format!("{} ago", span(place.age))));
    rows.push(("lease", lease));
    if place.mode != Mode::Exclusive {
        rows.push(("mode", place.mode.to_string()));
    }
    rows.push(("fence", place.fence().to_string()));
    let rows: Vec<String> = rows.iter().map(|(name, value)| format!("  {name:8} {value}\n")).collect();
    format!("\n{}", rows.concat())
}

fn row(nth: usize, place: &Place) -> Vec<String> {
    vec![nth.to_string(), place.note.to_string(), span(place.age), place.mode.to_string()]
}

fn waiter(nth: usize, place: &Place) -> Object {
    let object = Object::new().number("place", nth as u64);
    object
        .text("who", place.note.who())
        .text("note", place.note.label())
        .text("mode", &place.mode.to_string())
        .number("waited_ms", ms(place.age))
}
