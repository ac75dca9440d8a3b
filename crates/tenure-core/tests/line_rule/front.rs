//! The front of a line that is kept up to date place by place says what the rule says of the whole line.

use tenure_core::{
    Mode,
    line::{self, Front},
};

use super::{all_lines, six_modes};

/// Lets in whoever holds now, as an engine would after every change.
fn settle(front: &mut Front, line: &[Mode]) {
    while let Some(&next) = line.get(front.holders())
        && front.admit(next)
    {}
}

/// Every line of up to four places in six modes is joined place by place; then each of its places leaves, and after it
/// each of those that are left.
#[test]
fn the_front_follows_every_change() {
    for whole in all_lines(&six_modes(), 4) {
        let (mut front, mut line) = (Front::default(), Vec::new());
        for &mode in &whole {
            let would_hold = line::would_hold(line.iter().copied(), mode);
            assert_eq!(
                front.holders() == line.len() && front.fits(mode),
                would_hold,
                "{line:?} then {mode:?}"
            );
            line.push(mode);
            settle(&mut front, &line);
            assert_eq!(front.holders(), line::holders(line.iter().copied()), "{line:?}");
        }
        for first in 0..whole.len() {
            for second in 0..whole.len() - 1 {
                let (mut front, mut line) = (front, line.clone());
                for leaves in [first, second] {
                    let held = leaves < front.holders();
                    let mode = line.remove(leaves);
                    if held {
                        front.leave(mode);
                    }
                    settle(&mut front, &line);
                    assert_eq!(
                        front.holders(),
                        line::holders(line.iter().copied()),
                        "{whole:?} without {first}, {second}"
                    );
                }
            }
        }
    }
}
