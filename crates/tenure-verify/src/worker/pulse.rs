//! Notices when the machine does not run this process. On a thread of its own: what holds up the workers alone is no excuse.

use std::{thread, time::Duration};

use super::say;
use crate::{
    clock::{nanos, now},
    history::Nanos,
    wire::Says,
};

/// How often it looks.
const BEAT: Duration = Duration::from_millis(50);
/// How late it may be before it is worth a word: a fraction of what bounds allow for scheduling.
const LATE: Duration = Duration::from_millis(250);

/// Begins to look, until this process ends.
pub(super) fn start() {
    thread::spawn(|| {
        let mut last = now();
        loop {
            beat();
            let at = now();
            if let Some(stood) = stood(last, at) {
                say(&stood);
            }
            // What it takes to say so counts too: an organiser that does not listen holds everybody up.
            last = at;
        }
    });
}

fn stood(last: Nanos, at: Nanos) -> Option<Says> {
    (at.saturating_sub(last) > nanos(BEAT + LATE)).then_some(Says::Stood { from: last, to: at })
}

#[expect(
    clippy::disallowed_methods,
    reason = "on a thread of its own: whether this takes longer is the question"
)]
fn beat() {
    thread::sleep(BEAT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_late_is_told() {
        let ms = |n| nanos(Duration::from_millis(n));
        assert!(stood(ms(100), ms(150)).is_none() && stood(ms(100), ms(400)).is_none());
        assert!(
            matches!(stood(ms(100), ms(401)), Some(Says::Stood { from, to }) if (from, to) == (ms(100), ms(401)))
        );
    }
}
