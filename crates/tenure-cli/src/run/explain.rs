//! `--explain`: what would happen when, and what the engine promises.

use super::{acquire::Patience, plan::Timetable};
use crate::{
    args::RunArgs,
    doctor::promises,
    engine::Target,
    exit::{self, Code, Failure},
    out,
    words::{exact, table},
};

pub(super) async fn explain(target: &Target, args: &RunArgs, times: &Timetable) -> Result<Code, Failure> {
    let client = target.connect().await?;
    let guarantees = client.guarantees();
    let leased = guarantees.crash != tenure::Crash::Process;
    let mode = match (args.slots, args.shared) {
        (Some(slots), _) => format!("one of {slots} slots"),
        (None, true) => "shared".to_owned(),
        (None, false) => "exclusive".to_owned(),
    };
    let patience = match Patience::of(args) {
        Patience::Try => "does not wait if it is busy".to_owned(),
        Patience::Within(wait) => format!("waits at most {}", exact(wait)),
        Patience::Forever => "waits as long as it takes".to_owned(),
    };
    let mut text = format!("`{}` on {target}\n  {mode}; {patience}\n\n", args.key);
    let mut rows = Vec::new();
    let mut row = |at: String, what: &str| rows.push(vec![at, what.to_owned()]);
    if leased {
        text.push_str("If the lock cannot be renewed, counted from the last good renewal:\n");
        row(exact(times.renew_every), "the first renewal is due, and is tried again and again");
        row(exact(times.term_at), "SIGTERM to the job's process group");
        row(exact(times.kill_at), "SIGKILL to whatever is left of it");
        row(exact(times.ttl), "the lease ends, and somebody else can own the key");
    } else {
        text.push_str(
            "The lock lives as long as this process; there is no lease to renew. If it is broken:\n",
        );
        row("0ms".to_owned(), "SIGTERM to the job's process group");
        row(exact(times.grace), "SIGKILL to whatever is left of it");
    }
    text.push_str(&table(&["AFTER", "WHAT HAPPENS"], &rows));
    if let Some(max_run) = times.max_run {
        let (run, kill) = (exact(max_run), exact(max_run + times.grace));
        text.push_str(&format!("\nThe job may run for {run}; SIGTERM then, SIGKILL at {kill}, exit 124.\n"));
    }
    if let Some(hold) = times.hold_for {
        text.push_str(&format!("\nThe lock is kept for at least {}.\n", exact(hold)));
    }
    text.push_str("\nWhat the engine promises:\n");
    text.push_str(&promises(guarantees));
    out::answer(&text);
    Ok(exit::OK)
}
