use std::{
    process::{Command, Stdio},
    time::Duration,
};

use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    process::wait_until,
    redis::{
        Admin, Certificates, Cluster, Persistence, Redis, RedisOptions, Reply, Sentinels, certificates, five,
        shared_five,
    },
};

crate::tests! {
    a_killed_server_keeps_what_it_wrote_and_nothing_else,
    a_server_that_is_ended_can_be_started_again,
    a_paused_server_answers_when_it_goes_on,
    users_are_asked_for_and_limited,
    tls_is_trusted_by_its_authority_only,
    five_servers_are_independent,
    shared_servers_are_started_once,
    sentinels_promote_the_replica_and_demote_the_old_master,
    a_cluster_moves_a_slot_with_its_key,
    a_cluster_serves_without_one_node,
    its_clock_is_set_and_nobody_elses,
    it_evicts_what_can_expire_when_it_is_full,
    a_master_is_cut_off_and_goes_on_until_it_is_joined_again,
}

/// Long enough for an answer on loopback, short enough to wait for one that must not come.
const SHORT: Duration = Duration::from_millis(100);

fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

fn a_killed_server_keeps_what_it_wrote_and_nothing_else() -> Result {
    for (persistence, kept) in [
        (Persistence::None, Reply::Nil),
        (Persistence::AofEverysec, text("v")),
        (Persistence::AofAlways, text("v")),
    ] {
        let redis = Redis::start(RedisOptions { persistence, ..RedisOptions::default() })?;
        redis.command(&["SET", "k", "v"])?;
        redis.kill()?;
        ensure!(!redis.process().is_running(), "it is down");
        let refused = redis.command(&["PING"]).map_err(|failure| failure.to_string());
        ensure!(refused.as_ref().is_err_and(|why| why.contains("refused")), "{refused:?}");
        redis.restart()?;
        ensure_eq!(redis.command(&["GET", "k"])?, kept, "after a kill with {persistence:?}");
    }
    Ok(())
}

fn a_server_that_is_ended_can_be_started_again() -> Result {
    let redis = Redis::start(RedisOptions::default())?;
    let run_id = redis.info("run_id")?;
    redis.terminate()?;
    ensure!(!redis.process().is_running(), "it is down");
    ensure!(redis.process().log_tail().contains("User requested shutdown"), "it was asked, not killed");
    ensure!(redis.pause().is_err() && redis.terminate().is_err(), "what is down cannot be stopped");
    redis.restart()?;
    let first = redis.info("run_id")?;
    redis.restart()?;
    let second = redis.info("run_id")?;
    ensure!(run_id != first && first != second, "each start is another process");
    Ok(())
}

fn a_paused_server_answers_when_it_goes_on() -> Result {
    let redis = Redis::start(RedisOptions::default())?;
    let mut admin = redis.admin()?;
    admin.set_patience(SHORT)?;
    redis.pause()?;
    ensure!(admin.command(&["INCR", "n"]).is_err(), "a paused server answered");
    ensure!(redis.process().is_running(), "it is paused, not gone");
    let mut late = Admin::connect(redis.addr())?;
    redis.resume()?;
    // The answer to the question that was given up on comes first.
    admin.set_patience(Duration::from_secs(2))?;
    ensure_eq!(admin.receive()?, Reply::Int(1), "the late answer");
    ensure_eq!(late.command(&["INCR", "n"])?, Reply::Int(2), "a connection made in the pause");
    Ok(())
}

fn users_are_asked_for_and_limited() -> Result {
    let redis = Redis::start(RedisOptions {
        password: Some("secret".into()),
        acl: vec!["anna on >annas ~lock:* &* +get +set -debug".into()],
        ..RedisOptions::default()
    })?;
    ensure_eq!(redis.url(), format!("redis://:secret@127.0.0.1:{}", redis.port()), "the URL");
    redis.command(&["SET", "lock:1", "x"])?;
    let mut client = Admin::connect(redis.addr())?;
    refused(client.ask(&["GET", "lock:1"])?, "NOAUTH")?;
    refused(client.ask(&["AUTH", "wrong"])?, "WRONGPASS")?;
    client.command(&["AUTH", "secret"])?;
    ensure_eq!(client.command(&["GET", "lock:1"])?, text("x"), "the default user");
    client.command(&["AUTH", "anna", "annas"])?;
    ensure_eq!(client.command(&["GET", "lock:1"])?, text("x"), "her key");
    refused(client.ask(&["GET", "other"])?, "NOPERM")?;
    refused(client.ask(&["DEL", "lock:1"])?, "NOPERM")
}

