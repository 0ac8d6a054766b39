//! JUnit XML held against the rules of those who read it.

use std::path::Path;
use std::process::Command;

/// What is wrong with a file, a line each; none where there is no Python to look.
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

/// A file that any of them takes.
pub(crate) fn is_valid(file: &Path) {
    if let Some(problems) = problems(file) {
        assert_eq!(problems, "", "{}", std::fs::read_to_string(file).unwrap());
    }
}
