//! The fuzz targets over their seeds, as ordinary tests: what was found once stays found.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "../fuzz/src/lib.rs"]
mod targets;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(fuzz().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_target_has_its_program_and_its_seeds() {
    let targets: BTreeSet<String> = targets::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), targets);
    assert_eq!(names("seeds"), targets);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for target in &targets {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target} in Cargo.toml");
        let program = fs::read_to_string(fuzz().join(format!("fuzz_targets/{target}.rs"))).unwrap();
        assert!(program.contains(&format!("zmtp_fuzz::{target}(data)")), "{target}");
    }
}

#[test]
fn the_seeds_pass() {
    for (name, check) in targets::TARGETS {
        let mut seeds: Vec<_> =
            fs::read_dir(fuzz().join("seeds").join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        seeds.sort();
        assert!(!seeds.is_empty(), "{name}");
        for seed in seeds {
            let data = fs::read(&seed).unwrap();
            if std::panic::catch_unwind(|| check(&data)).is_err() {
                panic!("{}", seed.display());
            }
            // And cut anywhere, as the network may.
            (0..data.len().min(300)).for_each(|end| check(&data[..end]));
        }
    }
}
