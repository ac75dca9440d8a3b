//! What people see of a quorum: one line merged from the members' own, evictions by it, and facts.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use tenure_core::{
    ClaimId, Engine, Evicted, Eviction, Fact, Filter, Key, Mode, Op, Place, Result, Standing, When, line,
};

use super::{
    Inner,
    verdict::{Miss, told, too_few},
};

impl Inner {
    pub(super) async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        let lines = self.lines(Op::Line, filter).await?;
        let unheard = lines.iter().filter(|line| line.is_none()).count();
        let mut places: BTreeMap<(Key, ClaimId), Vec<Place>> = BTreeMap::new();
        for place in lines.into_iter().flatten().flatten() {
            places.entry((place.key.clone(), place.id)).or_default().push(place);
        }
        let merged: Vec<_> = places.into_values().map(|copies| self.merge(copies)).collect();
        let mut shown = Vec::with_capacity(merged.len());
        for key in merged.chunk_by(|a, b| a.0.key == b.0.key) {
            shown.extend(self.stand(key.to_vec(), unheard));
        }
        shown.truncate(filter.limit());
        Ok(shown)
    }

    /// One place out of its copies, and at how many members it holds.
    ///
    /// Its number is the one that its holder's fence was chosen by, as far as that can be seen from outside.
    fn merge(&self, copies: Vec<Place>) -> (Place, usize) {
        let majority = self.roster.majority();
        let holds = copies.iter().filter(|copy| copy.standing == Standing::Holds).count();
        let readers = copies.iter().filter(|copy| copy.mode == Mode::Shared).count();
        let mut seqs: Vec<_> = copies.iter().map(|copy| copy.seq).collect();
        seqs.sort_unstable();
        let at = majority.min(seqs.len()) - 1;
        // It lives while a majority does.
        let mut leases: Vec<_> = copies.iter().map(|copy| copy.lease_left.unwrap_or(Duration::MAX)).collect();
        leases.sort_unstable_by_key(|lease| Reverse(*lease));
        let seq = if self.fenced { seqs[at] } else { seqs[seqs.len() - 1] };
        let age = copies.iter().map(|copy| copy.age).max().unwrap_or_default();
        // A late attempt of another mode may have found the members where the first had not arrived.
        let mode = if 2 * readers > copies.len() { Mode::Shared } else { Mode::Exclusive };
        let lease_left = Some(leases[at]).filter(|lease| *lease < Duration::MAX);
        // There is at least one copy, or there would be no place.
        let mut place = copies.into_iter().next().expect("a place has a copy");
        (place.seq, place.age, place.mode, place.lease_left) = (seq, age, mode, lease_left);
        (place, holds)
    }

    /// Who of a key's line holds. Members that were not heard may stand behind anybody, so whoever holds at most
    /// members is believed first; the others wait, or are in the way.
    fn stand(&self, mut places: Vec<(Place, usize)>, unheard: usize) -> Vec<Place> {
        places.sort_by_key(|(place, holds)| (Reverse(*holds), place.seq, place.id));
        let mut front: Vec<Mode> = Vec::new();
        for (place, holds) in &mut places {
            let may = *holds > 0 && *holds + unheard >= self.roster.majority();
            place.standing = if may && line::would_hold(front.iter().copied(), place.mode) {
                front.push(place.mode);
                Standing::Holds
            } else {
                Standing::Waits
            };
        }
        let mut places: Vec<_> = places.into_iter().map(|(place, _)| place).collect();
        places.sort_by_key(|place| (place.standing == Standing::Waits, place.seq, place.id));
        places
    }

    /// Breaks the place at every member that has it. It is looked for first, because each has its own number of it.
    pub(super) async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        let lines = self.lines(Op::Evict, &Filter::Key(eviction.key.clone())).await?;
        let unheard = lines.iter().filter(|line| line.is_none()).count();
        let own: Vec<Option<Place>> = lines
            .into_iter()
            .map(|line| line.into_iter().flatten().find(|place| place.id == eviction.id))
            .collect();
        let copies: Vec<_> = own.iter().flatten().cloned().collect();
        // Too few to hold are what an eviction left that did not come to its end; their numbers may be others.
        let may_hold = copies.len() + unheard >= self.roster.majority();
        if copies.is_empty() || (may_hold && self.merge(copies).0.seq != eviction.seq) {
            return Ok(Evicted::Gone);
        }
        let asks = own.into_iter().enumerate().filter_map(|(member, place)| {
            let eviction = Eviction { seq: place?.seq, ..eviction.clone() };
            let verb = async move |engine: Arc<dyn Engine>| engine.evict(&eviction).await;
            Some(self.ask(member, self.settings.member_limit, verb))
        });
        let answers = join_all(asks).await;
        let count =
            |what| answers.iter().filter(|(_, answer)| matches!(answer, Ok(it) if *it == what)).count();
        let missed: Vec<_> = answers.iter().filter_map(|(_, answer)| answer.as_ref().err()).collect();
        if missed.len() >= self.roster.majority() || missed.len() == answers.len() {
            let said: Vec<_> = missed.iter().map(ToString::to_string).collect();
            let message =
                format!("{} of {} places were not evicted: {}", missed.len(), answers.len(), said.join(", "));
            return Err(too_few(Op::Evict, message, missed.into_iter()).with_key(&eviction.key));
        }
        Ok(if count(Evicted::Stopped) > 0 && eviction.when == When::Gently {
            Evicted::Stopped
        } else if count(Evicted::Freed) > 0 {
            Evicted::Freed
        } else {
            Evicted::Gone
        })
    }

    /// What the members say about themselves, under their names, and who of them cannot be counted on.
    pub(super) async fn examine(&self) -> Result<Vec<Fact>> {
        let answers = self.all(Op::Examine, |engine| async move { engine.examine().await }.boxed()).await?;
        let mut facts = Vec::new();
        let mut trouble = Vec::new();
        let now = self.now();
        for (member, (name, answer)) in self.roster.names().zip(answers).enumerate() {
            match answer {
                Ok(own) => facts.extend(
                    own.into_iter().map(|fact| Fact { text: format!("{name}: {}", fact.text), ..fact }),
                ),
                Err(miss) => trouble.push(format!("{name} is out ({miss})")),
            }
            let counts_in = self.quarantine_of(member).map_or(Duration::ZERO, |until| until.since(now));
            if !counts_in.is_zero() {
                trouble.push(format!("{name} restarted and counts in {}s", counts_in.as_secs() + 1));
            }
        }
        let (count, majority) = (self.roster.len(), self.roster.majority());
        facts.push(if trouble.is_empty() {
            Fact::good("members", format!("all {count} members count; {} may fail", count - majority))
        } else {
            Fact::warning("members", format!("{} of {count} needed: {}", majority, trouble.join(", ")))
        });
        if !self.fenced {
            let text =
                "fences may go back, because the quorum was opened without them; let no resource check them";
            facts.push(Fact::warning("fences", text));
        }
        Ok(facts)
    }

    /// The members' own lines; `None` for those that did not answer.
    async fn lines(&self, op: Op, filter: &Filter) -> Result<Vec<Option<Vec<Place>>>> {
        let filter = Arc::new(filter.clone());
        let ask = move |engine: Arc<dyn Engine>| {
            let filter = filter.clone();
            async move { engine.line(&filter).await }.boxed()
        };
        let answers = self.all(op, ask).await?;
        Ok(answers.into_iter().map(Result::ok).collect())
    }

    /// Asks everybody and waits for all, as people can.
    async fn all<T: Send + 'static>(
        &self,
        op: Op,
        verb: impl Fn(Arc<dyn Engine>) -> BoxFuture<'static, Result<T>> + Clone + Send + 'static,
    ) -> Result<Vec<Result<T, Miss>>> {
        let limit = self.settings.member_limit;
        let asks = (0..self.roster.len()).map(|member| self.ask(member, limit, verb.clone()));
        let answers: Vec<_> = join_all(asks).await.into_iter().map(|(_, answer)| answer).collect();
        let missed = answers.iter().filter_map(|answer| answer.as_ref().err());
        let answered = answers.len() - missed.clone().count();
        if answered < self.roster.majority() {
            let said = answers.iter().map(|answer| match answer {
                Ok(_) => "answered".to_owned(),
                Err(miss) => miss.to_string(),
            });
            let said = told(&self.roster, &said.collect::<Vec<_>>());
            return Err(too_few(op, format!("{answered} of {} answered: {said}", answers.len()), missed));
        }
        Ok(answers)
    }
}
