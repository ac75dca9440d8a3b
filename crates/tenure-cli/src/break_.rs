//! `tenure break`: takes exactly the hold away that an operator looked at.

use std::io::{self, BufRead, IsTerminal};

use tenure::{Evicted, Eviction, Filter, Place, Standing, When};

use crate::{
    args::{BreakArgs, On},
    engine::{self, Target},
    exit::{self, Code, Failure},
    inspect,
    json::Object,
    out,
    words::{shell_word, span},
};

pub(crate) fn main(on: &On, args: &BreakArgs) -> Result<Code, Failure> {
    let target = Target::resolve(on)?;
    let asks = !args.yes;
    if asks && !io::stdin().is_terminal() {
        return Err(Failure::usage("there is no terminal to ask on; add --yes if you mean it"));
    }
    engine::block_on(async {
        let client = target.connect().await?;
        let line = client.line(&Filter::Key(args.key.clone())).await?;
        let place = find(&line, args)?;
        if !args.json {
            out::write_err(&format!("`{}` on {target}{}\n", args.key, inspect::card(place)));
        }
        if asks && !confirmed(args)? {
            return Err(Failure::new(exit::BUSY, "nothing was broken"));
        }
        let when = if args.now { When::Now } else { When::Gently };
        let eviction = Eviction { key: args.key.clone(), id: place.id, seq: place.seq, when };
        let evicted = client.evict(&eviction).await?;
        tell(args, place, evicted)
    })
}

/// The hold that the operator looked at. Tasks of one process may have handed it on since, which is the same
/// place.
fn find<'a>(line: &'a [Place], args: &BreakArgs) -> Result<&'a Place, Failure> {
    let mut holders = line.iter().filter(|place| place.standing == Standing::Holds).peekable();
    let key = &args.key;
    let Some(first) = holders.peek().copied() else {
        return Err(Failure::new(exit::BUSY, format!("nobody holds `{key}`; nothing was broken")));
    };
    holders.find(|place| place.seq == args.if_fence.seq()).ok_or_else(|| {
        Failure::new(
            exit::BUSY,
            format!(
                "the fence of `{key}` has moved on from {} to {}, held by {}; nothing was broken, look again: tenure inspect {}",
                args.if_fence,
                first.fence(),
                first.note,
                shell_word(key.as_str())
            ),
        )
    })
}

fn confirmed(args: &BreakArgs) -> Result<bool, Failure> {
    let how = if args.now {
        "The key is free at once, though the holder may not know yet: until it does, only fences protect."
    } else {
        "The holder is told at its next renewal, and its job is stopped."
    };
    out::write_err(&format!("\n{how}\nType the key to break it: "));
    let mut typed = String::new();
    io::stdin()
        .lock()
        .read_line(&mut typed)
        .map_err(|err| Failure::internal("cannot read the answer", err))?;
    Ok(typed.trim_end_matches('\n') == args.key.as_str())
}

fn tell(args: &BreakArgs, place: &Place, evicted: Evicted) -> Result<Code, Failure> {
    let key = &args.key;
    let (word, text) = match evicted {
        Evicted::Stopped => {
            let at_most =
                place.lease_left.map(|left| format!(", in {} at the latest", span(left))).unwrap_or_default();
            (
                "stopped",
                format!(
                    "`{key}` is broken; its holder is told at its next renewal, and the key is free when it lets go{at_most}"
                ),
            )
        }
        Evicted::Freed => ("freed", format!("`{key}` is broken and free")),
        Evicted::Gone => {
            return Err(Failure::new(
                exit::BUSY,
                format!("the holder of `{key}` let go just now; nothing was broken"),
            ));
        }
    };
    if args.json {
        let object = Object::new()
            .text("result", word)
            .text("key", key.as_str())
            .text("fence", &place.fence().to_string())
            .text("holder", place.note.who());
        out::answer(&(object.done() + "\n"));
    } else {
        out::answer(&format!("{text}\n"));
    }
    Ok(exit::OK)
}
