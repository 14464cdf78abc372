//! [`RedisStore`]: schedules in Redis, laid out as Python's scheduler does it, so that one can take the other's place.
//!
//! Python's layout: the list `interval_jobs` of identities, and under each identity the JSON array of the SCHEDULE's five
//! body frames, `run_count` in the headers being what is left. Two keys of ours stand beside it, which Python leaves alone:
//! `eventmq:since`, a hash of identities to times of arrival, and `eventmq:ran_until`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use hashbrown::HashMap;
use jiff::Timestamp;
use redis::{Client, Connection, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisResult};
use tracing::{debug, info, warn};

use super::{Change, Saved, ScheduleStore, StoreError};
use crate::emqp::ScheduleId;
use crate::scheduler::record::Record;

const LIST: &str = "interval_jobs";
const SINCE: &str = "eventmq:since";
const RAN_UNTIL: &str = "eventmq:ran_until";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Identities asked for at a time.
const CHUNK: usize = 500;

/// Where a Redis server is.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisServer {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The number of the database in it.
    pub database: u32,
    /// Empty for none.
    pub password: String,
}

/// Schedules in a Redis database, which must be this scheduler's alone.
pub struct RedisStore {
    server: RedisServer,
    connection: Option<Connection>,
    /// What is in the list.
    listed: BTreeSet<ScheduleId>,
}

impl RedisStore {
    /// A store that connects when it is first used.
    pub fn new(server: RedisServer) -> Self {
        Self { server, connection: None, listed: BTreeSet::new() }
    }

    fn connect(&self) -> RedisResult<Connection> {
        let RedisServer { host, port, database, password } = &self.server;
        let mut session = RedisConnectionInfo::default().set_db(i64::from(*database)).set_skip_set_lib_name();
        if !password.is_empty() {
            session = session.set_password(password);
        }
        let address = ConnectionAddr::Tcp(host.clone(), *port);
        let client = Client::open(address.into_connection_info()?.set_redis_settings(session))?;
        let connection = client.get_connection_with_timeout(CONNECT_TIMEOUT)?;
        connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        connection.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(connection)
    }

    /// Does something, on a new connection if the old one fails: servers restart.
    fn with<T>(&mut self, what: impl Fn(&mut Connection) -> RedisResult<T>) -> Result<T, StoreError> {
        if let Some(mut connection) = self.connection.take() {
            match what(&mut connection) {
                Ok(done) => {
                    self.connection = Some(connection);
                    return Ok(done);
                }
                Err(error) => debug!(%error, "connecting to Redis again"),
            }
        }
        let again = self.connect().and_then(|mut connection| Ok((what(&mut connection)?, connection)));
        match again {
            Ok((done, connection)) => {
                self.connection = Some(connection);
                Ok(done)
            }
            Err(source) => Err(StoreError::Redis { server: self.server.to_string(), source }),
        }
    }

    /// Takes one entry of the list; says whether it can stay as it is.
    fn take(&self, key: &str, frames: Option<&String>, since: Timestamp) -> Option<Record> {
        let Some(json) = frames else {
            warn!(id = key, "a schedule is listed in Redis, but is not there");
            return None;
        };
        let frames = match serde_json::from_str::<[String; 5]>(json) {
            Ok(frames) => frames,
            Err(error) => {
                warn!(id = key, "a schedule in Redis is not five texts in JSON and stays unused: {error}");
                return None;
            }
        };
        match Record::from_frames(&frames, since) {
            Ok(record) => Some(record),
            Err(refusal) => {
                warn!(id = key, "a schedule in Redis stays unused: {refusal}");
                None
            }
        }
    }
}

/// What is in the database, as text.
struct Found {
    list: Vec<String>,
    frames: HashMap<String, String>,
    since: HashMap<String, String>,
    ran_until: Option<String>,
}

fn find(connection: &mut Connection) -> RedisResult<Found> {
    let list: Vec<String> = redis::cmd("LRANGE").arg(LIST).arg(0).arg(-1).query(connection)?;
    let distinct: BTreeSet<&String> = list.iter().collect();
    let distinct: Vec<&String> = distinct.into_iter().collect();
    let mut frames = HashMap::new();
    for keys in distinct.chunks(CHUNK) {
        let values: Vec<Option<String>> = redis::cmd("MGET").arg(keys).query(connection)?;
        let found = keys.iter().zip(values).filter_map(|(key, value)| Some(((*key).clone(), value?)));
        frames.extend(found);
    }
    let since: std::collections::HashMap<String, String> = redis::cmd("HGETALL").arg(SINCE).query(connection)?;
    let ran_until = redis::cmd("GET").arg(RAN_UNTIL).query(connection)?;
    Ok(Found { list, frames, since: since.into_iter().collect(), ran_until })
}

