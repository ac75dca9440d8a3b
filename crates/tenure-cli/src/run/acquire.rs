//! Getting the lock, with an ear for signals and a word for those who wait.

use std::time::Duration;

use tenure::{Client, Error, ErrorKind};

use super::{
    Talk,
    held::{Held, Want},
    report::{Busy, Outcome},
    signals::Signals,
    waiting::{self, Waiting},
};
use crate::{
    args::{IfBusy, RunArgs},
    engine::Target,
    exit::{self, Code, Failure},
    out, words,
};

/// How a wait ended.
#[derive(Debug)]
pub(super) enum Got {
    Held(Held),
    Nothing(Outcome),
}

/// How long to wait for a busy key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Try,
    Within(Duration),
    Forever,
}

impl Patience {
    pub(super) fn of(args: &RunArgs) -> Self {
        match (args.wait, args.if_busy) {
            _ if args.nonblock => Self::Try,
            (Some(wait), _) if wait.is_zero() => Self::Try,
            (Some(wait), _) => Self::Within(wait),
            (None, Some(IfBusy::Fail | IfBusy::Skip)) => Self::Try,
            (None, Some(IfBusy::Wait) | None) => Self::Forever,
        }
    }
}

pub(super) async fn acquire(
    target: &Target,
    client: &Client,
    args: &RunArgs,
    want: &Want<'_>,
    signals: &mut Signals,
    talk: Talk,
) -> Result<Got, Failure> {
    let patience = Patience::of(args);
    let mut line = Waiting::new(client, want.key, Some(target.who()), talk);
    let asked = {
        let asking = ask(client, want, patience);
        tokio::pin!(asking);
        loop {
            tokio::select! {
                biased;
                asked = &mut asking => break asked,
                signal = signals.next() => {
                    if signal.stops() {
                        line.clear();
                        return Ok(Got::Nothing(Outcome::Interrupted(signal.number())));
                    }
                    if signal.suspends() && super::group::can_be_resumed() {
                        line.clear();
                        super::signals::stop_self();
                    }
                }
                () = line.show() => {}
            }
        }
    };
    line.clear();
    match asked {
        Ok(Some(held)) => Ok(Got::Held(held)),
        Ok(None) => Ok(Got::Nothing(busy(client, args, want, Busy::Now, talk).await)),
        Err(err) if err.kind() == ErrorKind::Timeout => {
            Ok(Got::Nothing(busy(client, args, want, Busy::Waited, talk).await))
        }
        Err(err) => Err(err.into()),
    }
}

async fn ask(client: &Client, want: &Want<'_>, patience: Patience) -> Result<Option<Held>, Error> {
    match patience {
        Patience::Try => want.try_acquire(client).await,
        Patience::Within(wait) => want.acquire(client, Some(wait)).await.map(Some),
        Patience::Forever => want.acquire(client, None).await.map(Some),
    }
}

async fn busy(client: &Client, args: &RunArgs, want: &Want<'_>, how: Busy, talk: Talk) -> Outcome {
    let skips = args.if_busy == Some(IfBusy::Skip);
    let code = args.conflict_exit_code.map_or(if skips { exit::OK } else { exit::BUSY }, Code);
    let speaks = if skips { talk == Talk::Verbose } else { talk > Talk::Quiet };
    if speaks {
        let key = want.key;
        let holder = match waiting::look(client, key, None).await {
            Some(seen) => seen.words(),
            None => "busy".to_owned(),
        };
        let waited = match (how, args.wait) {
            (Busy::Waited, Some(wait)) => format!("gave up after {}: ", words::exact(wait)),
            _ => String::new(),
        };
        let hint = words::shell_word(key.as_str());
        out::say(&format!("{waited}`{key}` is {holder}; see: tenure inspect {hint}"));
    }
    Outcome::Busy(how, code)
}
