//! Every pitfall, every case and every section about CURVE has a test that names it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Pitfalls of zmtp.md, section 14.
const PITFALLS: std::ops::RangeInclusive<u8> = 1..=33;
/// Cases of cases.md that concern the protocol and its sockets.
const CASES: [u8; 12] = [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 17];
/// Sections of curve.md with something to test: all but the comparison of crates and the list of vectors.
const CURVE_SECTIONS: std::ops::RangeInclusive<u8> = 1..=10;

#[test]
fn every_pitfall_case_and_section_has_its_test() {
    let found = Found::everywhere();
    let missing = |what: &str, wanted: &mut dyn Iterator<Item = u8>, found: &BTreeSet<u8>| {
        let missing: Vec<u8> = wanted.filter(|number| !found.contains(number)).collect();
        assert!(missing.is_empty(), "{what} without a test of that number: {missing:?}");
    };
    missing("pitfalls", &mut PITFALLS.clone(), &found.pitfalls);
    missing("cases", &mut CASES.into_iter(), &found.cases);
    missing("sections of curve.md", &mut CURVE_SECTIONS.clone(), &found.curve);
    let unknown: Vec<_> = found.pitfalls.iter().filter(|number| !PITFALLS.contains(number)).collect();
    assert!(unknown.is_empty(), "tests of pitfalls that nobody knows: {unknown:?}");
}

#[test]
fn only_tests_count() {
    let mut found = Found::default();
    found.in_text("/// Pitfall 1.\n#[test]\nfn pitfall_07_b09_b10_who_reads() {}\n");
    found.in_text("    #[tokio::test(start_paused = true)]\n    async fn pitfall_10_11_again() {}\n");
    found.in_text("fn pitfall_12_helper() {}\n#[test]\nfn curve_04_b17_flags() {}\n");
    assert_eq!(Vec::from_iter(&found.pitfalls), [&7, &10, &11]);
    assert_eq!(Vec::from_iter(&found.cases), [&9, &10, &17]);
    assert_eq!(Vec::from_iter(&found.curve), [&4]);
}

/// The numbers in names of tests, such as `pitfall_10_11_b13_subscriptions_come_first`.
#[derive(Default)]
struct Found {
    pitfalls: BTreeSet<u8>,
    cases: BTreeSet<u8>,
    curve: BTreeSet<u8>,
}

impl Found {
    /// In the tests of the crate, beside its code and in `tests`.
    fn everywhere() -> Self {
        let mut found = Self::default();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders = vec![root.join("src"), root.join("tests")];
        while let Some(folder) = folders.pop() {
            for path in entries(&folder) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    found.in_text(&std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        found
    }

    fn in_text(&mut self, text: &str) {
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            let line = line.strip_prefix("async ").unwrap_or(line);
            if let Some(name) = line.strip_prefix("fn ") {
                if std::mem::take(&mut is_test) {
                    self.in_name(name.split(['(', '<']).next().unwrap_or(name));
                }
            } else if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
                is_test = true;
            }
        }
    }

    fn in_name(&mut self, name: &str) {
        let mut kind = "";
        for word in name.split('_') {
            let number = |digits: &str| digits.parse().ok().filter(|_| digits.len() == 2);
            match (word, number(word), word.strip_prefix('b').and_then(number)) {
                ("pitfall" | "curve", ..) if kind.is_empty() => kind = word,
                (_, Some(number), _) if kind == "pitfall" => _ = self.pitfalls.insert(number),
                (_, Some(number), _) if kind == "curve" => _ = self.curve.insert(number),
                (_, _, Some(number)) => _ = self.cases.insert(number),
                _ => return,
            }
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}
