//! The connections of a client: one for attempts, one for renewals and releases.
//!
//! Nothing here runs by itself: a connection that ended is made anew by the next verb that needs it, so that how
//! often to try is decided above, once for all engines.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tenure_core::{Error, ErrorKind, Op, Port, Result, Wake};
use tokio_postgres::SimpleQueryRow;

use crate::{
    ENGINE,
    arg::Arg,
    limits::Limits,
    link::{Ear, Link},
    news::{News, TEST},
    schema::Names,
    tls::Trust,
    trouble::verb_failed,
    url::PostgresOptions,
};

/// The longest any verb waits for a key, and takes in all. These are also the limits of most verbs.
pub(crate) const LONGEST: Limits = Limits { wait: Duration::from_secs(2), all: Duration::from_secs(5) };
/// For what is asked by people, or when connecting.
pub(crate) const UNHURRIED: Limits = Limits { wait: Duration::from_secs(5), all: Duration::from_secs(10) };
/// The longest a release waits for a key on the connection that renews.
pub(crate) const SHORT_WAIT: Duration = Duration::from_millis(50);

/// How many sessions of a pooler are looked at.
const SESSIONS: usize = 4;

#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) options: Arc<PostgresOptions>,
    /// Whom to trust, if TLS is asked for.
    trust: Option<Trust>,
    pub(crate) names: Names,
    news: Arc<News>,
    /// The channel that only this client listens to.
    channel: String,
    /// Whether what is told on it arrives.
    wake: OnceLock<Wake>,
    /// One for each use.
    ports: [Port<Link>; 2],
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Verbs that may wait for a key; and pushes.
    Attempt,
    /// Verbs that others wait for.
    Keep,
}

impl Links {
    pub(crate) fn new(
        options: PostgresOptions,
        trust: Option<Trust>,
        names: Names,
        news: Arc<News>,
        client: &str,
    ) -> Self {
        let channel = format!("{}{client}", names.channels);
        Self {
            options: Arc::new(options),
            trust,
            names,
            news,
            channel,
            wake: OnceLock::new(),
            ports: std::array::from_fn(|_| Port::new(Link::works)),
        }
    }

    /// Runs a verb on the connection for it.
    pub(crate) async fn run(
        &self,
        op: Op,
        purpose: Use,
        limits: Limits,
        verb: &str,
    ) -> Result<Vec<SimpleQueryRow>> {
        let link = self.at(purpose).await.map_err(|err| err.in_op(op))?;
        link.run(limits, verb).await.map_err(|err| verb_failed(op, &link.address, err))
    }

