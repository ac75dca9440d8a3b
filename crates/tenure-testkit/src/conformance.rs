//! What must be true of every engine, as rules with names.

mod attempt;
mod cancel;
mod differential;
mod downgrade;
mod evict;
mod exclusion;
mod fence;
mod keys;
mod lapse;
mod line;
mod modes;
mod order;
mod permits;
mod process;
mod release;
mod renew;
mod replies;
mod shared;
mod turn;

use std::fmt;

use futures_util::future::LocalBoxFuture;
use tenure_core::{Crash, Floors, Mode, Order, Wake};

use crate::{Cx, Result, Site, Time};

/// One promise and how it is asked for.
pub struct Rule {
    /// Which part of the contract it belongs to.
    pub area: &'static str,
    /// What is promised, in a few words.
    pub name: &'static str,
    /// What an engine must declare, or a lab be able to do, for the rule to be asked.
    pub needs: &'static [Need],
    run: fn(Cx) -> LocalBoxFuture<'static, Result<()>>,
}

/// What an engine must declare, or a lab be able to do, for a rule to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Waiters come in order.
    Fifo,
    /// Shared claims can hold.
    Shared,
    /// Shared claims are refused.
    NoShared,
    /// Permits can hold.
    Permits,
    /// Permits are refused.
    NoPermits,
    /// Places end with time unless they are renewed.
    Leases,
    /// Places end with the session of their client.
    Sessions,
    /// Places of a process that has fallen silent end with time.
    Silence,
    /// Places end with their process.
    Processes,
    /// Numbers can be lifted.
    Floors,
    /// Waiters are told.
    Push,
    /// Many threads: the trial runs in real time.
    Threads,
    /// Time can be set to the instant.
    VirtualTime,
    /// The server can be restarted.
    Restart,
    /// Another process can open the store.
    Helper,
    /// A client's clock can be set ahead.
    Skew,
    /// Its keys can be listed.
    Listed,
    /// Its keys cannot be listed.
    Unlisted,
}

impl Need {
    fn is_met(self, site: &Site) -> bool {
        let it = &site.guarantees;
        match self {
            Self::Fifo => it.order == Order::Fifo,
            Self::Shared => it.modes.shared,
            Self::NoShared => !it.modes.shared,
            Self::Permits => it.modes.permits,
            Self::NoPermits => !it.modes.permits,
            Self::Leases => it.crash == Crash::Lease,
            Self::Sessions => it.crash == Crash::Session,
            Self::Silence => it.crash != Crash::Process,
            Self::Processes => it.crash == Crash::Process,
            Self::Floors => it.floors == Floors::Kept,
            Self::Push => it.wake == Wake::Push,
            Self::Threads => true,
            Self::VirtualTime => site.abilities.virtual_time,
            Self::Restart => site.abilities.restart,
            Self::Helper => site.abilities.helper,
            Self::Skew => site.abilities.skew,
            Self::Listed => !site.abilities.unlisted,
            Self::Unlisted => site.abilities.unlisted,
        }
    }
}

impl Rule {
    /// Whether the rule is asked of this engine.
    #[must_use]
    pub fn applies(&self, site: &Site) -> bool {
        let wanted = !site.abilities.only_restarts || self.needs.contains(&Need::Restart);
        wanted && self.needs.iter().all(|need| need.is_met(site))
    }

    /// Which time the rule runs in.
    #[must_use]
    pub fn time(&self, site: &Site) -> Time {
        if self.needs.contains(&Need::Threads) { Time::Real } else { site.time() }
    }

    /// Whether the rule is about a mutex, so that a semaphore of one must keep it too.
    #[must_use]
    pub fn is_about_a_mutex(&self) -> bool {
        const OTHER_AREAS: [&str; 6] = ["shared", "permits", "modes", "differential", "downgrade", "process"];
        let modes = [Need::Shared, Need::NoShared, Need::Permits, Need::NoPermits];
        !OTHER_AREAS.contains(&self.area) && !self.needs.iter().any(|need| modes.contains(need))
    }

    /// Asks the rule, in a runtime of [`Rule::time`], with claims of this mode for those that hold alone.
    ///
    /// # Errors
    /// If the engine breaks it.
    pub async fn ask(&self, site: &Site, mutex: Mode) -> Result<()> {
        let cx = Cx::open(site, self.time(site), mutex).await?;
        (self.run)(cx).await
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.area, self.name)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({self})")
    }
}

/// Lists the rules of one area: each is a function of the file, followed by what it needs.
macro_rules! area {
    ($area:literal: $($name:ident $(($($need:ident),+))?),+ $(,)?) => {
        pub(super) const RULES: &[crate::conformance::Rule] = &[$(crate::conformance::Rule {
            area: $area,
            name: stringify!($name),
            needs: &[$($(crate::conformance::Need::$need),+)?],
            run: |cx| Box::pin($name(cx)),
        }),+];
    };
}
use area;

/// All rules, area by area.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        exclusion::RULES,
        attempt::RULES,
        replies::RULES,
        release::RULES,
        lapse::RULES,
        renew::RULES,
        fence::RULES,
        order::RULES,
        shared::RULES,
        permits::RULES,
        modes::RULES,
        differential::RULES,
        downgrade::RULES,
        turn::RULES,
        line::RULES,
        keys::RULES,
        evict::RULES,
        cancel::RULES,
        process::RULES,
    ]
    .into_iter()
    .flatten()
}
