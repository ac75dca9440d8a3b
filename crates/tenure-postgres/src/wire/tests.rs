//! Whoever drives, and whenever they leave: what is asked is written, and every answer reaches whoever asked for it.
//!
//! The server is a real one. Between it and the driver is a [`Tap`], which can withhold what the server says, so that
//! no answer makes up for a wake-up that was lost, and lets something else happen in the middle of a drive.

mod tap;

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::{FutureExt, future::join_all};
use tenure_core::{ClaimId, Turn};
use tenure_testkit::{own::within, postgres::Postgres};
use tokio::net::TcpStream;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use self::tap::{Step, Tap, Tapped};
use super::*;
use crate::news::TEST;

const CHANNEL: &str = "wire";

/// How many rounds there are of what is left to chance.
const ROUNDS: usize = 400;

/// A connection, and all that is around it.
#[derive(Clone)]
struct Bed {
    tap: Arc<Tap>,
    client: Arc<Client>,
    wire: Arc<Wire>,
    news: Arc<News>,
}

type Answer = Pin<Box<dyn Future<Output = Result<String, tokio_postgres::Error>> + Send>>;

impl Bed {
    async fn new() -> Self {
        let server = Postgres::shared().unwrap();
        let (tap, news) = (Arc::new(Tap::default()), Arc::new(News::default()));
        let stream = TcpStream::connect(server.addr()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let config: Config = server.url().parse().unwrap();
        let (client, connection) =
            config.connect_raw(Tapped { stream, tap: tap.clone() }, NoTls).await.unwrap();
        let wire = Wire::start(connection, news.clone(), CHANNEL.to_owned());
        let bed = Self { tap, client: Arc::new(client), wire, news };
        // Until it was driven for the first time, the connection wakes nobody.
        bed.answers("first").await;
        bed
    }

    /// Asks for a word, which nobody else asks for.
    fn ask(&self, word: &str) -> Answer {
        let (wire, client, sql) = (self.wire.clone(), self.client.clone(), format!("SELECT '{word}'"));
        Box::pin(async move { wire.ask(client.simple_query(&sql)).await.map(|answer| first(&answer)) })
    }

    /// The same in two trips, so that there are more moments to leave at.
    fn ask_twice(&self, word: &str) -> Answer {
        let (wire, client, word) = (self.wire.clone(), self.client.clone(), word.to_owned());
        Box::pin(async move {
            let request = async {
                let statement = client.prepare("SELECT $1::text").await?;
                client.query_one(&statement, &[&word]).await?.try_get(0)
            };
            wire.ask(request).await
        })
    }

    /// Waits until this was written to the server.
    async fn is_written(&self, word: &str) {
        let written = async {
            while !self.tap.wrote(word) {
                tokio::task::yield_now().await;
            }
        };
        within(&format!("`{word}` is written"), written).await.unwrap();
    }

    async fn answers(&self, word: &str) {
        is_answered(self.ask(word), word).await;
    }
}

fn first(answer: &[SimpleQueryMessage]) -> String {
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    row.unwrap_or_default().to_owned()
}

/// The answer is there in time, and this asker's own.
async fn is_answered(answer: Answer, word: &str) {
    assert_eq!(within(&format!("`{word}` is answered"), answer).await.unwrap().unwrap(), word);
}

/// Lets somebody go on once, who is not waited for.
fn poll_once(answer: &mut Answer) {
    assert!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// Waits for an answer, but leaves at this poll.
async fn leaves_at(polls: usize, mut answer: Answer) -> Option<String> {
    let mut left = polls;
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        answer.as_mut().poll(cx).map(|answer| Some(answer.unwrap()))
    })
    .await
}

/// Somebody drives, and somebody else asks in the middle of that: the one who drives may be past it, and nobody else
/// asks any more.
#[tokio::test]
async fn what_is_asked_while_another_drives_is_written() {
    let bed = Bed::new().await;
    for (number, (by_task, step)) in [
        (false, Step::Read),
        (false, Step::Write),
        (false, Step::Flush),
        (true, Step::Read),
        (true, Step::Flush),
    ]
    .into_iter()
    .enumerate()
    {
        let [driving, asking] = ["driving", "asking"].map(|who| format!("{who} {number}"));
        let (here, there) = std::sync::mpsc::channel();
        let mut other = bed.ask(&asking);
        bed.tap.withhold();
        bed.tap.meanwhile(step, move || {
            poll_once(&mut other);
            here.send(other).unwrap();
        });
        let mut driver = bed.ask(&driving);
        if by_task {
            bed.wire.waker.wake_by_ref();
        } else {
            poll_once(&mut driver);
        }
        bed.is_written(&asking).await;
        bed.tap.pass_on();
        is_answered(there.recv().unwrap(), &asking).await;
        is_answered(driver, &driving).await;
    }
}

