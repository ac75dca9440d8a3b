//! Optimistic versions: change one row without a lock, and try again if somebody else was faster.
//!
//! The row has a `version`. Read it with the data, and write with `UPDATE … SET …, version = version + 1 WHERE id = ?
//! AND version = ?`. If no row was changed, somebody was faster: read again, and try again, a bounded number of times
//! with a random pause between.
//!
//! | | a version | a lock |
//! | --- | --- | --- |
//! | what it protects | one row, or what one statement or transaction changes | anything, for as long as it takes |
//! | free | one read and one write | the lock's round trips besides |
//! | fought over | work is done in vain, nobody has a turn | a line: first come, first served |
//! | the holder dies | nothing is left behind | others wait for the lease |
//! | wrong by | nothing: the check is the write | a fence that nobody checks |
//!
//! So: a version for a single row that is seldom fought over, and where doing the work twice harms nobody. A lock for
//! work of several steps, for effects outside the database, and where many want the same row all the time. Where the
//! change is a sum, neither: `UPDATE … SET stock = stock - 1 WHERE stock >= 1`.
//!
//! With MySQL count the rows that were *found* or *changed*, as the driver has it: since the version always changes, both
//! are the same here.

use std::{error, fmt, future::Future, time::Duration};

use crate::acquire::jitter;

/// How often and how fast to try.
///
/// The pause before each further try is random: at most twice as long as the one before, and no longer than `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How many tries in all; 0 counts as 1.
    pub tries: u32,
    /// The pause after the first try, at most.
    pub pause: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Default for Limits {
    /// Ten tries, with pauses from 2 to 200 ms.
    fn default() -> Self {
        Self { tries: 10, pause: Duration::from_millis(2), longest: Duration::from_millis(200) }
    }
}

impl Limits {
    /// The same with so many tries.
    #[must_use]
    pub fn tries(self, tries: u32) -> Self {
        Self { tries, ..self }
    }

    /// The same with pauses from about `first` up to `longest`.
    #[must_use]
    pub fn pauses(self, first: Duration, longest: Duration) -> Self {
        Self { pause: first, longest, ..self }
    }

    /// The longest pause after the `tried`th try, from 1.
    fn pause_after(&self, tried: u32) -> Duration {
        let doubled = 1_u32.checked_shl(tried - 1).unwrap_or(u32::MAX);
        self.pause.saturating_mul(doubled).min(self.longest)
    }
}

/// What came of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It is written.
    Done(T),
    /// The version was another one: somebody was faster.
    Conflict,
}

impl<T> Outcome<T> {
    /// Done if one row was changed.
    ///
    /// # Examples
    /// ```
    /// use tenure::versioned::Outcome;
    ///
    /// assert_eq!(Outcome::of_rows(1, "new"), Outcome::Done("new"));
    /// assert_eq!(Outcome::of_rows(0, "new"), Outcome::Conflict);
    /// ```
    pub fn of_rows(changed: u64, value: T) -> Self {
        if changed == 0 { Self::Conflict } else { Self::Done(value) }
    }
}

/// Why it was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritten<E> {
    /// Somebody else was faster, in every try: the row is fought over, and a lock would give each a turn.
    Conflict {
        /// How often it was tried.
        tries: u32,
    },
    /// A try failed. Whether it may have been written is for its error to say.
    Failed(E),
}

/// Reads, changes and writes until nobody else was faster, within the limits. The work gets the number of the try, from
/// 1, and an error of it ends the matter. Work that borrows what it changes goes round a loop of its own, with [`Tries`].
///
/// # Errors
/// [`Unwritten`].
/// # Cancel safety
/// As that of the work; a pause can be cancelled at any time.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::{convert::Infallible, sync::Mutex};
/// use tenure::versioned::{Limits, Outcome, retry};
///
/// // A row with a version, as a database would have it.
/// let row = Mutex::new((7, 100)); // version, balance
/// let balance = retry(Limits::default(), async |_try| {
///     let (version, balance) = *row.lock().unwrap(); // SELECT version, balance …
///     let mut now = row.lock().unwrap(); // UPDATE … SET …, version = version + 1 WHERE … AND version = ?
///     if now.0 != version {
///         return Ok::<_, Infallible>(Outcome::Conflict);
///     }
///     *now = (version + 1, balance - 30);
///     Ok(Outcome::Done(now.1))
/// })
/// .await;
/// assert_eq!(balance, Ok(70));
/// # }
/// ```
pub async fn retry<T, E, F>(limits: Limits, mut work: impl FnMut(u32) -> F) -> Result<T, Unwritten<E>>
where
    F: Future<Output = Result<Outcome<T>, E>>,
{
    let mut tries = Tries::new(limits);
    loop {
        match work(tries.number()).await.map_err(Unwritten::Failed)? {
            Outcome::Done(value) => return Ok(value),
            Outcome::Conflict => tries.again().await?,
        }
    }
}

