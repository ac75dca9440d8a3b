//! What the locks protect: two registers behind each lock, kept by the organiser.
//!
//! A register is a set of updates, read as a whole and written as a whole. The fenced one asks [`tenure_core::Record`]; the
//! plain one takes what it is given. A version names the set that it held, so that a set of thousands need not travel.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure_core::{ClaimId, Fence, Mode, Record, Stamp};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::Notify,
    task::JoinHandle,
};

use crate::{
    clock::now,
    history::{Done, Effect, KeyId, OpId, Register},
    wire::{Ask, Proof, Reply, Request},
};

/// By what a fenced register judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Whoever was overtaken is refused; a fence is claimed before the first read.
    #[default]
    Claimed,
    /// Only writes are looked at, which is the usual advice and loses updates.
    WritesOnly,
}

/// All registers, and what they did.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    rule: Rule,
    books: HashMap<(KeyId, Register), Book>,
    effects: Vec<Effect>,
}

/// One register: all versions that it ever had, and which it has.
#[derive(Debug)]
struct Book {
    versions: Vec<Version>,
    current: usize,
    record: Record,
    highest: u64,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    parent: usize,
    depth: usize,
    op: OpId,
}

impl Default for Book {
    fn default() -> Self {
        let empty = Version { parent: 0, depth: 0, op: 0 };
        Self { versions: vec![empty], current: 0, record: Record::default(), highest: 0 }
    }
}

impl Book {
    /// Holds what `base` held and `op`, and says which updates it held until now and does not hold any more.
    fn write(&mut self, base: usize, op: OpId) -> Vec<OpId> {
        let base = if base < self.versions.len() { base } else { 0 };
        let (mut old, mut new, mut lost) = (self.current, base, Vec::new());
        while old != new {
            if self.versions[old].depth >= self.versions[new].depth {
                lost.push(self.versions[old].op);
                old = self.versions[old].parent;
            } else {
                new = self.versions[new].parent;
            }
        }
        // What one write brings back that another had lost is not lost; it stands on the way from `base` to the two's
        // common past, and its name is there again.
        let mut back = base;
        while back != old {
            lost.retain(|op| *op != self.versions[back].op);
            back = self.versions[back].parent;
        }
        lost.retain(|lost| *lost != op);
        self.current = self.versions.len();
        self.versions.push(Version { parent: base, depth: self.versions[base].depth + 1, op });
        lost
    }

    fn judge(&mut self, rule: Rule, proof: Option<&Proof>, ask: Ask) -> bool {
        let Some(proof) = proof else { return false };
        if rule == Rule::WritesOnly {
            let is_write = matches!(ask, Ask::Write { .. });
            let accepted = !is_write || proof.fence >= self.highest;
            if is_write && accepted {
                self.highest = proof.fence;
            }
            return accepted;
        }
        let Some(stamp) = stamp(proof) else { return false };
        match ask {
            Ask::Claim => self.record.claim(&stamp).map(|record| self.record = record).is_ok(),
            Ask::Read => self.record.read(&stamp).is_ok(),
            Ask::Write { n, .. } => match self.record.write(&stamp, n) {
                Ok(Some(record)) => {
                    self.record = record;
                    true
                }
                _ => false,
            },
        }
    }
}

fn stamp(proof: &Proof) -> Option<Stamp> {
    let fence: Fence = proof.fence.to_string().parse().ok()?;
    let claim: ClaimId = proof.claim.parse().ok()?;
    let mode = if proof.shared { Mode::Shared } else { Mode::Exclusive };
    Stamp::new(fence, claim, mode).ok()
}

