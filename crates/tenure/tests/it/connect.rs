use tenure::{ErrorKind, connect};

async fn refused(url: &str) -> tenure::Error {
    connect(url).await.expect_err(url)
}

#[tokio::test]
async fn urls_are_strict_and_their_errors_teach() {
    for (url, teaches) in [
        ("", "no scheme"),
        ("nonsense", "no scheme"),
        ("redsi://h", "no engine is called `redsi:`"),
        ("memory:?tll=5s", "did you mean `ttl`?"),
        ("memory:?banana=1", "options: ttl, who"),
        ("memory:?ttl=soon", "no length of time"),
        ("memory:?ttl=0", "between 100ms and 24h"),
        ("memory:?ttl=9999d", "between 100ms and 24h"),
        ("memory://host", "no host"),
        ("file:/tmp?networkfs=allow", "did you mean `network_fs`?"),
        ("file:/tmp?banana=1", "options: network_fs, ttl, who"),
        ("file:relative/path", "relative"),
    ] {
        let err = refused(url).await;
        assert_eq!(err.kind(), ErrorKind::Invalid, "{url}: {err}");
        assert!(err.to_string().contains(teaches), "{url}: {err}");
    }
}

#[tokio::test]
async fn the_same_name_is_the_same_engine() {
    let (a, b) = (connect("memory:same").await.unwrap(), connect("memory:same").await.unwrap());
    let other = connect("memory:other").await.unwrap();
    assert_eq!(a.identity(), b.identity());
    assert_ne!(a.identity(), other.identity());
    let _guard = a.mutex("k").unwrap().acquire().await.unwrap();
    assert!(b.mutex("k").unwrap().try_acquire().await.unwrap().is_none());
    assert!(other.mutex("k").unwrap().try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn options_reach_the_claims() {
    let client = connect("memory:options?ttl=5s&who=ana").await.unwrap();
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    assert!(guard.remaining().unwrap() < std::time::Duration::from_secs(5));
    let line = client.line(&tenure::Filter::Prefix(String::new(), 10)).await.unwrap();
    assert_eq!(line[0].note.who(), "ana");
}

#[tokio::test]
async fn keys_come_in_every_form() {
    let client = connect("memory:forms").await.unwrap();
    let key = tenure::Key::new("k").unwrap();
    let text = String::from("k");
    let locks = [
        client.mutex("k"),
        client.mutex(&text),
        client.mutex(text.clone()),
        client.mutex(&key),
        client.mutex(key.clone()),
    ];
    assert!(locks.iter().all(|lock| *lock.as_ref().unwrap().key() == key));
}

#[test]
fn without_a_runtime_the_error_says_what_to_use() {
    let engine = tenure_local::Memory::named("no-runtime");
    let err = tenure::Client::new(engine, tenure::Settings::default()).unwrap_err();
    assert!(err.to_string().contains("tenure::blocking"), "{err}");
}