/// Counts the tries of a loop, and pauses between them.
///
/// # Examples
/// ```no_run
/// # #[cfg(feature = "fence-sqlx-postgres")]
/// # async fn doc(on: &mut sqlx::PgConnection) -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::versioned::{Limits, Tries};
///
/// let mut tries = Tries::new(Limits::default());
/// loop {
///     let (version, balance): (i64, i64) =
///         sqlx::query_as("SELECT version, balance FROM account WHERE id = 7").fetch_one(&mut *on).await?;
///     let changed = sqlx::query(
///         "UPDATE account SET balance = $1, version = version + 1 WHERE id = 7 AND version = $2",
///     );
///     if changed.bind(balance - 30).bind(version).execute(&mut *on).await?.rows_affected() == 1 {
///         break;
///     }
///     tries.again::<sqlx::Error>().await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Tries {
    limits: Limits,
    number: u32,
}

impl Tries {
    /// The first try.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, number: 1 }
    }

    /// Which try this is, from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Waits a random while after a try that was in vain, and counts the next one.
    ///
    /// # Errors
    /// `Conflict` if this was the last try, without a pause.
    /// # Cancel safety
    /// Nothing was counted.
    pub async fn again<E>(&mut self) -> Result<(), Unwritten<E>> {
        if self.number >= self.limits.tries {
            return Err(Unwritten::Conflict { tries: self.number });
        }
        tokio::time::sleep(jitter(self.limits.pause_after(self.number))).await;
        self.number += 1;
        Ok(())
    }
}

impl<E> fmt::Display for Unwritten<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { tries } => {
                write!(
                    f,
                    "somebody else was faster in each of {tries} tries; take a lock for what is fought over"
                )
            }
            Self::Failed(_) => f.write_str("the change failed"),
        }
    }
}

impl<E: error::Error + 'static> error::Error for Unwritten<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Conflict { .. } => None,
            Self::Failed(err) => Some(err),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, convert::Infallible};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_tried_as_often_as_said_and_no_more() {
        for (tries, faster, expected) in [
            (1, 0, Ok(1)),
            (3, 2, Ok(3)),
            (3, 3, Err(Unwritten::Conflict { tries: 3 })),
            (1, 1, Err(Unwritten::Conflict { tries: 1 })),
            (0, 0, Ok(1)),
            (0, 1, Err(Unwritten::Conflict { tries: 1 })),
        ] {
            let seen = RefCell::new(Vec::new());
            let done = retry(Limits::default().tries(tries), |tried| {
                seen.borrow_mut().push(tried);
                async move {
                    Ok::<_, Infallible>(if tried <= faster {
                        Outcome::Conflict
                    } else {
                        Outcome::Done(tried)
                    })
                }
            });
            assert_eq!(done.await, expected);
            let all: Vec<u32> = (1..=tries.max(1).min(faster + 1)).collect();
            assert_eq!(*seen.borrow(), all, "{tries} tries, {faster} in vain");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_ends_it_at_once() {
        let mut count = 0;
        let failed = retry(Limits::default(), |_| {
            count += 1;
            async { Err::<Outcome<()>, _>("no such table") }
        });
        assert_eq!(failed.await, Err(Unwritten::Failed("no such table")));
        assert_eq!(count, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_are_random_and_end() {
        let (first, longest) = (Duration::from_millis(8), Duration::from_millis(50));
        let limits = Limits::default().tries(40).pauses(first, longest);
        let at = RefCell::new(Vec::new());
        let _ = retry(limits, |_| {
            at.borrow_mut().push(Instant::now());
            async { Ok::<Outcome<()>, Infallible>(Outcome::Conflict) }
        })
        .await;
        let pauses: Vec<Duration> = at.borrow().windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses.len(), 39, "none after the last try");
        let tick = Duration::from_millis(1);
        assert!(pauses[0] >= first / 2 && pauses[0] <= first + tick, "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= longest + tick), "{pauses:?}");
        assert!(pauses[10..].iter().all(|pause| *pause >= longest / 2), "{pauses:?}");
        assert!(pauses[10..].iter().any(|pause| *pause != pauses[10]), "{pauses:?}");
    }
}
