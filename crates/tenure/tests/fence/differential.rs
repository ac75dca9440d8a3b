//! Every resource gives the answers of the pure rule, step by step, on random steps of a small world and at the far end
//! of the numbers.

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use tenure::{
    ClaimId, Fence, Mode, Op, Record, Refusal, Seq, Stamp,
    fence::{Why, Written},
};

use crate::sites::{InEtcd, InFile, InMemory, InRedis, InRow, InZookeeper, Site, Way};

#[derive(Clone, Copy, Debug)]
enum Step {
    Claim(Stamp),
    Read(Stamp),
    Write(Stamp, u64),
}

/// What a step was answered: a number, or why not.
type Answer = Result<u64, Why>;

fn steps(seq: u64) -> impl Strategy<Value = Vec<Step>> {
    // Fences that differ in the last bit only are told apart by whoever keeps all of it.
    let stamp = (0..6_u16, 0..2_u8, prop::bool::weighted(0.3)).prop_map(move |(turn, id, shared)| {
        let fence = Fence::new(Seq::new(seq).unwrap(), turn);
        let mode = if shared { Mode::Shared } else { Mode::Exclusive };
        Stamp::new(fence, ClaimId::from_bytes([id + 1; 16]), mode).unwrap()
    });
    let step = (stamp, 0..8_u64).prop_map(|(stamp, kind)| match kind {
        0..=2 => Step::Claim(stamp),
        3 => Step::Read(stamp),
        n => Step::Write(stamp, n - 3),
    });
    prop::collection::vec(step, 60)
}

/// The rule alone.
fn expected(record: &mut Record, step: Step) -> Answer {
    let why = |refusal: Refusal| refusal.why();
    match step {
        Step::Claim(stamp) => record.claim(&stamp).map_err(why).map(|next| {
            *record = next;
            next.n()
        }),
        Step::Read(stamp) => record.read(&stamp).map_err(why).map(|()| 0),
        Step::Write(stamp, n) => record.write(&stamp, n).map_err(why).map(|next| {
            *record = next.unwrap_or(*record);
            u64::from(next.is_some())
        }),
    }
}

async fn given(way: &mut impl Way, step: Step, value: i64) -> Answer {
    let answer = match step {
        Step::Claim(stamp) => way.claim(stamp).await,
        Step::Read(stamp) => way.read(stamp).await.map(|_| 0),
        Step::Write(stamp, n) => way.write(stamp, n, value).await.map(|done| u64::from(done == Written::Now)),
    };
    answer.map_err(|err| {
        let op = [Op::Claim, Op::Read, Op::Write][match step {
            Step::Claim(_) => 0,
            Step::Read(_) => 1,
            Step::Write(..) => 2,
        }];
        assert_eq!(err.op(), op);
        Refusal::of(&err).unwrap_or_else(|| panic!("{step:?}: {err}")).why()
    })
}

async fn agrees<S: Site>() {
    let mut runner = TestRunner::new(Config::default());
    for seq in [1, Seq::MAX.get()] {
        let site = S::new().await;
        let (mut one, mut other) = (site.way().await, site.way().await);
        let (mut record, mut value) = (Record::default(), 0);
        let steps = steps(seq).new_tree(&mut runner).unwrap().current();
        for (i, step) in steps.iter().cycle().take(S::STEPS).enumerate() {
            let way = if i % 2 == 0 { &mut one } else { &mut other };
            let answer = given(way, *step, i as i64).await;
            assert_eq!(answer, expected(&mut record, *step), "step {i}, {step:?}, of {steps:?}");
            if let (Step::Write(..), Ok(1)) = (step, answer) {
                value = i as i64;
            }
        }
        assert_eq!((one.record().await, one.peek().await), (record, value), "after {steps:?}");
    }
}

macro_rules! agree {
    ($($name:ident $site:ty,)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            crate::bed::within("all steps are done", agrees::<$site>()).await;
        }
    )+};
}

agree! {
    memory InMemory,
    file InFile,
    redis InRedis,
    etcd InEtcd,
    zookeeper InZookeeper,
    sqlx_mysql InRow<sqlx::MySqlConnection>,
    mysql_async InRow<mysql_async::Conn>,
    sqlx_postgres InRow<sqlx::PgConnection>,
    tokio_postgres InRow<tokio_postgres::Client>,
}
