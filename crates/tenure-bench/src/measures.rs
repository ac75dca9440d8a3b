//! The measurements, one file each.

mod alone;
mod crash;
mod handoff;
mod held;
pub(crate) mod hot;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tenure::{ClaimId, EngineUrl, Reach};

use crate::{
    Figures, Measure, Options, Watch,
    parts::Part,
    player::Player,
    screen,
    trouble::{Result, Trouble},
};

/// What the round trip is, in the words of the output.
const ROUND_TRIP: &str = "reading the line of a key that nobody wants";

/// Where it is measured.
pub(crate) struct Place {
    pub(crate) url: String,
    /// Keys of this bench start so.
    pub(crate) prefix: String,
    /// The bench's own client.
    pub(crate) player: Player,
    /// The program that becomes another process; none if the engine lives in one.
    program: Option<PathBuf>,
    /// For the number that is updated under the lock, and the files of locks if no engine was named.
    dir: TempDir,
}

impl Place {
    pub(crate) async fn open(on: Option<&str>, program: &Path) -> Result<Self> {
        let dir = TempDir::new().map_err(|err| Trouble::internal("cannot make a folder", err))?;
        let url = match on {
            Some(url) => url.to_owned(),
            None => format!("file:{}", dir.path().join("locks").display()),
        };
        let player = Player::open(&url).await?;
        let alone = player.client.guarantees().reach == Reach::Process;
        let program = (!alone).then(|| program.to_owned());
        Ok(Self { url, prefix: format!("tenure-bench/{}", ClaimId::fresh()), player, program, dir })
    }

    pub(crate) async fn part(&self) -> Result<Part> {
        Part::start(self.program.as_deref(), &self.url).await
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// Whether others are processes of their own.
    const fn has_processes(&self) -> bool {
        self.program.is_some()
    }

    /// The lease of measurements that watch one end or be renewed: short, if the engine allows.
    pub(crate) fn lease(&self) -> Duration {
        self.player.client.guarantees().min_ttl.max(Duration::from_secs(2))
    }

    async fn trips(&self, count: u32) -> Result<Vec<u64>> {
        let mut trips = Vec::new();
        for _ in 0..count {
            trips.push(self.player.trip().await?);
        }
        Ok(trips)
    }
}

pub(crate) async fn all(options: &Options, watch: &mut dyn Watch) -> Result<Figures> {
    let place = Place::open(options.on.as_deref(), &options.program).await?;
    let engine = match &options.on {
        Some(url) => url.parse::<EngineUrl>().map(|url| url.to_string()).unwrap_or_default(),
        None => "file: (a folder of its own)".to_owned(),
    };
    let mut figures = Figures {
        engine,
        round_trip: ROUND_TRIP,
        alone: None,
        handoff: None,
        hot: None,
        crash: None,
        held: None,
        skipped: Vec::new(),
    };
    let wanted: Vec<Measure> =
        Measure::ALL.into_iter().filter(|measure| options.only.contains(measure)).collect();
    for (number, &measure) in wanted.iter().enumerate() {
        watch.begins(measure.title(), number + 1, wanted.len());
        let time = options.share(measure);
        match measure {
            Measure::Alone => figures.alone = Some(alone::measure(&place, time).await?),
            Measure::Handoff => figures.handoff = Some(handoff::measure(&place, time).await?),
            Measure::Hot => {
                figures.hot = Some(hot::measure(&place, options.processes, options.tasks, time).await?);
            }
            Measure::Crash if !place.has_processes() => {
                let why = "this engine lives in one process, and ends with it";
                figures.skipped.push((measure.name(), why.to_owned()));
            }
            Measure::Crash => figures.crash = Some(crash::measure(&place, time).await?),
            Measure::Held => figures.held = Some(held::measure(&place, options.locks, time).await?),
        }
        watch.ends(&screen::line(&figures, measure));
    }
    place.player.client.close().await;
    Ok(figures)
}
