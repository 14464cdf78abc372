//! Stores that outlive a process. Redis has its tests with the interop suite, beside Python's scheduler.

use std::fs;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use super::super::*;
use super::world::payload;

/// A file of this test alone, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("eventmq-{}-{name}", std::process::id())))
    }

    fn file(&self) -> PathBuf {
        self.0.join("deep").join("schedules.redb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn now() -> Timestamp {
    "2026-03-02T10:00:00.123456789Z".parse().unwrap()
}

fn record(name: &str, interval: &str, cron: &str, headers: &str) -> Record {
    let payload = String::from_utf8(payload(name)).unwrap();
    let frames = ["é".to_owned(), headers.to_owned(), interval.to_owned(), payload, cron.to_owned()];
    Record::from_frames(&frames, now()).unwrap()
}

#[test]
fn a_file_keeps_what_it_was_given() {
    let folder = Folder::new("keeps");
    let mut store = FileStore::open(&folder.file()).unwrap();
    assert_eq!(store.load(now()).unwrap(), Saved::default());
    let mut limited = record("b", "-1", "*/5 * * * *", "guarantee,run_count:9");
    limited.left = Some(4);
    let gone = record("c", "7", "", "");
    let changes = [
        Change::Put(record("a", "5", "", "nohaste")),
        Change::Put(limited.clone()),
        Change::Put(gone.clone()),
        Change::RanUntil(now()),
    ];
    store.commit(&changes).unwrap();
    let later = now() + SignedDuration::from_secs(9);
    store.commit(&[Change::Remove(gone.id()), Change::RanUntil(later)]).unwrap();
    drop(store);
    let mut store = FileStore::open(&folder.file()).unwrap();
    let mut saved = store.load(now()).unwrap();
    saved.records.sort_by_key(|record| record.call.callable.clone());
    assert_eq!(saved, Saved { records: vec![record("a", "5", "", "nohaste"), limited], ran_until: Some(later) });
}

#[test]
fn a_file_has_one_user_and_a_reason_why_it_cannot_be_used() {
    let folder = Folder::new("user");
    let _first = FileStore::open(&folder.file()).unwrap();
    assert!(matches!(FileStore::open(&folder.file()), Err(StoreError::InUse { .. })));
    let text = folder.0.join("text");
    fs::write(&text, "not a database, but long enough to be one".repeat(1000)).unwrap();
    let error = FileStore::open(&text).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    let error = FileStore::open(&text.join("below")).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error}");
}

#[test]
fn a_lazy_file_is_there_when_it_is_needed() {
    let folder = Folder::new("lazy");
    let mut store = FileStore::lazy(&folder.file());
    assert_eq!(store.load(now()).unwrap(), Saved::default());
    store.commit(&[Change::RanUntil(now()), Change::Remove(record("a", "5", "", "").id())]).unwrap();
    assert!(!folder.file().exists());
    store.commit(&[Change::Put(record("a", "5", "", ""))]).unwrap();
    drop(store);
    let mut store = FileStore::lazy(&folder.file());
    assert_eq!(store.load(now()).unwrap().records, [record("a", "5", "", "")]);
}

#[test]
fn frames_are_pythons_with_the_runs_that_are_left() {
    let mut record = record("a", "5", "", "guarantee, run_count:9,x");
    assert_eq!(record.left, Some(9));
    record.left = Some(2);
    let [queue, headers, interval, _, cron] = record.to_frames();
    assert_eq!([&*queue, &*headers, &*interval, &*cron], ["é", "guarantee,run_count:2,x", "5", ""]);
    assert_eq!(Record::from_frames(&record.to_frames(), now()).unwrap().left, Some(2));
    assert_eq!(record.job_headers(), "reply-requested,guarantee,x");
}
