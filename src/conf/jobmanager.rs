//! [`JobManagerConf`]: everything a job manager is told, resolved.

use zmtp::Endpoint;

use super::key::Program;
use super::peer::{check_heartbeats, heartbeats};
use super::report::{ConfError, Origin};
use super::resolve::Resolved;
use super::router::{Loaded, LogConf, limits_of, resolve_log};
use super::settings::{self as key};
use super::sources::{Flags, Sources, Variables};
use crate::emqp::{PeerKind, QueueList, QueueWeight};
use crate::jobmanager::{ManagerConf, PoolConf};
use crate::session::{OnDisconnect, SessionConfig, WireOptions};
use crate::worker::CoreConfig;

/// Settings of `emq jobmanager`: nothing in here means "ask elsewhere".
#[derive(Debug, Clone, PartialEq)]
pub struct JobManagerConf {
    /// What the job manager is told.
    pub manager: ManagerConf,
    /// The weight of queues named on the command line.
    pub default_weight: QueueWeight,
    /// What is logged.
    pub log: LogConf,
}

impl JobManagerConf {
    /// Reads all sources and resolves the job manager's settings.
    ///
    /// # Errors
    /// A source that cannot be read, or values that cannot be used: all of them, with their places.
    pub fn load(flags: &Flags, variables: &Variables) -> Result<Loaded<Self>, ConfError> {
        let mut resolved = Resolved::new(Program::JobManager, &Sources::read(flags, variables)?)?;
        let conf = Self::resolve(&resolved)?;
        check_heartbeats(&mut resolved, conf.manager.session.heartbeats);
        let effective = resolved.effective(Program::JobManager);
        Ok(Loaded { conf, effective, notices: resolved.notices().to_vec() })
    }

    /// The job manager's settings from checked texts.
    ///
    /// # Errors
    /// A value that cannot be used.
    pub fn resolve(from: &Resolved) -> Result<Self, ConfError> {
        let manager = ManagerConf {
            name: None,
            session: resolve_session(from)?,
            wire: WireOptions { limits: limits_of(from)?, ..WireOptions::default() },
            core: CoreConfig {
                slots: from.get(key::CONCURRENT_JOBS)?,
                jobs_per_runner: Some(from.get(key::MAX_JOB_COUNT)?),
                default_timeout: Some(from.get(key::GLOBAL_TIMEOUT)?),
                terminate_grace: from.get(key::TERMINATE_GRACE)?,
                drain_grace: from.get(key::KILL_GRACE_PERIOD)?,
            },
            pool: resolve_pool(from)?,
        };
        Ok(Self { manager, default_weight: from.get(key::DEFAULT_QUEUE_WEIGHT)?, log: resolve_log(from)? })
    }
}

fn resolve_session(from: &Resolved) -> Result<SessionConfig, ConfError> {
    let (address, failover) = addresses(from)?;
    let queues = from.get(key::QUEUES)?;
    Ok(SessionConfig {
        kind: PeerKind::Worker,
        queues: if queues.is_empty() { QueueList::Configured } else { QueueList::Weighted(queues) },
        address,
        failover,
        reconnect_timeout: from.get(key::RECONNECT_TIMEOUT)?,
        heartbeats: heartbeats(from)?,
        on_disconnect: OnDisconnect::Rejoin,
    })
}

/// The address to begin with, and where to go when that falls silent.
///
/// Python goes to worker_addr_default and worker_addr_failover in turn even where nobody has set them, and so ends at
/// the default address of this machine. Here only what is set counts.
fn addresses(from: &Resolved) -> Result<(Endpoint, Vec<Endpoint>), ConfError> {
    let mut addresses = Vec::new();
    for key in [key::WORKER_ADDR, key::WORKER_ADDR_DEFAULT, key::WORKER_ADDR_FAILOVER] {
        let address = from.get(key)?;
        if from.origin(key.setting) != Origin::Default && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        addresses.push(from.get(key::WORKER_ADDR)?);
    }
    let address = addresses.remove(0);
    Ok((address, addresses))
}

fn resolve_pool(from: &Resolved) -> Result<PoolConf, ConfError> {
    let allowed = from.get(key::ALLOWED_CALLABLES)?;
    Ok(PoolConf {
        python: from.get(key::PYTHON)?.into(),
        setup_func: from.get(key::SUBPROCESS_SETUP_FUNC)?,
        setup_path: from.get(key::SETUP_PATH)?,
        setup_callable: from.get(key::SETUP_CALLABLE)?,
        job_entry_func: from.get(key::JOB_ENTRY_FUNC)?,
        job_exit_func: from.get(key::JOB_EXIT_FUNC)?,
        allowed_callables: allowed.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Into::into).collect(),
        max_result_size: from.get(key::MAX_RESULT_SIZE)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::FlagValue;

    fn conf(settings: &[(&str, &str)]) -> ManagerConf {
        let value = |(key, value): &(&str, &str)| FlagValue {
            flag: format!("--set {key}"),
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        let flags = Flags { config: None, values: settings.iter().map(value).collect() };
        let variables = vec![("EVENTMQ_CONFIG_FILE".into(), "".into())];
        JobManagerConf::load(&flags, &variables).unwrap().conf.manager
    }

    #[test]
    fn only_addresses_that_are_set_count() {
        let texts = |conf: ManagerConf| {
            let failover: Vec<_> = conf.session.failover.iter().map(Endpoint::to_string).collect();
            (conf.session.address.to_string(), failover)
        };
        let (one, two, three) = ("tcp://10.0.0.1:1", "tcp://10.0.0.2:1", "tcp://10.0.0.3:1");
        assert_eq!(texts(conf(&[])), ("tcp://127.0.0.1:47290".into(), vec![]));
        assert_eq!(texts(conf(&[("worker_addr", one)])), (one.into(), vec![]));
        let both = conf(&[("worker_addr_default", two), ("worker_addr_failover", three)]);
        assert_eq!(texts(both), (two.into(), vec![three.into()]));
        let all = conf(&[("worker_addr", one), ("worker_addr_default", one), ("worker_addr_failover", three)]);
        assert_eq!(texts(all), (one.into(), vec![three.into()]));
    }

    #[test]
    fn lists_and_switches_are_resolved() {
        let conf = conf(&[("allowed_callables", " a.b , c.* ,"), ("queues", "[]"), ("disable_heartbeats", "true")]);
        assert_eq!(conf.pool.allowed_callables, ["a.b", "c.*"]);
        assert_eq!(conf.session.queues, QueueList::Configured);
        assert_eq!(conf.session.heartbeats, None);
    }
}
