//! Reading INI text exactly as Python's `ConfigParser` does.
//!
//! The rules, all of them Python's: keys are case-insensitive, section names are not; `=` or `:` ends a key, whichever
//! comes first; a line that begins with `#` or `;` is a comment, the same signs behind a value belong to it; a line
//! indented deeper than its key's continues the value, even one that looks like a section, with blank lines kept and
//! comment lines left out; a key or section given twice is an error; `[DEFAULT]` stands behind every section.
//! `tests/conf/ini` holds texts with what Python made of them.

use std::collections::BTreeMap;

use thiserror::Error;

/// The section whose values stand behind every other one's.
pub const DEFAULT_SECTION: &str = "DEFAULT";

/// How deep `%(name)s` may lead from value to value, as in Python.
const MAX_DEPTH: usize = 10;

/// The sections of one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ini {
    sections: BTreeMap<String, Section>,
}

/// Keys, in lower case, with their values.
pub type Section = BTreeMap<String, Entry>;

/// A value as written: nothing in it is replaced yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The text behind the key; further lines are joined by `\n`.
    pub raw: String,
    /// The line of the key, counted from 1.
    pub line: usize,
}

/// Why a text cannot be read; the caller knows the file and adds it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct IniError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: IniProblem,
}

/// What can be wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IniProblem {
    /// A key before the first section.
    #[error("{text:?} stands before any [section]; put a line [global] above it")]
    NoSection {
        /// The line.
        text: String,
    },
    /// Neither section, key, comment nor continuation.
    #[error("{text:?} is neither [section] nor `key = value`; to continue the line above, indent it")]
    NoDelimiter {
        /// The line.
        text: String,
    },
    /// A delimiter with nothing in front.
    #[error("{text:?} has no key in front of its `=` or `:`")]
    NoKey {
        /// The line.
        text: String,
    },
    /// A section header that was there before.
    #[error("section [{section}] was begun on line {first} already; merge the two")]
    DuplicateSection {
        /// Its name.
        section: String,
        /// Where it began first.
        first: usize,
    },
    /// A key that was there before in the same section.
    #[error("key {key} of section [{section}] is set on line {first} already; remove one of the two")]
    DuplicateKey {
        /// The section.
        section: String,
        /// The key, in lower case.
        key: String,
        /// Where it was set first.
        first: usize,
    },
}

/// Why the `%` signs of a value mean nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InterpolationError {
    /// `%` without `%` or `(` behind it.
    #[error("a `%` must be followed by `%` or `(`; write %% for a percent sign")]
    LonePercent,
    /// `%(name` without `)s`.
    #[error("`%(` begins a reference that does not end; write %(name)s, or %% for a percent sign")]
    Unfinished,
    /// A reference to nothing.
    #[error("`%({name})s` refers to a key that neither [{section}] nor [DEFAULT] has")]
    Missing {
        /// The key referred to.
        name: String,
        /// The section looked into.
        section: String,
    },
    /// References in a circle, or too many in a row.
    #[error("`%({name})s` leads through more than {MAX_DEPTH} references; is there a circle?")]
    TooDeep {
        /// The reference at which to stop.
        name: String,
    },
}

/// What a lone `%` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percent {
    /// An error, as in Python.
    Strict,
    /// Itself: for keys Python never reads, so that `50%` can be written as people would.
    Lenient,
}

/// The value that lines are being added to.
struct Open {
    section: String,
    key: String,
    line: usize,
    indent: usize,
    lines: Vec<String>,
}

impl Ini {
    /// Parses a text.
    pub fn parse(text: &str) -> Result<Self, IniError> {
        let mut ini = Self::default();
        let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
        let mut section: Option<&str> = None;
        let mut open: Option<Open> = None;

        for (line, full) in numbered_lines(text.strip_prefix('\u{feff}').unwrap_or(text)) {
            let content = full.trim();
            if content.starts_with(['#', ';']) {
                continue;
            }
            if content.is_empty() {
                if let Some(open) = &mut open {
                    open.lines.push(String::new());
                }
                continue;
            }
            let indent = full.chars().take_while(|c| c.is_whitespace()).count();
            if let Some(open) = open.as_mut().filter(|open| indent > open.indent) {
                open.lines.push(content.to_owned());
                continue;
            }
            let fail = |problem| Err(IniError { line, problem });

            if let Some(name) = section_name(content) {
                ini.close(open.take());
                match begun.insert(name, line) {
                    Some(first) if name != DEFAULT_SECTION => {
                        return fail(IniProblem::DuplicateSection { section: name.to_owned(), first });
                    }
                    _ => {}
                }
                ini.sections.entry(name.to_owned()).or_default();
                section = Some(name);
                continue;
            }
            let Some(section) = section else { return fail(IniProblem::NoSection { text: content.to_owned() }) };
            let Some(at) = content.find(['=', ':']) else {
                return fail(IniProblem::NoDelimiter { text: content.to_owned() });
            };
            let key = content[..at].trim_end().to_lowercase();
            if key.is_empty() {
                return fail(IniProblem::NoKey { text: content.to_owned() });
            }
            ini.close(open.take());
            if let Some(earlier) = ini.sections.get(section).and_then(|keys| keys.get(&key)) {
                let (section, first) = (section.to_owned(), earlier.line);
                return fail(IniProblem::DuplicateKey { section, key, first });
            }
            let lines = vec![content[at + 1..].trim().to_owned()];
            open = Some(Open { section: section.to_owned(), key, line, indent, lines });
        }
        ini.close(open);
        Ok(ini)
    }

