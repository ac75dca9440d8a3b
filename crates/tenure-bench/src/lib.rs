//! What a lock costs on the engine you run, as ratios to the engine's own round trip.
//!
//! Absolute times move with the machine and its neighbours: on loopback the same round trip takes 30 µs or 120 µs by where the
//! scheduler puts the two processes. So everything is measured in turns with the round trip, in short blocks over the same
//! client, medians are taken, and the figure is the ratio.
//!
//! [`run`] measures; the program that calls it must call [`part_main`] when its first word is [`PART_WORD`], since what needs
//! several processes is measured with several. [`Counting`] is an engine that counts what is asked of another.

mod counting;
mod figures;
mod growth;
mod measures;
mod page;
mod part;
mod parts;
mod plan;
mod player;
mod plot;
mod screen;
mod trouble;
mod wire;

pub use self::{
    counting::{Counter, Counting, Verbs},
    figures::{Alone, Crash, Figures, Handoff, Held, Hot, Spread},
    growth::{Curve, Growth, Weight, grow},
    page::{growth_page, page},
    part::main as part_main,
    plan::{Measure, Options},
    plot::{Axis, Line, Plot, bars},
    screen::{growth_table, table},
    trouble::Trouble,
    wire::PART_WORD,
};

/// Who watches while it is measured.
pub trait Watch {
    /// One measurement begins: the `number`th of so many.
    fn begins(&mut self, what: &str, number: usize, of: usize);
    /// It has ended, with this to say.
    fn ends(&mut self, what: &str);
}

/// Measures what the options ask for.
///
/// # Errors
/// `Usage` for options that cannot be, `Engine` or `Unavailable` if the engine cannot be used, `Interrupted` if somebody had
/// enough.
/// # Cancel safety
/// Dropping the future kills the other processes; their places end with their leases.
pub async fn run(options: &Options, watch: &mut dyn Watch) -> Result<Figures, Trouble> {
    options.check()?;
    tokio::select! {
        biased;
        signal = interrupted() => Err(Trouble::Interrupted(signal)),
        figures = measures::all(options, watch) => figures,
    }
}

/// Resolves to the signal by which somebody wants this process to end.
async fn interrupted() -> i32 {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
    let [Ok(mut int), Ok(mut term)] = kinds.map(signal) else { return std::future::pending().await };
    tokio::select! {
        _ = int.recv() => kinds[0].as_raw_value(),
        _ = term.recv() => kinds[1].as_raw_value(),
    }
}
