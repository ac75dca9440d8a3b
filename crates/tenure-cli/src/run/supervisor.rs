//! Watches the job and the lock at once, and stops the one before it loses the other.

use std::time::Duration;

use nix::sys::signal::Signal;
use rustix::process::kill_current_process_group;
use tenure::{BootClock, Clock, Key, Loss, Moment, Result};
use tokio::time::{Instant, sleep_until};

use super::{
    Talk,
    group::{self, Group},
    held::Held,
    job::{Errand, Job, News},
    plan::Timetable,
    report::End,
    signals::{self, Heard, Signals},
    terminal::{Mood, Terminal},
};
use crate::{
    exit::{self, Failure},
    out, words,
};

/// After how long a group that outlives its job is spoken of.
const LINGERS: Duration = Duration::from_secs(10);
/// How long a job that was stopped waits for bad news before it goes on: what came while this process was stopped
/// too is read first.
const GATE: Duration = Duration::from_millis(50);
/// How often a group that outlives its job is looked at. Most ends are told by the kernel; this is for those of
/// whose parents we are not.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Supervisor {
    held: Held,
    signals: Signals,
    times: Timetable,
    talk: Talk,
    terminal: Terminal,
    /// Why the lock is lost, or as good as lost.
    lost: Option<&'static str>,
    /// Whether the job ran for too long.
    overran: bool,
    /// When the group gets SIGKILL; `None` while nobody asked for an end.
    kill_at: Option<Instant>,
    killed: bool,
    interrupts: u32,
    stopped: bool,
    /// When the job goes on, if nothing bad is heard until then.
    resume_at: Option<Instant>,
    /// Whether somebody asked for an end.
    asked: bool,
    /// What the stub was told last.
    told: Option<Moment>,
}

enum Event {
    Signal(Heard),
    Lost(Loss),
    Time,
}

/// What goes on with one job.
struct Shift {
    job: Job,
    started: Instant,
    end: Option<End>,
    empty: bool,
    speak_at: Option<Instant>,
}

impl Supervisor {
    pub(super) fn new(held: Held, signals: Signals, times: Timetable, talk: Talk) -> Self {
        Self {
            held,
            signals,
            times,
            talk,
            terminal: Terminal::find(),
            lost: None,
            overran: false,
            kill_at: None,
            killed: false,
            interrupts: 0,
            stopped: false,
            resume_at: None,
            asked: false,
            told: None,
        }
    }

    /// Runs the job until its group is empty.
    pub(super) async fn supervise(&mut self, errand: &Errand) -> Result<End, Failure> {
        let mut job = Job::prepare().map_err(|err| Failure::internal("cannot start the stub", err))?;
        self.terminal.give(job.group);
        self.told = self.deadline();
        if let Some(deadline) = self.told {
            job.until(deadline);
        }
        let started = job.start(errand);
        let mut shift = Shift { job, started: Instant::now(), end: None, empty: false, speak_at: None };
        let ended = match started {
            Ok(()) => Ok(self.watch(&mut shift).await),
            Err(err) => Err(cannot_run(errand, &err)),
        };
        let mood = if matches!(shift.end, Some(End::Exited(_))) { Mood::Keep } else { Mood::Restore };
        self.terminal.take(mood);
        shift.job.end();
        ended
    }

    async fn watch(&mut self, shift: &mut Shift) -> End {
        while !shift.empty {
            self.keep_time(shift);
            let until = self.next_look(shift);
            match self.event(until).await {
                Event::Signal(Heard(Signal::SIGCHLD)) => self.on_children(shift),
                Event::Signal(heard) => self.on_signal(shift.job.group, heard),
                Event::Lost(loss) => self.on_loss(shift.job.group, loss),
                Event::Time => shift.empty = shift.end.is_some() && shift.job.is_alone(),
            }
        }
        // The alarm of the stub may have been faster than the loss that caused it.
        if self.lost.is_none() && self.held.is_lost() {
            self.lost = Some(reason(Loss::Expired));
        }
        shift.end.unwrap_or(End::Killed(Signal::SIGKILL as i32))
    }

