//! Several pieces of work at a time: most of what they do is wait, for a lease to end or a server to come back.

use std::{
    sync::{Mutex, PoisonError},
    thread,
};

/// More would not be quicker on a small machine, and on a large one the servers want memory.
const AT_ONCE: usize = 2;

/// Does them all, taking them in order; what became of each stands where it stood.
pub(crate) fn side_by_side<T: Send, R: Send>(work: Vec<T>, do_one: impl Fn(T) -> R + Sync) -> Vec<R> {
    let left = Mutex::new(work.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((at, one)) = next else { return };
                    let result = do_one(one);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn results_stand_where_the_work_stood_and_two_run_at_once() {
        let both = Barrier::new(2);
        let done = side_by_side(vec![3, 1, 2, 0], |number| {
            both.wait();
            number * 10
        });
        assert_eq!(done, [30, 10, 20, 0]);
    }
}
