//! A secret in a file that only its owner can read.
#![forbid(unsafe_code)]

use super::secret::Secret;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Reads the secret from a file that only its owner can read.
///
/// # Errors
/// The file cannot be read, other users can read it, or it holds no secret; the error names it.
pub fn read(path: &Path) -> Result<Secret, String> {
    let said = |what: String| format!("the secret file {}: {what}", path.display());
    let file = tcpx_words::input::open(path).map_err(|error| said(error.to_string()))?;
    let about = file.metadata().map_err(|error| said(error.to_string()))?;
    if about.mode() & 0o077 != 0 {
        return Err(said(format!(
            "other users can access it (mode {:o}); run `chmod 600` on it",
            about.mode() & 0o777
        )));
    }
    let mut text = String::new();
    file.take(256)
        .read_to_string(&mut text)
        .map_err(|error| said(error.to_string()))?;
    Secret::from_hex(text.trim()).map_err(|error| {
        said(format!(
            "{error}; `tcpxctl serve --secret-file FILE` creates a random one in a FILE that does not exist"
        ))
    })
}

/// Reads the secret from a file, or creates the file with a new secret. Returns whether it is new.
///
/// # Errors
/// The file cannot be read or created; the error names it.
pub fn read_or_make(path: &Path) -> Result<(Secret, bool), String> {
    if path.exists() {
        return Ok((read(path)?, false));
    }
    let said = |error: io::Error| format!("the secret file {}: {error}", path.display());
    let secret = Secret::generate().map_err(said)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(said)?;
    writeln!(file, "{}", secret.to_hex()).map_err(said)?;
    Ok((secret, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_file_is_created_once_and_must_be_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        let (first, is_new) = read_or_make(&path).expect("made");
        let (again, is_newer) = read_or_make(&path).expect("read");
        assert!(is_new && !is_newer && first.to_hex() == again.to_hex());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("a mode");
        assert!(read(&path).is_err_and(|error| error.contains("chmod 600")));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
        for (text, why) in [
            ("00".repeat(32), "it has 1 distinct byte values"),
            ("hunter2".to_owned(), "this has 7 characters"),
        ] {
            std::fs::write(&path, text).expect("written");
            assert!(read(&path).is_err_and(|error| error.contains(why)));
        }
    }
}
