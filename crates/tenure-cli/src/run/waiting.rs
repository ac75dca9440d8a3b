//! The line that says whom we wait for.

use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
    time::Duration,
};

use rustix::{
    process::getpgrp,
    termios::{tcgetpgrp, tcgetwinsize},
};
use tenure::{Client, Filter, Key, Place, Standing};
use tokio::time::{Instant, sleep_until};

use super::Talk;
use crate::{out, words};

/// When to speak first, and how often again.
#[derive(Clone, Copy, Debug)]
struct Pace {
    first: Duration,
    again: Duration,
}

const ON_TERMINAL: Pace = Pace { first: Duration::from_millis(500), again: Duration::from_secs(1) };
const IN_LOG: Pace = Pace { first: Duration::from_secs(5), again: Duration::from_secs(60) };

/// Tells people now and then whom they wait for.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    client: &'a Client,
    key: &'a Key,
    /// Who we are in the line, if we stand in it.
    who: Option<String>,
    terminal: bool,
    silent: bool,
    next: Instant,
    drawn: bool,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(client: &'a Client, key: &'a Key, who: Option<String>, talk: Talk) -> Self {
        let terminal = io::stderr().is_terminal();
        let pace = if terminal { ON_TERMINAL } else { IN_LOG };
        let silent = talk == Talk::Quiet;
        Self { client, key, who, terminal, silent, next: Instant::now() + pace.first, drawn: false }
    }

    /// Waits until it is time to speak, and speaks.
    ///
    /// # Cancel safety
    /// What was not said is said at the next call.
    pub(crate) async fn show(&mut self) {
        if self.silent {
            return std::future::pending().await;
        }
        sleep_until(self.next).await;
        let seen = look(self.client, self.key, self.who.as_deref()).await;
        self.next = Instant::now() + if self.terminal { ON_TERMINAL } else { IN_LOG }.again;
        let text = match seen {
            Some(seen) => format!("waiting for `{}`: {}", self.key, seen.words()),
            None => format!("waiting for `{}`", self.key),
        };
        if !self.terminal {
            return out::say(&text);
        }
        // A waiter in the background must not draw over what somebody types.
        if tcgetpgrp(io::stderr().as_fd()).is_ok_and(|group| group == getpgrp()) {
            let width = tcgetwinsize(io::stderr().as_fd()).map_or(0, |size| usize::from(size.ws_col));
            // Some terminals do not know how wide they are.
            let width = if width == 0 { 80 } else { width.max(20) };
            let line: String = format!("tenure: {text}; Ctrl-C to give up").chars().take(width - 1).collect();
            out::write_err(&format!("\r\x1b[K{line}"));
            self.drawn = true;
        }
    }

    /// Wipes the line off the terminal.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            out::write_err("\r\x1b[K");
        }
    }
}

/// What a line looks like from our place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    holders: usize,
    first: Option<(String, Duration)>,
    place: Option<usize>,
    waiters: usize,
}

/// Looks at a line. `None` if the engine does not say.
pub(crate) async fn look(client: &Client, key: &Key, who: Option<&str>) -> Option<Seen> {
    let line = client.line(&Filter::Key(key.clone())).await.ok()?;
    Some(see(&line, who))
}

fn see(line: &[Place], who: Option<&str>) -> Seen {
    let holders: Vec<&Place> = line.iter().filter(|place| place.standing == Standing::Holds).collect();
    let waiters: Vec<&Place> = line.iter().filter(|place| place.standing == Standing::Waits).collect();
    let place = who.and_then(|who| waiters.iter().position(|place| place.note.who() == who));
    Seen {
        holders: holders.len(),
        first: holders.first().map(|place| (place.note.to_string(), place.age)),
        place: place.map(|nth| nth + 1),
        waiters: waiters.len(),
    }
}

impl Seen {
    /// Who holds it, for how long, and our place.
    pub(crate) fn words(&self) -> String {
        let Some((who, age)) = &self.first else { return "about to be free".to_owned() };
        let mut text = format!("held by {who} for {}", words::span(*age));
        if self.holders > 1 {
            text.push_str(&format!(" and {} more", self.holders - 1));
        }
        match (self.place, self.waiters) {
            (Some(place), _) => text.push_str(&format!("; you are #{place} in the line")),
            (None, 1..) => text.push_str(&format!("; {} waiting", self.waiters)),
            (None, 0) => {}
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use tenure::{ClaimId, Mode, Note, Seq};

    use super::*;

    fn place(who: &str, standing: Standing) -> Place {
        Place {
            key: Key::new("k").unwrap(),
            id: ClaimId::fresh(),
            seq: Seq::ZERO,
            mode: Mode::Exclusive,
            standing,
            note: Note::new(who, "x"),
            age: Duration::from_secs(133),
            lease_left: None,
        }
    }

    #[test]
    fn holder_age_and_place_are_said() {
        let line = [
            place("ana@web-3:812", Standing::Holds),
            place("bo@web-1:7", Standing::Waits),
            place("me@web-2:9", Standing::Waits),
        ];
        assert_eq!(
            see(&line, Some("me@web-2:9")).words(),
            "held by ana@web-3:812 (x) for 2m13s; you are #2 in the line"
        );
        assert_eq!(see(&line, None).words(), "held by ana@web-3:812 (x) for 2m13s; 2 waiting");
        assert_eq!(see(&line[1..], None).words(), "about to be free");
    }
}