fn refused(reply: Reply, code: &str) -> Result {
    match reply {
        Reply::Error(error) if error.starts_with(code) => Ok(()),
        reply => Err(Failure::new(format!("{reply:?}, not {code}"))),
    }
}

fn tls_is_trusted_by_its_authority_only() -> Result {
    let redis = Redis::start(RedisOptions { tls: true, ..RedisOptions::default() })?;
    let addr = redis.tls_addr().ok_or_else(|| Failure::new("no TLS"))?;
    ensure_eq!(redis.tls_url(), Some(format!("rediss://localhost:{}", addr.port())), "the URL");
    redis.command(&["PING"])?;
    let Certificates { ca, stranger, .. } = certificates()?;
    for (trusted, name, good) in [
        (ca, ["-verify_hostname", "localhost"], true),
        (ca, ["-verify_ip", "127.0.0.1"], true),
        (ca, ["-verify_hostname", "example.org"], false),
        (stranger, ["-verify_hostname", "localhost"], false),
    ] {
        let status = Command::new("openssl")
            .args(["s_client", "-brief", "-verify_return_error", "-connect", &addr.to_string()])
            .args(name)
            .arg("-CAfile")
            .arg(trusted)
            .stdin(Stdio::null())
            .output()?
            .status;
        ensure_eq!(status.success(), good, "a handshake with {name:?}, trusting {}", trusted.display());
    }
    Ok(())
}

fn five_servers_are_independent() -> Result {
    let five = five(&RedisOptions::default())?;
    for (index, redis) in five.iter().enumerate() {
        ensure_eq!(redis.command(&["GET", "k"])?, Reply::Nil, "server {index} before");
        redis.command(&["SET", "k", "v"])?;
    }
    five[2].kill()?;
    let alive = five.iter().filter(|redis| redis.command(&["PING"]).is_ok()).count();
    ensure_eq!(alive, 4, "after one was killed");
    Ok(())
}

fn shared_servers_are_started_once() -> Result {
    ensure!(std::ptr::eq(Redis::shared()?, Redis::shared()?), "one server");
    ensure!(std::ptr::eq(shared_five()?, shared_five()?), "one set of five");
    Redis::shared()?.command(&["PING"])?;
    Ok(())
}

fn sentinels_promote_the_replica_and_demote_the_old_master() -> Result {
    let all = Sentinels::start()?;
    let [first, second] = all.servers();
    ensure_eq!(all.master()?.port(), first.port(), "the first master");
    let mut admin = first.admin()?;
    admin.command(&["SET", "k", "v"])?;
    ensure_eq!(admin.command(&["WAIT", "1", "2000"])?, Reply::Int(1), "the replicas that have it");
    let new = all.fail_over()?;
    ensure_eq!(new.port(), second.port(), "the new master");
    ensure_eq!(new.command(&["GET", "k"])?, text("v"), "what was replicated");
    new.command(&["SET", "k", "w"])?;
    all.heal()?;
    // Only a replica learns. That it leads again by now is possible: sentinels that get no processor promote anew.
    ensure_eq!(first.command(&["GET", "k"])?, text("w"), "what the old master has learnt");
    ensure!(all.master()?.port() != all.replica()?.port(), "one leads, and the other follows");
    Ok(())
}

