//! Renewals: many holds in one transaction.

use std::collections::BTreeMap;

use tenure_core::{Held, Op, Renewal, Result, Seq};

use crate::{
    MysqlEngine,
    answer::nonsense,
    link::Link,
    links::Use,
    script::{COMMIT, Value},
    words::{Hash, absurd_floor, micros},
};

/// The most holds that one transaction renews: their rows are locked until it ends.
const RENEWALS: usize = 100;

impl MysqlEngine {
    pub(crate) async fn renew_(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let mut order: Vec<(Hash, usize)> =
            holds.iter().enumerate().map(|(at, hold)| (Hash::of(&hold.claim.key), at)).collect();
        order.sort_unstable();
        let mut renewals = vec![Renewal::Lost; holds.len()];
        for chunk in order.chunks(RENEWALS) {
            let link = self.links.get(Use::Renewals).await.map_err(|err| err.in_op(Op::Renew))?;
            let answer = link.send(Op::Renew, self.renewal(&link, chunk, holds)).await?;
            let mut rows = answer.rows();
            if rows.next().ok_or_else(|| nonsense(Op::Renew))?.is(0) {
                return Err(absurd_floor(Op::Renew));
            }
            for row in rows {
                let at = row.number(0).and_then(|at| usize::try_from(at).ok());
                let at = at.filter(|&at| at < holds.len()).ok_or_else(|| nonsense(Op::Renew))?;
                renewals[at] = Renewal::Renewed(Some(holds[at].claim.ttl.get()));
            }
        }
        Ok(renewals)
    }

    /// The statements that renew some holds, in the order of their keys.
    fn renewal(&self, link: &Link, chunk: &[(Hash, usize)], holds: &[Held<'_>]) -> String {
        let (mut keys, mut wanted) = (String::new(), String::new());
        let mut floors = BTreeMap::new();
        for (hash, at) in chunk {
            let hold = &holds[*at];
            if !keys.is_empty() {
                keys.push(',');
                wanted.push_str(" UNION ALL ");
            }
            Value::Bytes(&hash.0).write(&mut keys);
            // Written out, because hundreds of these are put together at a time.
            for (before, value) in [
                ("SELECT ", Value::Number(*at as u64)),
                (" AS i, ", Value::Bytes(&hash.0)),
                (" AS h, ", Value::Bytes(&hold.claim.id.to_bytes())),
                (" AS id, ", Value::Number(hold.seq.get())),
                (" AS seq, ", Value::Number(micros(hold.claim.ttl.get()))),
            ] {
                wanted.push_str(before);
                value.write(&mut wanted);
            }
            wanted.push_str(" AS t");
            if hold.claim.floor > Seq::ZERO {
                let floor = floors.entry(*hash).or_insert(hold.claim.floor);
                *floor = (*floor).max(hold.claim.floor);
            }
        }
        let most = floors.values().copied().max().unwrap_or(Seq::ZERO);
        let life = link.found.incarnation().to_be_bytes();
        let mut sql = self.scripts.renew.text(&[
            ("keys", Value::Sql(&keys)),
            ("wanted", Value::Sql(&wanted)),
            ("life", Value::Bytes(&life)),
            ("floor", Value::Number(most.get())),
        ]);
        for (hash, floor) in floors {
            let values = [("h", Value::Bytes(&hash.0)), ("floor", Value::Number(floor.get()))];
            self.scripts.raise.write(&mut sql, &values);
        }
        sql.push_str(COMMIT);
        sql
    }
}
