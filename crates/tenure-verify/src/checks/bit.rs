//! I9: a run whose faults missed proves nothing.

use std::collections::BTreeMap;

use super::Bounds;
use crate::history::History;

pub(super) fn hits(history: &History) -> BTreeMap<String, usize> {
    let mut hits = BTreeMap::new();
    for fault in history.faults.iter().filter(|fault| fault.hit.is_some()) {
        *hits.entry(fault.kind.clone()).or_insert(0) += 1;
    }
    hits
}

/// What is missing, if anything is.
pub(super) fn lacking(hits: &BTreeMap<String, usize>, bounds: &Bounds) -> Option<String> {
    let missing = |(kind, &least): (&String, &usize)| {
        let hit = hits.get(kind).copied().unwrap_or(0);
        (hit < least).then(|| format!("`{kind}` hit {hit} times of at least {least}"))
    };
    let missing: Vec<_> = bounds.min_hits.iter().filter_map(missing).collect();
    (!missing.is_empty()).then(|| missing.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::{Promise, Verdict, check, testing::Tale};

    #[test]
    fn a_run_whose_faults_missed_proves_nothing() {
        let tale = Tale::new().fault("pause", 10, 20, Some(1), None).grant(1, 1, 1, Some(7)).leave(1, 1, 5);
        let mut bounds = tale.bounds();
        bounds.min_hits.insert("pause".into(), 1);
        let report = check(&tale.history, &bounds);
        let Verdict::Inconclusive { why } = &report.verdicts[0].1 else { panic!("{report:?}") };
        assert_eq!(why, "`pause` hit 0 times of at least 1");
        assert!(!report.held() && report.refuted().is_none());

        let tale = tale.fault("pause", 21, 30, Some(1), Some("outlived the lease"));
        let report = check(&tale.history, &bounds);
        assert_eq!(report.hits["pause"], 1);
        assert!(matches!(report.verdicts[8], (Promise::Bit, Verdict::Held { ops: 1, hits: 1 })));
    }

    #[test]
    fn what_is_refuted_stays_refuted_without_faults() {
        let tale = Tale::new().grant(1, 1, 0, Some(7)).grant(2, 2, 5, Some(8));
        let mut bounds = tale.bounds();
        bounds.min_hits.insert("pause".into(), 1);
        assert_eq!(check(&tale.history, &bounds).refuted().unwrap().0, Promise::Exclusion);
    }
}
