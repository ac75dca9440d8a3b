use tenure_core::{Op, Record, Refusal, Result, Stamp};

use super::Written;
use crate::sync::{Mutex, lock};

/// A value of this process that only those may change who have not been overtaken.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// use tenure::fence::{Memory, Written};
///
/// let client = tenure::connect("memory:").await?;
/// let total = Memory::new(0);
/// let sum = client
///     .mutex("total")?
///     .run(|held| async move {
///         let n = total.claim(held.stamp())?; // before the first read
///         let sum = total.read(held.stamp())? + 1;
///         assert_eq!(total.write(held.stamp(), n + 1, sum)?, Written::Now);
///         Ok::<_, tenure::Error>(sum)
///     })
///     .await??;
/// assert_eq!(sum, 1);
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Memory<T> {
    kept: Mutex<(Record, T)>,
}

impl<T> Memory<T> {
    /// A value that nobody has claimed.
    pub fn new(value: T) -> Self {
        Self { kept: Mutex::new((Record::default(), value)) }
    }

    /// Shuts out every earlier holder, and says the number of this holder's last write: 0 if it has not written.
    ///
    /// # Errors
    /// `Refused` if a later holder was here.
    pub fn claim(&self, stamp: Stamp) -> Result<u64> {
        let kept = &mut *lock(&self.kept);
        kept.0 = kept.0.claim(&stamp).map_err(|refusal| refusal.into_error(Op::Claim))?;
        Ok(kept.0.n())
    }

    /// The value.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, or this one has not claimed.
    pub fn read(&self, stamp: Stamp) -> Result<T>
    where
        T: Clone,
    {
        let kept = lock(&self.kept);
        kept.0.read(&stamp).map_err(|refusal| refusal.into_error(Op::Read))?;
        Ok(kept.1.clone())
    }

    /// Replaces the value, as the `n`th write of this holder.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, this one has not claimed, or this is not its next write; `Invalid` for a
    /// shared hold.
    pub fn write(&self, stamp: Stamp, n: u64, value: T) -> Result<Written> {
        let kept = &mut *lock(&self.kept);
        let refused = |refusal: Refusal| refusal.into_error(Op::Write);
        Ok(match kept.0.write(&stamp, n).map_err(refused)? {
            Some(record) => {
                *kept = (record, value);
                Written::Now
            }
            None => Written::Before,
        })
    }

    /// What the resource has seen, for people.
    pub fn record(&self) -> Record {
        lock(&self.kept).0
    }
}
