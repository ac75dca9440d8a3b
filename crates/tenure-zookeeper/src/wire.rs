//! The words of ZooKeeper's protocol: the few requests that a line needs, and what is said to them.
//!
//! Every message is a length and then fields one after the other; a text or a list is led by its length, too. Requests
//! of one connection are answered in their order.

mod bytes;

pub(crate) use bytes::{Reader, Writer};

/// No message is longer: ZooKeeper itself takes and gives no more than a megabyte unless it is told to.
pub(crate) const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The number of what the server says by itself: a watch has fired.
pub(crate) const EVENT: i32 = -1;
/// The number of a login and of the answer to it.
pub(crate) const AUTH: i32 = -4;

/// What an error of the server means; all others are shown by their number.
pub(crate) mod code {
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
    pub(crate) const BAD_VERSION: i32 = -103;
    pub(crate) const NODE_EXISTS: i32 = -110;
    pub(crate) const SESSION_EXPIRED: i32 = -112;
    pub(crate) const AUTH_FAILED: i32 = -115;
    pub(crate) const SESSION_MOVED: i32 = -118;
}

/// How a node lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until it is deleted.
    Persistent,
    /// As long as its session.
    Ephemeral,
    /// As long as its session, under a name that ends in the next number of its parent.
    EphemeralSequential,
    /// Until it has no children any more.
    Container,
}

/// Who may use a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Whoever reaches the server.
    Anyone,
    /// Who logged in like its creator.
    Creator,
}

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    Create {
        path: &'a str,
        data: &'a [u8],
        life: Life,
        access: Access,
    },
    Delete {
        path: &'a str,
    },
    /// What a node is, without its data.
    Exists {
        path: &'a str,
    },
    /// The data of a node. A watch stays only where there is a node, and fires when it changes or goes.
    Get {
        path: &'a str,
        watch: bool,
    },
    Set {
        path: &'a str,
        data: &'a [u8],
    },
    /// The same, if the node has this version.
    SetIf {
        path: &'a str,
        data: &'a [u8],
        version: i32,
    },
    Children {
        path: &'a str,
        watch: bool,
    },
    /// Waits until the server has all that its leader had when this came to it.
    Sync {
        path: &'a str,
    },
    /// All or nothing of these.
    Multi(&'a [Self]),
    CloseSession,
}

impl Request<'_> {
    const fn kind(&self) -> i32 {
        match self {
            Self::Create { life: Life::Container, .. } => 19,
            Self::Create { .. } => 15,
            Self::Delete { .. } => 2,
            Self::Exists { .. } => 3,
            Self::Get { .. } => 4,
            Self::Set { .. } | Self::SetIf { .. } => 5,
            Self::Children { .. } => 8,
            Self::Sync { .. } => 9,
            Self::Multi(_) => 14,
            Self::CloseSession => -11,
        }
    }

    /// The whole message, with its length.
    pub(crate) fn message(&self, number: i32) -> Vec<u8> {
        let mut out = Writer::message();
        out.int(number);
        out.int(self.kind());
        self.write(&mut out);
        out.finish()
    }

    fn write(&self, out: &mut Writer) {
        match *self {
            Self::Create { path, data, life, access } => {
                out.text(path);
                out.buffer(data);
                let (scheme, id) = match access {
                    Access::Anyone => ("world", "anyone"),
                    Access::Creator => ("auth", ""),
                };
                out.int(1);
                out.int(31); // all that can be done to a node
                out.text(scheme);
                out.text(id);
                out.int(match life {
                    Life::Persistent => 0,
                    Life::Ephemeral => 1,
                    Life::EphemeralSequential => 3,
                    Life::Container => 4,
                });
            }
            Self::Delete { path } => {
                out.text(path);
                out.int(-1); // whatever its version
            }
            Self::Exists { path } => {
                out.text(path);
                out.flag(false);
            }
            Self::Get { path, watch } | Self::Children { path, watch } => {
                out.text(path);
                out.flag(watch);
            }
            Self::Set { path, data } => {
                out.text(path);
                out.buffer(data);
                out.int(-1);
            }
            Self::SetIf { path, data, version } => {
                out.text(path);
                out.buffer(data);
                out.int(version);
            }
            Self::Sync { path } => out.text(path),
            Self::Multi(requests) => {
                for request in requests {
                    part(out, request.kind(), false);
                    request.write(out);
                }
                part(out, -1, true);
            }
            Self::CloseSession => {}
        }
    }
}

/// What stands before every request of several.
fn part(out: &mut Writer, kind: i32, last: bool) {
    out.int(kind);
    out.flag(last);
    out.int(-1);
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The number of the change that created it: larger for every later change of the whole store.
    pub(crate) created: i64,
    /// When it was created and last changed, in milliseconds on the clock of the leader.
    pub(crate) created_at: i64,
    pub(crate) changed_at: i64,
    /// How often its data were changed.
    pub(crate) version: i32,
}

impl Stat {
    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let created = from.long()?;
        from.long()?; // of the last change
        let (created_at, changed_at) = (from.long()?, from.long()?);
        let version = from.int()?;
        from.skip(2 * 4 + 8 + 2 * 4 + 8)?; // other versions, owner, sizes, of the last change of its children
        Some(Self { created, created_at, changed_at, version })
    }
}

