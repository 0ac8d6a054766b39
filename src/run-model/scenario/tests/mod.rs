//! Scenarios as people write them, right and wrong.

mod bad_input;
mod layers;
mod meant;
mod random;
mod sweeps;

use super::*;
use tempfile::TempDir;

/// A folder with this scenario in it, and the request to run it.
fn written(text: &[u8]) -> (TempDir, Inputs) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bad.toml");
    std::fs::write(&path, text).expect("a file");
    (
        folder,
        Inputs {
            scenario: Some(path),
            ..Inputs::default()
        },
    )
}

fn outcome(folder: &TempDir, inputs: &Inputs) -> String {
    let said = match resolve(inputs) {
        Ok(points) => format!("fine: {} scenario(s)", points.len()),
        Err(error) => error.render(false),
    };
    said.replace(&*folder.path().to_string_lossy(), "~")
}

/// What is said about a scenario with this text and these `--set` flags.
fn said(text: &str, sets: &[&str]) -> String {
    let (folder, mut inputs) = written(text.as_bytes());
    sets.iter().for_each(|set| inputs.set(*set));
    outcome(&folder, &inputs)
}

fn points(text: &str) -> Vec<Resolved> {
    let (_folder, inputs) = written(text.as_bytes());
    resolve(&inputs).unwrap_or_else(|error| panic!("{}", error.render(false)))
}
