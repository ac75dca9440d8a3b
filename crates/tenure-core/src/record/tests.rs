use proptest::prelude::*;

use super::*;
use crate::Seq;

fn stamp(fence: u64, id: u8, mode: Mode) -> Stamp {
    Stamp::new(Fence::new(Seq::new(fence).unwrap(), 0), ClaimId::from_bytes([id; 16]), mode).unwrap()
}

fn writer(fence: u64) -> Stamp {
    stamp(fence, u8::try_from(fence).unwrap(), Mode::Exclusive)
}

fn reader(fence: u64) -> Stamp {
    stamp(fence, u8::try_from(fence).unwrap(), Mode::Shared)
}

/// Why a record says no.
fn why<T: fmt::Debug>(answer: Result<T, Refusal>) -> Why {
    answer.unwrap_err().why()
}

const fn by(fence: u64) -> Why {
    Why::Overtaken { by: Fence::new(Seq::new(fence).unwrap(), 0) }
}

#[test]
fn a_later_writer_shuts_out_the_earlier_one_and_starts_to_count_anew() {
    let record = Record::default().claim(&writer(5)).unwrap().write(&writer(5), 1).unwrap().unwrap();
    let record = record.claim(&writer(6)).unwrap();
    assert_eq!((record.writer(), record.mark(), record.n()), (writer(6).fence(), writer(6).fence(), 0));
    assert_eq!(why(record.claim(&writer(5))), by(6));
    assert_eq!(why(record.read(&writer(5))), by(6));
    assert_eq!(why(record.write(&writer(5), 2)), by(6));
    assert!(record.write(&writer(6), 1).unwrap().is_some());
}

#[test]
fn the_same_claim_again_keeps_the_count() {
    let record = Record::default().claim(&writer(5)).unwrap().write(&writer(5), 1).unwrap().unwrap();
    assert_eq!(record.claim(&writer(5)), Ok(record));
}

#[test]
fn another_claim_with_the_same_fence_is_a_rival_in_every_mode() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let rival = stamp(5, 99, mode);
        let record = Record::default().claim(&writer(5)).unwrap();
        assert_eq!(why(record.claim(&rival)), Why::Rival, "{mode}");
        assert_eq!(why(record.read(&rival)), Why::Rival, "{mode}");
    }
    let record = Record::default().claim(&writer(5)).unwrap();
    assert_eq!(why(record.write(&stamp(5, 99, Mode::Exclusive), 1)), Why::Rival);
    let read = Record::default().claim(&reader(5)).unwrap();
    assert_eq!(
        why(read.claim(&stamp(5, 99, Mode::Exclusive))),
        Why::Rival,
        "a reader was there under this fence"
    );
}

#[test]
fn a_forgotten_claim_is_refused_at_the_first_read_and_write() {
    let record = Record::default().claim(&writer(5)).unwrap();
    for record in [record, Record::default()] {
        assert_eq!(why(record.write(&writer(6), 1)), Why::NotClaimed);
        assert_eq!(why(record.read(&writer(6))), Why::NotClaimed);
        assert_eq!(why(record.read(&reader(6))), Why::NotClaimed);
    }
}

#[test]
fn a_write_is_the_next_one_or_the_last_one_again() {
    let mut record = Record::default().claim(&writer(5)).unwrap();
    assert_eq!(why(record.write(&writer(5), 0)), Why::OutOfStep { n: 0 });
    for n in 1..=3 {
        assert_eq!(why(record.write(&writer(5), n + 1)), Why::OutOfStep { n: n + 1 });
        record = record.write(&writer(5), n).unwrap().unwrap();
        assert_eq!(record.write(&writer(5), n), Ok(None), "the reply was lost");
    }
    assert_eq!(why(record.write(&writer(5), 1)), Why::OutOfStep { n: 1 }, "a delayed copy");
}

#[test]
fn the_numbers_of_writes_end_before_they_blur() {
    let fence = writer(5).fence();
    let last = Record::from_parts(fence, writer(5).claim_id(), Record::MAX_N, fence).unwrap();
    assert_eq!(last.write(&writer(5), Record::MAX_N), Ok(None));
    assert_eq!(why(last.write(&writer(5), Record::MAX_N + 1)), Why::OutOfStep { n: Record::MAX_N + 1 });
}

#[test]
fn readers_shut_out_earlier_writers_and_not_each_other() {
    let record = Record::default().claim(&writer(5)).unwrap();
    let record = record.claim(&reader(7)).unwrap().claim(&reader(6)).unwrap();
    assert_eq!(record.mark(), reader(7).fence());
    for fence in [6, 7] {
        assert_eq!(record.read(&reader(fence)), Ok(()));
    }
    assert_eq!(why(record.write(&writer(5), 1)), by(7));
    assert_eq!(why(record.claim(&writer(5))), by(7), "nor by claiming again");
    assert_eq!(why(record.claim(&stamp(6, 60, Mode::Exclusive))), by(7), "a writer is above all marks");
    let record = record.claim(&writer(8)).unwrap();
    for fence in [6, 7] {
        assert_eq!(why(record.read(&reader(fence))), by(8));
        assert_eq!(why(record.claim(&reader(fence))), by(8));
    }
}

#[test]
fn a_writer_that_became_a_reader_reads_on_and_does_not_write() {
    let down = reader(5);
    let record = Record::default().claim(&writer(5)).unwrap().write(&writer(5), 1).unwrap().unwrap();
    assert_eq!(record.claim(&down), Ok(record));
    let record = record.claim(&reader(6)).unwrap();
    assert_eq!((record.read(&down), record.claim(&down)), (Ok(()), Ok(record)));
    assert_eq!(why(record.write(&down, 2)), Why::ReadOnly);
    assert_eq!(why(record.write(&writer(5), 2)), by(6), "a write from before comes too late");
    let record = record.claim(&writer(7)).unwrap();
    assert_eq!(why(record.read(&down)), by(7));
}