/// The name of a new node and what is known of it.
pub(crate) fn read_created(body: &[u8]) -> Option<(String, Stat)> {
    let mut from = Reader::new(body);
    Some((from.text()?, Stat::read(&mut from)?))
}

/// Data and what is known of their node.
pub(crate) fn read_data(body: &[u8]) -> Option<(Vec<u8>, Stat)> {
    let mut from = Reader::new(body);
    Some((from.buffer()?.to_vec(), Stat::read(&mut from)?))
}

pub(crate) fn read_stat(body: &[u8]) -> Option<Stat> {
    Stat::read(&mut Reader::new(body))
}

/// The names of a node's children.
pub(crate) fn read_children(body: &[u8]) -> Option<Vec<String>> {
    let mut from = Reader::new(body);
    let count = from.int()?;
    (0..count).map(|_| from.text()).collect()
}

/// The first error among the answers to several requests; `0` if all was done.
pub(crate) fn read_multi(body: &[u8]) -> Option<i32> {
    let mut from = Reader::new(body);
    loop {
        let (kind, last, _) = (from.int()?, from.flag()?, from.int()?);
        match kind {
            _ if last => return Some(0),
            -1 => match from.int()? {
                // Those before and behind the one that failed were not even tried.
                0 | -2 => {}
                err => return Some(err),
            },
            1 => drop(from.text()?),
            15 | 19 => {
                from.text()?;
                Stat::read(&mut from)?;
            }
            2 | 13 => {}
            5 => drop(Stat::read(&mut from)?),
            _ => return None,
        }
    }
}

/// What a connection is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello<'a> {
    /// The newest change that this client has seen: a server that has not seen it refuses.
    pub(crate) seen: i64,
    pub(crate) timeout_ms: i32,
    /// Zero for a new session.
    pub(crate) session: i64,
    pub(crate) password: &'a [u8],
}

impl Hello<'_> {
    pub(crate) fn message(&self) -> Vec<u8> {
        let mut out = Writer::message();
        out.int(0); // the version of the protocol
        out.long(self.seen);
        out.int(self.timeout_ms);
        out.long(self.session);
        out.buffer(self.password);
        out.flag(false); // no session that may only read
        out.finish()
    }
}

/// What a server says to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) timeout_ms: i32,
    /// Zero if there is no such session any more.
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
}

impl Welcome {
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let mut from = Reader::new(body);
        from.int()?; // the version of the protocol
        Some(Self { timeout_ms: from.int()?, session: from.long()?, password: from.buffer()?.to_vec() })
    }
}

/// A login with a name and a password.
pub(crate) fn login(user: &str, password: &str) -> Vec<u8> {
    let mut out = Writer::message();
    out.int(AUTH);
    out.int(100);
    out.int(0);
    out.text("digest");
    out.buffer(format!("{user}:{password}").as_bytes());
    out.finish()
}

/// What every answer starts with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) number: i32,
    /// The newest change that the server had seen.
    pub(crate) seen: i64,
    /// Zero if all is well.
    pub(crate) code: i32,
}

impl Head {
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn read(message: &[u8]) -> Option<Self> {
        let mut from = Reader::new(message);
        Some(Self { number: from.int()?, seen: from.long()?, code: from.int()? })
    }
}

/// What became of a watched node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Gone,
    /// Something else; or nobody knows, since the connection that would have told ended.
    Other,
}

/// Which watch has fired, and why.
pub(crate) fn read_event(body: &[u8]) -> Option<(Change, String)> {
    let mut from = Reader::new(body);
    let kind = from.int()?;
    from.int()?; // of the session
    Some((if kind == 2 { Change::Gone } else { Change::Other }, from.text()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_its_length_its_number_its_kind_and_its_fields() {
        let message = Request::Get { path: "/a", watch: true }.message(7);
        assert_eq!(message, [0, 0, 0, 15, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 2, b'/', b'a', 1]);
    }

    #[test]
    fn an_answer_that_is_cut_short_is_none() {
        let mut stat = Writer::default();
        for n in 1..=4 {
            stat.long(n);
        }
        stat.int(7);
        stat.int(0);
        stat.int(0);
        stat.long(0);
        stat.int(0);
        stat.int(0);
        stat.long(0);
        let stat = stat.into_bytes();
        assert_eq!(read_stat(&stat), Some(Stat { created: 1, created_at: 3, changed_at: 4, version: 7 }));
        for cut in 0..stat.len() {
            assert_eq!(read_stat(&stat[..cut]), None, "{cut}");
        }
        assert_eq!(read_children(&[0, 0, 0, 2, 0, 0, 0, 1, b'x']), None);
        assert_eq!(read_children(&[0x7f, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn of_several_requests_the_first_that_failed_is_told() {
        let mut out = Writer::default();
        for err in [0, code::NODE_EXISTS, -2] {
            part(&mut out, -1, false);
            out.int(err);
        }
        part(&mut out, -1, true);
        assert_eq!(read_multi(&out.into_bytes()), Some(code::NODE_EXISTS));
        let mut out = Writer::default();
        part(&mut out, 2, false);
        part(&mut out, -1, true);
        assert_eq!(read_multi(&out.into_bytes()), Some(0));
    }
}
