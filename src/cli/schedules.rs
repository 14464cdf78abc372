//! `emq schedules`: the schedules and when each runs next.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{CliError, SettingFlags, daemon, print, print_notices};
use crate::admin::Admin;
use crate::clock::Now;
use crate::conf::{SchedulerConf, StoreConf, Urgency, process_variables, schedule_file};
use crate::scheduler::{
    FileStore, ListedSchedule, Listing, RedisStore, Saved, ScheduleStore, Scheduler, SchedulerConfig, StoreError,
};

const EXAMPLES: &str = "\
Examples:
  emq schedules                                 those of the scheduler of this machine
  emq schedules -C eventmq.conf --json          for programs
  emq schedules --set rq_host=redis.local       those kept in Redis, by ours or Python's

A running scheduler that keeps its schedules in a file is asked, at the socket
beside that file; one that does not run, and Redis, are read. Schedules that a
broker keeps itself (emq router without a scheduler) are listed as well. Times
are in the time zone of the setting schedule_time_zone.";

/// How long a running scheduler may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// List the schedules and when each runs next.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingFlags,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let (flags, variables) = (args.settings.flags()?, process_variables());
    let loaded = SchedulerConf::load(&flags, &variables)?;
    let mut listings = vec![listing(&loaded.conf)?];
    if let Ok(file) = schedule_file(&flags, &variables) {
        let builtin = loaded.conf.clone().for_router(file);
        if matches!(&builtin.store, StoreConf::File(file) if file.exists()) {
            listings.push(listing(&builtin)?);
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&listings)?;
        print(&format!("{text}\n"))?;
    } else {
        // A conf file is shared by all programs: what is for others is no news in a list.
        let warnings: Vec<_> =
            loaded.notices.iter().filter(|notice| notice.urgency() == Urgency::Warning).cloned().collect();
        print_notices(&warnings);
        let texts: Vec<String> = listings.iter().map(|listing| table(listing, &loaded.conf.server.core.zone)).collect();
        print(&texts.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn listing(conf: &SchedulerConf) -> Result<Listing, CliError> {
    match &conf.store {
        StoreConf::Redis(server) => {
            let mut store = RedisStore::new(server.clone());
            let saved = store.peek(Timestamp::now())?;
            Ok(list(saved, store.place(), &conf.server.core))
        }
        StoreConf::Memory => Ok(Listing { store: "memory only".to_owned(), schedules: Vec::new() }),
        StoreConf::File(file) => read_or_ask(file, conf),
    }
}

/// The lock of the file says whether a scheduler runs.
fn read_or_ask(file: &Path, conf: &SchedulerConf) -> Result<Listing, CliError> {
    if !file.exists() {
        let store = format!("file {} (not there yet)", file.display());
        return Ok(Listing { store, schedules: Vec::new() });
    }
    match (FileStore::open(file), &conf.server.control) {
        (Ok(mut store), _) => Ok(list(store.load(Timestamp::now())?, store.place(), &conf.server.core)),
        (Err(StoreError::InUse { .. }), Some(control)) => daemon::runtime()?.block_on(async {
            let answer = Admin::connect(control, PATIENCE)?.status().await?;
            Ok(serde_json::from_value(answer)?)
        }),
        (Err(error), _) => Err(error.into()),
    }
}

fn list(saved: Saved, place: String, config: &SchedulerConfig) -> Listing {
    let scheduler = Scheduler::new(config.clone(), saved, Now::read(), 0);
    Listing::new(scheduler.schedules(), place)
}

fn table(listing: &Listing, zone: &TimeZone) -> String {
    let row = |schedule: &ListedSchedule| {
        let every = match (&schedule.interval, &schedule.cron) {
            (Some(seconds), _) => format!("every {seconds} s"),
            (None, cron) => cron.clone().unwrap_or_default(),
        };
        let left = schedule.runs_left.map_or_else(|| "-".to_owned(), |left| left.to_string());
        let next = schedule.next.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string();
        let call = format!("{}.{}", schedule.path, schedule.callable);
        [next, every, left, schedule.queue.clone(), call, schedule.id[..12.min(schedule.id.len())].to_owned()]
    };
    let head = ["NEXT RUN", "WHEN", "LEFT", "QUEUE", "CALL", "ID"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(listing.schedules.iter().map(row)).collect();
    let widths: Vec<usize> =
        (0..6).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = format!("{} schedules, {}\n", listing.schedules.len(), listing.store);
    for row in rows.iter().filter(|_| !listing.schedules.is_empty()) {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
