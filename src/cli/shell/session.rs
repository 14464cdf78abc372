//! A session of `emq cli`: lines of a terminal or of standard input.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use zmtp::Endpoint;

use super::editor::{Editor, Typed};
use super::{Args, Format, Question, address, ask};
use crate::admin::Admin;
use crate::cli::submit::Lines;
use crate::cli::{CliError, print, print_complaint};

/// One line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_version_flag = true, name = "")]
#[command(help_template = "{subcommands}", override_usage = "COMMAND", subcommand_help_heading = "Commands")]
struct Line {
    #[command(subcommand)]
    word: Word,
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
enum Word {
    /// Connect to a broker's administrative address
    Connect {
        /// Such as tcp://127.0.0.1:47293
        addr: Endpoint,
    },
    /// Close the connection
    Disconnect,
    #[command(flatten)]
    Question(Question),
    /// End the session; so do Ctrl-D and EOF
    #[command(alias = "exit", alias = "EOF")]
    Quit,
}

pub(super) struct Session {
    broker: Option<Broker>,
    timeout: Duration,
    format: Format,
}

/// Who is asked.
struct Broker {
    endpoint: Endpoint,
    admin: Admin,
    chosen: Chosen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chosen {
    ByUser,
    /// `connect` may take its place.
    ByDefault,
}

/// What follows from a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Well,
    Badly,
    End,
}

impl Session {
    pub(super) fn new(args: &Args) -> Result<Self, CliError> {
        let chosen = if args.given().is_some() { Chosen::ByUser } else { Chosen::ByDefault };
        let endpoint = address(args.given())?;
        let admin = Admin::connect(&endpoint, args.timeout)?;
        let broker = Some(Broker { endpoint, admin, chosen });
        Ok(Self { broker, timeout: args.timeout, format: args.format() })
    }

    /// Until `quit` or the end of input. Of lines that are not typed, one that failed is exit code 1.
    pub(super) async fn run(mut self) -> Result<ExitCode, CliError> {
        if io::stdin().is_terminal() {
            self.interactive().await?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut lines = Lines::of_stdin();
        let mut code = ExitCode::SUCCESS;
        while let Some(line) = lines.next().await {
            let line = String::from_utf8_lossy(&line.map_err(CliError::Input)?.text).into_owned();
            match self.obey(&line).await? {
                Done::Well => {}
                Done::Badly => code = ExitCode::FAILURE,
                Done::End => break,
            }
        }
        Ok(code)
    }

    async fn interactive(&mut self) -> Result<(), CliError> {
        if let Some(broker) = &self.broker {
            print(&format!("Connecting to {}...\n", broker.endpoint))?;
        }
        let mut editor = Editor::new(words())?;
        loop {
            let typed;
            (editor, typed) = editor.read().await?;
            match typed {
                Typed::Line(line) if self.obey(&line).await? == Done::End => break,
                Typed::Line(_) | Typed::Interrupted => {}
                Typed::End => break,
            }
        }
        editor.save();
        Ok(())
    }

    async fn obey(&mut self, line: &str) -> Result<Done, CliError> {
        let words: Vec<_> = line.split_whitespace().collect();
        // Python's shell takes `?` for help.
        let words: Vec<_> = match words.as_slice() {
            [] => return Ok(Done::Well),
            ["?", rest @ ..] => std::iter::once(&"help").chain(rest).copied().collect(),
            words => words.to_vec(),
        };
        match Line::try_parse_from(words) {
            Ok(Line { word }) => self.carry_out(word).await,
            Err(answer) => {
                let good = !answer.use_stderr();
                let text = answer.render().to_string();
                if good {
                    print(&text)?
                } else {
                    write!(io::stderr(), "{text}").map_err(CliError::Output)?
                }
                Ok(if good { Done::Well } else { Done::Badly })
            }
        }
    }

    async fn carry_out(&mut self, word: Word) -> Result<Done, CliError> {
        match word {
            Word::Quit => Ok(Done::End),
            Word::Connect { addr } => self.connect(addr),
            Word::Disconnect => match self.broker.take() {
                Some(broker) => {
                    print(&format!("Closing connection to {}\n", broker.endpoint))?;
                    Ok(Done::Well)
                }
                None => Ok(complain("not connected")),
            },
            Word::Question(question) => {
                let Some(broker) = &mut self.broker else {
                    return Ok(complain("not connected; connect ADDRESS first"));
                };
                match ask(&mut broker.admin, &question, self.format).await {
                    Ok(answer) => {
                        print(&answer)?;
                        Ok(Done::Well)
                    }
                    Err(error) => Ok(complain(&error.to_string())),
                }
            }
        }
    }

    fn connect(&mut self, endpoint: Endpoint) -> Result<Done, CliError> {
        if let Some(Broker { endpoint, chosen: Chosen::ByUser, .. }) = &self.broker {
            return Ok(complain(&format!("already connected to {endpoint}; disconnect first")));
        }
        match Admin::connect(&endpoint, self.timeout) {
            Ok(admin) => {
                print(&format!("Connecting to {endpoint}...\n"))?;
                self.broker = Some(Broker { endpoint, admin, chosen: Chosen::ByUser });
                Ok(Done::Well)
            }
            Err(error) => Ok(complain(&error.to_string())),
        }
    }
}

fn complain(text: &str) -> Done {
    print_complaint(text);
    Done::Badly
}

/// The commands there are, for completion.
fn words() -> Vec<String> {
    let mut line = Line::command();
    line.build();
    line.get_subcommands().map(|word| word.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_python_and_more() {
        Line::command().debug_assert();
        let words = words();
        let python =
            ["connect", "disconnect", "status", "show_workers", "show_schedulers", "shutdown", "send_cmd", "quit"];
        for word in python.iter().chain(&["show_dead", "retry_dead", "help"]) {
            assert!(words.iter().any(|known| known == word), "{word} is not in {words:?}");
        }
    }

    #[test]
    fn lines_are_read_as_words() {
        let read = |line: &str| Line::try_parse_from(line.split_whitespace()).map(|line| line.word);
        assert!(matches!(read("EOF"), Ok(Word::Quit)));
        assert!(matches!(read("connect tcp://127.0.0.1:1"), Ok(Word::Connect { .. })));
        assert!(matches!(read("retry_dead"), Ok(Word::Question(Question::RetryDead { msgid: None }))));
        for wrong in ["statu", "connect", "connect 127.0.0.1:1", "status now"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
