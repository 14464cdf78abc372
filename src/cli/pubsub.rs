//! `emq pubsub`: the publisher as a process.

use std::process::ExitCode;

use tracing::info;

use super::process::{self, Signals};
use super::{CliError, EXIT_CODES, Logging, SettingFlags, config, print, print_notices, settings_help};
use crate::conf::{ConfError, FlagValue, Flags, Loaded, Machine, Program, PublisherConf, process_variables};
use crate::pubsub::Device;

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
        let own = [
            ("--incoming", "publisher_incoming_addr", &self.incoming),
            ("--outgoing", "publisher_outgoing_addr", &self.outgoing),
            ("--log-level", "log_level", &self.log_level),
        ];
        flags.values.extend(own.into_iter().filter_map(|(flag, key, value)| {
            Some(FlagValue { flag: flag.to_owned(), key: key.to_owned(), value: value.clone()? })
        }));
        Ok(flags)
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let flags = args.flags()?;
    let _ = rlimit::increase_nofile_limit(u64::MAX);
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

fn load(flags: &Flags) -> Result<Loaded<PublisherConf>, ConfError> {
    PublisherConf::load(flags, &process_variables(), &Machine::read())
}

async fn start(conf: PublisherConf, flags: Flags, logging: Logging) -> Result<(), CliError> {
    let signals = Signals::listen()?;
    let device = Device::bind(&conf.device).await?;
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "publisher ready");
    let stop = device.handle();
    let forwarding = tokio::spawn(signals.forward(move || stop.shutdown(), move || reload_log(&flags, &logging)));
    let done = device.run().await;
    forwarding.abort();
    Ok(done?)
}

fn reload_log(flags: &Flags, logging: &Logging) {
    let applied = load(flags).map_err(CliError::from).and_then(|loaded| Ok(logging.apply(&loaded.conf.log)?));
    if let Err(error) = applied {
        process::log_unchanged(&error);
    }
}
