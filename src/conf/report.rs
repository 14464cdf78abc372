//! What is told to the operator: [`ConfError`] stops the start, a [`Notice`] does not, and [`Origin`] says where a value
//! came from.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::ini::{IniError, InterpolationError};
use super::values::BadValue;

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere.
    Default,
    /// In the conf file.
    File {
        /// Its path, as it was named.
        path: Arc<std::path::Path>,
        /// The section, without brackets.
        section: String,
        /// Counted from 1.
        line: usize,
    },
    /// In the environment.
    Variable(String),
    /// On the command line, by this flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, section, line } => write!(f, "{}, line {line}, section [{section}]", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// A setting, the text it was given, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The setting.
    pub key: &'static str,
    /// The text, or a stand-in if it must not be shown.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?} ({})", self.key, self.value, self.origin)
    }
}

/// Who named the conf file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// `-C`.
    Flag,
    /// `EVENTMQ_CONFIG_FILE`.
    Variable,
    /// Nobody: it is the default.
    Default,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "named by -C/--config",
            Self::Variable => "named by EVENTMQ_CONFIG_FILE",
            Self::Default => "the default conf file",
        })
    }
}

/// Why settings cannot be used. Each message says what, where, what was expected and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfError {
    /// The file is not there or not readable.
    #[error("cannot read {}, {named_by}: {source}; correct the path or the file's permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why this file.
        named_by: NamedBy,
        /// What the system said.
        source: io::Error,
    },
    /// Its bytes are not text.
    #[error("{}, line {line}: this is not UTF-8 text; save the file in UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// Its lines are not INI.
    #[error("{}, {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong where.
        source: IniError,
    },
    /// A value refers to something that is not there.
    #[error("{}: {} = {:?}: {source}", at.origin, at.key, at.value)]
    Interpolation {
        /// What was set where.
        at: Box<Assignment>,
        /// What is wrong with it.
        source: InterpolationError,
    },
    /// A value of the wrong type or out of range.
    #[error(
        "{}: {} = {:?} {source}; correct it, or remove it (default: {})", at.origin, at.key, at.value, Shown(default)
    )]
    Value {
        /// What was set where.
        at: Box<Assignment>,
        /// What is wrong with it.
        source: BadValue,
        /// What would stand if it were removed.
        default: &'static str,
    },
    /// A variable whose bytes are not text.
    #[error("environment variable {variable}: its value is not UTF-8 text; correct it, or unset it")]
    VariableNotUtf8 {
        /// Its name.
        variable: String,
    },
    /// `--set` of a key that does not exist.
    #[error("flag {flag}: there is no setting {key}{}; `emq config router` and `emq config jobmanager` show them", DidYouMean(*suggestion))]
    UnknownKey {
        /// The flag.
        flag: String,
        /// The key.
        key: String,
        /// What was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A setting given by two flags.
    #[error("{key} is set by {first} and by {second}; give one of them")]
    SetTwice {
        /// The setting.
        key: &'static str,
        /// One flag.
        first: String,
        /// The other.
        second: String,
    },
    /// Two values that do not go together.
    #[error("{first} {conflict} {second}; {advice}")]
    Conflict {
        /// One setting.
        first: Box<Assignment>,
        /// What is wrong between them.
        conflict: &'static str,
        /// The other setting.
        second: Box<Assignment>,
        /// What to do.
        advice: &'static str,
    },
    /// More than one thing.
    #[error("{}", Lines(.0))]
    Several(Vec<ConfError>),
}

