//! Replaces `ssh` in a build without the feature `ssh`: the same names, and an error from every
//! attempt to reach a node.
#![forbid(unsafe_code)]

use super::install::Boot;
pub use super::target::Target;
use super::{AgentLink, Opening, ReachError, Transport};
use tcpx_words::error::Outcome;

/// A node that this build cannot reach.
pub struct Ssh {
    target: Target,
}

impl Ssh {
    /// Checks the target; the error about the missing feature comes from `open`.
    ///
    /// # Errors
    /// The host is empty or would be taken for an option.
    pub fn new(target: Target, _boot: Boot) -> Result<Self, ReachError> {
        target.check()?;
        Ok(Self { target })
    }
}

impl Transport for Ssh {
    fn node(&self) -> &str {
        &self.target.name
    }

    fn open(&self, _opening: &mut Opening<'_>) -> Result<AgentLink, ReachError> {
        let what = "this build of tcpxctl cannot open ssh connections";
        Err(
            ReachError::new(&self.target.name, Outcome::NotRun, what).next(
                "give --rsh ssh to use the ssh program, or build tcpx-coord with the feature `ssh`",
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_node_behind_ssh_is_refused_with_what_to_do_instead() {
        let target = Target {
            name: "10.0.0.226".into(),
            host: "10.0.0.226".into(),
            ..Target::default()
        };
        let node = Ssh::new(target, Boot::at_path("/usr/bin/tcpxctl")).expect("a host name");
        let error = node
            .open(&mut Opening {
                interrupted: &AtomicBool::new(false),
                progress: &mut |_, _| {},
            })
            .err()
            .expect("refused");
        assert_eq!(
            error.to_string(),
            "10.0.0.226: this build of tcpxctl cannot open ssh connections"
        );
        assert!(error.next.is_some_and(|next| next.contains("--rsh ssh")));
    }
}
