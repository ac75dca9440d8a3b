//! `tenure doctor`: is this engine reachable, how fast is it, and what may be expected of it.

use std::time::Duration;

use tenure::{Client, Crash, Fact, Failover, Fences, Filter, Grade, Guarantees, Key, Order, Reach, Wake};
use tokio::time::Instant;

use crate::{
    args::{DoctorArgs, On},
    engine::{self, Target},
    exit::{self, Code, Failure},
    json::Object,
    out,
    words::ms,
};

/// How many times each thing is measured; the middle one counts.
const ROUNDS: usize = 9;

pub(crate) fn main(on: &On, args: &DoctorArgs) -> Result<Code, Failure> {
    let target = match &args.url {
        Some(url) => Target::from_words(url)?,
        None => Target::resolve(on)?,
    };
    engine::block_on(async {
        let began = Instant::now();
        let client = target.connect().await?;
        let connected = began.elapsed();
        let measured = measure(&client).await?;
        let facts = client.examine().await?;
        if args.json {
            let object = Object::new()
                .text("engine", &target.to_string())
                .number("connect_us", us(connected))
                .number("round_trip_us", us(measured.look))
                .maybe_number("lock_us", measured.lock.map(us))
                .object("guarantees", promises_json(client.guarantees()))
                .list("facts", facts.iter().map(fact_json));
            out::answer(&(object.done() + "\n"));
            return Ok(exit::OK);
        }
        let mut text = format!("{target}\n\n");
        text.push_str(&format!("  reached in           {}\n", short(connected)));
        text.push_str(&format!("  round trip           {}\n", short(measured.look)));
        text.push_str(&format!(
            "  lock and release     {}\n",
            measured.lock.map_or_else(|| "busy".to_owned(), short)
        ));
        text.push_str("\nWhat it promises:\n");
        text.push_str(&promises(client.guarantees()));
        if !facts.is_empty() {
            text.push_str("\nWhat was found:\n");
            text.push_str(&facts.iter().map(fact_line).collect::<String>());
        }
        text.push_str(&format!("\n{}\n", verdict(client.guarantees(), &facts)));
        out::answer(&text);
        Ok(exit::OK)
    })
}

fn fact_line(fact: &Fact) -> String {
    format!("  {} {:11} {}\n", if fact.warns { "!" } else { "-" }, fact.name, fact.text)
}

fn fact_json(fact: &Fact) -> Object {
    Object::new().text("name", fact.name).text("text", &fact.text).flag("warning", fact.warns)
}

struct Measured {
    look: Duration,
    /// `None` if another doctor was always there first.
    lock: Option<Duration>,
}

/// Times a look at a line and a lock with its release, on a key of its own.
async fn measure(client: &Client) -> Result<Measured, Failure> {
    let key = Key::new("tenure/doctor")?;
    let lock = client.mutex(key.as_str())?.label("doctor").fair();
    let (mut looks, mut locks) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        client.line(&Filter::Key(key.clone())).await?;
        looks.push(began.elapsed());
        let began = Instant::now();
        if let Some(guard) = lock.try_acquire().await? {
            guard.release().await?;
            locks.push(began.elapsed());
        }
    }
    Ok(Measured { look: middle(looks).unwrap_or_default(), lock: middle(locks) })
}

fn middle(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn short(time: Duration) -> String {
    if time < Duration::from_millis(10) { format!("{} µs", us(time)) } else { format!("{} ms", ms(time)) }
}

fn verdict(guarantees: &Guarantees, facts: &[Fact]) -> String {
    let warnings = facts.iter().filter(|fact| fact.warns).count();
    let more = match warnings {
        0 => String::new(),
        1 => " One warning above.".to_owned(),
        n => format!(" {n} warnings above."),
    };
    format!("Grade: {}. {}{more}", guarantees.grade, grade(guarantees))
}

fn grade(guarantees: &Guarantees) -> &'static str {
    match guarantees.grade {
        Grade::Fenced if guarantees.fences == Fences::ClockBound => {
            "Every holder has a larger fence than those before it, through crash and pause."
        }
        Grade::Fenced => {
            "Every holder has a larger fence than those before it, through crash, pause and restart."
        }
        Grade::Leased => "Holders are kept apart while clocks run at nearly the same speed.",
        Grade::Advisory => "Fewer duplicates; two holders are possible, so check fences where it matters.",
    }
}

/// What an engine promises, a line each.
pub(crate) fn promises(guarantees: &Guarantees) -> String {
    let reach = match guarantees.reach {
        Reach::Process => "keeps apart the tasks and threads of one process, hence nobody on a command line",
        Reach::Machine => "keeps apart the processes of this machine, and not other machines",
        Reach::Network => "keeps apart everybody who reaches the server",
    };
    let order = match guarantees.order {
        Order::Any => "whoever asks at the right moment comes next",
        Order::Fifo => "first come, first served",
    };
    let crash = match guarantees.crash {
        Crash::Lease => "a holder that dies or pauses loses the lock when its lease ends",
        Crash::Session => "a holder that dies or pauses loses the lock when its session ends",
        Crash::Process => "a holder that dies frees the lock at once; one that pauses keeps it",
    };
    let wake = match guarantees.wake {
        Wake::Poll => "waiters ask again and again",
        Wake::Push => "waiters are told when it is their turn",
    };
    let fences = match guarantees.fences {
        Fences::ClockBound => "fences grow over a restart if the clock was not set back meanwhile",
        Fences::Durable => "fences grow over restarts and loss of power, whatever the clock does",
    };
    let failover = match guarantees.failover {
        Failover::MayForget => "a failover may forget who holds the lock",
        Failover::Keeps => "a failover forgets nothing that was acknowledged",
        Failover::None => "there is nothing to fail over to",
    };
    let rows = [
        ("grade", format!("{}: {}", guarantees.grade, grade(guarantees))),
        ("reach", reach.to_owned()),
        ("modes", guarantees.modes.to_string()),
        ("order", order.to_owned()),
        ("crash", crash.to_owned()),
        ("wake", wake.to_owned()),
        ("fences", fences.to_owned()),
        ("failover", failover.to_owned()),
    ];
    rows.iter().map(|(name, value)| format!("  {name:9} {value}\n")).collect()
}

/// The same for scripts, one word each.
pub(crate) fn promises_json(guarantees: &Guarantees) -> Object {
    let reach = match guarantees.reach {
        Reach::Process => "process",
        Reach::Machine => "machine",
        Reach::Network => "network",
    };
    let fences = match guarantees.fences {
        Fences::ClockBound => "clock_bound",
        Fences::Durable => "durable",
    };
    let failover = match guarantees.failover {
        Failover::MayForget => "may_forget",
        Failover::Keeps => "keeps",
        Failover::None => "none",
    };
    Object::new()
        .text("engine", guarantees.engine)
        .text("grade", &guarantees.grade.to_string().to_lowercase())
        .text("reach", reach)
        .flag("shared", guarantees.modes.shared)
        .flag("slots", guarantees.modes.permits)
        .text("order", &guarantees.order.to_string().to_lowercase())
        .text("crash", &guarantees.crash.to_string())
        .text("wake", &guarantees.wake.to_string())
        .text("fences", fences)
        .text("failover", failover)
        .number("min_ttl_ms", ms(guarantees.min_ttl))
}
