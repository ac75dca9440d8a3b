//! How an owner learns that its place is gone.

use super::*;

fn eviction(claim: &Claim, seat: Seat, when: When) -> Eviction {
    Eviction { key: claim.key.clone(), id: claim.id, seq: seat.seq, when }
}

#[tokio::test]
async fn a_gentle_eviction_goes_on_blocking_until_the_holder_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, operator) = (open(dir.path()).await, open(dir.path()).await, open(dir.path()).await);
    let (holder, waiter) = (exclusive("k"), exclusive("k"));
    let seat = granted(&a, &holder).await;
    let _ = waits(&b, &waiter).await;
    assert_eq!(renew(&a, &holder, seat).await, Renewal::Renewed(None));
    let order = eviction(&holder, seat, When::Gently);
    assert_eq!(operator.evict(&order).await.unwrap(), Evicted::Stopped);
    assert_eq!(soon(a.lost()).await, [(holder.id, seat.seq)]);
    assert_eq!(renew(&a, &holder, seat).await, Renewal::Lost);
    let _ = waits(&b, &waiter).await;
    assert_eq!(release(&a, &holder).await, Released::Freed);
    assert!(matches!(soon(b.turn(&waiter)).await, Turn::Holds(_)));
    assert_eq!(operator.evict(&order).await.unwrap(), Evicted::Gone);
}

#[tokio::test]
async fn an_eviction_is_seen_at_the_next_renewal_even_if_its_letter_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (a, operator) = (open(dir.path()).await, open(dir.path()).await);
    let (holder, other) = (exclusive("k"), exclusive("other"));
    let (seat, kept) = (granted(&a, &holder).await, granted(&a, &other).await);
    a.reader.abort();
    assert_eq!(operator.evict(&eviction(&holder, seat, When::Now)).await.unwrap(), Evicted::Freed);
    let newcomer = exclusive("k");
    let _ = granted(&operator, &newcomer).await;
    // Asking for one of them must not make the engine forget to look at the other.
    assert_eq!(renew(&a, &other, kept).await, Renewal::Renewed(None));
    assert_eq!(renew(&a, &holder, seat).await, Renewal::Lost);
    assert_eq!(a.attempt(&holder).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(release(&a, &holder).await, Released::NotHeld);
}

#[tokio::test]
async fn an_evicted_waiter_does_not_queue_again() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (open(dir.path()).await, open(dir.path()).await);
    let (holder, waiter, third) = (exclusive("k"), exclusive("k"), exclusive("k"));
    let _ = granted(&a, &holder).await;
    let seat = waits(&b, &waiter).await.seat.unwrap();
    let _ = waits(&a, &third).await;
    assert_eq!(a.evict(&eviction(&waiter, seat, When::Gently)).await.unwrap(), Evicted::Freed);
    assert_eq!(soon(b.turn(&waiter)).await, Turn::Again);
    assert_eq!(b.attempt(&waiter).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(a.line(&Filter::Key(third.key.clone())).await.unwrap().len(), 2);
    let _ = release(&a, &holder).await;
    assert!(matches!(soon(a.turn(&third)).await, Turn::Holds(_)));
}

#[tokio::test]
async fn renewals_look_into_no_line_while_nobody_was_evicted() {
    let dir = tempfile::tempdir().unwrap();
    let a = open(dir.path()).await;
    let holder = exclusive("k");
    let seat = granted(&a, &holder).await;
    // A look into the line would fail on this.
    std::fs::OpenOptions::new()
        .write(true)
        .open(line_file(dir.path(), "k"))
        .unwrap()
        .write_at(&[9], 1600)
        .unwrap();
    assert_eq!(renew(&a, &holder, seat).await, Renewal::Renewed(None));
    assert_eq!(renew(&a, &holder, Seat { seq: Seq::MAX, ..seat }).await, Renewal::Lost);
}

#[tokio::test]
async fn a_removed_directory_loses_its_holds() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let holder = exclusive("k");
    let seat = granted(&engine, &holder).await;
    std::fs::remove_dir_all(dir.path().join("locks")).unwrap();
    assert_eq!(renew(&engine, &holder, seat).await, Renewal::Lost);
    let err = engine.attempt(&exclusive("new")).await.unwrap_err();
    assert!(err.to_string().contains("was removed while in use"), "{err}");
}

#[tokio::test]
async fn a_waiter_that_was_stopped_before_it_knew_that_it_holds_is_not_granted() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, operator) = (open(dir.path()).await, open(dir.path()).await, open(dir.path()).await);
    let (holder, waiter) = (exclusive("k"), exclusive("k"));
    let _ = granted(&a, &holder).await;
    let seat = waits(&b, &waiter).await.seat.unwrap();
    assert_eq!(release(&a, &holder).await, Released::Freed);
    // It holds by its place, and gets both letters before it looks at either.
    assert_eq!(operator.evict(&eviction(&waiter, seat, When::Gently)).await.unwrap(), Evicted::Stopped);
    assert_eq!(soon(b.lost()).await, [(waiter.id, seat.seq)]);
    assert_eq!(b.attempt(&waiter).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(release(&b, &waiter).await, Released::Freed);
}
