//! What the locks protect: one register that checks fences, and one that takes what it is given.

use std::collections::BTreeSet;

use super::{Mutant, world::World};
use crate::history::{Done, Effect, KeyId, OpId, Register, WorkerId};

/// What a lock protects.
#[derive(Clone, Default)]
pub(super) struct Registers {
    mark: u64,
    claimed_by: OpId,
    fenced: BTreeSet<OpId>,
    plain: BTreeSet<OpId>,
}

impl Registers {
    fn of(&mut self, register: Register) -> &mut BTreeSet<OpId> {
        match register {
            Register::Fenced => &mut self.fenced,
            Register::Plain => &mut self.plain,
        }
    }
}

impl World {
    /// The protected resources: what is asked of them reaches them at once.
    pub(super) fn claim(&self, worker: WorkerId, op: OpId, key: KeyId, fence: u64) -> bool {
        let careless = self.is(Mutant::WriteOnlyFence);
        self.effect((worker, op, key), Register::Fenced, Some(fence), |registers| {
            let accepted = fence > registers.mark || (fence == registers.mark && registers.claimed_by == op);
            if accepted && !careless {
                (registers.mark, registers.claimed_by) = (fence, op);
            }
            (Done::Claim, accepted || careless)
        })
    }

    pub(super) fn read(
        &self,
        worker: WorkerId,
        op: OpId,
        key: KeyId,
        register: Register,
        fence: Option<u64>,
    ) -> BTreeSet<OpId> {
        let mut seen = BTreeSet::new();
        self.effect((worker, op, key), register, fence, |registers| {
            seen = registers.of(register).clone();
            (Done::Read, true)
        });
        seen
    }

    pub(super) fn write(
        &self,
        (worker, op, key): (WorkerId, OpId, KeyId),
        register: Register,
        fence: Option<u64>,
        seen: &BTreeSet<OpId>,
    ) -> bool {
        let careless = self.is(Mutant::WriteOnlyFence);
        self.effect((worker, op, key), register, fence, |registers| {
            let accepted = match (register, fence) {
                (Register::Plain, _) | (_, None) => true,
                (Register::Fenced, Some(fence)) if careless => fence >= registers.mark,
                (Register::Fenced, Some(fence)) => fence == registers.mark && registers.claimed_by == op,
            };
            let held = registers.of(register);
            let lost = held.difference(seen).copied().filter(|&other| other != op).collect();
            if accepted {
                *held = seen.clone();
                held.insert(op);
                if register == Register::Fenced {
                    registers.mark = registers.mark.max(fence.unwrap_or(0));
                }
            }
            (Done::Write { lost }, accepted)
        })
    }

    fn effect(
        &self,
        (worker, op, key): (WorkerId, OpId, KeyId),
        register: Register,
        fence: Option<u64>,
        act: impl FnOnce(&mut Registers) -> (Done, bool),
    ) -> bool {
        let mut state = self.lock();
        let at = state.stamp(self.now());
        let (what, accepted) = act(&mut state.registers[key as usize]);
        state.history.effects.push(Effect { at, worker, op, key, register, fence, what, accepted });
        accepted
    }
}