    async fn event(&mut self, until: Option<Instant>) -> Event {
        let time = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            loss = self.held.lost(), if self.lost.is_none() => Event::Lost(loss),
            heard = self.signals.next() => Event::Signal(heard),
            () = time => Event::Time,
        }
    }

    fn on_children(&mut self, shift: &mut Shift) {
        while let Some(news) = shift.job.news() {
            match news {
                News::Stopped(signal) => self.on_stop(shift.job.group, signal),
                News::Continued => self.stopped = false,
                News::Ended(end) => self.on_end(shift, end),
                // By us with its whole group, or by somebody else: nobody may live unwatched.
                News::Unwatched => self.kill(shift.job.group),
            }
        }
        shift.empty = shift.end.is_some() && shift.job.is_alone();
    }

    /// Does what is due by the clock.
    fn keep_time(&mut self, shift: &mut Shift) {
        let (group, now) = (shift.job.group, Instant::now());
        if self.lost.is_none()
            && let (Some(left), Some(deadline)) = (self.held.remaining(), self.deadline())
        {
            if self.told.is_none_or(|told| deadline > told + Duration::from_millis(1)) {
                shift.job.until(deadline);
                self.told = Some(deadline);
            }
            if left <= self.times.grace {
                self.lost = Some("not_renewed");
                out::say(&format!(
                    "the lock cannot be renewed and ends in {}; stopping the job",
                    words::span(left)
                ));
                self.end_within(group, left);
            }
        }
        if let Some(max_run) = self.times.max_run
            && !self.overran
            && shift.end.is_none()
            && now >= shift.started + max_run
        {
            self.overran = true;
            if self.talk > Talk::Quiet {
                out::say(&format!(
                    "the job ran for {}, as long as it may; stopping it",
                    words::exact(max_run)
                ));
            }
            self.end_within(group, self.times.grace);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill(group);
        }
        if self.resume_at.is_some_and(|at| now >= at) {
            self.let_go_on(group);
        }
        if shift.speak_at.is_some_and(|at| now >= at) {
            shift.speak_at = None;
            self.speak_of_lingerers(group);
        }
    }

    /// When there is something to do by the clock.
    fn next_look(&self, shift: &Shift) -> Option<Instant> {
        let kill_at = self.kill_at.filter(|_| !self.killed);
        let max_run = self.times.max_run.filter(|_| !self.overran && shift.end.is_none());
        let renewed = (self.lost.is_none() && self.told.is_some()).then(|| {
            let before_term = self.held.remaining().unwrap_or_default().saturating_sub(self.times.grace);
            Instant::now() + self.times.look_every().min(before_term)
        });
        let lingering = shift.end.map(|_| Instant::now() + LOOK_EVERY);
        let max_run = max_run.map(|run| shift.started + run);
        [kill_at, max_run, renewed, lingering, self.resume_at, shift.speak_at].into_iter().flatten().min()
    }

    /// Until when the lock is safe, on the clock that the stub has too.
    fn deadline(&self) -> Option<Moment> {
        let now = BootClock.now();
        self.held.remaining().map(|left| now + left)
    }

    /// Asks the job to end, and sees to it that it has after this long.
    fn end_within(&mut self, group: Group, grace: Duration) {
        group.send(Signal::SIGTERM);
        self.go_on_to_end(group);
        self.kill_within(grace);
    }

    fn kill_within(&mut self, grace: Duration) {
        let at = Instant::now() + grace;
        self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
    }

    fn kill(&mut self, group: Group) {
        if !self.killed {
            self.killed = true;
            group.send(Signal::SIGKILL);
        }
    }

    /// A stopped job must go on to hear that it should end.
    fn go_on_to_end(&mut self, group: Group) {
        if self.stopped {
            self.resume(group);
        }
    }

    fn on_loss(&mut self, group: Group, loss: Loss) {
        self.lost = Some(reason(loss));
        out::say(&format!("the lock is lost: {loss}; stopping the job"));
        match loss {
            Loss::Expired => self.kill(group),
            _ if self.stopped => self.kill(group),
            // Others may hold the key by now, or at the latest when the lease would have ended.
            _ => {
                let left = self.told.map(|told| told.since(BootClock.now()));
                let grace = self.times.grace.min(left.unwrap_or(self.times.grace));
                self.end_within(group, grace);
            }
        }
    }

    fn on_signal(&mut self, group: Group, heard: Heard) {
        match heard.0 {
            Signal::SIGINT if self.interrupts > 0 => self.kill(group),
            Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP => {
                if heard.0 == Signal::SIGINT {
                    self.interrupts += 1;
                }
                self.asked = true;
                group.send(heard.0);
                self.go_on_to_end(group);
                self.kill_within(self.times.grace);
            }
            Signal::SIGTSTP => self.on_suspend(group),
            Signal::SIGCONT => self.resume(group),
            other => group.send(other),
        }
    }

    /// Somebody asks this process to stop: the job stops first, and goes on last.
    fn on_suspend(&mut self, group: Group) {
        if !group::can_be_resumed() {
            return;
        }
        group.send(Signal::SIGTSTP);
        self.stopped = true;
        self.resume_at = None;
        self.terminal.take(Mood::Keep);
        signals::stop_self();
        self.resume(group);
    }

    /// The job was stopped. If the terminal did it, its user wants their shell back.
    fn on_stop(&mut self, group: Group, signal: i32) {
        self.stopped = true;
        let asks_for_terminal = signal == Signal::SIGTTIN as i32 || signal == Signal::SIGTTOU as i32;
        if !self.terminal.is_given() {
            if !asks_for_terminal {
                return;
            }
            self.terminal.want();
            if self.terminal.is_ours() {
                return self.let_go_on(group);
            }
        }
        self.terminal.take(Mood::Keep);
        if group::can_be_resumed() {
            // All of the shell's job, as the terminal would have done.
            let _ = kill_current_process_group(rustix::process::Signal::STOP);
        }
        self.resume(group);
    }

    /// The gate: the job goes on only if the lock is still held.
    fn resume(&mut self, group: Group) {
        if self.held.is_lost() {
            if self.lost.is_none() {
                self.lost = Some(reason(Loss::Expired));
                out::say("the lock was lost while the job was stopped; the job is not resumed");
            }
            return self.kill(group);
        }
        if self.stopped && self.resume_at.is_none() {
            self.resume_at = Some(Instant::now() + GATE);
        }
    }

    fn let_go_on(&mut self, group: Group) {
        self.resume_at = None;
        if self.held.is_lost() {
            return self.resume(group);
        }
        if self.stopped && !self.killed {
            self.stopped = false;
            self.terminal.give(group);
            group.send(Signal::SIGCONT);
        }
    }

    fn on_end(&mut self, shift: &mut Shift, end: End) {
        shift.end = Some(end);
        shift.speak_at = Some(Instant::now() + LINGERS);
        self.terminal.take(if matches!(end, End::Exited(_)) { Mood::Keep } else { Mood::Restore });
    }

    fn speak_of_lingerers(&self, group: Group) {
        if self.talk == Talk::Quiet {
            return;
        }
        let Ok(members) = group.members(Some(group.0)) else { return };
        let shown: Vec<String> =
            members.iter().take(16).map(|member| format!("{} ({})", member.pid, member.name)).collect();
        out::say(&format!(
            "the command has ended, but others of its process group have not, and the lock is held until then: {}",
            shown.join(", ")
        ));
    }

    /// Keeps the lock after the job for as long as was asked for.
    pub(super) async fn hold_on(&mut self, since: Instant, key: &Key) {
        let Some(until) = self.times.hold_for.map(|hold| since + hold) else { return };
        if self.lost.is_some() || self.asked || Instant::now() >= until {
            return;
        }
        if self.talk == Talk::Verbose {
            out::say(&format!("keeps `{key}` for {} more", words::span(until - Instant::now())));
        }
        loop {
            tokio::select! {
                biased;
                loss = self.held.lost() => {
                    self.lost = Some(reason(loss));
                    return;
                }
                heard = self.signals.next() => {
                    if heard.stops() {
                        return;
                    }
                    if heard.suspends() && group::can_be_resumed() {
                        signals::stop_self();
                    }
                }
                () = sleep_until(until) => return,
            }
        }
    }

    /// Gives the lock back. Says why it was lost, if it was, whether the job ran for too long, and what the
    /// engine said.
    pub(super) async fn finish(self) -> (Option<&'static str>, bool, Result<()>) {
        (self.lost, self.overran, self.held.release().await)
    }
}

fn reason(loss: Loss) -> &'static str {
    match loss {
        Loss::Expired => "expired",
        _ => "gone",
    }
}

fn cannot_run(errand: &Errand, err: &std::io::Error) -> Failure {
    let program = errand.command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let code =
        if err.kind() == std::io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::CANNOT_EXECUTE };
    Failure::new(code, format!("cannot run `{program}`: {err}"))
}
