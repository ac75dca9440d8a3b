//! `tenure wait`: waits until nobody holds a key, without taking it.

use std::time::Duration;

use tenure::{Client, Filter, Standing};
use tokio::time::{Instant, sleep};

use crate::{
    args::{On, WaitArgs},
    engine::{self, Target},
    exit::{self, Code, Failure},
    json::Object,
    out,
    run::{Talk, Waiting},
    words::{exact, ms, shell_word},
};

/// The pauses between two looks: an onlooker has no place in the line and is not told.
const LOOK: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(500);

pub(crate) fn main(on: &On, args: &WaitArgs) -> Result<Code, Failure> {
    let target = Target::resolve(on)?;
    engine::block_on(async {
        let client = target.connect().await?;
        let began = Instant::now();
        let free = {
            let talk = if args.quiet { Talk::Quiet } else { Talk::Normal };
            let mut line = Waiting::new(&client, &args.key, None, talk);
            let watching = watch(&client, args, began);
            tokio::pin!(watching);
            let free = loop {
                tokio::select! {
                    biased;
                    free = &mut watching => break free,
                    () = line.show() => {}
                }
            };
            line.clear();
            free?
        };
        if args.json {
            let object = Object::new()
                .text("key", args.key.as_str())
                .flag("free", free)
                .number("waited_ms", ms(began.elapsed()));
            out::answer(&(object.done() + "\n"));
        }
        if !free && !args.quiet {
            let wait = exact(args.wait.unwrap_or_default());
            let hint = shell_word(args.key.as_str());
            out::say(&format!("`{}` is still held after {wait}; see: tenure inspect {hint}", args.key));
        }
        Ok(if free { exit::OK } else { exit::BUSY })
    })
}

/// Looks until nobody holds the key, or the time is over.
async fn watch(client: &Client, args: &WaitArgs, began: Instant) -> Result<bool, Failure> {
    let until = args.wait.map(|wait| began + wait);
    let mut pause = *LOOK.start();
    loop {
        let line = client.line(&Filter::Key(args.key.clone())).await?;
        if !line.iter().any(|place| place.standing == Standing::Holds) {
            return Ok(true);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(false);
        }
        sleep(left.map_or(pause, |left| left.min(pause))).await;
        pause = (pause * 3 / 2).min(*LOOK.end());
    }
}
