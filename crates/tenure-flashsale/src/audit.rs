//! What a lane has really sold, counted from the receipts and from nothing else.

use std::collections::HashSet;

use serde::Serialize;

use crate::{
    host::WORKERS,
    store::Receipt,
    strategy::{Expected, Fault, Strategy},
};

/// All that was seen of a lane.
#[derive(Clone, Debug, Serialize)]
pub struct LaneResult {
    /// The way to sell.
    pub strategy: Strategy,
    /// What it is, in a few words.
    pub title: &'static str,
    /// The engine of its locks, if it has any.
    pub engine: Option<String>,
    /// What was there to sell.
    pub stock: u64,
    /// How many receipts there are.
    pub sold: u64,
    /// How many more than there was.
    pub oversold: u64,
    /// Receipts of buyers who had one already.
    pub double_orders: u64,
    /// Orders that a buyer was told of and no receipt shows.
    pub lost_orders: u64,
    /// What was left though somebody wanted it.
    pub unsold: u64,
    /// Receipts with a price and a tax that were never valid together.
    pub torn_prices: u64,
    /// The most that were in the shop at once, where a semaphore counts.
    pub peak: Option<u64>,
    /// Whether nobody could sell any more, though there was stock.
    pub stuck: bool,
    /// Late writes that the store refused.
    pub refused: u64,
    /// Buyers who were told to come again.
    pub busy: u64,
    /// Buyers whose order failed.
    pub failed: u64,
    /// Orders in a second, while the lane ran.
    pub orders_per_second: f64,
    /// How long the slowest hundredth of the answers took, at least.
    pub p99_ms: f64,
    /// How long it took.
    pub seconds: f64,
    /// What struck, in order.
    pub faults: Vec<String>,
    /// What was left, by the answers that buyers got: milliseconds, and a number that falls below zero.
    pub points: Vec<(u64, i64)>,
    /// What must be seen of it.
    pub expected: Expected,
    /// Whether it was seen.
    pub verdict: Verdict,
}

/// Whether a lane did what it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "as", content = "why")]
pub enum Verdict {
    /// As expected: a right way was safe, a wrong one went wrong.
    Expected,
    /// Not so, and how.
    Failed(String),
    /// It could not run here.
    Skipped(String),
}

/// What the organiser saw of a lane.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) acknowledged: HashSet<u32>,
    pub(crate) refused: u64,
    pub(crate) busy: u64,
    pub(crate) failed: u64,
    pub(crate) micros: Vec<u64>,
    pub(crate) visits: Vec<(u64, u64)>,
    pub(crate) points: Vec<(u64, i64)>,
    pub(crate) struck: Vec<(Fault, String)>,
    pub(crate) stuck: bool,
    pub(crate) seconds: f64,
    /// How many different people could have bought: those of hosts that died may not have.
    pub(crate) demand: u64,
}

/// What is fixed about a lane.
#[derive(Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) strategy: Strategy,
    pub(crate) engine: Option<String>,
    pub(crate) stock: u64,
    pub(crate) permits: u32,
    pub(crate) faults: &'a [Fault],
}

pub(crate) fn audit(terms: &Terms<'_>, mut seen: Seen, ledger: &[Receipt]) -> LaneResult {
    let buyers: HashSet<u32> = ledger.iter().map(|receipt| receipt.buyer).collect();
    let sold = ledger.len() as u64;
    let wanted = terms.stock.min(seen.demand);
    seen.micros.sort_unstable();
    let p99 = seen.micros.get(seen.micros.len() * 99 / 100).copied().unwrap_or_default();
    let peak = (terms.strategy == Strategy::Admission).then(|| peak(&seen.visits));
    let mut result = LaneResult {
        strategy: terms.strategy,
        title: terms.strategy.title(),
        engine: terms.engine.clone(),
        stock: terms.stock,
        sold,
        oversold: sold.saturating_sub(terms.stock),
        double_orders: sold - buyers.len() as u64,
        lost_orders: seen.acknowledged.difference(&buyers).count() as u64,
        unsold: wanted.saturating_sub(sold),
        torn_prices: ledger.iter().filter(|receipt| receipt.is_torn()).count() as u64,
        peak,
        stuck: seen.stuck,
        refused: seen.refused,
        busy: seen.busy,
        failed: seen.failed,
        orders_per_second: if seen.seconds > 0.0 { sold as f64 / seen.seconds } else { 0.0 },
        p99_ms: p99 as f64 / 1_000.0,
        seconds: seen.seconds,
        faults: seen.struck.iter().map(|(_, what)| what.clone()).collect(),
        points: seen.points,
        expected: terms.strategy.expected(),
        verdict: Verdict::Expected,
    };
    let missed = terms.faults.iter().find(|fault| !seen.struck.iter().any(|(struck, _)| struck == *fault));
    let killed = seen.struck.iter().filter(|(fault, _)| *fault == Fault::Kill).count() as u64;
    if let Some(why) = judge(&result, missed, killed, terms.permits) {
        result.verdict = Verdict::Failed(why);
    }
    result
}