fn a_cluster_moves_a_slot_with_its_key() -> Result {
    let cluster = Cluster::shared()?;
    let slot = cluster.slot_of("{moved}:a")?;
    ensure_eq!(cluster.slot_of("{moved}:b")?, slot, "the slot of a key with the same tag");
    let from = cluster.node_of(slot)?;
    let to = cluster.nodes().iter().find(|node| node.port() != from.port());
    let to = to.ok_or_else(|| Failure::new("no other node"))?;
    from.command(&["SET", "{moved}:a", "v"])?;
    let ask = |node: &Redis, key: &str| node.admin()?.ask(&["GET", key]);
    let moved = format!("MOVED {slot} {}", from.addr());
    refused(ask(to, "{moved}:a")?, &moved)?;

    let way = cluster.slot_move(slot, to)?;
    way.open()?;
    ensure_eq!(ask(from, "{moved}:a")?, text("v"), "a key that is still there");
    let asking = format!("ASK {slot} {}", to.addr());
    refused(ask(from, "{moved}:b")?, &asking)?;
    refused(ask(to, "{moved}:a")?, &moved)?;
    ensure_eq!(way.carry_all()?, 1, "the keys of the slot");
    refused(ask(from, "{moved}:a")?, &asking)?;
    let mut admin = to.admin()?;
    admin.command(&["ASKING"])?;
    ensure_eq!(admin.command(&["GET", "{moved}:a"])?, text("v"), "a key that was carried over");
    ensure_eq!(cluster.node_of(slot)?.port(), from.port(), "the slot's node until the end");
    way.close()?;
    ensure_eq!(cluster.node_of(slot)?.port(), to.port(), "the slot's new node");
    ensure_eq!(ask(to, "{moved}:a")?, text("v"), "the key at its new place");
    refused(ask(from, "{moved}:a")?, &format!("MOVED {slot} {}", to.addr()))?;
    ensure!(cluster.slot_move(slot, to).is_err(), "it is there already");
    Ok(())
}

fn a_cluster_serves_without_one_node() -> Result {
    let cluster = Cluster::start()?;
    let slot = cluster.slot_of("k")?;
    let home = cluster.node_of(slot)?;
    home.command(&["SET", "k", "v"])?;
    let other = cluster.nodes().iter().find(|node| node.port() != home.port());
    other.ok_or_else(|| Failure::new("no other node"))?.kill()?;
    ensure_eq!(home.command(&["GET", "k"])?, text("v"), "with another node down");
    ensure_eq!(cluster.node_of(slot)?.port(), home.port(), "the node of the slot");
    cluster.heal()
}

fn its_clock_is_set_and_nobody_elses() -> Result {
    let server = Redis::start(RedisOptions { clock: true, ..RedisOptions::default() })?;
    crate::clock_is_set(
        || server.wall_clock(),
        |millis| server.process().step_clock(millis),
        || server.restart(),
    )
}

fn it_evicts_what_can_expire_when_it_is_full() -> Result {
    let args = ["--maxmemory", "4mb", "--maxmemory-policy", "volatile-lru"].map(str::to_owned).into();
    let redis = Redis::start(RedisOptions { args, ..RedisOptions::default() })?;
    redis.command(&["SET", "lasts", "v"])?;
    redis.command(&["SET", "ends", "v", "EX", "600"])?;
    ensure_eq!(redis.fill_until_it_evicts()?, 1, "what had to go");
    ensure_eq!(redis.command(&["GET", "ends"])?, Reply::Nil, "what could expire");
    ensure_eq!(redis.command(&["GET", "lasts"])?, text("v"), "what could not");
    ensure_eq!(redis.command(&["DBSIZE"])?, Reply::Int(1), "there is room again");
    ensure_eq!(redis.fill_until_it_evicts()?, 0, "when there is nothing to evict");
    Ok(())
}

fn a_master_is_cut_off_and_goes_on_until_it_is_joined_again() -> Result {
    let (password, acl) = (Some("nobody".into()), vec!["anna on >annas ~* &* +@all".into()]);
    let all = Sentinels::start_with(RedisOptions { password, acl, peers: true, ..RedisOptions::default() })?;
    let mut client = all.master()?.admin()?;
    client.command(&["AUTH", "anna", "annas"])?;
    let (old, new) = all.cut_off()?;
    // Meanwhile the sentinels have tried again, and were refused.
    wait_until("somebody is refused", Duration::from_secs(5), || {
        let clients = old.command(&["CLIENT", "LIST"])?;
        let refused = clients.text().unwrap_or_default().lines().any(|line| line.contains("user=default"));
        ensure!(refused, "nobody is");
        Ok(())
    })?;
    client.command(&["PING"])?;
    for server in [old, new] {
        server.command(&["SET", "k", &server.port().to_string()])?;
    }
    ensure_eq!(old.command(&["GET", "k"])?, text(&old.port().to_string()), "what the old master took");
    all.join()?;
    ensure_eq!(all.master()?.port(), new.port(), "the master");
    ensure_eq!(old.command(&["GET", "k"])?, text(&new.port().to_string()), "what is left of the old one's");
    Ok(())
}
