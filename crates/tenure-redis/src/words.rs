//! How claims are said to the scripts, and what their answers mean.

use std::time::Duration;

use redis::Value;
use tenure_core::{
    Claim, ClaimId, Error, ErrorKind, Held, Key, Mode, Note, Op, Permits, Place, Renewal, Result, Seq,
    Standing, Ttl,
};

/// Whether an attempt with this answer has a place.
pub(crate) fn takes_place(answer: &Value) -> bool {
    match answer {
        Value::Array(fields) => matches!(fields[..], [Value::Int(0), Value::Int(0..), ..]),
        _ => granted(answer).is_some(),
    }
}

/// The number of a place that holds, and for how long nothing was forgotten: two whole numbers, packed as doubles,
/// since a list takes the server longer to write and us longer to read.
pub(crate) fn granted(answer: &Value) -> Option<[i64; 2]> {
    let Value::BulkString(packed) = answer else { return None };
    let (first, rest) = packed.split_first_chunk::<8>()?;
    let second = <[u8; 8]>::try_from(rest).ok()?;
    Some([*first, second].map(|bytes| f64::from_be_bytes(bytes) as i64))
}

/// A number of a place, which the scripts pack as a double.
pub(crate) fn seq(number: f64) -> Option<Seq> {
    let whole = number >= 1.0 && number.fract() == 0.0 && number <= Seq::MAX.get() as f64;
    whole.then(|| Seq::new(number as u64)).flatten()
}

/// What a place has besides its id, as one.lua says. The name of the channel has less than 256 bytes.
pub(crate) fn place_words(claim: &Claim, channel: &str) -> Vec<u8> {
    let (mode, take, of) = mode_words(claim.mode);
    let (who, label) = (claim.note.who(), claim.note.label());
    let mut words = Vec::with_capacity(19 + channel.len() + who.len() + label.len());
    words.push(mode);
    words.extend_from_slice(&(micros(claim.ttl.get()) as f64).to_be_bytes());
    words.extend_from_slice(&take.to_be_bytes());
    words.extend_from_slice(&of.to_be_bytes());
    words.push(channel.len() as u8);
    words.extend_from_slice(channel.as_bytes());
    words.extend_from_slice(who.as_bytes());
    words.push(b'\n');
    words.extend_from_slice(label.as_bytes());
    words
}

/// The fields of an answer as numbers; a mode is the number of its letter.
pub(crate) fn numbers(op: Op, answer: Value) -> Result<Vec<i64>> {
    let Value::Array(fields) = answer else { return Err(nonsense(op)) };
    let number = |field| match field {
        Value::Int(number) => Ok(number),
        Value::BulkString(letter) => Ok(letter.first().map_or(0, |&letter| letter.into())),
        _ => Err(nonsense(op)),
    };
    fields.into_iter().map(number).collect()
}

/// One place of what `show.lua` answers.
pub(crate) fn place(key: &Key, fields: &[Value]) -> Option<Place> {
    let number = |at: usize| match fields.get(at) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    };
    let text = |at: usize| match fields.get(at) {
        Some(Value::BulkString(text)) => Some(text.as_slice()),
        _ => None,
    };
    let mode = text(2)?.first().copied()?;
    let note = String::from_utf8_lossy(text(7)?);
    let (who, label) = note.split_once('\n').unwrap_or((&note, ""));
    Some(Place {
        key: key.clone(),
        id: ClaimId::from_bytes(text(0)?.try_into().ok()?),
        seq: Seq::new(u64::try_from(number(1)?).ok()?)?,
        mode: mode_of(mode.into(), number(3)?, number(4)?)?,
        standing: Standing::Waits,
        note: Note::new(who, label),
        age: duration(number(6)?),
        lease_left: Some(duration(number(5)?)),
    })
}

fn mode_words(mode: Mode) -> (u8, u32, u32) {
    match mode {
        Mode::Exclusive => (b'x', 0, 0),
        Mode::Shared => (b's', 0, 0),
        Mode::Permits(permits) => (b'p', permits.take(), permits.of()),
    }
}

pub(crate) fn mode_of(letter: i64, take: i64, of: i64) -> Option<Mode> {
    match u8::try_from(letter).ok()? {
        b'x' => Some(Mode::Exclusive),
        b's' => Some(Mode::Shared),
        b'p' => Permits::new(u32::try_from(take).ok()?, u32::try_from(of).ok()?).ok().map(Mode::Permits),
        _ => None,
    }
}

pub(crate) fn renewal(answer: i64, hold: &Held<'_>) -> Renewal {
    if answer == 1 { Renewal::Renewed(Some(hold.claim.ttl.get())) } else { Renewal::Lost }
}

/// How long a line of one is kept, in milliseconds, rounded up: one lease more than its place lives.
pub(crate) fn kept_for(ttl: Ttl) -> u64 {
    micros(2 * ttl.get()).div_ceil(1000) + 1
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(crate) fn number(op: Op, seq: i64) -> Result<Seq> {
    u64::try_from(seq).ok().and_then(Seq::new).ok_or_else(|| nonsense(op))
}

pub(crate) fn absurd_floor(op: Op) -> Error {
    Error::invalid("the least number asked for is more than a day ahead of the server's clock").in_op(op)
}

pub(crate) fn nonsense(op: Op) -> Error {
    Error::new(ErrorKind::Broken, op, "the server's answer is not one of tenure's scripts")
}
