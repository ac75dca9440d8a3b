//! The lines, for people.

use std::time::Duration;

use tenure_core::{BootClock, Clock, Filter, Key, Op, Place, Result, Standing, line};

use crate::{
    engine::{ZookeeperEngine, read_line, seq_of},
    link::{Failure, Link},
    place::{Line, is_line_of, read_note},
    trouble,
    wire::{Request, code, read_children, read_data, read_stat},
};

/// How many nodes are asked for at once.
const AT_ONCE: usize = 256;

impl ZookeeperEngine {
    pub(crate) async fn show(&self, filter: &Filter) -> Result<Vec<Place>> {
        let session = self.sessions.some(Op::Line).await?;
        let outcome = async {
            let link = session.link().await?;
            self.try_show(&link, filter).await
        };
        outcome.await.map_err(|failure| trouble::of(failure, Op::Line))
    }

    async fn try_show(&self, link: &Link, filter: &Filter) -> Result<Vec<Place>, Failure> {
        if self.leader_clock().is_none() {
            self.ask_the_time(link).await?;
        }
        let keys = match filter {
            Filter::Key(key) => {
                link.send(&Request::Sync { path: &self.paths.lines }).answer().await?;
                vec![key.clone()]
            }
            Filter::Prefix(..) => self.keys(link, filter).await?,
        };
        let mut places = Vec::new();
        for some in keys.chunks(AT_ONCE) {
            let paths: Vec<_> = some.iter().map(|key| self.paths.line(key)).collect();
            let lines: Vec<_> =
                paths.iter().map(|path| link.send(&Request::Children { path, watch: false })).collect();
            for ((key, path), line) in some.iter().zip(&paths).zip(lines) {
                let line = read_line(line.answer().await)?;
                places.extend(self.places(link, key, path, &line).await?);
                if places.len() >= filter.limit() {
                    places.truncate(filter.limit());
                    return Ok(places);
                }
            }
        }
        Ok(places)
    }

    /// The keys that have a node and that the filter shows, in order.
    async fn keys(&self, link: &Link, filter: &Filter) -> Result<Vec<Key>, Failure> {
        let sync = link.send(&Request::Sync { path: &self.paths.lines });
        let children = link.send(&Request::Children { path: &self.paths.lines, watch: false });
        sync.answer().await?;
        let names = read_children(&children.answer().await?).ok_or(Failure::Garbled)?;
        let mut keys = Vec::new();
        let mut short = Vec::new();
        for name in names {
            match Key::from_path_element(&name) {
                Some(key) => keys.push(key),
                None => short.push(name),
            }
        }
        // A long name is cut; the whole of it is the node's data.
        for some in short.chunks(AT_ONCE) {
            let asked: Vec<_> = some
                .iter()
                .map(|name| {
                    let path = format!("{}/{name}", self.paths.lines);
                    link.send(&Request::Get { path: &path, watch: false })
                })
                .collect();
            for (name, data) in some.iter().zip(asked) {
                let data = match data.answer().await {
                    Ok(body) => read_data(&body).ok_or(Failure::Garbled)?.0,
                    Err(Failure::Code(code::NO_NODE)) => continue,
                    Err(failure) => return Err(failure),
                };
                let key = String::from_utf8(data).ok().and_then(|text| Key::new(text).ok());
                keys.extend(key.filter(|key| is_line_of(name, key)));
            }
        }
        keys.retain(|key| filter.shows(key));
        keys.sort();
        Ok(keys)
    }

    /// The places of a line, without those that go while it is looked at.
    async fn places(&self, link: &Link, key: &Key, path: &str, line: &Line) -> Result<Vec<Place>, Failure> {
        let now = self.leader_clock().unwrap_or_default();
        let holders = line::holders(line.modes());
        let mut places = Vec::with_capacity(line.0.len());
        let asked: Vec<_> = line
            .0
            .iter()
            .map(|spot| link.send(&Request::Get { path: &format!("{path}/{}", spot.name), watch: false }))
            .collect();
        for (at, (spot, asked)) in line.0.iter().zip(asked).enumerate() {
            let (data, stat) = match asked.answer().await {
                Ok(body) => read_data(&body).ok_or(Failure::Garbled)?,
                Err(Failure::Code(code::NO_NODE)) => continue,
                Err(failure) => return Err(failure),
            };
            let taken = Duration::from_millis(stat.created_at.unsigned_abs());
            places.push(Place {
                key: key.clone(),
                id: spot.id,
                seq: seq_of(&stat).ok_or(Failure::Garbled)?,
                mode: spot.mode,
                standing: if at < holders { Standing::Holds } else { Standing::Waits },
                note: read_note(&data),
                age: now.saturating_sub(taken),
                lease_left: None,
            });
        }
        Ok(places)
    }

    /// Only a change shows what time it is.
    async fn ask_the_time(&self, link: &Link) -> Result<(), Failure> {
        let sent = BootClock.now();
        match link.send(&Request::Set { path: &self.paths.lines, data: &[] }).answer().await {
            Ok(body) => self.clock_was(read_stat(&body).ok_or(Failure::Garbled)?.changed_at, sent),
            // Who may only look does not learn how long the others have been there.
            Err(Failure::Code(_)) => {}
            Err(failure) => return Err(failure),
        }
        Ok(())
    }
}
