//! I8: a holder is told not later than at its deadline.

use super::{
    Bounds,
    stays::{Answer, Stays},
    story::Story,
    verdict::Finding,
};
use crate::history::What;

pub(super) fn check(stays: &Stays<'_>, bounds: &Bounds) -> Finding {
    let mut ops = 0;
    for event in &stays.events {
        let What::Believes { until: Some(until) } = event.what else { continue };
        ops += 1;
        let stopped = || stays.faults(event.worker, until, event.at).any(|fault| fault.worker.is_some());
        if event.at >= until + bounds.epsilon && !stopped() {
            let why = format!(
                "worker {} looked and was told that it holds, {:.1} ms after its deadline",
                event.worker,
                event.at.saturating_sub(until) as f64 / 1e6
            );
            return Finding::Broken(Story::tell(stays, event.at, &[event.op], why));
        }
        if let Some(lost) = stays.get(event.op).and_then(|stay| stay.lost)
            && lost < event.at
        {
            let why =
                format!("worker {} was told that it lost the lock, and then that it holds", event.worker);
            return Finding::Broken(Story::tell(stays, event.at, &[event.op], why));
        }
    }
    for stay in &stays.stays {
        let (Some(Answer::Granted { .. }), Some(lost), Some(safe)) = (&stay.answer, stay.lost, stay.safe)
        else {
            continue;
        };
        ops += 1;
        // Whoever looked long ago does not know what its deadline was in the end: a renewal moves it.
        let knew = lost.saturating_sub(stay.looked) <= bounds.ttl / 2;
        let excused = || stays.faults(stay.worker, stay.looked, lost).next().is_some();
        if knew && lost > safe + bounds.epsilon && !excused() {
            let why = format!(
                "worker {} was told {:.1} ms after its deadline that it had lost the lock",
                stay.worker,
                lost.saturating_sub(safe) as f64 / 1e6
            );
            return Finding::Broken(Story::tell(stays, lost, &[stay.op], why));
        }
    }
    Finding::Held(ops)
}

#[cfg(test)]
mod tests {
    use super::super::{Promise::Told, testing::Tale};
    use crate::history::What;

    #[test]
    fn nobody_who_looks_is_told_that_it_holds_after_its_deadline() {
        let looks = |at, until: u64| {
            let until = Some(until * 1_000_000_000);
            Tale::new().grant(1, 1, 0, Some(1)).event(1, 1, at, What::Believes { until })
        };
        assert_eq!(looks(8, 9).keeps(Told), 1);
        looks(10, 9).breaks(Told, "1000.0 ms after its deadline");
        looks(10, 9).fault("pause", 8, 10, Some(1), None).keeps(Told);
    }

    #[test]
    fn a_loss_is_told_by_the_deadline() {
        let lost = |at| {
            let late = Tale::new().grant(1, 1, 0, Some(1)).believe(1, 1, 3);
            let until = Some(12_000_000_000);
            late.event(1, 1, 11, What::Believes { until }).event(1, 1, at, What::Lost)
        };
        lost(12).keeps(Told);
        lost(13).breaks(Told, "was told 1000.0 ms after its deadline that it had lost the lock");
        lost(13).fault("pause", 11, 13, Some(1), None).keeps(Told);
        lost(30).keeps(Told);
    }

    #[test]
    fn lost_is_lost() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).event(1, 1, 4, What::Lost);
        tale.believe(1, 1, 5).breaks(Told, "and then that it holds");
    }
}
