use std::{collections::VecDeque, io};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::tcp::{ReadHalf, WriteHalf},
    time::{Instant, sleep_until},
};

use super::{Flow, Shared, Way, carry::End};

/// The most that is taken and not yet passed on.
const MAX_QUEUE: u64 = 1 << 20;

/// Passes one direction of a connection on until its end has been passed on too.
pub(super) async fn pump(
    way: Way,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    shared: &Shared,
) -> Result<(), End> {
    let mut plan = shared.plan.subscribe();
    let mut queue = Queue { shared, way, parts: VecDeque::new(), bytes: 0 };
    let mut buffer = vec![0; 16 << 10];
    let mut ended = false;
    let mut lost = false;
    loop {
        let now = *plan.borrow_and_update();
        let flow = now.flows[way as usize];
        if flow == Flow::Swallow {
            lost |= queue.lose();
        } else if lost {
            return Err(End::Reset);
        }
        let reads = !ended && flow != Flow::Stall && queue.bytes < MAX_QUEUE;
        let writes = flow == Flow::Forward && !queue.parts.is_empty();
        tokio::select! {
            biased;
            changed = plan.changed() => if changed.is_err() {
                return Err(End::Reset);
            },
            passed = queue.pass_on(&mut to), if writes => if passed? == Passed::End {
                return Ok(());
            },
            read = from.read(&mut buffer), if reads => {
                let count = read.map_err(|_| End::Reset)?;
                ended = count == 0;
                queue.push(Instant::now() + now.delays[way as usize], &buffer[..count]);
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Passed {
    Bytes,
    End,
}

/// What was taken and is not yet passed on, each part with the time it is due. An empty part is the end.
struct Queue<'a> {
    shared: &'a Shared,
    way: Way,
    parts: VecDeque<(Instant, Vec<u8>)>,
    bytes: u64,
}

impl Queue<'_> {
    fn push(&mut self, due: Instant, part: &[u8]) {
        let count = part.len() as u64;
        self.bytes += count;
        self.shared.count(|counts| counts.way(self.way).held += count);
        self.parts.push_back((due, part.to_vec()));
    }

    /// Passes on as much of the first part as goes, once it is due. May be cancelled: what was not passed on stays.
    async fn pass_on(&mut self, to: &mut WriteHalf<'_>) -> Result<Passed, End> {
        let Some((due, part)) = self.parts.front_mut() else { return Ok(Passed::Bytes) };
        sleep_until(*due).await;
        if part.is_empty() {
            to.shutdown().await.map_err(|_| End::Reset)?;
            return Ok(Passed::End);
        }
        to.writable().await.map_err(|_| End::Reset)?;
        // From here on nothing waits: no other connection takes from the same budget meanwhile.
        let mut budgets = self.shared.budgets();
        let budget = &mut budgets[self.way as usize];
        let allowed = budget.map_or(part.len(), |left| part.len().min(left.try_into().unwrap_or(usize::MAX)));
        if allowed == 0 {
            *budget = None;
            return Err(End::Reset);
        }
        let count = match to.try_write(&part[..allowed]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Passed::Bytes),
            Err(_) => return Err(End::Reset),
        };
        if let Some(left) = budget {
            *left -= count as u64;
        }
        drop(budgets);
        part.drain(..count);
        if part.is_empty() {
            self.parts.pop_front();
        }
        self.bytes -= count as u64;
        self.shared.count(|counts| {
            let bytes = counts.way(self.way);
            bytes.held -= count as u64;
            bytes.forwarded += count as u64;
        });
        Ok(Passed::Bytes)
    }

    /// Loses everything, and says whether there was anything.
    fn lose(&mut self) -> bool {
        let some = !self.parts.is_empty();
        self.parts.clear();
        let count = std::mem::take(&mut self.bytes);
        if count > 0 {
            self.shared.count(|counts| {
                let bytes = counts.way(self.way);
                bytes.held -= count;
                bytes.lost += count;
            });
        }
        some
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        self.lose();
    }
}
