//! [`FileStore`]: schedules in one file, by redb: an embedded database in pure Rust without dependencies, whose commits
//! are atomic and on disk when they return.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};
use tracing::error;

use super::{Change, Saved, ScheduleStore, StoreError};
use crate::scheduler::record::{Record, Refusal};

/// Identity to JSON.
const SCHEDULES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("schedules");
/// Single values by name.
const VALUES: TableDefinition<'_, &str, &str> = TableDefinition::new("values");
const RAN_UNTIL: &str = "ran_until";
/// Memory for pages of the file; all schedules of most systems fit.
const CACHE: usize = 4 << 20;

/// Schedules in a file of their own.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    /// None while nothing is to be kept.
    database: Option<Database>,
}

/// A schedule as its JSON in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    queue: String,
    headers: String,
    interval: String,
    payload: String,
    cron: String,
    since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<u64>,
}

impl FileStore {
    /// Opens a file, or makes it, and its folder, readable by this user only.
    ///
    /// # Errors
    /// It cannot be made or opened, is in use, or is something else.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { path: path.to_owned(), database: Some(open(path)?) })
    }

    /// A store that opens its file when it is loaded, if it is there, and makes it when there is something to keep.
    pub fn lazy(path: &Path) -> Self {
        Self { path: path.to_owned(), database: None }
    }

    fn read(&self, database: &Database) -> Result<Saved, redb::Error> {
        let mut saved = Saved::default();
        let reading = database.begin_read()?;
        match reading.open_table(SCHEDULES) {
            Ok(table) => {
                for entry in table.iter()? {
                    let (id, kept) = entry?;
                    match Kept::read(kept.value()) {
                        Ok(record) => saved.records.push(record),
                        Err(problem) => {
                            let id: String = id.value().iter().map(|byte| format!("{byte:02x}")).collect();
                            error!(id, path = %self.path.display(), "a kept schedule cannot be used: {problem}");
                        }
                    }
                }
            }
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(saved),
            Err(error) => return Err(error.into()),
        }
        match reading.open_table(VALUES) {
            Ok(table) => saved.ran_until = table.get(RAN_UNTIL)?.and_then(|text| text.value().parse().ok()),
            Err(redb::TableError::TableDoesNotExist(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(saved)
    }

    fn failed(&self, source: redb::Error) -> StoreError {
        StoreError::File { path: self.path.clone(), source: Box::new(source) }
    }
}

fn open(path: &Path) -> Result<Database, StoreError> {
    let cannot = |source| StoreError::Open { path: path.to_owned(), source };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(cannot)?;
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    match builder.create_file(file) {
        Ok(database) => Ok(database),
        Err(DatabaseError::DatabaseAlreadyOpen) => Err(StoreError::InUse { path: path.to_owned() }),
        Err(DatabaseError::Storage(redb::StorageError::Io(source))) if source.kind() != io::ErrorKind::InvalidData => {
            Err(cannot(source))
        }
        Err(source) => Err(StoreError::Damaged { path: path.to_owned(), source: Box::new(source.into()) }),
    }
}

fn write(database: &Database, changes: &[Change]) -> Result<(), redb::Error> {
    let writing = database.begin_write()?;
    {
        let mut schedules = writing.open_table(SCHEDULES)?;
        let mut values = writing.open_table(VALUES)?;
        for change in changes {
            match change {
                Change::Put(record) => {
                    schedules.insert(&record.id().as_bytes()[..], &Kept::of(record).to_json()[..])?;
                }
                Change::Remove(id) => {
                    schedules.remove(&id.as_bytes()[..])?;
                }
                Change::RanUntil(time) => {
                    values.insert(RAN_UNTIL, time.to_string().as_str())?;
                }
            }
        }
    }
    writing.commit()?;
    Ok(())
}

impl ScheduleStore for FileStore {
    fn load(&mut self, _now: Timestamp) -> Result<Saved, StoreError> {
        if self.database.is_none() && self.path.exists() {
            self.database = Some(open(&self.path)?);
        }
        match &self.database {
            Some(database) => self.read(database).map_err(|source| self.failed(source)),
            None => Ok(Saved::default()),
        }
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let database = match &mut self.database {
            Some(database) => database,
            None if changes.iter().any(|change| matches!(change, Change::Put(_))) => {
                self.database.insert(open(&self.path)?)
            }
            // Nothing is kept, and nothing is to be.
            None => return Ok(()),
        };
        write(database, changes)
            .map_err(|source| StoreError::File { path: self.path.clone(), source: Box::new(source) })
    }

    fn place(&self) -> String {
        format!("file {}", self.path.display())
    }
}

impl Kept {
    fn of(record: &Record) -> Self {
        let [_, _, interval, payload, cron] = record.to_frames();
        Self {
            queue: record.queue.clone(),
            headers: record.headers.clone(),
            interval,
            payload,
            cron,
            since: record.since,
            left: record.left,
        }
    }

    fn to_json(&self) -> Vec<u8> {
        // Texts and numbers always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn read(json: &[u8]) -> Result<Record, Unusable> {
        let Self { queue, headers, interval, payload, cron, since, left } = serde_json::from_slice(json)?;
        let record = Record::from_frames(&[queue, headers, interval, payload, cron], since)?;
        Ok(Record { left, ..record })
    }
}

/// Why a kept schedule cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("not the JSON of a schedule: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Schedule(#[from] Refusal),
}
