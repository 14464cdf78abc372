//! [`Setting`]: a row of the table, and [`Key`]: the same row with the type of its values.

use std::fmt;

use super::values::BadValue;

/// A setting as users meet it.
#[derive(Debug)]
pub struct Setting {
    /// Its key in the file, lower case; `EVENTMQ_` and this in upper case in the environment.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// The text that stands for it where nothing is set.
    pub default: &'static str,
    /// The programs that use it.
    pub programs: &'static [Program],
    /// What Python's EventMQ makes of it.
    pub python: Python,
    /// One or two sentences.
    pub help: &'static str,
    pub(super) check: fn(&str) -> Result<String, BadValue>,
}

impl Setting {
    /// Checks a text against the setting's type, and writes the value in its canonical way.
    pub fn check(&self, text: &str) -> Result<String, BadValue> {
        (self.check)(text)
    }

    /// The variable that sets it.
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.to_ascii_uppercase())
    }

    /// Whether a program does anything with it.
    pub fn matters_to(&self, program: Program) -> bool {
        !matches!(self.python, Python::OnlyThere(_)) && self.programs.contains(&program)
    }

    /// Whether its value must not be shown.
    pub fn is_secret(&self) -> bool {
        self.kind == Kind::Secret
    }
}

/// What every variable of ours begins with.
pub const VARIABLE_PREFIX: &str = "EVENTMQ_";

/// A setting whose values have type `T`.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// The row.
    pub setting: &'static Setting,
    pub(super) parse: fn(&str) -> Result<T, BadValue>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

/// What the values of a setting are; `Display` is the short form for help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Yes or no.
    Switch,
    /// A whole number of these.
    Count(&'static str),
    /// Seconds, decimals allowed.
    Seconds,
    /// `tcp://HOST:PORT`.
    Address,
    /// A size, with or without a unit.
    Size,
    /// A size, or a share of the machine's memory.
    Memory,
    /// Any text.
    Text,
    /// A text that is not shown.
    Secret,
    /// JSON; an example is the default.
    Json,
    /// One of a few words.
    Choice(&'static str),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("true|false"),
            Self::Count(what) => f.write_str(what),
            Self::Seconds => f.write_str("seconds"),
            Self::Address => f.write_str("address"),
            Self::Size => f.write_str("bytes"),
            Self::Memory => f.write_str("bytes or %"),
            Self::Text | Self::Secret => f.write_str("text"),
            Self::Json => f.write_str("JSON"),
            Self::Choice(words) => f.write_str(words),
        }
    }
}

/// What Python's EventMQ 0.3.13 makes of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Python {
    /// The same as this.
    Same,
    /// Knows it, while it means nothing here, for this reason.
    OnlyThere(&'static str),
    /// Does not know it.
    New,
}

/// A program with a section of its own in the conf file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The broker.
    Router,
    /// The scheduler.
    Scheduler,
    /// The job manager, which runs workers.
    JobManager,
    /// The publisher.
    Publisher,
}

impl Program {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Router, Self::Scheduler, Self::JobManager, Self::Publisher];

    /// The name of its section.
    pub fn section(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Scheduler => "scheduler",
            Self::JobManager => "jobmanager",
            Self::Publisher => "publisher",
        }
    }
}

/// The section every program reads behind its own.
pub const GLOBAL_SECTION: &str = "global";

/// The known name a mistyped one was probably meant to be.
pub fn nearest<'a>(mistyped: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this, two names have nothing in common but letters.
    const ALIKE: f64 = 0.88;

    let mistyped = mistyped.to_lowercase().replace(['-', ' '], "_");
    // Jaro-Winkler favours long common beginnings; one slip in a short name needs a rule of its own.
    let one_slip = |name: &str| name.len() >= 3 && strsim::osa_distance(&mistyped, name) == 1;
    let likeness = |name: &str| if one_slip(name) { 1.0 } else { strsim::jaro_winkler(&mistyped, name) };
    known
        .map(|name| (likeness(name), name))
        .filter(|&(likeness, _)| likeness >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

/// Writes the table: for each row a typed [`Key`], and all rows in `TABLE`. The doc comment is the help text.
macro_rules! settings {
    ($(
        $(#[doc = $help:literal])+
        $key:ident: $type:ty = $name:literal $parse:path, $kind:expr, default $default:literal, for $programs:expr,
        $python:expr;
    )+) => {
        $(
            $(#[doc = $help])+
            pub const $key: Key<$type> = Key {
                setting: &Setting {
                    name: $name,
                    kind: $kind,
                    default: $default,
                    programs: $programs,
                    python: $python,
                    help: concat!($($help),+).trim_ascii(),
                    check: |text| $parse(text).map(|value| value.show()),
                },
                parse: $parse,
            };
        )+

        /// Every setting.
        pub static TABLE: &[&Setting] = &[$($key.setting),+];
    };
}

pub(super) use settings;

/// The row of a name; its case does not matter.
pub fn find(name: &str) -> Option<&'static Setting> {
    super::settings::TABLE.iter().copied().find(|setting| setting.name.eq_ignore_ascii_case(name))
}
