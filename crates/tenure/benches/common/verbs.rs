//! What an engine costs without the library around it.

use tenure::{Claim, ClaimId, Engine, Key, Mode, Note, Seq, Ttl};
use tenure_core::{Answered, Patience};

/// Takes a lock by the engine's own verbs, and gives it back.
pub(crate) async fn once(engine: &dyn Engine) {
    let claim = Claim {
        key: Key::new("engine").unwrap(),
        id: ClaimId::fresh(),
        mode: Mode::Exclusive,
        patience: Patience::Queue,
        ttl: Ttl::default(),
        floor: Seq::ZERO,
        note: Note::new("me", ""),
    };
    let _ = engine.attempt(&claim).await.unwrap();
    let _ = engine.release(&claim, Answered::All).await.unwrap();
}
