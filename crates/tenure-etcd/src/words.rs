//! What stands in a place, as text that people can read too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_core::{Claim, ClaimId, Mode, Note, Permits};

/// What is written at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// Whose it is.
    pub(crate) id: ClaimId,
    pub(crate) mode: Mode,
    /// What the claim asked for.
    pub(crate) ttl: Duration,
    /// When it was taken, by the clock of whoever took it: for people.
    pub(crate) taken: u64,
    /// Whether an operator has asked its owner to go.
    pub(crate) stopped: bool,
    pub(crate) note: Note,
}

impl Words {
    pub(crate) fn new(claim: &Claim) -> Self {
        let (mode, ttl, note) = (claim.mode, claim.ttl.get(), claim.note.clone());
        Self { id: claim.id, mode, ttl, taken: wall_micros(), stopped: false, note }
    }

    /// `1 <claim id> <mode> <ttl in µs> <taken in µs> <stands or goes>`, then who and the label on lines of their own.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mode = match self.mode {
            Mode::Exclusive => "exclusive".to_owned(),
            Mode::Shared => "shared".to_owned(),
            Mode::Permits(permits) => format!("{}/{}", permits.take(), permits.of()),
        };
        let standing = if self.stopped { "goes" } else { "stands" };
        let (id, ttl, taken) = (self.id, self.ttl.as_micros(), self.taken);
        let (who, label) = (self.note.who(), self.note.label());
        format!("1 {id} {mode} {ttl} {taken} {standing}\n{who}\n{label}").into_bytes()
    }

    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(text).ok()?.splitn(3, '\n');
        let words: Vec<&str> = lines.next()?.split(' ').collect();
        let ["1", id, mode, ttl, taken, standing] = words[..] else { return None };
        let mode = match mode {
            "exclusive" => Mode::Exclusive,
            "shared" => Mode::Shared,
            permits => {
                let (take, of) = permits.split_once('/')?;
                Mode::Permits(Permits::new(take.parse().ok()?, of.parse().ok()?).ok()?)
            }
        };
        let stopped = match standing {
            "stands" => false,
            "goes" => true,
            _ => return None,
        };
        Some(Self {
            id: id.parse().ok()?,
            mode,
            ttl: Duration::from_micros(ttl.parse().ok()?),
            taken: taken.parse().ok()?,
            stopped,
            note: Note::new(lines.next()?, lines.next()?),
        })
    }

    /// How long ago the place was taken, as far as two clocks agree.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_micros(wall_micros().saturating_sub(self.taken))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "shown to people and never decided on; the store has no clock to ask"
)]
fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits(Permits::new(2, 5).unwrap())] {
            for (note, stopped) in [(Note::new("a b@h:1", ""), false), (Note::new("", "x y\u{2028}"), true)] {
                let id = ClaimId::fresh();
                let words =
                    Words { id, mode, ttl: Duration::from_micros(1_500_001), taken: 7, stopped, note };
                assert_eq!(Words::read(&words.write()).as_ref(), Some(&words));
            }
        }
    }

    #[test]
    fn what_others_wrote_is_not_ours() {
        let id = "ab".repeat(16);
        assert!(Words::read(format!("1 {id} shared 1 1 stands\n\n").as_bytes()).is_some());
        for text in [
            String::new(),
            "1".to_owned(),
            format!("1 {id} exclusive 1 1 stands"),
            format!("2 {id} exclusive 1 1 stands\n\n"),
            "1 exclusive 1 1 stands\n\n".to_owned(),
            "1 x exclusive 1 1 stands\n\n".to_owned(),
            format!("1 {id} x 1 1 stands\n\n"),
            format!("1 {id} 0/3 1 1 stands\n\n"),
            format!("1 {id} shared 1 1 sits\n\n"),
        ] {
            assert_eq!(Words::read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Words::read(&[0xff]), None);
    }
}
