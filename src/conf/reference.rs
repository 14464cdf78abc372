//! The reference of all settings, written from the table.

use std::fmt::Write as _;

use super::key::{Kind, Program, Python, Setting};
use super::settings::TABLE;

/// Every setting in Markdown: one table, the settings that only Python's programs use at the end.
pub fn reference() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         A setting stands in the conf file (INI; `/etc/eventmq.conf`, `-C FILE` or `EVENTMQ_CONFIG_FILE`) as `key = value`, \
         in the environment as `EVENTMQ_<KEY>`, or on the command line as `--set KEY=VALUE`. The first of these counts: \
         flag, environment, the program's own section, `[global]`, `[DEFAULT]`, default.\n\n\
         The sections are `[router]` (emq router), `[scheduler]` (emq scheduler), `[jobmanager]` (emq jobmanager) and \
         `[publisher]` (emq pubsub). `emq config PROGRAM` shows the settings in force and where each comes from.\n\n\
         | key | sections | value | default | in Python | meaning |\n|---|---|---|---|---|---|\n",
    );
    let ours = |setting: &&&Setting| !matches!(setting.python, Python::OnlyThere(_));
    for setting in TABLE.iter().filter(ours) {
        let python = if setting.python == Python::Same { "yes" } else { "no" };
        let sections = setting.programs.iter().map(|program| program.section()).collect::<Vec<_>>();
        let sections = if sections.len() == Program::ALL.len() { "all".to_owned() } else { sections.join(", ") };
        let (kind, default) = (cell(&setting.kind.to_string()), default(setting));
        let _ = writeln!(
            text,
            "| `{}` | {sections} | {kind} | {default} | {python} | {} |",
            setting.name,
            cell(setting.help)
        );
    }
    text.push_str("\nAccepted without effect, so that a conf file of Python's EventMQ loads unchanged:\n\n");
    text.push_str("| key | why |\n|---|---|\n");
    for setting in TABLE {
        if let Python::OnlyThere(why) = setting.python {
            let _ = writeln!(text, "| `{}` | {} |", setting.name, cell(why));
        }
    }
    text
}

fn default(setting: &Setting) -> String {
    match (setting.kind, setting.default) {
        (Kind::Secret, _) | (_, "") => "none".to_owned(),
        (_, default) => format!("`{}`", cell(default)),
    }
}

/// Text that does not end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_in_it_once() {
        let text = reference();
        for setting in TABLE {
            let row = format!("\n| `{}` |", setting.name);
            assert_eq!(text.matches(&row).count(), 1, "{}", setting.name);
        }
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        for line in text.lines().filter(|line| line.starts_with('|')) {
            assert!([3, 7].contains(&cells(line)), "{line}");
        }
    }
}
