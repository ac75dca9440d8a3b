use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use tenure_core::{EngineId, Error, Key, Mode, Moment, Op, Result};

use crate::{
    guard::Tenancy,
    sync::{Mutex, lock},
    terms::Terms,
};

/// Somebody who may take a lock again that they hold already.
///
/// A lock held by an owner is shared with every further acquisition of the same owner: same fence, released when
/// the last guard goes. In async code ownership is a value that is passed along, since a task may move between
/// threads; in [`blocking`](crate::blocking) the owner is the thread.
#[derive(Clone, Default)]
pub struct Owner {
    held: Arc<Mutex<Rooms>>,
}

type Rooms = HashMap<(EngineId, Key), Arc<Room>>;

/// What one owner has of one key. Entered by one acquisition at a time, so that two tasks of one owner that come
/// together share a hold instead of waiting for each other.
type Room = tokio::sync::Mutex<Weak<Tenancy>>;

impl Owner {
    /// Makes an owner that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) async fn enter(
        &self,
        terms: &Terms,
        mode: Mode,
        deadline: Option<Moment>,
    ) -> Result<Arc<Tenancy>> {
        let room = self.room(terms);
        let enter = async {
            let mut inside = room.lock().await;
            if let Some(tenancy) = share(&inside, mode)? {
                return Ok(tenancy);
            }
            let tenancy = Arc::new(terms.acquire(mode, deadline).await?);
            *inside = Arc::downgrade(&tenancy);
            Ok(tenancy)
        };
        match deadline {
            None => enter.await,
            // Another task of this owner may be asking, for longer than this one wants to wait.
            Some(deadline) => {
                let left = deadline.since(terms.client.shared.now()) + std::time::Duration::from_millis(50);
                tokio::time::timeout(left, enter).await.unwrap_or_else(|_| {
                    let message = "another task of this owner asked for it until the deadline";
                    Err(Error::new(tenure_core::ErrorKind::Timeout, Op::Acquire, message)
                        .with_key(&terms.key)
                        .not_applied())
                })
            }
        }
    }

    pub(crate) async fn try_enter(&self, terms: &Terms, mode: Mode) -> Result<Option<Arc<Tenancy>>> {
        let room = self.room(terms);
        let Ok(mut inside) = room.try_lock() else { return Ok(None) };
        if let Some(tenancy) = share(&inside, mode)? {
            return Ok(Some(tenancy));
        }
        let Some(tenancy) = terms.try_acquire(mode).await?.map(Arc::new) else { return Ok(None) };
        *inside = Arc::downgrade(&tenancy);
        Ok(Some(tenancy))
    }

    fn room(&self, terms: &Terms) -> Arc<Room> {
        let mut held = lock(&self.held);
        // Rooms that nobody is in and nothing is held in are swept when the map doubles.
        if held.len() == held.capacity() {
            held.retain(|_, room| {
                Arc::strong_count(room) > 1 || room.try_lock().is_ok_and(|r| r.strong_count() > 0)
            });
        }
        held.entry((terms.client.identity(), terms.key.clone())).or_default().clone()
    }
}

/// The owner's present hold, if it covers what is asked.
fn share(inside: &Weak<Tenancy>, mode: Mode) -> Result<Option<Arc<Tenancy>>> {
    let Some(tenancy) = inside.upgrade() else { return Ok(None) };
    tenancy.check().map_err(|err| err.in_op(Op::Acquire))?;
    match (tenancy.hold().mode(), mode) {
        (Mode::Exclusive, _) | (Mode::Shared, Mode::Shared) => Ok(Some(tenancy)),
        _ => Err(Error::invalid(
            "this owner reads already and cannot become a writer in place; release the read first",
        )
        .in_op(Op::Acquire)
        .with_key(&tenancy.hold().claim.key)),
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("keys", &lock(&self.held).len()).finish()
    }
}
