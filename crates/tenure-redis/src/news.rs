//! What the server pushes: whose turn it is, and whose place an operator took.

use std::ops::Deref;

use tenure_core::{ClaimId, Incarnation, Seat};

/// Who listens in this process, and what it hears.
#[derive(Debug, Default)]
pub(crate) struct News(tenure_core::News);

impl News {
    /// Takes in a message of this client's channel. One that cannot be read is as good as none.
    pub(crate) fn hear(&self, message: &[u8]) {
        match parse(message) {
            Some((b'H', id, seat)) => self.hear_holds(id, seat),
            Some((b'L', id, seat)) => self.hear_lost(id, seat.seq),
            _ => {}
        }
    }
}

impl Deref for News {
    type Target = tenure_core::News;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// `kind id seq incarnation`, as `tell` in line.lua packs it.
fn parse(message: &[u8]) -> Option<(u8, ClaimId, Seat)> {
    let (&kind, rest) = message.split_first()?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (seq, incarnation) = rest.split_first_chunk::<8>()?;
    let seat = Seat {
        seq: crate::words::seq(f64::from_be_bytes(*seq))?,
        incarnation: Incarnation(u64::from_be_bytes(incarnation.try_into().ok()?)),
    };
    Some((kind, ClaimId::from_bytes(*id), seat))
}

#[cfg(test)]
mod tests {
    use tenure_core::{Seq, Turn};

    use super::*;

    fn message(kind: u8, id: ClaimId, seq: u64) -> Vec<u8> {
        [&[kind][..], &id.to_bytes(), &(seq as f64).to_be_bytes(), &7u64.to_be_bytes()].concat()
    }

    #[tokio::test]
    async fn both_kinds_of_message_are_heard() {
        let (news, id) = (News::default(), ClaimId::fresh());
        news.expect(id);
        let seat = Seat { seq: Seq::new(5).unwrap(), incarnation: Incarnation(7) };
        news.hear(&message(b'H', id, 5));
        assert_eq!(news.turn(id).await, Turn::Holds(seat));
        news.hear(&message(b'L', id, 9));
        assert_eq!(news.lost().await, [(id, Seq::new(9).unwrap())]);
    }

    #[test]
    fn nonsense_is_no_message() {
        let whole = message(b'H', ClaimId::fresh(), 1);
        let (short, long) = (&whole[..32], [&whole[..], b"x"].concat());
        let negative = [&whole[..17], &(-1f64).to_be_bytes(), &whole[25..]].concat();
        let broken = [&whole[..17], &1.5f64.to_be_bytes(), &whole[25..]].concat();
        for text in [&b""[..], b"H", b"Hshort", short, &long, &negative, &broken] {
            assert!(parse(text).is_none());
            News::default().hear(text);
        }
    }
}
