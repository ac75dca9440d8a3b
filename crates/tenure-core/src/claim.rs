use std::{fmt, sync::Arc};

use crate::{ClaimId, Error, Key, Result, Seq, Ttl};

/// One wish to hold a key. Everything an engine needs to know about it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What is wished for.
    pub key: Key,
    /// Which wish this is. A claim id has one life: once its release was sent it is never attempted again.
    pub id: ClaimId,
    /// Beside whom it can hold.
    pub mode: Mode,
    /// Whether it waits in the line.
    pub patience: Patience,
    /// How long its place lives without being renewed.
    pub ttl: Ttl,
    /// The place's number must not be below this. Zero except in a quorum.
    pub floor: Seq,
    /// Who wishes, for people.
    pub note: Note,
}

/// Beside whom a claim can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Beside nobody.
    Exclusive,
    /// Beside other shared claims.
    Shared,
    /// Beside permits of the same total while the sum fits.
    Permits(Permits),
}

/// Some of a fixed number of permits: `0 < take <= of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permits {
    take: u32,
    of: u32,
}

impl Permits {
    /// Asks for `take` of `of` permits.
    ///
    /// # Errors
    /// `Invalid` unless `0 < take <= of`: such a claim would never hold and block the line.
    pub fn new(take: u32, of: u32) -> Result<Self> {
        if 0 < take && take <= of {
            Ok(Self { take, of })
        } else {
            Err(Error::invalid(format!(
                "cannot take {take} of {of} permits; take at least 1 and at most all"
            )))
        }
    }

    /// How many this claim takes.
    #[must_use]
    pub const fn take(self) -> u32 {
        self.take
    }

    /// How many there are in all.
    #[must_use]
    pub const fn of(self) -> u32 {
        self.of
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::Permits(p) => write!(f, "{} of {} permits", p.take, p.of),
        }
    }
}

/// Whether a claim that cannot hold at once takes a place and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Holds at once or leaves nothing behind.
    Try,
    /// Takes a place at the end of the line.
    Queue,
}

/// Who stands at a place, for people: never used to decide anything.
///
/// Cloning is cheap. Both texts are cut at a character when they are too long, and lose control characters.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Note {
    who: Arc<str>,
    label: Arc<str>,
}

impl Note {
    /// The most bytes of `who`.
    pub const MAX_WHO: usize = 128;
    /// The most bytes of a label.
    pub const MAX_LABEL: usize = 256;

    /// Says who (`user@host:pid`) and for what.
    #[must_use]
    pub fn new(who: &str, label: &str) -> Self {
        Self { who: clean(who, Self::MAX_WHO), label: clean(label, Self::MAX_LABEL) }
    }

    /// The same place with another label.
    #[must_use]
    pub fn with_label(&self, label: &str) -> Self {
        Self { who: self.who.clone(), label: clean(label, Self::MAX_LABEL) }
    }

    /// Usually `user@host:pid`.
    #[must_use]
    pub fn who(&self) -> &str {
        &self.who
    }

    /// What the place is for, in the user's words; may be empty.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Note({self})")
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.who)?;
        if self.label.is_empty() { Ok(()) } else { write!(f, " ({})", self.label) }
    }
}

fn clean(text: &str, max_bytes: usize) -> Arc<str> {
    let end = text.floor_char_boundary(max_bytes);
    if text[..end].contains(char::is_control) {
        text[..end].chars().filter(|c| !c.is_control()).collect::<String>().into()
    } else {
        text[..end].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_that_could_never_hold_are_refused() {
        assert!(Permits::new(0, 3).is_err());
        assert!(Permits::new(4, 3).is_err());
        assert!(Permits::new(0, 0).is_err());
        assert!(Permits::new(3, 3).is_ok());
    }

    #[test]
    fn notes_are_bounded_and_cannot_move_a_cursor() {
        let note = Note::new(&"é".repeat(100), "deploy\u{1b}[2J\n v41");
        assert_eq!(note.who().len(), 128);
        assert_eq!(note.label(), "deploy[2J v41");
    }
}
