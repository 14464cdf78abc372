//! The line editor of a session: history, completion.

use std::env;
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::cli::CliError;

/// As Python's shell has it.
const PROMPT: &str = "> ";
/// Most lines of history kept.
const HISTORY: usize = 1000;

pub(super) struct Editor {
    editor: rustyline::Editor<Words, DefaultHistory>,
    history: Option<PathBuf>,
}

/// What came of a prompt.
#[derive(Debug)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C: the line is thrown away.
    Interrupted,
    /// Ctrl-D.
    End,
}

/// Completes the first word of a line.
struct Words(Vec<String>);

impl Editor {
    pub(super) fn new(words: Vec<String>) -> Result<Self, CliError> {
        let mut editor = rustyline::Editor::new()?;
        editor.set_max_history_size(HISTORY)?;
        editor.set_helper(Some(Words(words)));
        let history = history_file();
        if let Some(path) = &history {
            // The first session has none.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// Prompts, in a thread that may block: connections live on meanwhile.
    pub(super) async fn read(mut self) -> Result<(Self, Typed), CliError> {
        let reading = tokio::task::spawn_blocking(move || {
            let line = self.editor.readline(PROMPT);
            (self, line)
        });
        let (mut editor, line) = reading.await.map_err(CliError::Task)?;
        let typed = match line {
            Ok(line) => {
                editor.editor.add_history_entry(&line)?;
                Typed::Line(line)
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(ReadlineError::Eof) => Typed::End,
            Err(error) => return Err(error.into()),
        };
        Ok((editor, typed))
    }

    /// Keeps the history for the next session. A history that cannot be kept is not worth an error.
    pub(super) fn save(mut self) {
        let Some(path) = self.history else { return };
        if let Some(directory) = path.parent() {
            let _ = std::fs::create_dir_all(directory);
        }
        let _ = self.editor.save_history(&path);
    }
}

/// Where the XDG base directories have such files.
fn history_file() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
    Some(state.join("emq/cli_history"))
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, self.candidates(line.get(..position).unwrap_or_default())))
    }
}

impl Words {
    fn candidates(&self, start: &str) -> Vec<String> {
        self.0.iter().filter(|word| word.starts_with(start)).map(|word| format!("{word} ")).collect()
    }
}

impl Helper for Words {}
impl Highlighter for Words {}
impl Validator for Words {}

impl Hinter for Words {
    type Hint = String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_are_completed() {
        let words = Words(["show_dead", "show_workers", "shutdown", "status"].map(str::to_owned).to_vec());
        assert_eq!(words.candidates("show_"), ["show_dead ", "show_workers "]);
        assert_eq!(words.candidates("st"), ["status "]);
        assert!(words.candidates("status x").is_empty());
    }
}
