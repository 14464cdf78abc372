//! Where settings come from: the command line, the environment and the conf file. Here they are only read, as text.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs, io};

use super::ini::Ini;
use super::key::{Setting, VARIABLE_PREFIX, find, nearest};
use super::report::{ConfError, NamedBy, Notice, Origin};
use super::settings::TABLE;

/// The conf file where none is named.
pub const DEFAULT_FILE: &str = "/etc/eventmq.conf";

/// The variable that names the conf file; empty for none at all.
pub const FILE_VARIABLE: &str = "EVENTMQ_CONFIG_FILE";

/// What the command line says about settings.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The file of `-C`.
    pub config: Option<PathBuf>,
    /// Flags that set something.
    pub values: Vec<FlagValue>,
}

/// A flag that sets something.
#[derive(Debug, Clone)]
pub struct FlagValue {
    /// The flag as given, for messages: `--frontend` or `--set hwm`.
    pub flag: String,
    /// The setting's name.
    pub key: String,
    /// The text.
    pub value: String,
}

/// Variables of a process.
pub type Variables = Vec<(OsString, OsString)>;

/// A setting and the text a flag or variable gives it.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) setting: &'static Setting,
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// A conf file that was read.
#[derive(Debug, Clone)]
pub(super) struct ConfFile {
    pub(super) path: Arc<Path>,
    pub(super) ini: Ini,
}

/// Everything there is to know before a program picks what concerns it.
#[derive(Debug, Clone)]
pub struct Sources {
    pub(super) flags: Vec<Given>,
    pub(super) variables: Vec<Given>,
    pub(super) file: Option<ConfFile>,
    pub(super) notices: Vec<Notice>,
}

impl Sources {
    /// Reads the conf file that flags or variables name, and sorts what they set themselves.
    pub fn read(flags: &Flags, variables: &Variables) -> Result<Self, ConfError> {
        let mut notices = Vec::new();
        let file = read_file(flags, variables, &mut notices)?;
        let flags = sort_flags(flags)?;
        let variables = sort_variables(variables, &mut notices)?;
        Ok(Self { flags, variables, file, notices })
    }
}

/// The variables of this process.
pub fn process_variables() -> Variables {
    env::vars_os().collect()
}

fn sort_flags(flags: &Flags) -> Result<Vec<Given>, ConfError> {
    let mut sorted: Vec<Given> = Vec::new();
    for FlagValue { flag, key, value } in &flags.values {
        let Some(setting) = find(key) else {
            let suggestion = nearest(key, TABLE.iter().map(|setting| setting.name));
            return Err(ConfError::UnknownKey { flag: flag.clone(), key: key.clone(), suggestion });
        };
        if let Some(Given { origin: Origin::Flag(first), .. }) =
            sorted.iter().find(|given| given.setting.name == setting.name)
        {
            let (first, second) = (first.clone(), flag.clone());
            return Err(ConfError::SetTwice { key: setting.name, first, second });
        }
        sorted.push(Given { setting, text: value.clone(), origin: Origin::Flag(flag.clone()) });
    }
    Ok(sorted)
}

fn sort_variables(variables: &Variables, notices: &mut Vec<Notice>) -> Result<Vec<Given>, ConfError> {
    let mut sorted = Vec::new();
    for (name, value) in variables {
        let Some(key) = name.to_str().and_then(|name| name.strip_prefix(VARIABLE_PREFIX)) else { continue };
        let variable = format!("{VARIABLE_PREFIX}{key}");
        if variable == FILE_VARIABLE {
            continue;
        }
        // As in Python, only capitals count.
        match TABLE.iter().copied().find(|setting| setting.variable() == variable) {
            Some(setting) => match value.to_str() {
                Some(text) => {
                    sorted.push(Given { setting, text: text.to_owned(), origin: Origin::Variable(variable) });
                }
                None => return Err(ConfError::VariableNotUtf8 { variable }),
            },
            // Container platforms define EVENTMQ_SERVICE_HOST and the like: only a near miss is worth a word.
            None => {
                if let Some(suggestion) = nearest(key, TABLE.iter().map(|setting| setting.name)) {
                    let (origin, key) = (Origin::Variable(variable), key.to_lowercase());
                    notices.push(Notice::UnknownKey { origin, key, suggestion: Some(suggestion) });
                }
            }
        }
    }
    sorted.sort_by_key(|given: &Given| given.setting.name);
    Ok(sorted)
}

fn read_file(flags: &Flags, variables: &Variables, notices: &mut Vec<Notice>) -> Result<Option<ConfFile>, ConfError> {
    let variable = variables.iter().find(|(name, _)| name == FILE_VARIABLE).map(|(_, path)| PathBuf::from(path));
    let (path, named_by) = match (&flags.config, variable) {
        (Some(flag), variable) => {
            if let Some(variable) = variable.filter(|variable| variable != flag && !variable.as_os_str().is_empty()) {
                notices.push(Notice::FlagWins { flag: flag.clone(), variable });
            }
            (flag.clone(), NamedBy::Flag)
        }
        (None, Some(variable)) if variable.as_os_str().is_empty() => return Ok(None),
        (None, Some(variable)) => (variable, NamedBy::Variable),
        (None, None) => (PathBuf::from(DEFAULT_FILE), NamedBy::Default),
    };
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && named_by == NamedBy::Default => {
            notices.push(Notice::NoDefaultFile { path });
            return Ok(None);
        }
        Err(source) => return Err(ConfError::Unreadable { path, named_by, source }),
    };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
            return Err(ConfError::NotUtf8 { path, line });
        }
    };
    match Ini::parse(&text) {
        Ok(ini) => Ok(Some(ConfFile { path: path.into(), ini })),
        Err(source) => Err(ConfError::Syntax { path, source }),
    }
}
