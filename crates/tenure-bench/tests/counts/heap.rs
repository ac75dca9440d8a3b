//! Allocations on the memory engine, which does nothing else that costs.

use tokio::runtime::Builder;

const TIMES: u64 = 1_000;

/// Counted on this thread alone, so that other tests do not matter.
#[test]
fn uncontended_acquire_and_release() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mutex = runtime.block_on(async {
        let mutex = tenure::connect("memory:heap").await.unwrap().mutex("k").unwrap();
        for _ in 0..100 {
            mutex.acquire().await.unwrap().release().await.unwrap();
        }
        mutex
    });
    let seen = allocation_counter::measure(|| {
        runtime.block_on(async {
            for _ in 0..TIMES {
                mutex.acquire().await.unwrap().release().await.unwrap();
            }
        });
    });
    assert_eq!(seen.count_current, 0, "nothing stays behind");
    let each = seen.count_total.div_ceil(TIMES);
    assert_eq!(each, 5, "allocations for one acquire and release; {} bytes", seen.bytes_total / TIMES);
}
