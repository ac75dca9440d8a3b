//! What a server says, read strictly: whatever else it says ends the connection.

/// The longest line of an answer.
const LONGEST_LINE: usize = 4096;
/// The longest value: no line of ours is as long.
const LONGEST_VALUE: usize = 1024 * 1024;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It was done; the number of what was stored.
    Done(u64),
    /// What is there.
    Found(Item),
    /// There is no such item.
    Missing,
    /// The item is there already, or is not there to be changed.
    NotStored,
    /// The item is not the version that was named.
    Changed,
    /// The server refuses, in its own words.
    Refused(String),
}

/// An item as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) value: Vec<u8>,
    pub(crate) cas: u64,
    /// How many seconds it has left, none if it lasts.
    pub(crate) seconds: Option<u64>,
}

/// An answer that no server of ours gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// Takes the first reply off the front of `bytes`, and says how long it was; nothing if it is not whole yet.
pub(crate) fn take_reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Nonsense> {
    let Some((line, used)) = take_line(bytes)? else { return Ok(None) };
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let reply = match words.next().ok_or(Nonsense)? {
        "HD" => Reply::Done(flags(words)?.cas),
        "VA" => {
            let length: usize = words.next().and_then(|word| word.parse().ok()).ok_or(Nonsense)?;
            if length > LONGEST_VALUE {
                return Err(Nonsense);
            }
            let end = used + length;
            if bytes.len() < end + 2 {
                return Ok(None);
            }
            if &bytes[end..end + 2] != b"\r\n" {
                return Err(Nonsense);
            }
            let item = Item { value: bytes[used..end].to_vec(), ..flags(words)? };
            return Ok(Some((Reply::Found(item), end + 2)));
        }
        "EN" | "NF" => Reply::Missing,
        "NS" => Reply::NotStored,
        "EX" => Reply::Changed,
        "ERROR" | "CLIENT_ERROR" | "SERVER_ERROR" => Reply::Refused(line.to_owned()),
        _ => return Err(Nonsense),
    };
    Ok(Some((reply, used)))
}

/// Takes the first line, without its end, and says how long it was with it.
pub(crate) fn take_line(bytes: &[u8]) -> Result<Option<(&str, usize)>, Nonsense> {
    let Some(end) = bytes.iter().take(LONGEST_LINE).position(|&byte| byte == b'\n') else {
        return if bytes.len() < LONGEST_LINE { Ok(None) } else { Err(Nonsense) };
    };
    let line = bytes[..end].strip_suffix(b"\r").ok_or(Nonsense)?;
    Ok(Some((std::str::from_utf8(line).map_err(|_| Nonsense)?, end + 1)))
}

fn flags<'a>(words: impl Iterator<Item = &'a str>) -> Result<Item, Nonsense> {
    let mut item = Item::default();
    for word in words {
        let (flag, value) = word.split_at_checked(1).ok_or(Nonsense)?;
        match flag {
            "c" => item.cas = value.parse().map_err(|_| Nonsense)?,
            "t" if value == "-1" => item.seconds = None,
            "t" => item.seconds = Some(value.parse().map_err(|_| Nonsense)?),
            _ => {}
        }
    }
    Ok(item)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_answer_is_read() {
        let item = |value: &[u8], cas, seconds| Reply::Found(Item { value: value.to_vec(), cas, seconds });
        for (text, reply) in [
            ("HD c7\r\n", Reply::Done(7)),
            ("HD\r\n", Reply::Done(0)),
            ("VA 4 c9 t-1\r\na\r\nb\r\n", item(b"a\r\nb", 9, None)),
            ("VA 0 t5\r\n\r\n", item(b"", 0, Some(5))),
            ("EN\r\n", Reply::Missing),
            ("NF c0\r\n", Reply::Missing),
            ("NS c0\r\n", Reply::NotStored),
            ("EX c0\r\n", Reply::Changed),
            ("SERVER_ERROR out of memory\r\n", Reply::Refused("SERVER_ERROR out of memory".into())),
            ("ERROR\r\n", Reply::Refused("ERROR".into())),
        ] {
            assert_eq!(take_reply(text.as_bytes()), Ok(Some((reply, text.len()))), "{text}");
            for cut in 0..text.len() {
                assert_eq!(take_reply(&text.as_bytes()[..cut]), Ok(None), "{text} cut at {cut}");
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "\r\n",
            "HD\n",
            "HD cx\r\n",
            "VA\r\n",
            "VA -1\r\n",
            "VA 9999999\r\n",
            "VA 1\r\nabc",
            "HTTP/1.1 200\r\n",
        ] {
            assert_eq!(take_reply(text.as_bytes()), Err(Nonsense), "{text:?}");
        }
        assert_eq!(take_reply(&[b'a'; LONGEST_LINE]), Err(Nonsense));
        assert_eq!(take_reply(b"\xff\xff\r\n"), Err(Nonsense));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "(HD|VA|EN)[ a-z0-9\r\n-]{0,40}") {
            let _ = take_reply(&bytes);
            let _ = take_reply(text.as_bytes());
        }
    }
}
