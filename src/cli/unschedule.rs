//! `emq unschedule`: the end of a schedule.

use std::process::ExitCode;

use super::CliError;
use super::call::{EXIT_CODES, JobArgs, callable};
use super::schedule::ConfirmArgs;
use crate::client::Job;

const EXAMPLES: &str = "\
Examples:
  emq unschedule shop.jobs.clean_up
  emq unschedule shop.jobs.remind --args '[4711]'

A schedule is named by its call: the path and all arguments. Its queue and period
do not matter.";

/// End the schedule of a call.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Args {
    /// What was scheduled: package.module.callable or package.module:Class.method
    #[arg(value_name = "PATH", value_parser = callable)]
    callable: Job,

    #[command(flatten)]
    job: JobArgs,

    #[command(flatten)]
    confirm: ConfirmArgs,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let job = args.job.job(args.callable.clone());
    args.confirm.run(async |client| client.unschedule(&job).await)
}