    /// Carries out the statement of a verb on the connection for it, and takes its one value.
    pub(crate) async fn call(
        &self,
        op: Op,
        purpose: Use,
        limits: Limits,
        verb: &'static str,
        args: &[Arg<'_>],
    ) -> Result<Option<String>> {
        let link = self.at(purpose).await.map_err(|err| err.in_op(op))?;
        let failed = |err| verb_failed(op, &link.address, err);
        // Where nothing may stay in the session the text is sent each time, and a short one is the better.
        match self.names.short_way(verb).filter(|_| link.direct) {
            Some(short) => link.call(limits, verb, &short.surely, args).await.map_err(failed),
            None => link.call(limits, verb, &self.names.call(verb, args.len()), args).await.map_err(failed),
        }
    }

    /// Takes a key that is likely to be nobody's, with what costs least then: its number, and the life of the server.
    /// Nothing if that will not do.
    pub(crate) async fn again(&self, limits: Limits, args: &[Arg<'_>]) -> Result<Option<(i64, i64)>> {
        let link = self.at(Use::Attempt).await.map_err(|err| err.in_op(Op::Attempt))?;
        let answer = link.again(limits, &self.names.attempt, args).await;
        answer.map_err(|err| verb_failed(Op::Attempt, &link.address, err))
    }

    /// Gives back a key that nobody else is likely to want, with what costs least then. Not so if that will not do.
    pub(crate) async fn leave(&self, purpose: Use, limits: Limits, args: &[Arg<'_>]) -> Result<bool> {
        let link = self.at(purpose).await.map_err(|err| err.in_op(Op::Release))?;
        let answer = link.leave(limits, &self.names.release, args).await;
        answer.map_err(|err| verb_failed(Op::Release, &link.address, err))
    }

    /// Whether the connection for attempts has nothing to do.
    pub(crate) fn may_wait_at_once(&self) -> bool {
        self.ports[Use::Attempt as usize].working().is_some_and(|link| link.is_idle())
    }

    /// The channel to tell this client on; empty if nothing would arrive there.
    pub(crate) fn channel(&self) -> &str {
        if self.wake.get() == Some(&Wake::Push) { &self.channel } else { "" }
    }

    /// Finds out whether this client can be told anything: a pooler that lends its connections for a transaction
    /// takes a `LISTEN` and forgets whose it was.
    pub(crate) async fn find_wake(&self) -> Result<Wake> {
        let (ear, mouth) = futures_util::try_join!(self.at(Use::Attempt), self.at(Use::Keep))?;
        let failed = |err| verb_failed(Op::Connect, &ear.address, err).not_applied();
        let told = match ear.listen(&self.channel).await {
            // Some poolers refuse what they cannot keep.
            Err(err) if err.code().is_some() && !ear.direct => false,
            Err(err) => return Err(failed(err)),
            Ok(()) if ear.direct || self.is_told(&ear, &mouth).await.map_err(failed)? => true,
            Ok(()) => {
                ear.send("UNLISTEN *").await.map_err(failed)?;
                false
            }
        };
        Ok(*self.wake.get_or_init(|| if told { Wake::Push } else { Wake::Poll }))
    }

    /// Whether the session that listens is this client's own, and what is told to it arrives.
    async fn is_told(&self, ear: &Link, mouth: &Link) -> Result<bool, tokio_postgres::Error> {
        let listening = ear.session(&self.channel).await?;
        // A pooler lends what was given back last, or what was given back first: in either case one connection soon
        // meets the session that the other had.
        for _ in 0..SESSIONS {
            if mouth.session(&self.channel).await?.0 == listening.0 {
                return Ok(false);
            }
        }
        mouth.send(&format!("SELECT pg_notify('{}', '{TEST}')", self.channel)).await?;
        // What there is to tell is written before this is answered. A session that others use is none to rely on.
        let still = ear.session(&self.channel).await?;
        Ok(self.news.heard_test() && still == listening && still.1)
    }

    pub(crate) async fn at(&self, purpose: Use) -> Result<Arc<Link>> {
        let port = &self.ports[purpose as usize];
        if let Some(link) = port.working() {
            return Ok(link);
        }
        let start = || open(self.options.clone(), self.trust.clone(), self.news.clone(), self.ear(purpose));
        port.get(start).await
    }

    /// What a connection for this use is to hear, and its limits.
    fn ear(&self, purpose: Use) -> Ear {
        let listens = purpose == Use::Attempt && self.wake.get() == Some(&Wake::Push);
        let usual = match purpose {
            Use::Attempt => LONGEST,
            Use::Keep => Limits { wait: SHORT_WAIT, ..LONGEST },
        };
        Ear { channel: self.channel.clone(), listens, usual }
    }
}

/// Connects to the first host that is no standby.
async fn open(
    options: Arc<PostgresOptions>,
    trust: Option<Trust>,
    news: Arc<News>,
    ear: Ear,
) -> Result<Arc<Link>> {
    let mut last = None;
    for address in &options.hosts {
        match Link::open(address, &options, trust.as_ref(), &news, &ear).await {
            Ok(link) if link.found.is_standby() => {
                let message = format!("{address} is a standby, which grants nothing; name its primary");
                // With several hosts, one of them is about to take over.
                let kind = if options.hosts.len() > 1 { ErrorKind::Unavailable } else { ErrorKind::Invalid };
                last = Some(Error::new(kind, Op::Connect, message).with_engine(ENGINE).not_applied());
            }
            Ok(link) => return Ok(link),
            Err(err) => last = Some(err),
        }
    }
    Err(last.unwrap_or_else(|| Error::invalid("the URL has no host")))
}
