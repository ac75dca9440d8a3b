use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    proxy::{Flow, Proxy, Side, Way},
    redis::{Admin, Redis, RedisOptions, Reply},
};

crate::tests! {
    everything_is_passed_on_and_counted,
    each_way_is_delayed,
    what_is_held_comes_later_in_order,
    what_is_stalled_comes_later,
    what_is_swallowed_never_comes_and_breaks_the_stream,
    one_way_is_swallowed_after_the_effect,
    all_connections_are_reset,
    new_connections_are_refused,
    half_open_to_the_client,
    half_open_to_the_server,
    a_request_is_cut_before_its_effect,
    an_answer_is_cut_after_its_effect,
    an_answer_is_cut_in_its_middle,
    a_proxy_gets_another_target,
    a_dropped_proxy_is_gone,
    a_large_answer_is_held_within_bounds,
}

/// Long enough for an answer on loopback, short enough to wait for one that must not come.
const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(2);

fn proxy() -> Result<(&'static Redis, Proxy)> {
    let redis = Redis::shared()?;
    let proxy = Proxy::start(redis.addr())?;
    Ok((redis, proxy))
}

fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

fn broken_off<T: std::fmt::Debug>(outcome: Result<T>) -> Result {
    match outcome {
        Err(why) if ["reset", "ended", "Broken pipe"].iter().any(|word| why.to_string().contains(word)) => {
            Ok(())
        }
        outcome => Err(Failure::new(format!("not broken off: {outcome:?}"))),
    }
}

/// No answer comes, and the connection is open nonetheless.
fn silent<T: std::fmt::Debug>(outcome: Result<T>) -> Result {
    match outcome {
        Err(why) if why.to_string().contains("temporarily unavailable") => Ok(()),
        outcome => Err(Failure::new(format!("not silent: {outcome:?}"))),
    }
}

