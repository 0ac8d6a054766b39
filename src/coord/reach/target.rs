//! A node as ssh addresses it: host, user, port, key.
#![forbid(unsafe_code)]

use super::ReachError;
use std::path::PathBuf;
use tcpx_words::error::Outcome;

/// Host, user and key to log in with. A field that is `None` is left to the user's
/// ssh configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// Name of the node in messages: what the user typed.
    pub name: String,
    /// Address, host name or an alias of the ssh configuration.
    pub host: String,
    /// User to log in as.
    pub user: Option<String>,
    /// Port of the sshd.
    pub port: Option<u16>,
    /// Private key to log in with.
    pub key: Option<PathBuf>,
    /// Configuration file to read instead of `~/.ssh/config`.
    pub config: Option<PathBuf>,
    /// Whether to accept the key of a host that is in no known_hosts file, and to add it.
    pub accept_new_host_key: bool,
}

impl Target {
    /// Refuses a host that is empty or that `ssh` would take for an option.
    pub(super) fn check(&self) -> Result<(), ReachError> {
        if self.host.is_empty() || self.host.starts_with('-') {
            return Err(ReachError::new(
                &self.name,
                Outcome::Usage,
                "not a host name",
            ));
        }
        Ok(())
    }
}
