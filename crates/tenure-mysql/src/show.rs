//! What people look at, and what the dead leave behind.

use tenure_core::{Filter, Op, Place, Result, Standing, line};

use crate::{
    MysqlEngine,
    answer::nonsense,
    link::Link,
    links::Use,
    script::Value,
    words::{Hash, place},
};

/// The most places that are shown at once.
const MOST_SHOWN: usize = 100_000;
/// The most keys of the dead that are forgotten at a time.
const SWEPT: u64 = 20;

impl MysqlEngine {
    pub(crate) async fn places(&self, filter: &Filter) -> Result<Vec<Place>> {
        let limit = filter.limit().min(MOST_SHOWN);
        let mut which = String::new();
        let hash = match filter {
            Filter::Key(key) => {
                let hash = Hash::of(key);
                which.push_str("l.h = ");
                Value::Bytes(&hash.0).write(&mut which);
                hash
            }
            Filter::Prefix(prefix, _) => {
                which = format!("LEFT(l.name, {}) = ", prefix.len());
                Value::Bytes(prefix.as_bytes()).write(&mut which);
                Hash::default()
            }
        };
        let link = self.links.get(Use::Key(hash.0[1])).await.map_err(|err| err.in_op(Op::Line))?;
        let life = link.found.incarnation().to_be_bytes();
        let sql = self.scripts.show.text(&[
            ("which", Value::Sql(&which)),
            ("limit", Value::Number(limit as u64)),
            ("life", Value::Bytes(&life)),
        ]);
        let answer = link.send(Op::Line, sql).await?;
        let places: Option<Vec<_>> = answer.rows().map(place).collect();
        let mut places = places.ok_or_else(|| nonsense(Op::Line))?;
        for line in places.chunk_by_mut(|one, two| one.key == two.key) {
            let holders = line::holders(line.iter().map(|place| place.mode));
            line[..holders].iter_mut().for_each(|place| place.standing = Standing::Holds);
        }
        Ok(places)
    }

    /// Forgets some keys that everybody left without letting go.
    pub(crate) async fn sweep(&self, link: &Link) -> Result<()> {
        let sql = self.scripts.lapsed.text(&[("limit", Value::Number(SWEPT))]);
        let lapsed = link.send(Op::Connect, sql).await?;
        let life = link.found.incarnation().to_be_bytes();
        for hash in lapsed.rows().filter_map(|row| row.bytes(0)) {
            let values = [("h", Value::Bytes(hash)), ("life", Value::Bytes(&life))];
            let all = &self.scripts;
            self.run(Op::Connect, link, &[&all.find, &all.purge, &all.tidy], &values, "").await?;
        }
        Ok(())
    }
}
