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
/// The most lines of the dead that are emptied at a time.
const SWEPT: u64 = 20;
/// For how long nobody must have wanted a key before its row is removed, in microseconds: a minute.
const IDLE: u64 = 60_000_000;
/// The most such rows that are removed at a time; more than a client can leave behind between two looks.
const MOST_IDLE: u64 = 2_000;

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

    /// Forgets keys that everybody left: some of those who died in company, and those that nobody has wanted for a
    /// while, among all or among those whose hash starts with a byte.
    pub(crate) async fn sweep(&self, link: &Link, shard: Option<u8>) -> Result<()> {
        let sql = self.scripts.lapsed.text(&[("limit", Value::Number(SWEPT))]);
        let lapsed = link.send(Op::Connect, sql).await?;
        let life = link.found.incarnation().to_be_bytes();
        for hash in lapsed.rows().filter_map(|row| row.bytes(0)) {
            let values = [("h", Value::Bytes(hash)), ("life", Value::Bytes(&life))];
            let all = &self.scripts;
            self.run(Op::Connect, link, &[&all.find, &all.spill, &all.purge, &all.tidy], &values, "").await?;
        }
        let (mut from, mut to) = ([0; 32], [u8::MAX; 32]);
        if let Some(shard) = shard {
            (from[0], to[0]) = (shard, shard);
        }
        let age = ("age", Value::Number(IDLE));
        let sql = self.scripts.idle.text(&[
            ("from", Value::Bytes(&from)),
            ("to", Value::Bytes(&to)),
            ("life", Value::Bytes(&life)),
            ("limit", Value::Number(MOST_IDLE)),
            age,
        ]);
        let idle = link.send(Op::Connect, sql).await?;
        let mut keys = String::new();
        for hash in idle.rows().filter_map(|row| row.bytes(0)) {
            if !keys.is_empty() {
                keys.push(',');
            }
            Value::Bytes(hash).write(&mut keys);
        }
        if keys.is_empty() {
            return Ok(());
        }
        let values = [("keys", Value::Sql(&keys)), ("life", Value::Bytes(&life)), age];
        self.run(Op::Connect, link, &[&self.scripts.sweep], &values, "").await.map(drop)
    }
}
