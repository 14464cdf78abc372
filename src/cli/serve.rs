//! `emq serve`: broker, scheduler and publisher in one process.

use std::process::ExitCode;

use tracing::info;

use super::daemon::{self, DaemonFlags, Signals};
use super::router::{self, SIGNALS};
use super::{CliError, EXIT_CODES, Logging, SettingFlags, config, print, print_notices};
use crate::conf::{Flags, Machine, Notice, PublisherConf, RouterConf, SchedulerConf, process_variables};
use crate::serve::{BuiltinScheduler, Need, Serve, ServeConf};

const EXAMPLES: &str = "\
Examples:
  emq serve                                     with /etc/eventmq.conf, if it exists
  emq serve -C eventmq.conf --check             only check the settings and show them
  emq serve --set schedule_store=memory         schedules end with the process

Settings are those of emq router, emq scheduler and emq pubsub, each in its own
section; scheduler_addr means nothing here. SIGHUP reads those of the broker
again. While another scheduler is connected, new schedules go to that one.";

/// Run broker, scheduler and publisher in one process.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{EXIT_CODES}"))]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingFlags,

    #[command(flatten)]
    daemon: DaemonFlags,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let flags = args.settings.flags_and(&[args.daemon.setting()])?;
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let variables = process_variables();
    let broker = router::load(&flags)?;
    let scheduler = SchedulerConf::load(&flags, &variables)?;
    let publisher = PublisherConf::load(&flags, &variables, &Machine::read())?;
    // A setting of one of the three is not that of another program.
    let foreign = |notice: &Notice| matches!(notice, Notice::OtherPrograms { .. });
    let mut notices: Vec<Notice> = Vec::new();
    for notice in broker.notices.iter().chain(&scheduler.notices).chain(&publisher.notices) {
        if !foreign(notice) && !notices.contains(notice) {
            notices.push(notice.clone());
        }
    }
    if args.daemon.check {
        print_notices(&notices);
        for (section, effective) in
            [("router", &broker.effective), ("scheduler", &scheduler.effective), ("publisher", &publisher.effective)]
        {
            print(&format!("[{section}]\n{}\n", config::table(effective)))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let logging = args.daemon.start_logging(&broker.conf.log, &notices)?;
    daemon::runtime()?.block_on(start(broker.conf, scheduler.conf, publisher.conf, flags, logging))?;
    Ok(ExitCode::SUCCESS)
}

async fn start(
    broker: RouterConf,
    scheduler: SchedulerConf,
    publisher: PublisherConf,
    flags: Flags,
    logging: Logging,
) -> Result<(), CliError> {
    let mut signals = Signals::listen()?;
    let store = scheduler.store.open()?;
    let scheduler = BuiltinScheduler { conf: scheduler.server, store, need: Need::Required };
    let conf = ServeConf { broker: broker.server, scheduler: Some(scheduler), publisher: Some(publisher.device) };
    // The scheduler may have to wait for its store.
    let serve = tokio::select! {
        serve = Serve::bind(conf) => serve?,
        () = signals.stopped() => return Ok(()),
    };
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "broker, scheduler and publisher ready");
    router::run_to_end(serve, signals, flags, logging).await
}
