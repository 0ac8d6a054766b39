//! The folder of a user's own files: configuration, signatures, baselines.
//!
//! Crates such as `etcetera` read the environment of the process; here it is an argument, so
//! that tests can set it.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;

/// `$XDG_CONFIG_HOME/tcpxctl`, or `~/.config/tcpxctl`. A relative path is ignored, as
/// the XDG specification requires. `variable` is usually [`std::env::var_os`].
pub fn user_config(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("tcpxctl"))
}
