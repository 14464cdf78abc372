//! [`SchedulerConf`]: everything a scheduler is told, resolved.

use std::path::PathBuf;

use tracing::warn;
use zmtp::Endpoint;

use super::key::Program;
use super::machine::state_folder;
use super::peer::{check_heartbeats, heartbeats};
use super::report::{ConfError, Origin};
use super::resolve::Resolved;
use super::router::{Loaded, LogConf, resolve_log};
use super::settings::{self as key};
use super::sources::{Flags, Sources, Variables};
use super::values::{FilePath, ScheduleStoreKind};
use crate::emqp::{PeerKind, QueueList};
use crate::scheduler::{
    AbsentStore, FileStore, MemoryStore, RedisServer, RedisStore, ScheduleStore, SchedulerConfig, ServerConf,
    StoreError,
};
use crate::session::{SessionConfig, WireOptions};

/// Longest path of a socket file.
const MAX_SOCKET_PATH: usize = 107;

/// Settings of `emq scheduler`: nothing in here means "ask elsewhere".
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerConf {
    /// What the scheduler is told.
    pub server: ServerConf,
    /// Where its schedules are kept.
    pub store: StoreConf,
    /// What is logged.
    pub log: LogConf,
}

/// Where schedules are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConf {
    /// In this file.
    File(PathBuf),
    /// In Redis.
    Redis(RedisServer),
    /// In memory.
    Memory,
}

impl SchedulerConf {
    /// Reads all sources and resolves the scheduler's settings.
    ///
    /// # Errors
    /// Settings that cannot be used.
    pub fn load(flags: &Flags, variables: &Variables) -> Result<Loaded<Self>, ConfError> {
        let mut resolved = Resolved::new(Program::Scheduler, &Sources::read(flags, variables)?)?;
        let conf = Self::resolve(&resolved)?;
        check_heartbeats(&mut resolved, conf.server.session.heartbeats);
        let effective = resolved.effective(Program::Scheduler);
        Ok(Loaded { conf, effective, notices: resolved.notices().to_vec() })
    }

    /// The scheduler's settings from checked texts.
    ///
    /// # Errors
    /// Values that do not go together, or a machine without a place for the schedules.
    pub fn resolve(from: &Resolved) -> Result<Self, ConfError> {
        let store = resolve_store(from)?;
        let mut session =
            SessionConfig::new(PeerKind::Scheduler, QueueList::Configured, from.get(key::SCHEDULER_ADDR)?);
        session.reconnect_timeout = from.get(key::RECONNECT_TIMEOUT)?;
        session.heartbeats = heartbeats(from)?;
        let absent_store = match (&store, from.get(key::REDIS_STARTUP_ERROR_HARD_KILL)?) {
            (StoreConf::Redis(_), false) => AbsentStore::Wait,
            _ => AbsentStore::Fail,
        };
        let server = ServerConf {
            session,
            wire: WireOptions::default(),
            core: SchedulerConfig { zone: from.get(key::SCHEDULE_TIME_ZONE)?, missed: from.get(key::MISSED_RUNS)? },
            control: store.control(),
            absent_store,
        };
        Ok(Self { server, store, log: resolve_log(from)? })
    }

    /// The same with a file of the broker's own, for its built-in scheduler: a scheduler of its own program may use the
    /// other, or Redis.
    #[must_use]
    pub fn for_router(mut self, file: PathBuf) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.store = StoreConf::File(file.with_file_name(format!("router-{name}")));
        self.server.control = self.store.control();
        self
    }
}

/// The file of schedules, whether they are kept in it or not.
///
/// # Errors
/// It is nowhere.
pub fn schedule_file(flags: &Flags, variables: &Variables) -> Result<PathBuf, ConfError> {
    file(&Resolved::new(Program::Scheduler, &Sources::read(flags, variables)?)?)
}

fn file(from: &Resolved) -> Result<PathBuf, ConfError> {
    match from.get(key::SCHEDULE_FILE)? {
        FilePath::At(path) => Ok(path),
        FilePath::Auto => {
            let folder = state_folder().ok_or(ConfError::NoFolder { key: key::SCHEDULE_FILE.setting.name })?;
            Ok(folder.join("schedules.redb"))
        }
    }
}

fn resolve_store(from: &Resolved) -> Result<StoreConf, ConfError> {
    let redis = [key::RQ_HOST.setting, key::RQ_PORT.setting, key::RQ_DB.setting, key::RQ_PASSWORD.setting];
    let redis_is_set_up = redis.iter().any(|setting| from.origin(setting) != Origin::Default);
    let kind = match from.get(key::SCHEDULE_STORE)? {
        ScheduleStoreKind::Auto if redis_is_set_up => ScheduleStoreKind::Redis,
        ScheduleStoreKind::Auto => ScheduleStoreKind::File,
        kind => kind,
    };
    Ok(match kind {
        ScheduleStoreKind::Redis => StoreConf::Redis(RedisServer {
            host: from.get(key::RQ_HOST)?,
            port: from.get(key::RQ_PORT)?,
            database: u32::try_from(from.get(key::RQ_DB)?).unwrap_or(u32::MAX),
            password: from.get(key::RQ_PASSWORD)?,
        }),
        ScheduleStoreKind::Memory => StoreConf::Memory,
        ScheduleStoreKind::Auto | ScheduleStoreKind::File => StoreConf::File(file(from)?),
    })
}

impl StoreConf {
    /// The store, ready to be loaded.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn open(&self) -> Result<Box<dyn ScheduleStore>, StoreError> {
        Ok(match self {
            Self::File(path) => Box::new(FileStore::open(path)?),
            Self::Redis(server) => Box::new(RedisStore::new(server.clone())),
            Self::Memory => Box::new(MemoryStore::default()),
        })
    }

    /// The socket beside a file of schedules, at which its scheduler is asked for them.
    pub fn control(&self) -> Option<Endpoint> {
        let Self::File(path) = self else { return None };
        let socket = std::path::absolute(path.with_extension("sock")).ok()?;
        if socket.as_os_str().len() > MAX_SOCKET_PATH {
            warn!(path = %socket.display(), "too long for a socket: emq schedules cannot ask this scheduler");
            return None;
        }
        format!("ipc://{}", socket.to_str()?).parse().ok()
    }
}