/// Two ask at the same moment. Whoever leaves first writes what both ask for.
#[tokio::test]
async fn who_leaves_first_answers_for_all_who_ask() {
    let bed = Bed::new().await;
    bed.tap.withhold();
    let mut nested = Some(bed.ask("inner"));
    let (here, there) = std::sync::mpsc::channel();
    let (inner, client) = (bed.clone(), bed.client.clone());
    let mut request = Box::pin(async move { client.simple_query("SELECT 'outer'").await });
    let both = poll_fn(move |cx| {
        let answer = request.as_mut().poll(cx).map_ok(|answer| first(&answer));
        if let Some(mut nested) = nested.take() {
            assert!(!inner.tap.wrote("outer"), "there is nothing to answer for");
            poll_once(&mut nested);
            assert!(inner.tap.wrote("outer") && inner.tap.wrote("inner"), "who left has not driven");
            here.send(nested).unwrap();
        }
        answer
    });
    let wire = bed.wire.clone();
    let mut outer: Answer = Box::pin(async move { wire.ask(both).await });
    poll_once(&mut outer);
    bed.tap.pass_on();
    is_answered(outer, "outer").await;
    is_answered(there.recv().unwrap(), "inner").await;
}

/// Nothing rang: nobody drives for nothing.
#[tokio::test]
async fn who_finds_nothing_to_do_does_nothing() {
    let bed = Bed::new().await;
    bed.tap.withhold();
    let mut asking = bed.ask("a");
    poll_once(&mut asking);
    let before = bed.tap.reads();
    for _ in 0..3 {
        poll_once(&mut asking);
    }
    assert_eq!(bed.tap.reads(), before, "driven for nothing");
    bed.tap.pass_on();
    is_answered(asking, "a").await;
}

/// Whoever drove last is gone when the answer to another comes.
#[tokio::test]
async fn who_drove_last_and_left_is_not_needed() {
    let bed = Bed::new().await;
    bed.tap.withhold();
    let staying = tokio::spawn(bed.ask("staying"));
    bed.is_written("staying").await;
    let leaving = tokio::spawn(bed.ask("leaving"));
    bed.is_written("leaving").await;
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    bed.tap.pass_on();
    let answer = Box::pin(async { staying.await.unwrap() });
    is_answered(answer, "staying").await;
    bed.answers("next").await;
}

/// Somebody leaves at every moment at which one can, between one who asked before and one who asks afterwards.
#[tokio::test]
async fn at_whatever_moment_somebody_leaves_the_others_are_answered() {
    let bed = Bed::new().await;
    for polls in 0.. {
        let [before, leaver, after] = ["before", "leaver", "after"].map(|who| format!("{who} {polls}"));
        let mut early = bed.ask(&before);
        poll_once(&mut early);
        let left = within("somebody leaves", leaves_at(polls, bed.ask_twice(&leaver))).await.unwrap();
        let late = bed.ask(&after);
        futures_util::join!(is_answered(early, &before), is_answered(late, &after));
        if let Some(answer) = left {
            assert_eq!(answer, leaver);
            assert!(polls > 2, "there was no moment to leave at");
            return;
        }
    }
}

/// A request that panics is as good as one that has left.
#[tokio::test]
async fn a_request_that_panics_takes_nothing_along() {
    let bed = Bed::new().await;
    let waker = bed.wire.waker.clone();
    let panics = bed.wire.ask(async move {
        waker.wake_by_ref();
        panic!("as it should");
    });
    assert!(catch_unwind(AssertUnwindSafe(|| panics.now_or_never())).is_err());
    bed.answers("next").await;
}

