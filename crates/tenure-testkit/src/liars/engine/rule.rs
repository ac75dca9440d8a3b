use tenure_core::{Mode, line};

use super::Lie;
use crate::model::HoldRule;

/// The line rule of a liar that has a wrong one.
pub(super) fn of(lie: Lie) -> Option<HoldRule> {
    Some(match lie {
        Lie::SecondHolder => |_, at| at <= 1,
        Lie::ReadersOvertakeWriter => {
            |modes, at| prefix(modes, at) || (modes[0] == Mode::Shared && modes[at] == Mode::Shared)
        }
        Lie::WriterBesideReader => |modes, at| prefix(modes, at) || (at == 1 && modes[0] == Mode::Shared),
        Lie::PermitsOffByOne => |modes, at| {
            prefix(modes, at) || permits(modes, at).is_some_and(|(sum, of)| sum <= u64::from(of) + 1)
        },
        Lie::MixesTotals => {
            |modes, at| prefix(modes, at) || permits(modes, at).is_some_and(|(sum, of)| sum <= u64::from(of))
        }
        Lie::PermitsWrap => |modes, at| {
            prefix(modes, at)
                || permits(modes, at).is_some_and(|(sum, of)| sum & 0xffff_ffff <= u64::from(of))
        },
        Lie::HoldersAreNoPrefix => {
            |modes, at| modes[..at].iter().all(|&ahead| line::compatible(ahead, modes[at]))
        }
        _ => return None,
    })
}

fn prefix(modes: &[Mode], at: usize) -> bool {
    at < line::holders(modes.iter().copied())
}

/// How many permits are taken up to this place, and of how many by its own account.
fn permits(modes: &[Mode], at: usize) -> Option<(u64, u32)> {
    let mut sum = 0;
    let mut total = 0;
    for mode in &modes[..=at] {
        let Mode::Permits(permits) = mode else { return None };
        sum += u64::from(permits.take());
        total = permits.of();
    }
    Some((sum, total))
}
