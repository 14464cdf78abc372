//! `emq scheduler`: the scheduler as a process.

use std::process::ExitCode;

use tracing::{debug, info};

use super::daemon::{self, Daemon, DaemonFlags, Signals};
use super::{CliError, EXIT_CODES, Logging, SettingFlags, settings_help};
use crate::conf::{ConfError, Flags, Loaded, Notice, Program, SchedulerConf, process_variables};
use crate::scheduler::{Server, ServerHandle};

const EXAMPLES: &str = "\
Examples:
  emq scheduler                                 with /etc/eventmq.conf, if it exists
  emq scheduler --broker tcp://10.0.0.5:47291   for a broker on another machine
  emq scheduler --set schedule_file=/srv/eventmq/schedules.redb
  emq scheduler --set rq_host=redis.local       schedules in Redis, as Python's
  emq schedules                                 what it keeps, and when each runs";

const SIGNALS: &str = "\
Signals:
  SIGTERM, SIGINT  stop; the schedules are kept, and what comes due meanwhile
                   is dealt with at the next start (setting missed_runs)
  SIGHUP           read the settings again; if they cannot be used, an error
                   is logged and the old ones stay";

/// Run the scheduler: keeps schedules and has the broker run their jobs when they are due.
///
/// A conf file of Python's emq-scheduler can be used unchanged, and its schedules in Redis are taken over.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{EXIT_CODES}\n\n--help lists all settings."))]
#[command(after_long_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{EXIT_CODES}\n\n{}", settings_help(Program::Scheduler)))]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingFlags,

    /// The broker's address for clients and schedulers (setting scheduler_addr)
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    broker: Option<String>,

    #[command(flatten)]
    daemon: DaemonFlags,
}

impl Args {
    fn flags(&self) -> Result<Flags, CliError> {
        self.settings.flags_and(&[("--broker", "scheduler_addr", self.broker.as_ref()), self.daemon.setting()])
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let flags = args.flags()?;
    let loaded = load(&flags)?;
    let Some(logging) = args.daemon.begin(&loaded, &loaded.conf.log)? else { return Ok(ExitCode::SUCCESS) };
    daemon::runtime()?.block_on(start(loaded.conf, flags, logging))?;
    Ok(ExitCode::SUCCESS)
}

fn load(flags: &Flags) -> Result<Loaded<SchedulerConf>, ConfError> {
    SchedulerConf::load(flags, &process_variables())
}

async fn start(conf: SchedulerConf, flags: Flags, logging: Logging) -> Result<(), CliError> {
    let mut signals = Signals::listen()?;
    let store = conf.store.open()?;
    // It may have to wait for its store.
    let server = tokio::select! {
        server = Server::start(conf.server, store) => server?,
        () = signals.stopped() => return Ok(()),
    };
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "scheduler ready");
    let forwarding = tokio::spawn(signals.forward(Running { server: server.handle(), flags }, logging));
    let done = server.run().await;
    forwarding.abort();
    done?;
    debug!("connection closed");
    Ok(())
}

struct Running {
    server: ServerHandle,
    flags: Flags,
}

impl Daemon for Running {
    fn shutdown(&self) {
        self.server.shutdown();
    }

    fn reload(&self, logging: &Logging) -> Result<Vec<Notice>, CliError> {
        let loaded = load(&self.flags)?;
        logging.apply(&loaded.conf.log)?;
        self.server.reload(loaded.conf.server);
        Ok(loaded.notices)
    }
}
