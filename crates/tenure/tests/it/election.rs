use tenure::{Engine, ErrorKind};

use crate::bed::{Bed, Log, millis, others_run, secs};

#[tokio::test(start_paused = true)]
async fn one_leads_and_everybody_sees_who() {
    let bed = Bed::new();
    let (here, there) = (bed.client().election("k").unwrap(), bed.client().election("k").unwrap());
    assert_eq!(there.leader().await.unwrap(), None);
    let term = here.campaign("node-1").await.unwrap();
    assert_eq!(term.value(), "node-1");
    let leader = there.leader().await.unwrap().unwrap();
    assert_eq!((leader.value(), leader.term()), ("node-1", term.term()));
    assert!(there.try_campaign("node-2").await.unwrap().is_none());

    let next = tokio::spawn({
        let there = there.clone();
        async move { there.campaign("node-2").await.unwrap() }
    });
    bed.grows_to("k", 2).await;
    assert_eq!(here.leader().await.unwrap().unwrap().value(), "node-1", "a candidate is no leader");
    let first = term.term();
    term.resign().await.unwrap();
    let next = next.await.unwrap();
    assert!(next.term() > first);
    assert_eq!(here.leader().await.unwrap().unwrap().value(), "node-2");
}

#[tokio::test(start_paused = true)]
async fn candidates_of_one_process_are_rivals() {
    let bed = Bed::new();
    let election = bed.client().election("k").unwrap();
    let _one = election.campaign("one").await.unwrap();
    let _two = tokio::spawn(async move { election.campaign("two").await.map(drop) });
    bed.grows_to("k", 2).await;
    assert_eq!(bed.line("k").await[1].note.label(), "two");
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_named_until_its_lease_ends_and_no_longer() {
    let bed = Bed::new();
    let election = bed.client().election("k").unwrap();
    let _ = bed.memory.attempt(&crate::acquire::claim("k", secs(3))).await.unwrap();
    assert_eq!(election.leader().await.unwrap().unwrap().who(), "dead");
    tokio::time::sleep(secs(3)).await;
    assert_eq!(election.leader().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn an_observer_learns_of_each_change() {
    let bed = Bed::new();
    let election = bed.client().election("k").unwrap();
    let log = Log::new();
    let watcher = tokio::spawn({
        let (mut changes, log) = (bed.client().election("k").unwrap().observe(millis(100)), log.clone());
        async move {
            for _ in 0..4 {
                log.push(changes.next().await.unwrap().map(|leader| leader.value().to_owned()));
            }
        }
    });
    others_run().await;
    let term = election.campaign("a").await.unwrap();
    tokio::time::sleep(millis(250)).await;
    term.resign().await.unwrap();
    tokio::time::sleep(millis(250)).await;
    let _term = election.campaign("b").await.unwrap();
    watcher.await.unwrap();
    assert_eq!(log.entries(), [None, Some("a".to_owned()), None, Some("b".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_would_be_cut_is_refused() {
    let bed = Bed::new();
    let election = bed.client().election("k").unwrap();
    for value in ["x".repeat(257), "a\nb".to_owned()] {
        assert_eq!(election.campaign(&value).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(election.try_campaign(&value).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let _term = election.campaign(&"x".repeat(256)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_timed_campaign_ends_in_time_and_withdraws() {
    let bed = Bed::new();
    let election = bed.client().election("k").unwrap();
    let _term = election.campaign("a").await.unwrap();
    assert_eq!(election.campaign_within("b", secs(2)).await.unwrap_err().kind(), ErrorKind::Timeout);
    bed.grows_to("k", 1).await;
}