/// Pushes come in the same breath as answers, which are heard all the same.
#[tokio::test]
async fn what_is_pushed_in_between_keeps_no_answer_back() {
    let bed = Bed::new().await;
    bed.wire.ask(bed.client.batch_execute(&format!("LISTEN {CHANNEL}; LISTEN another"))).await.unwrap();
    bed.tap.withhold();
    let told = (0..5).map(|number| {
        let (bed, word) = (bed.clone(), format!("told {number}"));
        let sql = format!("NOTIFY another, '{TEST}'; NOTIFY {CHANNEL}, 'x'; SELECT '{word}'");
        let answer: Answer = Box::pin(async move {
            bed.wire.ask(bed.client.simple_query(&sql)).await.map(|answer| first(&answer))
        });
        (answer, word)
    });
    let mut told: Vec<_> = told.collect();
    told.iter_mut().for_each(|(answer, _)| poll_once(answer));
    bed.tap.pass_on();
    for (answer, word) in told {
        is_answered(answer, &word).await;
    }
    assert!(!bed.news.heard_test(), "it hears what others are told");
    bed.wire.ask(bed.client.batch_execute(&format!("NOTIFY {CHANNEL}, '{TEST}'"))).await.unwrap();
    bed.answers("after the test").await;
    assert!(bed.news.heard_test());
}

/// Whoever asks finds that the connection has ended: all are told, and its task does not stay behind.
#[tokio::test]
async fn an_end_that_an_asker_meets_is_the_end_for_all() {
    let bed = Bed::new().await;
    let id = ClaimId::fresh();
    bed.news.expect(id);
    bed.tap.withhold();
    let mut early = bed.ask("early");
    poll_once(&mut early);
    assert!(!bed.wire.has_ended());
    bed.tap.end();
    let late = bed.ask("late").now_or_never();
    assert!(bed.wire.has_ended(), "the asker has not driven");
    for answer in [early, Box::pin(async { late.unwrap_or_else(|| Ok(String::new())) })] {
        let _ = within("all are told", answer).await.unwrap();
    }
    assert_eq!(within("who waits for news asks again", bed.news.turn(id)).await.unwrap(), Turn::Again);
    let wire = Arc::downgrade(&bed.wire);
    drop(bed);
    let gone = async {
        while wire.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    };
    within("the task has ended", gone).await.unwrap();
}

/// The runtime that has the task is shut down: nobody hears of answers any more, and all who ask are told so.
#[test]
fn without_its_task_a_connection_has_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let bed = first.block_on(Bed::new());
    let id = ClaimId::fresh();
    bed.news.expect(id);
    bed.tap.withhold();
    let mut early = bed.ask("early");
    poll_once(&mut early);
    drop(first);
    assert!(bed.wire.has_ended());
    second.block_on(async {
        for answer in [early, bed.ask("late")] {
            let answer = within("who asks is told", answer).await.unwrap();
            assert!(answer.unwrap_err().is_closed());
        }
        assert_eq!(within("who waits for news asks again", bed.news.turn(id)).await.unwrap(), Turn::Again);
    });
}

/// Few at a time and then nobody, so that nothing makes up for a wake-up that is lost; some leave before their answer.
async fn some_ask_and_some_leave() {
    let bed = Bed::new().await;
    bed.wire.ask(bed.client.batch_execute(&format!("LISTEN {CHANNEL}"))).await.unwrap();
    for round in 0..ROUNDS {
        let tasks = (0..2 + round % 5).map(|who| {
            let (bed, word) = (bed.clone(), format!("{round} {who}"));
            let polls = if (round + who) % 3 == 0 { (round / 7 + who) % 6 } else { usize::MAX };
            tokio::spawn(async move {
                if round % 11 == who {
                    let notify = format!("NOTIFY {CHANNEL}, '{word}'");
                    bed.wire.ask(bed.client.batch_execute(&notify)).await.unwrap();
                }
                let answer = if who % 2 == 0 { bed.ask(&word) } else { bed.ask_twice(&word) };
                match leaves_at(polls, answer).await {
                    Some(answer) => assert_eq!(answer, word),
                    None => assert_ne!(polls, usize::MAX),
                }
            })
        });
        for task in within("all are answered", join_all(tasks)).await.unwrap() {
            task.unwrap();
        }
    }
    bed.answers("at last").await;
}

#[tokio::test]
async fn nobody_hangs_on_one_thread() {
    some_ask_and_some_leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_hangs_on_many_threads() {
    some_ask_and_some_leave().await;
}
