//! `emq config`: the settings in force.

use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use super::{CliError, SettingFlags, print, print_notices};
use crate::conf::{
    Effective, JobManagerConf, Loaded, Machine, Notice, Origin, Program, PublisherConf, RouterConf, SchedulerConf,
    Urgency, process_variables, reference,
};

const EXAMPLES: &str = "\
Examples:
  emq config router                             what emq router would run with
  emq config jobmanager                         the same for the job manager
  emq config router -C eventmq.conf --json      the same for another file, for programs
  EVENTMQ_HWM=20000 emq config router           see what a variable changes
  emq config scheduler                          the same for the scheduler
  emq config --reference > settings.md          every setting there is, explained, in Markdown";

/// Show the settings in force and where each comes from.
///
/// Files and variables are read as the program itself would read them. Exit code 2 says it would not start.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Whose settings
    #[arg(required_unless_present = "reference")]
    program: Option<Shown>,

    #[command(flatten)]
    settings: SettingFlags,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print the reference of all settings of all programs instead, in Markdown
    #[arg(long, conflicts_with_all = ["program", "json"])]
    reference: bool,
}

/// Programs whose settings can be shown.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shown {
    /// The broker
    Router,
    /// The job manager
    #[value(name = "jobmanager")]
    JobManager,
    /// The scheduler
    Scheduler,
    /// The publisher (emq pubsub)
    #[value(alias = "publisher")]
    Pubsub,
}

/// What is known of a program's settings, whichever it is.
struct Known {
    program: Program,
    effective: Vec<Effective>,
    notices: Vec<Notice>,
}

impl Known {
    fn of<C>(program: Program, loaded: Loaded<C>) -> Self {
        Self { program, effective: loaded.effective, notices: loaded.notices }
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let (flags, variables, machine) = (args.settings.flags()?, process_variables(), Machine::read());
    let known = match args.program {
        None => {
            print(&reference())?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Shown::Router) => Known::of(Program::Router, RouterConf::load(&flags, &variables, &machine)?),
        Some(Shown::JobManager) => Known::of(Program::JobManager, JobManagerConf::load(&flags, &variables)?),
        Some(Shown::Scheduler) => Known::of(Program::Scheduler, SchedulerConf::load(&flags, &variables)?),
        Some(Shown::Pubsub) => Known::of(Program::Publisher, PublisherConf::load(&flags, &variables, &machine)?),
    };
    if args.json {
        print(&json(&known))?;
    } else {
        print_notices(&known.notices);
        print(&table(&known.effective))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Three columns: key, value, origin.
pub(super) fn table(effective: &[Effective]) -> String {
    let width = |text: fn(&Effective) -> &str| effective.iter().map(|row| text(row).len()).max().unwrap_or(0);
    let (keys, values) = (width(|row| row.setting.name), width(|row| &row.value).min(40));
    let line = |row: &Effective| format!("{:keys$}  {:values$}  {}\n", row.setting.name, row.value, row.origin);
    effective.iter().map(line).collect()
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    program: &'static str,
    settings: Vec<SettingReport<'a>>,
    notices: Vec<NoticeReport>,
}

#[derive(Debug, Serialize)]
struct SettingReport<'a> {
    key: &'static str,
    value: &'a str,
    origin: OriginReport<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum OriginReport<'a> {
    Default,
    File { path: String, section: &'a str, line: usize },
    Environment { variable: &'a str },
    Flag { flag: &'a str },
}

#[derive(Debug, Serialize)]
struct NoticeReport {
    urgency: &'static str,
    text: String,
}

fn json(loaded: &Known) -> String {
    let settings = loaded.effective.iter().map(|row| SettingReport {
        key: row.setting.name,
        value: &row.value,
        origin: match &row.origin {
            Origin::Default => OriginReport::Default,
            Origin::File { path, section, line } => {
                OriginReport::File { path: path.display().to_string(), section, line: *line }
            }
            Origin::Variable(variable) => OriginReport::Environment { variable },
            Origin::Flag(flag) => OriginReport::Flag { flag },
        },
    });
    let notices = loaded.notices.iter().map(|notice| NoticeReport {
        urgency: match notice.urgency() {
            Urgency::Warning => "warning",
            Urgency::Info => "info",
            Urgency::Detail => "detail",
        },
        text: notice.to_string(),
    });
    let program = loaded.program.section();
    let report = Report { program, settings: settings.collect(), notices: notices.collect() };
    // Only a map with keys that are not text could fail here.
    let text = serde_json::to_string_pretty(&report).unwrap_or_default();
    format!("{text}\n")
}
