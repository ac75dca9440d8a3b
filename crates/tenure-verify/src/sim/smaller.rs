//! Plans that are a step smaller than a plan, and a plan in words.

use std::fmt;

use super::plan::{Blow, LockKind, MS, Memory, Plan, When};
use crate::history::Nanos;

impl Plan {
    /// How much is in it.
    pub(super) fn size(&self) -> usize {
        let clients = self.clients.iter().map(|client| (client.tasks + client.rounds) as usize);
        let servers =
            self.servers.iter().map(|server| server.restarts.len() + usize::from(server.set_back.is_some()));
        clients.sum::<usize>()
            + servers.sum::<usize>()
            + self.windows.len()
            + self.strikes.len()
            + self.keys as usize
    }

    /// Every plan with one thing less in it, what leaves out most first.
    pub(super) fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            all.push(plan);
        };
        // One alone proves nothing, so two are left.
        if self.clients.len() > 2 {
            for client in 0..self.clients.len() {
                with(&|plan| plan.leave_out(client));
            }
        }
        for at in 0..self.windows.len() {
            with(&|plan| _ = plan.windows.remove(at));
        }
        for at in 0..self.strikes.len() {
            with(&|plan| _ = plan.strikes.remove(at));
        }
        for (number, server) in self.servers.iter().enumerate() {
            if server.set_back.is_some() {
                with(&|plan| plan.servers[number].set_back = None);
            }
            for at in 0..server.restarts.len() {
                with(&|plan| _ = plan.servers[number].restarts.remove(at));
            }
            if server.drift != 0 {
                with(&|plan| plan.servers[number].drift = 0);
            }
        }
        for (number, client) in self.clients.iter().enumerate() {
            if client.tasks > 1 {
                with(&|plan| plan.clients[number].tasks = 1);
            }
            if client.rounds > 1 {
                with(&|plan| plan.clients[number].rounds -= 1);
            }
            if client.drift != 0 {
                with(&|plan| plan.clients[number].drift = 0);
            }
        }
        if self.keys > 1 {
            with(&|plan| plan.keys = 1);
        }
        for (at, window) in self.windows.iter().enumerate() {
            if window.to - window.from > self.ttl / 4 {
                with(&|plan| plan.windows[at].to = window.from + (window.to - window.from) / 2);
            }
        }
        all
    }

    fn leave_out(&mut self, client: usize) {
        self.clients.remove(client);
        let other = |at: usize| if at > client { at - 1 } else { at };
        self.windows.retain(|window| window.client != Some(client));
        for window in &mut self.windows {
            window.client = window.client.map(other);
        }
        self.strikes.retain(|strike| strike.client != client);
        for strike in &mut self.strikes {
            strike.client = other(strike.client);
        }
    }
}

fn ms(time: Nanos) -> String {
    format!("{} ms", time / MS)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            LockKind::Mutex => "a mutex".to_owned(),
            LockKind::ReadersWriter => "a reader-writer lock".to_owned(),
            LockKind::Permits(of) => format!("a semaphore of {of}"),
        };
        let servers = if self.servers.len() == 1 {
            "one server".into()
        } else {
            format!("a quorum of {}", self.servers.len())
        };
        writeln!(
            f,
            "  {kind} on {} key(s), lease {}, {servers}, up to {} each way",
            self.keys,
            ms(self.ttl),
            ms(self.latency)
        )?;
        for (number, client) in self.clients.iter().enumerate() {
            let (tasks, rounds, drift) = (client.tasks, client.rounds, client.drift);
            writeln!(f, "  client {number}: {tasks} task(s), {rounds} round(s), its clock {drift:+} ppm")?;
        }
        for (number, server) in self.servers.iter().enumerate() {
            for (at, memory) in &server.restarts {
                let what =
                    if *memory == Memory::Kept { "restarts" } else { "restarts and forgets everything" };
                writeln!(f, "  at {}: server {number} {what}", ms(*at))?;
            }
            if let Some((at, by)) = server.set_back {
                writeln!(f, "  at {}: the clock of server {number} is set back by {}", ms(at), ms(by))?;
            }
            if server.drift != 0 {
                writeln!(f, "  server {number}: its clock {:+} ppm", server.drift)?;
            }
        }
        for window in &self.windows {
            let whose = window.client.map_or("everybody".to_owned(), |client| format!("client {client}"));
            let (from, to, kind) = (ms(window.from), ms(window.to), window.kind);
            writeln!(f, "  {from} to {to}: {kind:?} for {whose}, {} of 100 messages", window.percent)?;
        }
        for strike in &self.strikes {
            let when = match strike.when {
                When::At(at) => format!("at {}", ms(at)),
                When::Granted { nth, after } => format!("{} after its grant no. {nth}", ms(after)),
            };
            let what = match strike.what {
                Blow::Pause(long) => format!("is stopped for {}", ms(long)),
                Blow::Suspend(long, lag) => {
                    format!("sleeps for {}, its background for {} more", ms(long), ms(lag))
                }
                Blow::Kill => "is killed".into(),
                Blow::Break => "has its hold broken by an operator".into(),
            };
            writeln!(f, "  {when}: client {} {what}", strike.client)?;
        }
        Ok(())
    }
}
