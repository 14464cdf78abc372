//! A broker's answers as tables for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::state::{Dead, Schedulers, Status, Workers, count};

/// Columns that hold text; the others hold numbers.
fn table(header: &[&str], text_columns: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        let left = text_columns.contains(&index);
        column.set_cell_alignment(if left { CellAlignment::Left } else { CellAlignment::Right });
        column.set_padding((0, 2));
    }
    table
}

/// Lines without blanks at their ends.
fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

pub(super) fn status(status: &Status) -> String {
    let mut queues = table(&["QUEUE", "WAITING", "RUNNING", "MEAN AGE", "MAX AGE", "SENT"], &[0]);
    for name in status.queues() {
        queues.add_row([
            name.to_owned(),
            count(&status.waiting, name).to_string(),
            count(&status.in_flight, name).to_string(),
            milliseconds(count(&status.mean_age, name)),
            milliseconds(count(&status.max_age, name)),
            count(&status.processed, name).to_string(),
        ]);
    }
    let mut text = lines(&queues);
    if let Some(uptime) = status.uptime {
        let counters = [
            ("accepted", status.accepted),
            ("completed", status.completed),
            ("failed", status.failed),
            ("lost", status.lost),
            ("retried", status.retried),
            ("dead", status.dead),
            ("refused", status.refused),
            ("malformed", status.malformed),
        ];
        let counters: Vec<_> = counters.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let version = status.version.as_deref().unwrap_or("?");
        text += &format!("\n{}\nversion {version}, up {}\n", counters.join(", "), seconds(uptime));
    }
    text
}

pub(super) fn workers(status: &Status, workers: &Workers) -> String {
    let mut rows = table(&["WORKER", "STATE", "FREE", "RUNNING", "SENT", "HEARD", "QUEUES"], &[0, 1, 6]);
    for (id, worker) in &workers.connected_workers {
        rows.add_row([
            id.clone(),
            worker.state.clone().unwrap_or_default(),
            worker.available_slots.to_string(),
            worker.in_flight.to_string(),
            count(&status.processed_by_worker, id).to_string(),
            status.since(worker.hb).map(seconds).unwrap_or_default(),
            queue_list(&worker.queues),
        ]);
    }
    for id in &workers.draining_workers {
        rows.add_row([id.as_str(), "leaving"]);
    }
    lines(&rows)
}

pub(super) fn schedulers(status: &Status, schedulers: &Schedulers) -> String {
    let mut rows = table(&["SCHEDULER", "HEARD"], &[0]);
    for (id, scheduler) in &schedulers.connected_schedulers {
        rows.add_row([id.clone(), status.since(scheduler.hb).map(seconds).unwrap_or_default()]);
    }
    lines(&rows)
}

pub(super) fn dead(dead: &[Dead]) -> String {
    let mut rows = table(&["JOB", "QUEUE", "REASON", "DELIVERIES", "AGE", "WORKERS"], &[0, 1, 2, 5]);
    for job in dead {
        rows.add_row([
            job.msgid.clone(),
            job.queue.clone(),
            job.reason.clone(),
            job.deliveries.to_string(),
            seconds(job.age),
            job.workers.join(" "),
        ]);
    }
    lines(&rows)
}

/// Queues with their weights, `email:20 default:10`.
pub(super) fn queue_list(queues: &[(i64, String)]) -> String {
    queues.iter().map(|(weight, name)| format!("{name}:{weight}")).collect::<Vec<_>>().join(" ")
}

pub(super) fn milliseconds(time: u64) -> String {
    if time < 10_000 { format!("{time} ms") } else { seconds(time as f64 / 1000.0) }
}

/// The two greatest units, or tenths of a second.
pub(super) fn seconds(time: f64) -> String {
    let whole = time as u64;
    match whole {
        0..60 => format!("{time:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_are_as_documented() {
        let state: Status = serde_json::from_value(json!({
            "inflight_messages_by_queue": {"email": 2},
            "latency_messages_by_queue": {"email": 12},
            "max_latency_messages_by_queue": {"email": 15_500},
            "waiting_messages_by_queue": {"default": 1234},
            "processed_messages_by_queue": {"default": 5, "email": 1_000_000},
            "processed_messages_by_worker": {"a09246d8-89de-4fee-b3df-8c82ede608d1": 7},
            "accepted": 8, "dispatched": 7, "completed": 6, "failed": 5, "version": "0.1.0", "uptime": 3725.5,
        }))
        .unwrap();
        let workforce: Workers = serde_json::from_value(json!({
            "connected_workers": {"a09246d8-89de-4fee-b3df-8c82ede608d1":
                {"queues": [[20, "email"], [10, "default"]], "hb": 3725.1, "available_slots": 2, "in_flight": 1,
                 "state": "attentive"}},
            "draining_workers": ["w2"],
        }))
        .unwrap();
        let planners = serde_json::from_value(json!({"connected_schedulers": {"s1": {"hb": 3600.0}}})).unwrap();
        let buried = serde_json::from_value::<Vec<Dead>>(json!([{"msgid": "j1", "queue": "email", "reason": "failed",
            "deliveries": 3, "age": 100.0, "workers": ["w1", "w2"]}]))
        .unwrap();
        let text =
            [status(&state), workers(&state, &workforce), schedulers(&state, &planners), dead(&buried)].join("--\n");
        assert_eq!(text, include_str!("../../tests/golden/tables.txt"), "\n{text}");
    }

    #[test]
    fn pythons_answers_are_read_too() {
        let state: Status = serde_json::from_value(json!({"processed_messages_by_queue": {"default": 4}})).unwrap();
        assert_eq!(
            status(&state),
            "QUEUE    WAITING  RUNNING  MEAN AGE  MAX AGE  SENT\ndefault        0        0      0 ms     0 ms     4\n"
        );
        let python: Workers = serde_json::from_value(json!({
            "connected_workers": {"w": {"queues": [[10, "default"]], "hb": 1383.6, "available_slots": 2}},
            "connected_queues": {"default": [[10, "w"]]},
        }))
        .unwrap();
        assert!(workers(&state, &python).lines().any(|line| line.starts_with('w') && line.ends_with("default:10")));
    }

    #[test]
    fn times_have_two_units() {
        let times = [0.04, 59.94, 61.0, 7265.0, 200_000.0].map(seconds);
        assert_eq!(times, ["0.0 s", "59.9 s", "1 min 1 s", "2 h 1 min", "2 d 7 h"]);
        assert_eq!([9999, 10_000].map(milliseconds), ["9999 ms", "10.0 s"]);
    }
}