fn everything_is_passed_on_and_counted() -> Result {
    let (_, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    let value = "x".repeat(300_000);
    ensure_eq!(client.command(&["ECHO", &value])?.text().map(str::len), Some(300_000), "what came back");
    // `*2 $4 ECHO $300000 ..` there and `$300000 ..` back, each line with its end.
    let counts = proxy.wait_until("all bytes are counted", |counts| {
        (counts.up.forwarded, counts.down.forwarded) == (300_025, 300_011)
    })?;
    ensure_eq!((counts.connections, counts.open), (1, 1), "connections");
    let rest = (counts.up.held, counts.down.held, counts.up.lost, counts.down.lost);
    ensure_eq!(rest, (0, 0, 0, 0), "what is held or lost");
    drop(client);
    proxy.wait_until("the connection is closed", |counts| counts.open == 0)?;
    Ok(())
}

fn each_way_is_delayed() -> Result {
    let (_, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    let mut time = || {
        let start = Instant::now();
        client.command(&["PING"])?;
        Ok::<_, Failure>(start.elapsed())
    };
    let delay = Duration::from_millis(300);
    for (up, down) in [(delay, Duration::ZERO), (Duration::ZERO, delay), (delay / 2, delay / 2)] {
        proxy.delay(Way::Up, up)?;
        proxy.delay(Way::Down, down)?;
        let took = time()?;
        ensure!(took >= delay, "{up:?} up and {down:?} down took {took:?}");
    }
    proxy.heal()?;
    let took = time()?;
    ensure!(took < delay, "it is still slow: {took:?}");
    Ok(())
}

fn what_is_held_comes_later_in_order() -> Result {
    let (redis, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    client.command(&["SUBSCRIBE", "held"])?;
    proxy.flow(Way::Down, Flow::Hold)?;
    for message in ["first", "second"] {
        ensure_eq!(redis.command(&["PUBLISH", "held", message])?, Reply::Int(1), "the subscribers");
    }
    let of = |message: &str| Reply::Array(vec![text("message"), text("held"), text(message)]);
    let both = "*3\r\n$7\r\nmessage\r\n$4\r\nheld\r\n$5\r\nfirst\r\n*3\r\n$7\r\nmessage\r\n$4\r\nheld\r\n$6\r\nsecond\r\n";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime
        .block_on(proxy.until("both messages are held", |counts| counts.down.held == both.len() as u64))?;
    client.set_patience(SHORT)?;
    silent(client.receive())?;
    client.set_patience(LONG)?;
    proxy.flow(Way::Down, Flow::Forward)?;
    ensure_eq!(client.receive()?, of("first"), "the first");
    ensure_eq!(client.receive()?, of("second"), "the second");
    proxy.wait_until("nothing is held", |counts| counts.down.held == 0)?;
    Ok(())
}

fn what_is_stalled_comes_later() -> Result {
    let (redis, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    client.command(&["PING"])?;
    proxy.flow_both(Flow::Stall)?;
    client.set_patience(SHORT)?;
    silent(client.ask(&["SET", "stalled", "v"]))?;
    ensure_eq!(redis.command(&["GET", "stalled"])?, Reply::Nil, "while it is stalled");
    ensure_eq!(proxy.counts().up.held, 0, "what the proxy took");
    proxy.heal()?;
    client.set_patience(LONG)?;
    ensure_eq!(client.receive()?, text("OK"), "afterwards");
    ensure_eq!(redis.command(&["GET", "stalled"])?, text("v"), "afterwards");
    Ok(())
}

fn what_is_swallowed_never_comes_and_breaks_the_stream() -> Result {
    let (redis, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    let mut idle = Admin::connect(proxy.addr())?;
    idle.command(&["PING"])?;
    proxy.flow_both(Flow::Swallow)?;
    client.set_patience(SHORT)?;
    silent(client.ask(&["SET", "swallowed", "v"]))?;
    proxy.wait_until("the request is lost", |counts| counts.up.lost > 0)?;
    proxy.heal()?;
    client.set_patience(LONG)?;
    broken_off(client.receive())?;
    ensure_eq!(redis.command(&["GET", "swallowed"])?, Reply::Nil, "what was swallowed");
    ensure_eq!(idle.command(&["PING"])?, text("PONG"), "a connection that lost nothing");
    Ok(())
}

fn one_way_is_swallowed_after_the_effect() -> Result {
    let (redis, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    proxy.flow(Way::Down, Flow::Swallow)?;
    client.set_patience(SHORT)?;
    silent(client.ask(&["SET", "one-way", "v"]))?;
    ensure_eq!(redis.command(&["GET", "one-way"])?, text("v"), "what was passed on");
    proxy.wait_until("the five bytes of `+OK` are lost", |counts| counts.down.lost == 5)?;
    Ok(())
}

fn all_connections_are_reset() -> Result {
    let (_, proxy) = proxy()?;
    let mut used = Admin::connect(proxy.addr())?;
    used.command(&["PING"])?;
    // Those that the proxy may not even have accepted yet are reset as well; those after it never.
    for round in 0..50 {
        let mut before = Admin::connect(proxy.addr())?;
        proxy.reset()?;
        let mut after = Admin::connect(proxy.addr())?;
        ensure_eq!(after.command(&["PING"])?, text("PONG"), "after reset {round}");
        broken_off(before.ask(&["PING"]))?;
    }
    broken_off(used.ask(&["PING"]))?;
    let counts = proxy.wait_until("all are closed", |counts| counts.open == 0)?;
    ensure_eq!(counts.connections, 101, "connections");
    Ok(())
}

fn new_connections_are_refused() -> Result {
    let (_, proxy) = proxy()?;
    let mut old = Admin::connect(proxy.addr())?;
    for _ in 0..3 {
        proxy.refuse()?;
        let refused = Admin::connect(proxy.addr());
        ensure!(refused.as_ref().is_err_and(|why| why.to_string().contains("refused")), "{refused:?}");
        ensure_eq!(old.command(&["PING"])?, text("PONG"), "an old connection");
        proxy.accept()?;
        ensure_eq!(Admin::connect(proxy.addr())?.command(&["PING"])?, text("PONG"), "a new connection");
    }
    Ok(())
}

fn subscribers(redis: &Redis, channel: &str) -> Result<Option<i64>> {
    let counts = redis.command(&["PUBSUB", "NUMSUB", channel])?;
    Ok(counts.items().get(1).and_then(Reply::int))
}

fn half_open_to_the_client() -> Result {
    let (redis, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    client.command(&["SUBSCRIBE", "half"])?;
    ensure_eq!(subscribers(redis, "half")?, Some(1), "subscribers before");
    proxy.half_open(Side::Server)?;
    tenure_testkit::process::wait_until("the server has noticed", LONG, || {
        ensure_eq!(subscribers(redis, "half")?, Some(0), "subscribers");
        Ok(())
    })?;
    client.set_patience(SHORT)?;
    silent(client.ask(&["PING"]))?;
    ensure_eq!(proxy.counts().open, 1, "open connections");
    ensure_eq!(Admin::connect(proxy.addr())?.command(&["PING"])?, text("PONG"), "a new connection");
    proxy.reset()?;
    client.set_patience(LONG)?;
    broken_off(client.receive())
}

fn half_open_to_the_server() -> Result {
    let (redis, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    client.command(&["SUBSCRIBE", "other-half"])?;
    proxy.half_open(Side::Client)?;
    broken_off(client.receive())?;
    ensure_eq!(subscribers(redis, "other-half")?, Some(1), "what the server believes");
    drop(proxy);
    tenure_testkit::process::wait_until("the server has noticed", LONG, || {
        ensure_eq!(subscribers(redis, "other-half")?, Some(0), "subscribers");
        Ok(())
    })
}

fn a_request_is_cut_before_its_effect() -> Result {
    let (redis, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    client.command(&["PING"])?;
    proxy.cut_after(Way::Up, 0);
    broken_off(client.ask(&["SET", "cut-request", "v"]))?;
    let mut again = Admin::connect(proxy.addr())?;
    ensure_eq!(again.command(&["GET", "cut-request"])?, Reply::Nil, "the effect");
    ensure_eq!(redis.command(&["GET", "cut-request"])?, Reply::Nil, "the effect");
    Ok(())
}

fn an_answer_is_cut_after_its_effect() -> Result {
    let (redis, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    client.command(&["PING"])?;
    proxy.cut_after(Way::Down, 0);
    broken_off(client.ask(&["SET", "cut-answer", "v"]))?;
    ensure_eq!(redis.command(&["GET", "cut-answer"])?, text("v"), "the effect");
    ensure_eq!(Admin::connect(proxy.addr())?.command(&["PING"])?, text("PONG"), "the next connection");
    Ok(())
}

fn an_answer_is_cut_in_its_middle() -> Result {
    let (_, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    // Two answers of seven bytes: the first and the sign of the second arrive.
    proxy.cut_after(Way::Down, 8);
    client.send(&["PING"])?;
    ensure_eq!(client.receive()?, text("PONG"), "the first answer");
    broken_off(client.ask(&["PING"]))?;
    ensure_eq!(proxy.counts().down.forwarded, 8, "the bytes that passed");
    Ok(())
}

fn a_proxy_gets_another_target() -> Result {
    let (redis, proxy) = proxy()?;
    let other = Redis::start(RedisOptions::default())?;
    let run_id = |client: &mut Admin| {
        let info = client.command(&["INFO", "server"])?;
        let info = info.text().unwrap_or_default();
        Ok::<_, Failure>(info.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::to_owned))
    };
    let mut old = Admin::connect(proxy.addr())?;
    proxy.retarget(other.addr())?;
    let mut new = Admin::connect(proxy.addr())?;
    ensure_eq!(run_id(&mut old)?, Some(redis.info("run_id")?), "an old connection's server");
    ensure_eq!(run_id(&mut new)?, Some(other.info("run_id")?), "a new connection's server");
    other.kill()?;
    // The reset may come before the client is done connecting.
    broken_off(Admin::connect(proxy.addr()).and_then(|mut client| client.ask(&["PING"])))
}

fn a_dropped_proxy_is_gone() -> Result {
    let (_, proxy) = proxy()?;
    let addr = proxy.addr();
    let mut client = Admin::connect(addr)?;
    client.command(&["PING"])?;
    proxy.flow_both(Flow::Stall)?;
    drop(proxy);
    broken_off(client.ask(&["PING"]))?;
    drop(TcpListener::bind(addr)?);
    Ok(())
}

fn a_large_answer_is_held_within_bounds() -> Result {
    let (_, proxy) = proxy()?;
    let mut client = Admin::connect(proxy.addr())?;
    let value = "x".repeat(8 << 20);
    proxy.flow(Way::Down, Flow::Hold)?;
    client.send(&["SET", "large", &value])?;
    client.send(&["GET", "large"])?;
    client.send(&["DEL", "large"])?;
    let counts = proxy.wait_until("the proxy is full", |counts| counts.down.held >= 1 << 20)?;
    ensure!(counts.down.held < (1 << 20) + (16 << 10), "it took {}", counts.down.held);
    proxy.heal()?;
    ensure_eq!(client.receive()?, text("OK"), "the first answer");
    ensure_eq!(client.receive()?.text().map(str::len), Some(value.len()), "what came back");
    ensure_eq!(client.receive()?, Reply::Int(1), "the last answer");
    Ok(())
}
