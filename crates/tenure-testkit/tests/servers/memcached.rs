use tenure_testkit::{
    Result, ensure, ensure_eq,
    memcached::{Memcached, MemcachedOptions},
};

crate::tests! {
    it_is_paused_killed_and_started_again,
    it_can_ask_for_a_password,
    it_forgets_when_it_is_full,
    a_shared_one_is_started_once,
    its_clock_is_set_and_nobody_elses,
}

fn it_is_paused_killed_and_started_again() -> Result {
    let server = Memcached::start(MemcachedOptions::default())?;
    ensure_eq!(server.url(), format!("memcached://127.0.0.1:{}", server.port()), "the URL");
    server.ask(b"ms a 1\r\nx\r\n", "HD\r\n")?;
    server.pause()?;
    ensure!(server.ask(b"mn\r\n", "MN\r\n").is_err(), "a paused server answered");
    server.resume()?;
    server.ask(b"mg a v\r\n", "VA 1\r\nx\r\n")?;
    server.kill()?;
    ensure!(server.ask(b"mn\r\n", "MN\r\n").is_err(), "a dead server answered");
    server.restart()?;
    server.ask(b"mg a v\r\n", "EN\r\n")?;
    Ok(())
}

fn it_can_ask_for_a_password() -> Result {
    let login = Some(("anna".to_owned(), "secret".to_owned()));
    let server = Memcached::start(MemcachedOptions { login, ..MemcachedOptions::default() })?;
    ensure_eq!(server.url(), format!("memcached://anna:secret@{}", server.addr()), "the URL");
    server.ask(b"mn\r\n", "MN\r\n")?;
    Ok(())
}

fn it_forgets_when_it_is_full() -> Result {
    let args = ["-m", "2"].map(str::to_owned).into();
    let server = Memcached::start(MemcachedOptions { args, ..MemcachedOptions::default() })?;
    // As long as what it is filled with: items of each size have memory of their own.
    let item = format!("item:{:060}", 1);
    server.ask(format!("ms {item} 1\r\nx\r\n").as_bytes(), "HD\r\n")?;
    ensure_eq!(server.items()?.concat(), item, "the items");
    let mut gone = 0;
    while server.items()?.contains(&item) {
        gone = server.fill_until_it_forgets(gone + 10_000)?;
        ensure!(gone < 1_000_000, "it never forgets");
    }
    ensure!(gone > 0, "it was not there");
    Ok(())
}

fn a_shared_one_is_started_once() -> Result {
    ensure_eq!(Memcached::shared()?.port(), Memcached::shared()?.port(), "the port");
    Ok(())
}

fn its_clock_is_set_and_nobody_elses() -> Result {
    let server = Memcached::start(MemcachedOptions { clock: true, ..MemcachedOptions::default() })?;
    crate::clock_is_set(
        || server.wall_clock(),
        |millis| server.process().step_clock(millis),
        || server.restart(),
    )
}
