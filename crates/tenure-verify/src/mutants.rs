//! The wrong ways to lock.

use std::sync::Arc;

use crate::{locks::Locks, wire::Spec, worker::Orders};

/// Opens a wrong way by its name.
pub(crate) async fn open(name: &str, _spec: &Spec, _orders: Arc<Orders>) -> Result<Arc<dyn Locks>, String> {
    Err(format!("there is no wrong way `{name}`"))
}
