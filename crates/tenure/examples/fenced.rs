//! A holder that was stopped for too long comes back and writes, with no server needed.
//!
//! Run it with `cargo run -p tenure --example fenced`.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use tenure::fence::{Memory, Refusal, Written};

#[tokio::main(flavor = "current_thread")]
async fn main() -> tenure::Result<()> {
    let client = tenure::connect("memory:").await?;
    let account = client.mutex("account/7")?;
    let balance = Memory::new(100);

    // The first holder claims and reads. Then it is stopped, and its lease ends.
    let old = account.clone().fixed_lease(Duration::from_millis(200)).acquire().await?;
    let n = balance.claim(old.stamp())?;
    let seen = balance.read(old.stamp())?;
    println!("the first holder, fence {}, reads {seen} and is stopped", old.fence());
    println!("its lock is lost: {}", old.lost().await);

    // The second one gets the lock, and claims before it reads.
    let new = account.acquire().await?;
    let first = balance.claim(new.stamp())? + 1;
    let paid_in = balance.read(new.stamp())? + 50;
    let done = balance.write(new.stamp(), first, paid_in)?;
    println!("the second holder, fence {}, pays in 50: {done:?}", new.fence());

    // The first one wakes up and knows nothing of it.
    match balance.write(old.stamp(), n + 1, seen - 30) {
        Ok(Written::Now | Written::Before) => println!("the first holder's write went through"),
        Err(err) => {
            println!("the first holder's write: {err}");
            println!("because: {:?}", Refusal::of(&err).map(Refusal::why));
        }
    }
    println!("the balance is {}", balance.read(new.stamp())?);
    new.release().await
}
