//! What is particular to files.

use std::{fs, os::unix::fs::PermissionsExt};

use tenure::{ErrorKind, fence::File};

use crate::bed::{BEFORE, NOW, within, writer};

/// The data is replaced before the record says so. If the machine stops between the two, the same write is done again.
#[tokio::test]
async fn a_write_that_stopped_half_way_is_done_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let (file, record) = (File::new(&path), dir.path().join("state.fence"));
    file.claim(writer(5)).await.unwrap();
    let before = fs::read(&record).unwrap();
    assert_eq!(file.write(writer(5), 1, "one").await.unwrap(), NOW);
    fs::write(&record, before).unwrap();
    assert_eq!(file.write(writer(5), 1, "one").await.unwrap(), NOW);
    assert_eq!(file.write(writer(5), 1, "one").await.unwrap(), BEFORE);
    assert_eq!(file.read(writer(5)).await.unwrap().unwrap(), b"one");
    // What lay about from a write that stopped even earlier is in nobody's way.
    fs::write(dir.path().join("state.fence-new"), "half").unwrap();
    assert_eq!(file.write(writer(5), 2, "two").await.unwrap(), NOW);
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert!(!dir.path().join("state.fence-new").exists());
}

/// A write that failed does not count.
#[tokio::test]
async fn a_write_that_could_not_be_done_is_done_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let file = File::new(&path);
    file.claim(writer(5)).await.unwrap();
    fs::create_dir(&path).unwrap();
    let err = file.write(writer(5), 1, "one").await.unwrap_err();
    assert_eq!((err.kind(), err.may_have_applied()), (ErrorKind::Unavailable, true), "{err}");
    assert_eq!(file.record().await.unwrap().n(), 0);
    fs::remove_dir(&path).unwrap();
    assert_eq!(file.write(writer(5), 1, "one").await.unwrap(), NOW);
}

#[tokio::test]
async fn it_stays_the_file_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let file = File::new(&link);
    file.claim(writer(5)).await.unwrap();
    assert_eq!(file.write(writer(5), 1, "new").await.unwrap(), NOW);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(File::new(&path).record().await.unwrap().n(), 1, "both names have one record");
}

#[tokio::test]
async fn what_is_missing_or_damaged_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = File::new(dir.path().join("state"));
    file.claim(writer(5)).await.unwrap();
    assert_eq!(file.read(writer(5)).await.unwrap(), None);
    let err = File::new(dir.path().join("nowhere/state")).claim(writer(5)).await.unwrap_err();
    assert_eq!((err.kind(), err.may_have_applied()), (ErrorKind::Unavailable, false), "{err}");
    fs::write(dir.path().join("state.fence"), vec![b'x'; 8192]).unwrap();
    let err = file.claim(writer(6)).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Broken, "{err}");
}

/// Many at once: each write is the next of its holder, or refused; nobody reads half of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let tasks = (1..=6).map(|fence| {
        let file = File::new(&path);
        tokio::spawn(async move {
            let mut done = 0;
            for n in 1..=3 {
                if file.claim(writer(fence)).await.is_err() {
                    break;
                }
                let bytes = vec![b'a' + fence; 10_000 + usize::from(fence)];
                done += u32::from(file.write(writer(fence), n, bytes).await.is_ok());
            }
            done
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(within("all have written", task).await.unwrap());
    }
    assert_eq!(done[5], 3, "the last one was refused: {done:?}");
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes, vec![b'a' + 6; 10_006]);
}

/// A process that keeps the record to itself is waited for, and not for ever.
#[tokio::test(start_paused = true)]
async fn a_file_that_somebody_keeps_is_not_waited_for_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let record = fs::File::create(dir.path().join("state.fence")).unwrap();
    record.lock().unwrap();
    let file = File::new(dir.path().join("state"));
    let err = file.claim(writer(5)).await.unwrap_err();
    assert_eq!((err.kind(), err.may_have_applied()), (ErrorKind::Unavailable, false));
    assert!(err.to_string().contains("state.fence"), "{err}");
    record.unlock().unwrap();
    file.claim(writer(5)).await.unwrap();
}
