//! [`Resolved`]: for each setting of a program the one text that counts, checked, with where it came from.
//!
//! First of: flag, environment, the program's own section, `[global]`, `[DEFAULT]`, the table's default.

use std::collections::BTreeMap;

use super::ini::{DEFAULT_SECTION, Percent};
use super::key::{GLOBAL_SECTION, Key, Kind, Program, Python, Setting, find, nearest};
use super::report::{Assignment, ConfError, Notice, Origin};
use super::settings::TABLE;
use super::sources::{ConfFile, Given, Sources};
use super::values::{Show, python_switch, switch};

/// Stands for a value that must not be shown.
const HIDDEN: &str = "(not shown)";

/// The settings of one program.
#[derive(Debug, Clone)]
pub struct Resolved {
    found: BTreeMap<&'static str, Given>,
    notices: Vec<Notice>,
}

/// A setting with the value in force.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The setting.
    pub setting: &'static Setting,
    /// Its value, in its canonical form; a secret one is not shown.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

impl Resolved {
    /// Picks what concerns `program` and checks every value of it; all that is wrong is reported together.
    pub fn new(program: Program, sources: &Sources) -> Result<Self, ConfError> {
        let mut errors = Vec::new();
        let mut resolved = Self { found: BTreeMap::new(), notices: sources.notices.clone() };
        // From the weakest source to the strongest, each overwriting those before.
        if let Some(file) = &sources.file {
            resolved.take_file(program, file, &mut errors);
        }
        for given in sources.variables.iter().chain(&sources.flags) {
            resolved.take(program, given.clone());
        }
        for given in resolved.found.values() {
            match given.setting.check(&given.text) {
                Ok(_) => resolved.notices.extend(switch_notice(given)),
                Err(source) => {
                    let at = Box::new(resolved.assignment(given.setting));
                    errors.push(ConfError::Value { at, source, default: given.setting.default });
                }
            }
        }
        ConfError::collect(errors)?;
        Ok(resolved)
    }

    /// The value of a setting.
    pub fn get<T: Show>(&self, key: Key<T>) -> Result<T, ConfError> {
        (key.parse)(self.text(key.setting)).map_err(|source| ConfError::Value {
            at: Box::new(self.assignment(key.setting)),
            source,
            default: key.setting.default,
        })
    }

    /// Where the value of a setting came from.
    pub fn origin(&self, setting: &Setting) -> Origin {
        self.found.get(setting.name).map_or(Origin::Default, |given| given.origin.clone())
    }

    /// Every setting of the program with its value in force, in the order of the table.
    pub fn effective(&self, program: Program) -> Vec<Effective> {
        let show = |setting: &&'static Setting| {
            let text = self.text(setting);
            let value = match setting.is_secret() && !text.is_empty() {
                true => HIDDEN.to_owned(),
                false => setting.check(text).unwrap_or_else(|_| text.to_owned()),
            };
            Effective { setting, value, origin: self.origin(setting) }
        };
        TABLE.iter().filter(|setting| setting.matters_to(program)).map(show).collect()
    }

    /// What is worth knowing about the sources.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// A setting with its text and origin, for messages.
    pub(super) fn assignment(&self, setting: &Setting) -> Assignment {
        let value = if setting.is_secret() { HIDDEN } else { self.text(setting) };
        Assignment { key: setting.name, value: value.to_owned(), origin: self.origin(setting) }
    }

    fn text(&self, setting: &Setting) -> &str {
        self.found.get(setting.name).map_or(setting.default, |given| &given.text)
    }

    fn take(&mut self, program: Program, given: Given) {
        let Given { setting, origin, .. } = &given;
        if setting.matters_to(program) {
            self.found.insert(setting.name, given);
        } else if let Python::OnlyThere(why) = setting.python {
            self.notice(Notice::OnlyInPython { origin: origin.clone(), key: setting.name, why });
        } else {
            self.notice(Notice::OtherPrograms { origin: origin.clone(), key: setting.name });
        }
    }

    fn take_file(&mut self, program: Program, file: &ConfFile, errors: &mut Vec<ConfError>) {
        let own = program.section();
        let known = || [GLOBAL_SECTION, DEFAULT_SECTION].into_iter().chain(Program::ALL.iter().map(|p| p.section()));
        for section in file.ini.section_names().filter(|name| known().all(|known| known != *name)) {
            let suggestion = nearest(section, known());
            self.notice(Notice::UnknownSection { path: file.path.clone(), section: section.to_owned(), suggestion });
        }
        // Like Python, look values of [DEFAULT] up through a section that is there.
        let Some(reader) = [GLOBAL_SECTION, own].into_iter().find(|name| file.ini.section(name).is_some()) else {
            self.notice(Notice::NothingUsed { path: file.path.clone(), section: own });
            return;
        };
        self.take_section(program, file, DEFAULT_SECTION, reader, errors);
        self.take_section(program, file, GLOBAL_SECTION, GLOBAL_SECTION, errors);
        self.take_section(program, file, own, own, errors);
    }

    /// Takes what `section` sets; references in its values are looked up from `reader`.
    fn take_section(
        &mut self,
        program: Program,
        file: &ConfFile,
        section: &str,
        reader: &str,
        errors: &mut Vec<ConfError>,
    ) {
        let mut entries: Vec<_> = file.ini.section(section).into_iter().flatten().collect();
        entries.sort_by_key(|(_, entry)| entry.line);
        for (key, entry) in entries {
            let origin = Origin::File { path: file.path.clone(), section: section.to_owned(), line: entry.line };
            let Some(setting) = find(key) else {
                // What stands in [DEFAULT] is often there only to be referred to.
                if section != DEFAULT_SECTION {
                    let suggestion = nearest(key, TABLE.iter().map(|setting| setting.name));
                    self.notice(Notice::UnknownKey { origin, key: key.clone(), suggestion });
                }
                continue;
            };
            let percent = if setting.python == Python::New { Percent::Lenient } else { Percent::Strict };
            // As in Python, a value nobody reads may hold any percent signs.
            let text = match setting.matters_to(program) {
                true => file.ini.interpolate(reader, &entry.raw, percent),
                false => Ok(entry.raw.clone()),
            };
            match text {
                Ok(text) => self.take(program, Given { setting, text, origin }),
                Err(source) => {
                    let value = if setting.is_secret() { HIDDEN } else { &entry.raw };
                    let at = Box::new(Assignment { key: setting.name, value: value.to_owned(), origin });
                    errors.push(ConfError::Interpolation { at, source });
                }
            }
        }
    }
}

/// Whether Python and a reader's common sense part over a switch.
fn switch_notice(given: &Given) -> Option<Notice> {
    let Given { setting, text, origin } = given;
    if setting.kind != Kind::Switch || setting.python == Python::New || !switch(text).unwrap_or(false) {
        return None;
    }
    let (origin, key, value) = (origin.clone(), setting.name, text.clone());
    match text.to_lowercase().as_str() {
        "true" | "t" => None,
        _ if python_switch(text) => Some(Notice::TrueInPython { origin, key, value }),
        _ => Some(Notice::FalseInPython { origin, key, value }),
    }
}
