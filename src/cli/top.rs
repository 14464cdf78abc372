//! `emq top`: a live view of a broker.

mod model;
mod view;

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use zmtp::Endpoint;

use self::model::Model;
use super::CliError;
use super::call::block_on;
use super::state::{Status, Workers};
use crate::admin::{Admin, AdminError};

const EXAMPLES: &str = "\
Examples:
  emq top
  emq top --addr tcp://10.0.0.5:47293 --interval 0.5

Keys: q ends it; up, down, page up and page down scroll the workers; blank holds the picture.";

/// Watch a broker's queues and workers.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The broker's administrative address
    #[arg(
        short,
        long,
        value_name = "ADDRESS",
        env = "EVENTMQ_ADMINISTRATIVE_ADDR",
        default_value = "tcp://127.0.0.1:47293"
    )]
    addr: Endpoint,

    /// Time between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    match super::seconds(text)? {
        time if time < Duration::from_millis(100) => Err("expected at least 0.1".to_owned()),
        time => Ok(time),
    }
}

/// What a key wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    End,
    Hold,
    Scroll(isize),
    /// The terminal has another size.
    Redraw,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    if !io::IsTerminal::is_terminal(&io::stdout()) {
        return Err(CliError::Usage("emq top needs a terminal; for scripts there is emq cli --json status"));
    }
    let mut terminal = ratatui::try_init().map_err(CliError::Terminal)?;
    let watched = block_on(watch(args, &mut terminal));
    ratatui::try_restore().map_err(CliError::Terminal)?;
    watched?;
    Ok(ExitCode::SUCCESS)
}

async fn watch(args: &Args, terminal: &mut DefaultTerminal) -> Result<(), CliError> {
    let mut admin = Admin::connect(&args.addr, args.interval.max(Duration::from_secs(2)))?;
    let mut model = Model::new(args.addr.to_string());
    let mut keys = keys();
    let mut ticks = tokio::time::interval(args.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| view::draw(frame, &model)).map_err(CliError::Terminal)?;
        tokio::select! {
            key = keys.recv() => match key {
                Some(Key::End) | None => return Ok(()),
                Some(Key::Hold) => model.hold(),
                Some(Key::Scroll(rows)) => model.scroll(rows),
                Some(Key::Redraw) => {}
            },
            _ = ticks.tick() => {
                // A key pressed while the broker is asked waits for its answer, or for the next select.
                let seen = tokio::select! {
                    seen = look(&mut admin) => seen,
                    key = keys.recv() => match key {
                        Some(Key::End) | None => return Ok(()),
                        _ => continue,
                    },
                };
                match seen {
                    Ok((status, workers)) => model.observe(Instant::now(), status, workers),
                    Err(error) => model.lost(error.to_string()),
                }
            }
        }
    }
}

async fn look(admin: &mut Admin) -> Result<(Status, Workers), AdminError> {
    let status = serde_json::from_value(admin.status().await?)?;
    let workers = serde_json::from_value(admin.workers().await?)?;
    Ok((status, workers))
}

/// Keys of the terminal, read in a thread of their own.
fn keys() -> mpsc::Receiver<Key> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if let Some(key) = meaning(&event)
                && sender.blocking_send(key).is_err()
            {
                break;
            }
        }
    });
    keys
}

fn meaning(event: &Event) -> Option<Key> {
    let Event::Key(key) = event else { return matches!(event, Event::Resize(..)).then_some(Key::Redraw) };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::End),
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::End),
        KeyCode::Char(' ') => Some(Key::Hold),
        KeyCode::Up => Some(Key::Scroll(-1)),
        KeyCode::Down => Some(Key::Scroll(1)),
        KeyCode::PageUp => Some(Key::Scroll(-10)),
        KeyCode::PageDown => Some(Key::Scroll(10)),
        _ => None,
    }
}
