use std::time::{Duration, Instant};

/// The time of one operation in a block of so many.
pub(crate) async fn block(ops: u32, mut operation: impl AsyncFnMut()) -> Duration {
    let began = Instant::now();
    for _ in 0..ops {
        operation().await;
    }
    began.elapsed() / ops
}
