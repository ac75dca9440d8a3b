use std::{fmt, ops::Deref, time::Duration};

use tenure_core::{Error, Fence, Filter, Key, Mode, Moment, Note, Result, Standing};

use crate::{
    Client, Guard,
    guard::Tenancy,
    terms::{Order, Terms},
};

/// One leader among many candidates, and everybody can see who it is.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let client = tenure::connect("memory:").await?;
/// let election = client.election("scheduler")?;
///
/// let term = election.campaign("10.0.0.7:8080").await?;
/// let leader = election.leader().await?.expect("somebody leads");
/// assert_eq!((leader.value(), leader.term()), ("10.0.0.7:8080", term.term()));
/// term.resign().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    terms: Terms,
}

impl Election {
    pub(crate) fn new(client: Client, key: Key) -> Self {
        // Candidates of one process are rivals like any others.
        Self { terms: Terms::new(client, key, Order::Strict) }
    }

    /// The election's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.terms.key
    }

    /// How long a leader is believed in after it fell silent.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { terms: self.terms.with_ttl(ttl) }
    }

    /// Stands for election and waits to win. The value is what others see of the leader, such as an address.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire); `Invalid` if the value is longer than
    /// [`Note::MAX_LABEL`] bytes or has control characters.
    /// # Cancel safety
    /// Dropping the future withdraws the candidate.
    pub async fn campaign(&self, value: &str) -> Result<Leadership> {
        self.stand(value, None).await
    }

    /// Stands for election at most this long.
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`campaign`](Self::campaign).
    /// # Cancel safety
    /// As [`campaign`](Self::campaign).
    pub async fn campaign_within(&self, value: &str, wait: Duration) -> Result<Leadership> {
        self.stand(value, Some(self.terms.within(wait))).await
    }

    /// Leads if nobody does.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign). That somebody else leads is `Ok(None)`.
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_campaign(&self, value: &str) -> Result<Option<Leadership>> {
        let tenancy = self.candidate(value)?.try_acquire(Mode::Exclusive).await?;
        Ok(tenancy.map(Leadership::won))
    }

    /// Who leads now, if anybody does.
    ///
    /// # Errors
    /// `Unavailable` if the engine does not answer.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let line = self.terms.client.line(&Filter::Key(self.terms.key.clone())).await?;
        let first = line.into_iter().find(|place| place.standing == Standing::Holds);
        Ok(first.map(|place| Leader { term: place.fence(), note: place.note }))
    }

    /// Follows the leader: looks every `every` and tells of each change.
    pub fn observe(&self, every: Duration) -> Observation {
        Observation { election: self.clone(), every: every.max(Duration::from_millis(10)), last: None }
    }

    async fn stand(&self, value: &str, deadline: Option<Moment>) -> Result<Leadership> {
        let tenancy = self.candidate(value)?.acquire(Mode::Exclusive, deadline).await?;
        Ok(Leadership::won(tenancy))
    }

    fn candidate(&self, value: &str) -> Result<Terms> {
        let terms = self.terms.clone().with_label(value);
        if terms.note.label() == value {
            return Ok(terms);
        }
        let max = Note::MAX_LABEL;
        Err(Error::invalid(format!("the value must have at most {max} bytes and no control characters"))
            .with_key(&self.terms.key))
    }
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    term: Fence,
    note: Note,
}

impl Leader {
    /// The value that it campaigned with.
    #[must_use]
    pub fn value(&self) -> &str {
        self.note.label()
    }

    /// Who it is: usually `user@host:pid`.
    #[must_use]
    pub fn who(&self) -> &str {
        self.note.who()
    }

    /// The number of its term: larger than every earlier one.
    #[must_use]
    pub fn term(&self) -> Fence {
        self.term
    }
}

/// Follows the leader of an [`Election`].
#[derive(Debug)]
pub struct Observation {
    election: Election,
    every: Duration,
    /// What was told last; `None` before the first look.
    last: Option<Option<Leader>>,
}

impl Observation {
    /// Resolves with the leader at once the first time, then whenever it is another one. `None` means that
    /// nobody leads.
    ///
    /// # Errors
    /// `Unavailable` if the engine does not answer; calling again goes on.
    /// # Cancel safety
    /// No change that lasts is missed between two calls.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        loop {
            let leader = self.election.leader().await?;
            if self.last.as_ref() != Some(&leader) {
                self.last = Some(leader.clone());
                return Ok(leader);
            }
            tokio::time::sleep(self.every).await;
        }
    }
}

/// A won election. Dropping it resigns in the background.
///
/// It derefs to the [`Guard`] of the lock behind it, which knows how long the term is safe and says when it is lost.
#[must_use = "dropping it resigns"]
pub struct Leadership(Guard);

impl Leadership {
    fn won(tenancy: Tenancy) -> Self {
        Self(Guard::new(tenancy.into()))
    }

    /// The number of this term: larger than every earlier one. Show it to what the leader writes to.
    #[must_use]
    pub fn term(&self) -> Fence {
        self.0.fence()
    }

    /// The value that others see.
    #[must_use]
    pub fn value(&self) -> &str {
        self.0.tenancy().hold().claim.note.label()
    }

    /// Ends the term; the next candidate leads.
    ///
    /// # Errors
    /// As [`Guard::release`].
    /// # Cancel safety
    /// Dropping the future resigns in the background.
    pub async fn resign(self) -> Result<()> {
        self.0.release().await
    }
}

impl Deref for Leadership {
    type Target = Guard;
    fn deref(&self) -> &Guard {
        &self.0
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("term", &self.term()).finish_non_exhaustive()
    }
}