    fn close(&mut self, open: Option<Open>) {
        if let Some(Open { section, key, line, lines, .. }) = open {
            let raw = lines.join("\n").trim_end().to_owned();
            self.sections.entry(section).or_default().insert(key, Entry { raw, line });
        }
    }

    /// Names of all sections, `DEFAULT` among them if it is written.
    pub fn section_names(&self) -> impl Iterator<Item = &str> {
        self.sections.keys().map(String::as_str)
    }

    /// What a section itself sets.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.get(name)
    }

    /// Replaces `%%` and `%(key)s` in a value of `section`.
    pub fn interpolate(&self, section: &str, raw: &str, percent: Percent) -> Result<String, InterpolationError> {
        let mut out = String::with_capacity(raw.len());
        self.expand(section, raw, percent, MAX_DEPTH, &mut out)?;
        Ok(out)
    }

    fn expand(
        &self,
        section: &str,
        raw: &str,
        percent: Percent,
        depth: usize,
        out: &mut String,
    ) -> Result<(), InterpolationError> {
        let mut rest = raw;
        while let Some((before, behind)) = rest.split_once('%') {
            out.push_str(before);
            if let Some(after) = behind.strip_prefix('%') {
                out.push('%');
                rest = after;
            } else if let Some(reference) = behind.strip_prefix('(') {
                let (name, after) = reference.split_once(")s").ok_or(InterpolationError::Unfinished)?;
                if name.is_empty() || name.contains(')') {
                    return Err(InterpolationError::Unfinished);
                }
                let name = name.to_lowercase();
                let value = self.value_behind(section, &name)?;
                let Some(depth) = depth.checked_sub(1) else { return Err(InterpolationError::TooDeep { name }) };
                self.expand(section, value, percent, depth, out)?;
                rest = after;
            } else if percent == Percent::Lenient {
                out.push('%');
                rest = behind;
            } else {
                return Err(InterpolationError::LonePercent);
            }
        }
        out.push_str(rest);
        Ok(())
    }

    fn value_behind(&self, section: &str, name: &str) -> Result<&str, InterpolationError> {
        [section, DEFAULT_SECTION]
            .into_iter()
            .find_map(|place| self.sections.get(place)?.get(name))
            .map(|entry| entry.raw.as_str())
            .ok_or_else(|| InterpolationError::Missing { name: name.to_owned(), section: section.to_owned() })
    }
}

/// Lines ended by `\n`, `\r\n` or `\r`, as Python's text files have them.
fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r')))
}

/// `name` of `[name]`; anything behind the last bracket is ignored.
fn section_name(content: &str) -> Option<&str> {
    let inner = content.strip_prefix('[')?;
    let name = &inner[..inner.rfind(']')?];
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str, key: &str) -> String {
        Ini::parse(text).unwrap().section("a").unwrap()[key].raw.clone()
    }

    #[test]
    fn a_list_over_several_lines_is_one_value() {
        let text = "[a]\nqueues = [\n  [1, \"x\"],\n  # not this\n\n  [2, \"y\"]\n  ]\nnext: 1\n";
        assert_eq!(value(text, "queues"), "[\n[1, \"x\"],\n\n[2, \"y\"]\n]");
        assert_eq!(Ini::parse(text).unwrap().section("a").unwrap()["next"].line, 8);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, message) in [
            ("a = 1", "line 1: \"a = 1\" stands before any [section]; put a line [global] above it"),
            (
                "[a]\n\nhwm",
                "line 3: \"hwm\" is neither [section] nor `key = value`; to continue the line above, indent it",
            ),
            ("[a]\n= 1", "line 2: \"= 1\" has no key in front of its `=` or `:`"),
            ("[a]\nk=1\n[a]", "line 3: section [a] was begun on line 1 already; merge the two"),
            ("[a]\nk=1\nK: 2", "line 3: key k of section [a] is set on line 2 already; remove one of the two"),
        ] {
            assert_eq!(Ini::parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn percent_signs() {
        let ini = Ini::parse("[DEFAULT]\nhost = h\n[a]\nport = 1\nc = %(c)s\nurl = tcp://%(HOST)s:%(port)s\n").unwrap();
        let expand = |raw: &str| ini.interpolate("a", raw, Percent::Strict).map_err(|e| e.to_string());
        assert_eq!(expand("%(url)s 100%%").unwrap(), "tcp://h:1 100%");
        for (raw, message) in [
            ("50%", "a `%` must be followed by `%` or `(`; write %% for a percent sign"),
            ("%d", "a `%` must be followed by `%` or `(`; write %% for a percent sign"),
            ("%(x", "`%(` begins a reference that does not end; write %(name)s, or %% for a percent sign"),
            ("%()s", "`%(` begins a reference that does not end; write %(name)s, or %% for a percent sign"),
            ("%(x)s", "`%(x)s` refers to a key that neither [a] nor [DEFAULT] has"),
            ("%(c)s", "`%(c)s` leads through more than 10 references; is there a circle?"),
        ] {
            assert_eq!(expand(raw).unwrap_err(), message, "{raw}");
        }
        assert_eq!(ini.interpolate("a", "50% of 100%%", Percent::Lenient).unwrap(), "50% of 100%");
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "[\\[\\]=:#; %()a-cs\r\n\t\u{e9}]{0,60}") {
            if let Ok(ini) = Ini::parse(&text) {
                for (name, section) in &ini.sections {
                    for entry in section.values() {
                        let _ = ini.interpolate(name, &entry.raw, Percent::Strict);
                    }
                }
            }
        }
    }
}