impl Registers {
    pub(crate) fn new(rule: Rule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Does what it is asked, or not, and writes down which.
    pub(crate) fn ask(&mut self, request: &Request) -> Reply {
        let book = self.books.entry((request.key, request.register)).or_default();
        let accepted = match request.register {
            Register::Plain => true,
            Register::Fenced => book.judge(self.rule, request.stamp.as_ref(), request.ask),
        };
        let what = match request.ask {
            Ask::Claim => Done::Claim,
            Ask::Read => Done::Read,
            Ask::Write { base, .. } if accepted => Done::Write { lost: book.write(base, request.op) },
            Ask::Write { .. } => Done::Write { lost: Vec::new() },
        };
        let version = book.current;
        self.effects.push(Effect {
            at: now(),
            worker: request.worker,
            op: request.op,
            key: request.key,
            register: request.register,
            fence: request.stamp.as_ref().map(|proof| proof.fence),
            what,
            accepted,
        });
        Reply { accepted, version }
    }
}

/// The registers behind a socket.
#[derive(Debug)]
pub(crate) struct Resource {
    shared: Arc<Shared>,
    accepts: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    registers: Mutex<Registers>,
    /// Writes that the network holds back.
    held: Mutex<Vec<(OpId, Arc<Notify>)>>,
    /// Told after everything that happens.
    changed: Arc<Notify>,
}

impl Shared {
    fn registers(&self) -> MutexGuard<'_, Registers> {
        self.registers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, Vec<(OpId, Arc<Notify>)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resource {
    /// Listens at this path.
    pub(crate) fn open(path: &Path, rule: Rule, changed: Arc<Notify>) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let shared =
            Arc::new(Shared { registers: Mutex::new(Registers::new(rule)), held: Mutex::default(), changed });
        let work = shared.clone();
        let accepts = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, work.clone()));
            }
        });
        Ok(Self { shared, accepts })
    }

    /// The writes that are held back.
    pub(crate) fn held(&self) -> Vec<OpId> {
        self.shared.held().iter().map(|(op, _)| *op).collect()
    }

    /// Lets everything arrive that was held back of this acquisition.
    pub(crate) fn deliver(&self, op: OpId) {
        self.shared.held().retain(|(held, gate)| {
            if *held == op {
                gate.notify_one();
            }
            *held != op
        });
    }

    /// What happened so far.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&[Effect]) -> T) -> T {
        look(&self.shared.registers().effects)
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

async fn serve(stream: UnixStream, shared: Arc<Shared>) {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(request) = serde_json::from_str::<Request>(&line) else { return };
        if request.late {
            let gate = Arc::new(Notify::new());
            shared.held().push((request.op, gate.clone()));
            shared.changed.notify_waiters();
            gate.notified().await;
        }
        let reply = shared.registers().ask(&request);
        shared.changed.notify_waiters();
        let words = serde_json::to_string(&reply).unwrap_or_default() + "\n";
        // Who does not wait for the answer any more has asked all the same.
        let _ = to.write_all(words.as_bytes()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: OpId, fence: u64, register: Register, ask: Ask) -> Request {
        let claim = ClaimId::from_bytes([op as u8; 16]).to_string();
        let stamp = Some(Proof { fence: fence << 10, claim, shared: false });
        Request { worker: 1, op, key: 0, register, stamp, ask, late: false }
    }

    /// Reads, lets somebody else write, and writes over it.
    fn two_at_once(rule: Rule, register: Register, claims: bool) -> Vec<Effect> {
        let mut registers = Registers::new(rule);
        let mut bases = [0; 2];
        for (at, op) in [1, 2].into_iter().enumerate() {
            if claims {
                registers.ask(&request(op, op, register, Ask::Claim));
            }
            bases[at] = registers.ask(&request(op, op, register, Ask::Read)).version;
        }
        for (at, op) in [1, 2].into_iter().enumerate() {
            registers.ask(&request(op, op, register, Ask::Write { base: bases[at], n: 1 }));
        }
        registers.effects
    }

    fn lost(effects: &[Effect]) -> usize {
        let of = |effect: &Effect| match &effect.what {
            Done::Write { lost } => lost.len(),
            _ => 0,
        };
        effects.iter().map(of).sum()
    }

    #[test]
    fn only_the_register_that_is_claimed_loses_nothing() {
        assert_eq!(lost(&two_at_once(Rule::Claimed, Register::Plain, false)), 1);
        assert_eq!(lost(&two_at_once(Rule::WritesOnly, Register::Fenced, false)), 1);
        let effects = two_at_once(Rule::Claimed, Register::Fenced, true);
        assert_eq!(lost(&effects), 0);
        let refused: Vec<_> =
            effects.iter().filter(|effect| !effect.accepted).map(|effect| effect.op).collect();
        assert_eq!(refused, [1], "who was overtaken");
    }

    #[test]
    fn what_is_brought_back_is_not_lost() {
        let mut book = Book::default();
        assert!(book.write(0, 1).is_empty());
        assert!(book.write(1, 2).is_empty());
        assert_eq!(book.write(1, 3), [2], "over what was read before");
        assert_eq!(book.write(2, 4), [3], "and back");
        assert!(book.write(4, 5).is_empty());
    }
}
