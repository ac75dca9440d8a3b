//! What the server pushes (`NOTIFY`): whose turn it is, and whose place an operator took.

use std::{
    ops::Deref,
    sync::atomic::{AtomicBool, Ordering},
};

use tenure_core::{ClaimId, Incarnation, Seat, Seq};

use crate::text;

/// What a client tells itself to find out whether it can be told anything.
pub(crate) const TEST: &str = "T";

/// Who listens in this process, and what it hears.
#[derive(Debug, Default)]
pub(crate) struct News {
    told: tenure_core::News,
    tested: AtomicBool,
}

impl News {
    /// Takes in a message of this client's channel. One that cannot be read is as good as none.
    pub(crate) fn hear(&self, message: &str) {
        if message == TEST {
            self.tested.store(true, Ordering::Release);
        }
        match parse(message) {
            Some((b'H', id, seat)) => self.hear_holds(id, seat),
            Some((b'L', id, seat)) => self.hear_lost(id, seat.seq),
            _ => {}
        }
    }

    /// Whether the test was heard.
    pub(crate) fn heard_test(&self) -> bool {
        self.tested.load(Ordering::Acquire)
    }
}

impl Deref for News {
    type Target = tenure_core::News;

    fn deref(&self) -> &Self::Target {
        &self.told
    }
}

/// `kind id seq life`, as settle.sql and evict.sql write it.
fn parse(message: &str) -> Option<(u8, ClaimId, Seat)> {
    let mut words = message.split(' ');
    let kind = words.next()?.bytes().next()?;
    let id = text::id(words.next()?)?;
    let seq = Seq::new(words.next()?.parse().ok()?)?;
    let life = words.next()?.parse().ok()?;
    Some((kind, id, Seat { seq, incarnation: Incarnation(life) }))
}

#[cfg(test)]
mod tests {
    use tenure_core::Turn;

    use super::*;

    fn message(kind: char, id: ClaimId, seq: u64) -> String {
        format!("{kind} {id} {seq} 7")
    }

    #[tokio::test]
    async fn every_kind_of_message_is_heard() {
        let (news, id) = (News::default(), ClaimId::fresh());
        news.expect(id);
        let seat = Seat { seq: Seq::new(5).unwrap(), incarnation: Incarnation(7) };
        news.hear(&message('H', id, 5));
        assert_eq!(news.turn(id).await, Turn::Holds(seat));
        news.hear(&message('L', id, 9));
        assert_eq!(news.lost().await, [(id, Seq::new(9).unwrap())]);
        assert!(!news.heard_test());
        news.hear(TEST);
        assert!(news.heard_test());
    }

    #[test]
    fn nonsense_is_no_message() {
        for text in [
            "",
            "H",
            "H x 1 7",
            "H 00000000000000000000000000000001 x 7",
            "H 00000000000000000000000000000001 1",
        ] {
            assert!(parse(text).is_none());
            News::default().hear(text);
        }
    }
}