/// Why a lane did not do what it should, if it did not.
fn judge(lane: &LaneResult, missed: Option<&Fault>, killed: u64, permits: u32) -> Option<String> {
    if let Some(fault) = missed {
        return Some(format!("the {} did not strike, so nothing was shown", fault.name()));
    }
    match lane.expected {
        Expected::Oversells if lane.oversold == 0 => {
            Some("it is known to oversell and did not: nothing was shown".into())
        }
        Expected::Stuck if !lane.stuck => {
            Some("it is known to get stuck and did not: nothing was shown".into())
        }
        Expected::Oversells | Expected::Stuck => None,
        Expected::Safe => {
            // Who dies between the counter and the receipt takes its numbers along, one for each buyer that it was
            // serving: that is said of it.
            let may_be_left = if lane.strategy == Strategy::Counter { killed * WORKERS as u64 } else { 0 };
            let troubles = [
                (lane.oversold, "oversold"),
                (lane.double_orders, "sold twice to one buyer"),
                (lane.lost_orders, "acknowledged and lost"),
                (lane.torn_prices, "at a price that never was"),
                (u64::from(lane.stuck), "stuck"),
                (lane.unsold.saturating_sub(may_be_left), "left though wanted"),
                (lane.peak.unwrap_or(0).saturating_sub(permits.into()), "too many in the shop"),
            ];
            let found: Vec<String> =
                troubles.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
            (!found.is_empty()).then(|| format!("a right way went wrong: {}", found.join(", ")))
        }
    }
}

/// The most visits at one moment. Who leaves at the moment another enters is out.
fn peak(visits: &[(u64, u64)]) -> u64 {
    let mut steps: Vec<(u64, i64)> =
        visits.iter().flat_map(|&(enter, leave)| [(enter, 1), (leave, -1)]).collect();
    steps.sort_unstable();
    let (mut now, mut most) = (0_i64, 0_i64);
    for (_, step) in steps {
        now += step;
        most = most.max(now);
    }
    u64::try_from(most).unwrap_or_default()
}

impl LaneResult {
    /// A lane that could not run.
    pub(crate) fn skipped(strategy: Strategy, why: String) -> Self {
        let terms = Terms { strategy, engine: None, stock: 0, permits: 0, faults: &[] };
        Self { verdict: Verdict::Skipped(why), ..audit(&terms, Seen::default(), &[]) }
    }

    /// What came of it, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        if let Verdict::Failed(why) | Verdict::Skipped(why) = &self.verdict {
            return why.clone();
        }
        let n = |count: u64| thousands(count);
        match self.strategy {
            Strategy::SetnxExpire => {
                format!("a host died between two commands; {} were never sold", n(self.unsold))
            }
            _ if self.expected == Expected::Oversells => format!(
                "{} paid for nothing{}",
                people(self.oversold),
                if self.double_orders > 0 {
                    format!(", {} of them twice", n(self.double_orders))
                } else {
                    String::new()
                }
            ),
            Strategy::Fenced => format!(
                "receipts {} = stock {}; {} late {} refused by the fence",
                n(self.sold),
                n(self.stock),
                n(self.refused),
                if self.refused == 1 { "write was" } else { "writes were" }
            ),
            Strategy::Conditional => "for a single counter you need no lock".into(),
            Strategy::Version => "right without a lock; under a crowd much work is done in vain".into(),
            Strategy::Counter if self.unsold > 0 => {
                format!("nothing oversold; {} went down with a host", n(self.unsold))
            }
            Strategy::Counter => "nothing oversold, as fast as the cache".into(),
            Strategy::OneEach => "many clicked twice, and everybody got one at most".into(),
            Strategy::Price => "the price changed while they bought, and nobody paid half of each".into(),
            _ => format!("never more than {} in the shop at once", self.peak.unwrap_or_default()),
        }
    }
}

