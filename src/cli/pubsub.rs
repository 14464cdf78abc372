//! `emq pubsub`: the publisher as a process.

use std::process::ExitCode;

use tracing::info;

use super::daemon::{self, Daemon, DaemonFlags, Signals};
use super::{CliError, EXIT_CODES, Logging, SettingFlags, settings_help};
use crate::conf::{ConfError, Flags, Loaded, Machine, Notice, Program, PublisherConf, process_variables};
use crate::pubsub::{Device, DeviceHandle};

const EXAMPLES: &str = "\
Examples:
  emq pubsub                                    with /etc/eventmq.conf, if it exists
  emq pubsub --incoming tcp://*:47298 --outgoing tcp://*:47299

Any SUB socket that connects to the outgoing address and subscribes to a topic
receives the topic and the message as two frames.";

const SIGNALS: &str = "\
Signals:
  SIGTERM, SIGINT  stop; what was taken is still sent
  SIGHUP           read the settings of the log again";

/// Run the publisher: what clients publish goes to the subscribers of its topic.
///
/// A conf file of Python's emq-pubsub can be used unchanged.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{EXIT_CODES}\n\n--help lists all settings."))]
#[command(after_long_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{EXIT_CODES}\n\n{}", settings_help(Program::Publisher)))]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingFlags,

    /// Listen here for what is published (setting publisher_incoming_addr)
    #[arg(long, value_name = "ADDRESS")]
    incoming: Option<String>,

    /// Listen here for subscribers (setting publisher_outgoing_addr)
    #[arg(long, value_name = "ADDRESS")]
    outgoing: Option<String>,

    #[command(flatten)]
    daemon: DaemonFlags,
}

impl Args {
    fn flags(&self) -> Result<Flags, CliError> {
        self.settings.flags_and(&[
            ("--incoming", "publisher_incoming_addr", self.incoming.as_ref()),
            ("--outgoing", "publisher_outgoing_addr", self.outgoing.as_ref()),
            self.daemon.setting(),
        ])
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let flags = args.flags()?;
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let loaded = load(&flags)?;
    let Some(logging) = args.daemon.begin(&loaded, &loaded.conf.log)? else { return Ok(ExitCode::SUCCESS) };
    daemon::runtime()?.block_on(start(loaded.conf, flags, logging))?;
    Ok(ExitCode::SUCCESS)
}

fn load(flags: &Flags) -> Result<Loaded<PublisherConf>, ConfError> {
    PublisherConf::load(flags, &process_variables(), &Machine::read())
}

async fn start(conf: PublisherConf, flags: Flags, logging: Logging) -> Result<(), CliError> {
    let signals = Signals::listen()?;
    let device = Device::bind(&conf.device).await?;
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "publisher ready");
    let forwarding = tokio::spawn(signals.forward(Running { device: device.handle(), flags }, logging));
    let done = device.run().await;
    forwarding.abort();
    Ok(done?)
}

struct Running {
    device: DeviceHandle,
    flags: Flags,
}

impl Daemon for Running {
    fn shutdown(&self) {
        self.device.shutdown();
    }

    fn reload(&self, logging: &Logging) -> Result<Vec<Notice>, CliError> {
        let loaded = load(&self.flags)?;
        logging.apply(&loaded.conf.log)?;
        Ok(loaded.notices)
    }
}