impl ConfError {
    /// One error from many; `Ok` from none.
    pub(super) fn collect(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// Something worth knowing that does not stop the start.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A key nobody knows.
    UnknownKey {
        /// Where it is.
        origin: Origin,
        /// The key.
        key: String,
        /// What was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A section nobody reads.
    UnknownSection {
        /// The file.
        path: Arc<std::path::Path>,
        /// The section.
        section: String,
        /// What was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A key that means something only to Python's programs.
    OnlyInPython {
        /// Where it is.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// Why.
        why: &'static str,
    },
    /// A key of other programs.
    OtherPrograms {
        /// Where it is.
        origin: Origin,
        /// The key.
        key: &'static str,
    },
    /// `yes`, `on`, `1`: false in Python.
    FalseInPython {
        /// Where it is.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// The text.
        value: String,
    },
    /// A text with a `t` in it: true in Python and so here.
    TrueInPython {
        /// Where it is.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// The text.
        value: String,
    },
    /// A file without a section that is read.
    NothingUsed {
        /// The file.
        path: Arc<std::path::Path>,
        /// The program's own section.
        section: &'static str,
    },
    /// No default file; fine.
    NoDefaultFile {
        /// Where it would be.
        path: PathBuf,
    },
    /// `-C` and the variable name different files.
    FlagWins {
        /// What is read.
        flag: PathBuf,
        /// What Python would have read.
        variable: PathBuf,
    },
    /// Heartbeats come too late by design.
    SlowHeartbeats,
    /// No queues for workers that name none.
    NoQueues {
        /// Where that was said.
        origin: Origin,
    },
}

/// How urgent a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Should be looked at.
    Warning,
    /// Good to know.
    Info,
    /// Only for those who wonder.
    Detail,
}

impl Notice {
    /// How urgent it is.
    pub fn urgency(&self) -> Urgency {
        match self {
            Self::OnlyInPython { .. } | Self::OtherPrograms { .. } => Urgency::Detail,
            Self::NoDefaultFile { .. } => Urgency::Info,
            _ => Urgency::Warning,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { origin, key, suggestion } => {
                write!(f, "{origin}: there is no setting {key}{}; it is ignored", DidYouMean(*suggestion))
            }
            Self::UnknownSection { path, section, suggestion } => write!(
                f,
                "{}: no program reads section [{section}]{}; it is ignored (names of sections are case-sensitive)",
                path.display(),
                DidYouMean(*suggestion)
            ),
            Self::OnlyInPython { origin, key, why } => write!(f, "{origin}: {key} means nothing here: {why}"),
            Self::OtherPrograms { origin, key } => write!(f, "{origin}: {key} is for other programs"),
            Self::FalseInPython { origin, key, value } => write!(
                f,
                "{origin}: {key} = {value:?} is taken as true, while Python's EventMQ takes it as false; \
                 write true or false to be understood by both"
            ),
            Self::TrueInPython { origin, key, value } => write!(
                f,
                "{origin}: {key} = {value:?} is taken as true, as in Python, because it contains a t; \
                 write true or false, with comments on lines of their own"
            ),
            Self::NothingUsed { path, section } => {
                write!(f, "{} has neither a section [global] nor [{section}], so nothing in it is used", path.display())
            }
            Self::NoDefaultFile { path } => {
                write!(f, "there is no {}: defaults apply where flags and environment say nothing", path.display())
            }
            Self::FlagWins { flag, variable } => write!(
                f,
                "-C names {}, EVENTMQ_CONFIG_FILE names {}: -C is followed, while Python would follow the variable",
                flag.display(),
                variable.display()
            ),
            Self::SlowHeartbeats => f.write_str(
                "heartbeat_interval is not below heartbeat_timeout: peers will count heartbeats as missed that are not",
            ),
            Self::NoQueues { origin } => {
                write!(f, "{origin}: queues is an empty list: a worker that names no queues will get no jobs")
            }
        }
    }
}

/// `; did you mean ...?`, or nothing.
struct DidYouMean(Option<&'static str>);

impl fmt::Display for DidYouMean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, " (did you mean {name}?)"),
            None => Ok(()),
        }
    }
}

/// A default as text, visible even if it is empty.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "empty" } else { self.0 })
    }
}

struct Lines<'a>(&'a [ConfError]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let end_of_last = if index == 0 { "" } else { "\n" };
            write!(f, "{end_of_last}{error}")?;
        }
        Ok(())
    }
}
