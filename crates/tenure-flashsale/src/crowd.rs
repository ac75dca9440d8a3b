//! The buyers, when they come by HTTP.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep, sleep_until},
};

use crate::{
    http,
    wire::{Answer, News},
};

/// How many connections the crowd has open at once.
const CONNECTIONS: usize = 256;
/// Before a host that did not answer is left for another.
const BREATH: Duration = Duration::from_millis(20);

/// Sends everybody, and tells the answers as they come.
pub(crate) fn send(
    tell: mpsc::Sender<News>,
    hosts: Arc<[SocketAddr]>,
    requests: &[Vec<u32>],
    rate: Option<f64>,
    patience: Duration,
) {
    // One for each host in turn, so that all are crowded alike.
    let longest = requests.iter().map(Vec::len).max().unwrap_or_default();
    let wishes: Vec<(usize, u32)> = (0..longest)
        .flat_map(|at| requests.iter().enumerate().filter_map(move |(host, all)| Some((host, *all.get(at)?))))
        .collect();
    tokio::spawn(async move {
        let doors = Arc::new(Semaphore::new(CONNECTIONS));
        let start = Instant::now();
        for (count, (host, buyer)) in wishes.into_iter().enumerate() {
            if let Some(rate) = rate {
                sleep_until(start + Duration::from_secs_f64(count as f64 / rate)).await;
            }
            let Ok(door) = doors.clone().acquire_owned().await else { return };
            let (hosts, tell) = (hosts.clone(), tell.clone());
            tokio::spawn(async move {
                let came = Instant::now();
                let answer = insist(&hosts, host, buyer, came + patience).await;
                let micros = u64::try_from(came.elapsed().as_micros()).unwrap_or(u64::MAX);
                let _ = tell.send(News { answers: vec![(answer, buyer, micros)], ..News::default() }).await;
                drop(door);
            });
        }
    });
}

/// Asks one host after the other until one answers: a buyer whose page does not load tries again.
async fn insist(hosts: &[SocketAddr], first: usize, buyer: u32, until: Instant) -> Answer {
    let mut turn = first;
    loop {
        let host = hosts[turn % hosts.len()];
        if let Ok(Ok(answer)) = tokio::time::timeout_at(until, http::ask(host, buyer)).await {
            return answer;
        }
        if Instant::now() >= until {
            return Answer::Failed;
        }
        sleep(BREATH).await;
        turn += 1;
    }
}
