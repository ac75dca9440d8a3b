//! Which node of a cluster has which slot.

use std::sync::{Arc, PoisonError, RwLock};

use redis::Value;
use tenure_core::{Address, Error, Op, Result};

use crate::{ENGINE, address::same_host, link::Link, slot::SLOTS, trouble::verb_failed};

/// The owners of the slots, as last heard. A wrong entry costs a trip: the node asked says who is right.
#[derive(Debug, Default)]
pub(crate) struct Map {
    /// Empty until the cluster was asked.
    owners: RwLock<Vec<Option<Arc<Address>>>>,
}

impl Map {
    pub(crate) fn owner(&self, slot: u16) -> Option<Address> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(usize::from(slot))?.as_deref().cloned()
    }

    /// Everybody who has a slot, once.
    pub(crate) fn owners(&self) -> Vec<Address> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Address> = Vec::new();
        let mut last: Option<&Arc<Address>> = None;
        for owner in owners.iter().flatten() {
            // Slots of one node mostly lie together.
            if last.is_none_or(|last| last != owner) && !all.contains(owner) {
                all.push(Address::clone(owner));
            }
            last = Some(owner);
        }
        all
    }

    /// A node said that another has this slot now.
    pub(crate) fn moved(&self, slot: u16, node: &Address) {
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get_mut(usize::from(slot)) {
            *owner = Some(Arc::new(node.clone()));
        }
    }

    /// Asks a node for the whole map.
    pub(crate) async fn ask(&self, link: &Link) -> Result<()> {
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("SLOTS");
        let answer = link.send(&cmd).await.map_err(|err| verb_failed(Op::Connect, &link.address, err))?;
        let mut map = vec![None; usize::from(SLOTS)];
        for (first, last, node) in ranges(&answer) {
            let node = Arc::new(same_host(&link.address, node));
            for slot in first..=last.min(SLOTS - 1) {
                map[usize::from(slot)] = Some(node.clone());
            }
        }
        if map.iter().all(Option::is_none) {
            let message = format!("{} knows no node that has a slot", link.address);
            return Err(Error::unavailable(Op::Connect, message).with_engine(ENGINE).not_applied());
        }
        *self.owners.write().unwrap_or_else(PoisonError::into_inner) = map;
        Ok(())
    }
}

/// `[first, last, [host, port, …] of the master, …]` for each range. What cannot be read is left out.
fn ranges(answer: &Value) -> impl Iterator<Item = (u16, u16, Address)> {
    let list = |value: &Value| match value {
        Value::Array(values) => values.clone(),
        _ => Vec::new(),
    };
    list(answer).into_iter().filter_map(move |range| {
        let range = list(&range);
        let node = list(range.get(2)?);
        let number = |value: Option<&Value>| match value {
            Some(Value::Int(number)) => u16::try_from(*number).ok(),
            _ => None,
        };
        let host = match node.first()? {
            Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
            Value::SimpleString(host) => host.clone(),
            _ => String::new(),
        };
        let port = number(node.get(1))?;
        Some((number(range.first())?, number(range.get(1))?, Address { host, port }))
    })
}
