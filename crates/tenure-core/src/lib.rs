//! The words and the contract of `tenure`, with no I/O and no runtime. Only with the feature `tls` it reads files: the
//! certificates that engines trust ([`TlsFiles`]).
//!
//! A lock is a *place in a line*. An [`Engine`] keeps one line of [`Claim`]s per [`Key`]; whether a claim holds
//! is derived from the line by one pure rule, [`line::holders`]. Engines report facts and nothing else: the
//! acquire loop, the watchdog, cancellation and reentrancy live above, in the crate `tenure`, once.
//!
//! Writing an engine means implementing [`Engine`] and passing the conformance suite of `tenure-testkit`.

mod address;
mod attempt;
mod claim;
mod clock;
mod engine;
mod error;
mod fact;
mod fence;
mod guarantees;
mod hunch;
mod id;
mod key;
pub mod line;
mod losses;
mod news;
mod place;
mod port;
mod record;
mod stamp;
mod tls;
mod ttl;
mod url;

pub use address::Address;
pub use attempt::{Attempt, Busy, Grant, Incarnation, Released, Renewal, Seat, Turn};
pub use claim::{Claim, Mode, Note, Patience, Permits};
pub use clock::{BootClock, Clock, Moment};
pub use engine::{Answered, Engine, Held};
pub use error::{Applied, BoxError, Error, ErrorKind, Op, Result};
pub use fact::Fact;
pub use fence::{Fence, Seq};
pub use guarantees::{Crash, Failover, Fences, Floors, Grade, Guarantees, Modes, Order, Reach, Wake};
pub use hunch::Hunch;
pub use id::{ClaimId, EngineId};
pub use key::Key;
pub use losses::Losses;
pub use news::News;
pub use place::{Evicted, Eviction, Filter, Place, Standing, When};
pub use port::Port;
pub use record::{Record, Refusal, Why};
pub use stamp::Stamp;
pub use tls::TlsFiles;
pub use ttl::Ttl;
pub use url::EngineUrl;
