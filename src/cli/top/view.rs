//! Draws the model of `emq top`.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};

use super::model::{Health, Model, Picture, QueueRow, Summary, WorkerRow};
use crate::cli::table::{milliseconds, queue_list, seconds};

/// From this width on, ids are shown whole and workers with their queues.
const WIDE: u16 = 120;
/// What is shown of an id otherwise.
const SHORT_ID: usize = 8;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const HEADER: Style = Style::new().add_modifier(Modifier::REVERSED);

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    // At least a third of the screen is the workers'.
    let queues = (model.queues.len() as u16).saturating_add(1).min(frame.area().height * 2 / 3);
    let parts = [Constraint::Length(4), Constraint::Length(queues), Constraint::Length(1), Constraint::Fill(1)];
    let [head, queue_area, _, worker_area] = Layout::vertical(parts).areas(frame.area());
    draw_head(frame, head, model);
    draw_queues(frame, queue_area, &model.queues);
    draw_workers(frame, worker_area, model);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let [title, counts, losses, _] = Layout::vertical([Constraint::Length(1); 4]).areas(area);
    let (health, colour) = match &model.health {
        Health::Asking => ("asking...".to_owned(), Color::Yellow),
        Health::Answering if model.picture == Picture::Held => ("held; blank goes on".to_owned(), Color::Yellow),
        Health::Answering => (up(&model.summary), Color::Green),
        Health::Silent(why) => (why.clone(), Color::Red),
    };
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(2)]).areas(title);
    frame.render_widget(Paragraph::new(Span::styled(model.broker.as_str(), BOLD)), left);
    let health = Paragraph::new(Span::styled(health, Style::new().fg(colour))).alignment(Alignment::Right);
    frame.render_widget(health, right);
    let Summary { waiting, running, free_slots, rate, .. } = &model.summary;
    let workers = model.workers.len();
    let sums = [
        ("jobs/s ", number_per_second(*rate)),
        ("waiting ", waiting.to_string()),
        ("running ", running.to_string()),
        ("free slots ", free_slots.to_string()),
        ("workers ", workers.to_string()),
    ];
    frame.render_widget(named(&sums), counts);
    let Summary { failed, lost, retried, dead, refused, .. } = &model.summary;
    let sums = [("failed ", failed), ("lost ", lost), ("retried ", retried), ("dead ", dead), ("refused ", refused)];
    frame.render_widget(named(&sums.map(|(name, count)| (name, count.to_string()))), losses);
}

fn up(summary: &Summary) -> String {
    match summary.uptime {
        Some(uptime) => format!("version {}, up {}", summary.version, seconds(uptime)),
        None => "connected".to_owned(),
    }
}

/// Names with bold values, `waiting 5   running 2`.
fn named(values: &[(&'static str, String)]) -> Paragraph<'static> {
    let spans =
        values.iter().flat_map(|(name, value)| [Span::raw(*name), Span::styled(value.clone(), BOLD), Span::raw("   ")]);
    Paragraph::new(Line::from_iter(spans))
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, queues: &[QueueRow]) {
    let header = ["QUEUE", "WAITING", "RUNNING", "FREE", "WORKERS", "JOBS/S", "MEAN AGE", "MAX AGE", "SENT"];
    let row = |queue: &QueueRow| {
        let style = if queue.waiting > 0 && queue.workers == 0 { Style::new().fg(Color::Red) } else { Style::new() };
        let numbers = [
            queue.waiting.to_string(),
            queue.running.to_string(),
            queue.free_slots.to_string(),
            queue.workers.to_string(),
            number_per_second(queue.rate),
            milliseconds(queue.mean_age),
            milliseconds(queue.max_age),
            queue.processed.to_string(),
        ];
        Row::new(std::iter::once(Line::raw(queue.name.clone())).chain(numbers.map(right))).style(style)
    };
    let widths = [8, 7, 5, 7, 8, 9, 9, 9].map(Constraint::Length);
    let widths = std::iter::once(Constraint::Fill(1)).chain(widths);
    let titles =
        header.iter().enumerate().map(|(i, title)| if i == 0 { Line::raw(*title) } else { right((*title).to_owned()) });
    let table = Table::new(queues.iter().map(row), widths).header(Row::new(titles).style(HEADER));
    frame.render_widget(table, area);
}

fn draw_workers(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let wide = area.width >= WIDE;
    let (id_width, queues) = if wide { (36, "QUEUES") } else { (SHORT_ID as u16, "QUEUES") };
    let row = |worker: &WorkerRow| {
        let numbers = [
            worker.free_slots.to_string(),
            worker.running.to_string(),
            number_per_second(worker.rate),
            worker.processed.to_string(),
            worker.heard.map(seconds).unwrap_or_default(),
        ];
        let id = if wide { worker.id.clone() } else { worker.id.chars().take(SHORT_ID).collect() };
        let style = if worker.state == "attentive" { Style::new() } else { Style::new().fg(Color::Yellow) };
        let cells = [Line::raw(id), Line::raw(worker.state.clone())].into_iter();
        let cells = cells.chain(numbers.map(right)).chain([Line::raw(format!(" {}", queue_list(&worker.queues)))]);
        Row::new(cells).style(style)
    };
    let header = ["WORKER", "STATE", "FREE", "RUNNING", "JOBS/S", "SENT", "HEARD"];
    let titles =
        header.iter().enumerate().map(|(i, title)| if i < 2 { Line::raw(*title) } else { right((*title).to_owned()) });
    let titles = titles.chain([Line::raw(format!(" {queues}"))]);
    let widths = [id_width, 9, 4, 7, 8, 9, 9].map(Constraint::Length).into_iter().chain([Constraint::Fill(1)]);
    let shown = model.workers.iter().skip(model.first_worker);
    let table = Table::new(shown.map(row), widths).header(Row::new(titles).style(HEADER));
    frame.render_widget(table, area);
}

fn right(text: String) -> Line<'static> {
    Line::raw(text).alignment(Alignment::Right)
}

fn number_per_second(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::model::tests::model;
    use super::*;

    /// The screen as text, without blanks at the ends of lines.
    fn screen(model: &Model, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 14)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..14).map(|y| format!("{}\n", line(y).trim_end())).collect()
    }

    #[test]
    fn it_fits_narrow_and_wide_terminals() {
        for (width, expected) in [
            (80, include_str!("../../../tests/golden/top-80.txt")),
            (200, include_str!("../../../tests/golden/top-200.txt")),
        ] {
            let seen = screen(&model(), width);
            assert_eq!(seen, expected, "\n{seen}");
        }
    }

    #[test]
    fn trouble_is_told_at_the_top() {
        let mut model = model();
        model.lost("no answer within 2 s: is a broker's administrative_addr there?".to_owned());
        assert!(screen(&model, 120).lines().next().unwrap().ends_with("administrative_addr there?"));
        assert!(screen(&Model::new("b".to_owned()), 80).lines().next().unwrap().ends_with("asking..."));
        screen(&model, 5);
    }
}