fn people(count: u64) -> String {
    if count == 1 { "1 buyer has".into() } else { format!("{} buyers have", thousands(count)) }
}

/// `1,900` for 1900.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipts(buyers: &[u32]) -> Vec<Receipt> {
        buyers.iter().map(|&buyer| Receipt { buyer, host: 0, price: 0, tax: 0 }).collect()
    }

    fn terms(strategy: Strategy) -> Terms<'static> {
        Terms { strategy, engine: None, stock: 3, permits: 2, faults: &[] }
    }

    fn seen(acknowledged: &[u32]) -> Seen {
        Seen {
            acknowledged: acknowledged.iter().copied().collect(),
            demand: 10,
            seconds: 1.0,
            ..Seen::default()
        }
    }

    fn why(result: LaneResult) -> String {
        match result.verdict {
            Verdict::Failed(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_right_way_is_held_to_every_promise() {
        let fenced = terms(Strategy::Fenced);
        let good = audit(&fenced, seen(&[1, 2, 3]), &receipts(&[1, 2, 3]));
        assert_eq!((good.verdict, good.sold, good.oversold), (Verdict::Expected, 3, 0));
        let audit_of =
            |acknowledged: &[u32], ledger: &[u32]| why(audit(&fenced, seen(acknowledged), &receipts(ledger)));
        assert!(audit_of(&[], &[1, 2, 3, 4]).contains("1 oversold"));
        assert!(audit_of(&[], &[1, 1, 2]).contains("1 sold twice"));
        assert!(audit_of(&[9], &[1, 2, 3]).contains("1 acknowledged and lost"));
        assert!(audit_of(&[], &[1, 2]).contains("1 left though wanted"));
        let stuck = Seen { stuck: true, ..seen(&[]) };
        assert!(why(audit(&fenced, stuck, &receipts(&[1, 2, 3]))).contains("stuck"));
        let torn = [Receipt { buyer: 1, host: 0, price: 501, tax: 95 }, receipts(&[2])[0], receipts(&[3])[0]];
        assert!(
            why(audit(&terms(Strategy::Price), seen(&[]), &torn)).contains("1 at a price that never was")
        );
        let crowded = Seen { visits: vec![(0, 9), (1, 9), (2, 9)], ..seen(&[]) };
        assert!(
            why(audit(&terms(Strategy::Admission), crowded, &receipts(&[1, 2, 3]))).contains("1 too many")
        );
    }

    #[test]
    fn a_wrong_way_that_goes_right_has_shown_nothing() {
        assert!(
            why(audit(&terms(Strategy::NoLock), seen(&[]), &receipts(&[1, 2, 3])))
                .contains("nothing was shown")
        );
        assert!(
            why(audit(&terms(Strategy::SetnxExpire), seen(&[]), &receipts(&[1])))
                .contains("nothing was shown")
        );
        let oversold = audit(&terms(Strategy::NoLock), seen(&[]), &receipts(&[1, 2, 3, 4]));
        assert_eq!(oversold.verdict, Verdict::Expected);
    }

    #[test]
    fn a_fault_that_did_not_strike_proves_nothing() {
        let stall = Terms { faults: &[Fault::Stall], ..terms(Strategy::Fenced) };
        assert!(why(audit(&stall, seen(&[]), &receipts(&[1, 2, 3]))).contains("stall did not strike"));
        let struck = Seen { struck: vec![(Fault::Stall, "x".into())], ..seen(&[]) };
        assert_eq!(audit(&stall, struck, &receipts(&[1, 2, 3])).verdict, Verdict::Expected);
    }

    #[test]
    fn who_leaves_makes_room_for_who_enters() {
        assert_eq!(peak(&[(0, 5), (5, 9)]), 1);
        assert_eq!(peak(&[(0, 6), (5, 9), (5, 7)]), 3);
        assert_eq!(peak(&[]), 0);
    }

    #[test]
    fn numbers_are_read_by_people() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