/// What was read, and the commands that put the list in order.
struct Gathered {
    saved: Saved,
    tidy: Pipeline,
}

impl RedisStore {
    /// What is kept, for looking at it: nothing is put in order.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub fn peek(&mut self, now: Timestamp) -> Result<Saved, StoreError> {
        Ok(self.gather(now)?.saved)
    }

    fn gather(&mut self, now: Timestamp) -> Result<Gathered, StoreError> {
        let found = self.with(find)?;
        let mut records: HashMap<ScheduleId, Record> = HashMap::new();
        let mut tidy = redis::pipe();
        tidy.atomic();
        let mut listed: BTreeMap<&String, usize> = BTreeMap::new();
        for key in &found.list {
            *listed.entry(key).or_default() += 1;
        }
        for (key, times) in listed {
            let since = found.since.get(key).and_then(|since| since.parse().ok()).unwrap_or(now);
            let record = self.take(key, found.frames.get(key), since);
            if times > 1 || !found.frames.contains_key(key) {
                tidy.cmd("LREM").arg(LIST).arg(0).arg(key).ignore();
                if found.frames.contains_key(key) {
                    tidy.cmd("LPUSH").arg(LIST).arg(key).ignore();
                }
            }
            let Some(record) = record else { continue };
            if record.id().to_string() != *key {
                info!(from = key, to = %record.id(), "a schedule is kept in Redis under its own identity now");
                tidy.cmd("LREM").arg(LIST).arg(0).arg(key).ignore().cmd("DEL").arg(key).ignore();
                put(&mut tidy, &record, &BTreeSet::new());
            }
            records.insert(record.id(), record);
        }
        let ran_until = found.ran_until.and_then(|text| text.parse().ok());
        Ok(Gathered { saved: Saved { records: records.into_values().collect(), ran_until }, tidy })
    }
}

impl ScheduleStore for RedisStore {
    fn load(&mut self, now: Timestamp) -> Result<Saved, StoreError> {
        let Gathered { saved, tidy } = self.gather(now)?;
        if tidy.cmd_iter().next().is_some() {
            self.with(|connection| tidy.query::<()>(connection))?;
        }
        self.listed = saved.records.iter().map(Record::id).collect();
        Ok(saved)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for change in changes {
            match change {
                Change::Put(record) => put(&mut pipe, record, &self.listed),
                Change::Remove(id) => {
                    let key = id.to_string();
                    pipe.cmd("LREM").arg(LIST).arg(0).arg(&key).ignore();
                    pipe.cmd("DEL").arg(&key).ignore();
                    pipe.cmd("HDEL").arg(SINCE).arg(&key).ignore();
                }
                Change::RanUntil(time) => {
                    pipe.cmd("SET").arg(RAN_UNTIL).arg(time.to_string()).ignore();
                }
            }
        }
        self.with(|connection| pipe.query::<()>(connection))?;
        for change in changes {
            match change {
                Change::Put(record) => _ = self.listed.insert(record.id()),
                Change::Remove(id) => _ = self.listed.remove(id),
                Change::RanUntil(_) => {}
            }
        }
        Ok(())
    }

    fn place(&self) -> String {
        format!("Redis at {}", self.server)
    }
}

fn put(pipe: &mut Pipeline, record: &Record, listed: &BTreeSet<ScheduleId>) {
    let key = record.id().to_string();
    if !listed.contains(&record.id()) {
        pipe.cmd("LREM").arg(LIST).arg(0).arg(&key).ignore();
        pipe.cmd("LPUSH").arg(LIST).arg(&key).ignore();
    }
    // Texts always have a JSON form.
    let frames = serde_json::to_string(&record.to_frames()).unwrap_or_default();
    pipe.cmd("SET").arg(&key).arg(frames).ignore();
    pipe.cmd("HSET").arg(SINCE).arg(&key).arg(record.since.to_string()).ignore();
}

impl fmt::Display for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}, database {}", self.host, self.port, self.database)
    }
}

impl fmt::Debug for RedisServer {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisServer({self})")
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("server", &self.server).finish_non_exhaustive()
    }
}
