//! What the organiser wants of a process of workers.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::Notify;

use super::say;
use crate::{
    clock::now,
    history::{KeyId, OpId, WorkerId},
    locks::SleepyClock,
    wire::{Order, Point, Says},
};

/// What the organiser wants, as the tasks see it.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(super) go: Notify,
    pub(super) end: AtomicBool,
    pub(super) late: AtomicBool,
    trap: Mutex<Option<(Point, Option<KeyId>)>>,
    pub(super) clock: SleepyClock,
    /// How often its clock has jumped.
    pub(super) jumps: AtomicU32,
}

impl Orders {
    pub(super) fn take(&self, order: Order) {
        match order {
            Order::Go => self.go.notify_one(),
            Order::End => self.end.store(true, Ordering::SeqCst),
            Order::Late => self.late.store(true, Ordering::SeqCst),
            Order::Trap { point, key } => *self.trap() = Some((point, key)),
            Order::NoTrap => *self.trap() = None,
            Order::Sleep { nanos } => {
                self.clock.sleep(nanos);
                self.jumps.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    fn trap(&self) -> std::sync::MutexGuard<'_, Option<(Point, Option<KeyId>)>> {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops this process if a trap is set here, and says so before and after.
    pub(crate) fn pass(&self, point: Point, (worker, op, key): (WorkerId, OpId, KeyId)) {
        let mut trap = self.trap();
        if !trap.is_some_and(|(at, on)| at == point && on.is_none_or(|on| on == key)) {
            return;
        }
        *trap = None;
        drop(trap);
        say(&Says::Stops { worker, op, key, point, at: now() });
        let _ = kill_process(getpid(), Signal::STOP);
        say(&Says::GoesOn { worker });
    }
}
