//! `emq scheduler`: the scheduler as a process.

use std::process::ExitCode;

use tracing::{debug, info};

use super::process::{self, Signals};
use super::{CliError, EXIT_CODES, Logging, SettingFlags, config, print, print_notices, settings_help};
use crate::conf::{ConfError, FlagValue, Flags, Loaded, Program, SchedulerConf, process_variables};
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

    /// Log this and everything more urgent: error, warn, info, debug or trace (setting log_level)
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// Check the settings, show them with their origins, and exit
    #[arg(long)]
    check: bool,
}

impl Args {
    fn flags(&self) -> Result<Flags, CliError> {
        let mut flags = self.settings.flags()?;
        let own = [("--broker", "scheduler_addr", &self.broker), ("--log-level", "log_level", &self.log_level)];
        flags.values.extend(own.into_iter().filter_map(|(flag, key, value)| {
            Some(FlagValue { flag: flag.to_owned(), key: key.to_owned(), value: value.clone()? })
        }));
        Ok(flags)
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let flags = args.flags()?;
    let loaded = load(&flags)?;
    if args.check {
        print_notices(&loaded.notices);
        print(&config::table(&loaded.effective))?;
        return Ok(ExitCode::SUCCESS);
    }
    let logging = process::start_logging(&loaded.conf.log, args.log_level.as_ref())?;
    process::log_notices(&loaded.notices);
    process::block_on(start(loaded.conf, flags, logging))?;
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
    let (stop, reload) = (server.handle(), server.handle());
    let forwarding =
        tokio::spawn(signals.forward(move || stop.shutdown(), move || reload_settings(&reload, &flags, &logging)));
    let done = server.run().await;
    forwarding.abort();
    done?;
    debug!("connection closed");
    Ok(())
}

fn reload_settings(server: &ServerHandle, flags: &Flags, logging: &Logging) {
    let applied = load(flags).map_err(CliError::from).and_then(|loaded| {
        logging.apply(&loaded.conf.log)?;
        Ok(loaded)
    });
    match applied {
        Ok(loaded) => {
            process::log_notices(&loaded.notices);
            server.reload(loaded.conf.server);
        }
        Err(error) => process::log_unchanged(&error),
    }
}
