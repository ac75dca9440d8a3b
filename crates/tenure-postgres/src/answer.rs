//! What the functions of the database answer, as what the library asks for.

use std::time::Duration;

use tenure_core::{Error, ErrorKind, Incarnation, Mode, Op, Permits, Seat, Seq};

/// A mode as the tables have it: which, how many permits, of how many.
pub(crate) fn mode_numbers(mode: Mode) -> (i16, i64, i64) {
    match mode {
        Mode::Exclusive => (0, 0, 0),
        Mode::Shared => (1, 0, 0),
        Mode::Permits(permits) => (2, permits.take().into(), permits.of().into()),
    }
}

pub(crate) fn mode_of(number: i64, take: i64, of: i64) -> Option<Mode> {
    match number {
        0 => Some(Mode::Exclusive),
        1 => Some(Mode::Shared),
        2 => Permits::new(u32::try_from(take).ok()?, u32::try_from(of).ok()?).ok().map(Mode::Permits),
        _ => None,
    }
}

pub(crate) fn seat(seq: i64, life: i64) -> Option<Seat> {
    let seq = Seq::new(u64::try_from(seq).ok()?)?;
    Some(Seat { seq, incarnation: Incarnation(u64::try_from(life).ok()?) })
}

pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// A place's number, which is below 2^53.
pub(crate) fn number(seq: Seq) -> i64 {
    i64::try_from(seq.get()).unwrap_or(i64::MAX)
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(crate) fn nonsense(op: Op) -> Error {
    Error::new(ErrorKind::Broken, op, "the server's answer is not one of tenure's functions")
}
