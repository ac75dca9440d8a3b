//! Directories and files that are not as they should be.

use super::*;

#[tokio::test]
async fn a_damaged_line_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let whole = {
        let claim = exclusive("whole");
        let _ = granted(&engine, &claim).await;
        std::fs::read(line_file(dir.path(), "whole")).unwrap()
    };
    let damage = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        ("magic", damage(0, b'T'), "not the beginning"),
        ("version", damage(8, 9), "version 9"),
        ("last", damage(1536 + 8, !whole[1536 + 8]), "a wrong checksum in its status"),
        ("span", damage(1536 + 32, 2), "a wrong checksum in its status"),
        ("mode", damage(1600, 0x71), "impossible mode in slot 0"),
        ("state", damage(1600, 0x17), "impossible state in slot 0"),
        ("entry", damage(1600 + 2, !whole[1600 + 2]), "another claim than its entry in slot 0"),
        ("check", damage(2048 + 33, !whole[2048 + 33]), "wrong checksum"),
        ("short", b"tenure".to_vec(), "less than a head"),
        ("other", whole.clone(), "the line of the key `whole`"),
    ];
    for (key, bytes, says) in cases {
        // For the others the head must name them.
        let mut bytes = bytes;
        if key != "other" && bytes.len() > 16 + key.len() {
            bytes[12] = key.len() as u8;
            bytes[16..16 + key.len()].copy_from_slice(key.as_bytes());
        }
        std::fs::write(line_file(dir.path(), key), &bytes).unwrap();
        let err = engine.attempt(&exclusive(key)).await.unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Broken, "{key}");
        let text = err.to_string();
        assert!(text.contains(says) && text.contains(&format!("line/{key} is damaged")), "{key}: {text}");
        assert_eq!(std::fs::read(line_file(dir.path(), key)).unwrap(), bytes);
    }
    assert_eq!(sweep_all(&engine), 0);
}

#[tokio::test]
async fn a_damaged_control_file_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    let file = dir.path().join("locks/engine");
    let whole = std::fs::read(&file).unwrap();
    for at in [0, 8, 20, 50, 60, 75] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&file, &bytes).unwrap();
        let err = error(options(dir.path())).await;
        assert_eq!(err.kind(), ErrorKind::Broken);
        assert!(err.to_string().contains("locks/engine is damaged"), "{err}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
    std::fs::write(&file, &whole).unwrap();
    let engine = open(dir.path()).await;
    let _ = granted(&engine, &exclusive("k")).await;
    std::fs::remove_file(&file).unwrap();
    let err = error(options(dir.path())).await;
    assert!(err.to_string().contains("line files beside it"), "{err}");
}

#[tokio::test]
async fn unfit_directories_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| FileOptions { dir: dir.path().join(name), network_fs: NetworkFs::Refuse };
    std::fs::write(dir.path().join("file"), "").unwrap();
    std::fs::create_dir(dir.path().join("open")).unwrap();
    std::fs::set_permissions(dir.path().join("open"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink(dir.path(), dir.path().join("link")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    let cases = [
        ("file", ErrorKind::Invalid, "not a directory"),
        ("file/below", ErrorKind::Broken, "cannot make the directory"),
        ("open", ErrorKind::Denied, "run `chmod 700 "),
        ("link", ErrorKind::Denied, "symbolic link"),
    ];
    for (name, kind, says) in cases {
        let err = error(at(name)).await;
        assert!(err.kind() == kind && err.to_string().contains(says), "{name}: {err}");
    }
    assert!(FileEngine::open(at("dangling")).await.is_err());
    assert!(!dir.path().join("nowhere").exists());
    let relative = FileOptions { dir: "locks".into(), network_fs: NetworkFs::Allow };
    assert!(error(relative).await.to_string().contains("relative"));
    let made = at("deep/er");
    let engine = FileEngine::open(made).await.unwrap();
    let mode = std::fs::metadata(dir.path().join("deep/er")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let _ = granted(&engine, &exclusive("k")).await;
    let mode = std::fs::metadata(dir.path().join("deep/er/line/k")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn links_and_pipes_in_place_of_our_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let precious = dir.path().join("precious");
    std::fs::write(&precious, "").unwrap();
    symlink(&precious, line_file(dir.path(), "k")).unwrap();
    let err = engine.attempt(&exclusive("k")).await.unwrap_err();
    assert!(err.kind() == ErrorKind::Denied && err.to_string().contains("symbolic link"), "{err}");
    assert_eq!(std::fs::read(&precious).unwrap(), b"");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        line_file(dir.path(), "p"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert_eq!(engine.attempt(&exclusive("p")).await.unwrap_err().kind(), ErrorKind::Broken);
}

#[tokio::test]
async fn a_sweep_that_was_killed_between_its_mark_and_its_removal_blocks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    for (key, swept) in [("used", false), ("swept", true)] {
        let earlier = exclusive(key);
        let seat = granted(&engine, &earlier).await;
        assert_eq!(release(&engine, &earlier).await, Released::Freed);
        // The sweep folds the last number, marks the file, and dies before it can remove it.
        let file = std::fs::OpenOptions::new().write(true).open(line_file(dir.path(), key)).unwrap();
        file.write_all_at(&[1], 1536).unwrap();
        if swept {
            let broom = Broom { idle: Duration::ZERO, most: SWEPT, start: 0 };
            assert_eq!(sweep::sweep(&engine.dir, &engine.control, wall_micros(), broom).unwrap(), 1);
            assert!(!line_file(dir.path(), key).exists());
        }
        let later = exclusive(key);
        assert!(granted(&engine, &later).await.seq > seat.seq);
        assert_eq!(engine.line(&Filter::Key(later.key.clone())).await.unwrap().len(), 1);
    }
}