#[test]
fn a_refusal_says_who_is_ahead_in_one_line() {
    let record = Record::default().claim(&writer(9)).unwrap();
    let err = record.write(&writer(5), 1).unwrap_err().into_error(Op::Write);
    assert_eq!(
        err.to_string(),
        "write: refused: a later holder was here; stop, the lock is somebody else's (fence 5120 at a record with 9216)"
    );
    assert_eq!((err.kind(), err.may_have_applied(), err.is_retryable()), (ErrorKind::Refused, false, false));
    assert_eq!(Refusal::of(&err).unwrap().why(), by(9));
    let err = record.write(&reader(9), 1).unwrap_err().into_error(Op::Write);
    assert_eq!(err.kind(), ErrorKind::Invalid);
}

#[test]
fn what_no_rule_leads_to_is_no_record() {
    let (low, high, id) = (writer(5).fence(), writer(6).fence(), writer(5).claim_id());
    assert!(Record::from_parts(high, id, 0, low).is_err());
    assert!(Record::from_parts(low, id, Record::MAX_N + 1, low).is_err());
    assert!(Record::from_parts(ZERO, id, 0, low).is_err());
    assert!(Record::from_parts(ZERO, ClaimId::from_bytes([0; 16]), 1, low).is_err());
    for text in ["", "1 2 3 4", "x", "0000000000000005120 00 0 0000000000000005120"] {
        assert_eq!(text.parse::<Record>().unwrap_err().kind(), ErrorKind::Broken, "{text}");
    }
}

/// A holder that claims, reads, and writes one more than it read, under leases that end whenever they like: all may
/// believe at once, and do their steps in any order, except that each is granted after the one before it.
#[derive(Clone, Copy)]
struct Holder {
    stamp: Stamp,
    step: u8,
    seen: u32,
}

/// Every order of steps of these holders; true if in some of them an acknowledged update is not in the count.
fn loses(claims: bool, checks_equality: bool) -> bool {
    let holders = [writer(1), writer(2), writer(3)].map(|stamp| Holder { stamp, step: 0, seen: 0 });
    explore(Record::default(), holders, 0, 0, claims, checks_equality)
}

fn explore(
    record: Record,
    holders: [Holder; 3],
    count: u32,
    acked: u32,
    claims: bool,
    checks_equality: bool,
) -> bool {
    if acked > count {
        return true;
    }
    (0..holders.len()).any(|i| {
        // A grant follows the one before it; nothing else is in order.
        if holders[i].step == 0 && i > 0 && holders[i - 1].step == 0 {
            return false;
        }
        let (mut record, mut holders, mut count, mut acked) = (record, holders, count, acked);
        let holder = &mut holders[i];
        match holder.step {
            0 => {}
            1 if claims => match record.claim(&holder.stamp) {
                Ok(next) => record = next,
                Err(_) => holder.step = 9,
            },
            1 => {}
            2 => holder.seen = count,
            3 => {
                let fits = if checks_equality {
                    record.write(&holder.stamp, 1).map(|next| next.unwrap()).ok()
                } else {
                    // The check that most people write: not below what was seen.
                    (record.mark <= holder.stamp.fence())
                        .then(|| Record::default().claim(&holder.stamp).unwrap())
                };
                if let Some(next) = fits {
                    (record, count, acked) = (next, holder.seen + 1, acked + 1);
                }
            }
            _ => return false,
        }
        holder.step += 1;
        explore(record, holders, count, acked, claims, checks_equality)
    })
}

#[test]
fn no_order_of_steps_loses_an_update_when_all_claim_first() {
    assert!(!loses(true, true));
    assert!(loses(false, false), "write-only fencing loses updates, else this test proves nothing");
    assert!(!loses(false, true), "a forgotten claim is refused, so nothing is acknowledged");
}

/// Any stamp of a small world.
fn stamps() -> impl Strategy<Value = Stamp> {
    (1..6u64, 0..2u8, any::<bool>())
        .prop_map(|(fence, id, shared)| stamp(fence, id, if shared { Mode::Shared } else { Mode::Exclusive }))
}

proptest! {
    #[test]
    fn marks_never_fall_and_texts_lead_back(steps in prop::collection::vec((stamps(), 0..4u64), 0..40)) {
        let mut record = Record::default();
        for (stamp, n) in steps {
            let next = if n == 0 { record.claim(&stamp).ok() } else { record.write(&stamp, n).ok().flatten() };
            if let Some(next) = next {
                prop_assert!(next.mark >= record.mark && next.writer >= record.writer && next.writer <= next.mark);
                if n > 0 {
                    prop_assert_eq!((next.mark, next.writer, next.n), (stamp.fence(), stamp.fence(), record.n + 1));
                }
                prop_assert!(n > 0 || next.read(&stamp).is_ok(), "who has claimed may read");
                record = next;
            }
            prop_assert_eq!(record.to_string().parse::<Record>().unwrap(), record);
        }
    }

    #[test]
    fn texts_of_fences_compare_like_fences(a: u64, b: u64) {
        let record = |n: u64| {
            let fence = Fence::from_u64((n >> 1).max(1 << 10)).unwrap();
            Record::from_parts(fence, ClaimId::from_bytes([1; 16]), 0, fence).unwrap()
        };
        let (a, b) = (record(a), record(b));
        prop_assert_eq!(a.to_string()[..19].cmp(&b.to_string()[..19]), a.writer.cmp(&b.writer));
    }
}
