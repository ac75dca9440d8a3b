use std::{ops::Deref, time::Duration};

use tenure_core::{Key, Result};

use super::wait;
use crate::Leader;

/// One leader among many candidates, for threads.
#[derive(Clone, Debug)]
pub struct Election(pub(super) crate::Election);

impl Election {
    /// The election's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.0.key()
    }

    /// As [`crate::Election::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`crate::Election::campaign`].
    ///
    /// # Errors
    /// As there; `Invalid` inside an async task.
    pub fn campaign(&self, value: &str) -> Result<Leadership> {
        wait(self.0.campaign(value)).map(Leadership)
    }

    /// As [`crate::Election::campaign_within`].
    ///
    /// # Errors
    /// As there.
    pub fn campaign_within(&self, value: &str, limit: Duration) -> Result<Leadership> {
        wait(self.0.campaign_within(value, limit)).map(Leadership)
    }

    /// As [`crate::Election::try_campaign`].
    ///
    /// # Errors
    /// As there.
    pub fn try_campaign(&self, value: &str) -> Result<Option<Leadership>> {
        Ok(wait(self.0.try_campaign(value))?.map(Leadership))
    }

    /// As [`crate::Election::leader`].
    ///
    /// # Errors
    /// As there.
    pub fn leader(&self) -> Result<Option<Leader>> {
        wait(self.0.leader())
    }
}

/// A won election, for threads. Dropping it resigns.
#[derive(Debug)]
#[must_use = "dropping it resigns"]
pub struct Leadership(crate::Leadership);

impl Leadership {
    /// As [`crate::Leadership::resign`].
    ///
    /// # Errors
    /// As there.
    pub fn resign(self) -> Result<()> {
        wait(self.0.resign())
    }
}

impl Deref for Leadership {
    type Target = crate::Leadership;
    fn deref(&self) -> &crate::Leadership {
        &self.0
    }
}
