//! Where a value of the protocol (RESP3) ends, and the values that locks are answered with. Others are rare, and for
//! the driver to read.

use redis::{RedisError, RedisResult, Value};

/// The longest line: of a number, or of the words of an error.
const LONGEST_LINE: usize = 64 * 1024;
/// How deep lists may lie in each other; no answer of ours is as deep.
const DEEPEST: usize = 16;

/// Takes the first value off the front of `bytes`, and says how long it was; nothing if it is not whole yet.
pub(crate) fn take_value(bytes: &[u8]) -> RedisResult<Option<(Value, usize)>> {
    let Some(end) = end_of(bytes, 0, 0)? else { return Ok(None) };
    let (whole, line_end) = (&bytes[..end], line(bytes, 0)?.map_or(end, |(_, next)| next));
    let value = match whole[0] {
        b':' => Value::Int(number(&whole[1..end - 2])?),
        b'$' if line_end < end => Value::BulkString(whole[line_end..end - 2].to_vec()),
        _ => redis::parse_redis_value(whole)?,
    };
    Ok(Some((value, end)))
}

/// Where the value that starts at `from` ends.
fn end_of(bytes: &[u8], from: usize, depth: usize) -> RedisResult<Option<usize>> {
    let Some((head, next)) = line(bytes, from)? else { return Ok(None) };
    let (&kind, words) = head.split_first().ok_or_else(nonsense)?;
    let values = match kind {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => return Ok(Some(next)),
        b'$' | b'!' | b'=' => {
            let Ok(length) = usize::try_from(number(words)?) else { return Ok(Some(next)) };
            let end = length.checked_add(next + 2).ok_or_else(nonsense)?;
            return match bytes.get(end - 2..end) {
                Some(b"\r\n") => Ok(Some(end)),
                Some(_) => Err(nonsense()),
                None => Ok(None),
            };
        }
        b'*' | b'~' | b'>' => number(words)?,
        // Attributes stand before the value that they are about.
        b'|' => number(words)?.saturating_mul(2).saturating_add(1),
        b'%' => number(words)?.saturating_mul(2),
        _ => return Err(nonsense()),
    };
    if depth >= DEEPEST {
        return Err(nonsense());
    }
    let mut end = next;
    for _ in 0..values {
        match end_of(bytes, end, depth + 1)? {
            Some(next) => end = next,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

/// The line that starts at `from`, without its end, and where the next one starts.
fn line(bytes: &[u8], from: usize) -> RedisResult<Option<(&[u8], usize)>> {
    let rest = &bytes[from..];
    match rest.iter().take(LONGEST_LINE).position(|&byte| byte == b'\n') {
        Some(end) => Ok(Some((rest[..end].strip_suffix(b"\r").ok_or_else(nonsense)?, from + end + 1))),
        None if rest.len() < LONGEST_LINE => Ok(None),
        None => Err(nonsense()),
    }
}

fn number(digits: &[u8]) -> RedisResult<i64> {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(nonsense)
}

/// What no server of ours says: the connection ends with it.
fn nonsense() -> RedisError {
    std::io::Error::new(std::io::ErrorKind::InvalidData, "this is not the protocol of Redis").into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUES: [&str; 18] = [
        "+OK\r\n",
        "-ERR no\r\n",
        ":-17\r\n",
        "$5\r\na\r\nbc\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(12345678901234567890\r\n",
        "!5\r\nERR x\r\n",
        "=7\r\ntxt:abc\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*3\r\n:1\r\n*1\r\n$1\r\nx\r\n+y\r\n",
        "%1\r\n+a\r\n:1\r\n",
        "~2\r\n:1\r\n:2\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n\r\n\r\n",
    ];

    #[test]
    fn every_value_is_read_as_the_driver_reads_it() {
        for text in VALUES {
            let more = format!("{text}+next\r\n");
            let (value, length) = take_value(more.as_bytes()).unwrap().unwrap();
            assert_eq!(length, text.len(), "{text:?}");
            assert_eq!(value, redis::parse_redis_value(text.as_bytes()).unwrap(), "{text:?}");
            for cut in 0..text.len() {
                assert!(take_value(&text.as_bytes()[..cut]).unwrap().is_none(), "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "HTTP/1.1 400\r\n",
            "\r\n",
            ":x\r\n",
            "$x\r\n",
            "$1\r\nabc",
            "+OK\n",
            "*1\r\nx\r\n",
            "\u{15}\u{3}\n",
        ] {
            assert!(take_value(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(take_value("*1\r\n".repeat(100).as_bytes()).is_err());
        assert!(take_value(&[b'+'; LONGEST_LINE]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            text in "[*$:+>%|~-][ a-z0-9\r\n*$:-]{0,60}",
        ) {
            let _ = take_value(&bytes);
            let _ = take_value(text.as_bytes());
        }
    }
}
