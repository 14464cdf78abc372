//! `emq config`: the settings in force.

use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use super::{CliError, SettingFlags, print, print_notices};
use crate::conf::{
    Effective, JobManagerConf, Loaded, Machine, Origin, Program, RouterConf, Urgency, process_variables,
};

const EXAMPLES: &str = "\
Examples:
  emq config router                             what emq router would run with
  emq config jobmanager                         the same for the job manager
  emq config router -C eventmq.conf --json      the same for another file, for programs
  EVENTMQ_HWM=20000 emq config router           see what a variable changes";

/// Show the settings in force and where each comes from.
///
/// Files and variables are read as the program itself would read them. Exit code 2 says it would not start.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Whose settings
    program: Shown,

    #[command(flatten)]
    settings: SettingFlags,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Programs whose settings can be shown.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shown {
    /// The broker
    Router,
    /// The job manager
    #[value(name = "jobmanager")]
    JobManager,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let (flags, variables) = (args.settings.flags()?, process_variables());
    match args.program {
        Shown::Router => show(args, Program::Router, &RouterConf::load(&flags, &variables, &Machine::read())?),
        Shown::JobManager => show(args, Program::JobManager, &JobManagerConf::load(&flags, &variables)?),
    }
}

fn show<C>(args: &Args, program: Program, loaded: &Loaded<C>) -> Result<ExitCode, CliError> {
    if args.json {
        print(&json(program, loaded))?;
    } else {
        print_notices(&loaded.notices);
        print(&table(&loaded.effective))?;
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

fn json<C>(program: Program, loaded: &Loaded<C>) -> String {
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
    let report = Report { program: program.section(), settings: settings.collect(), notices: notices.collect() };
    // Only a map with keys that are not text could fail here.
    let text = serde_json::to_string_pretty(&report).unwrap_or_default();
    format!("{text}\n")
}
