//! Checks JUnit XML against the rules of its common readers.

use std::path::Path;
use std::process::Command;

/// The problems of a file, one per line; empty if there is no Python to check it.
pub(crate) fn problems(file: &Path) -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/junit.py");
    let Ok(ended) = Command::new("python3").arg(script).arg(file).output() else {
        println!(
            "skipped: there is no python3 to read {} with",
            file.display()
        );
        return None;
    };
    assert!(
        ended.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    Some(String::from_utf8(ended.stdout).unwrap().trim().to_owned())
}

/// Checks that every reader accepts a file.
pub(crate) fn is_valid(file: &Path) {
    if let Some(problems) = problems(file) {
        assert_eq!(problems, "", "{}", std::fs::read_to_string(file).unwrap());
    }
}
