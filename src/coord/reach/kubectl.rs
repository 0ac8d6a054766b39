//! Kubernetes: pods that are there, each reached by `kubectl exec`.
//!
//! The streams of `kubectl exec` are those of the agent. If kubectl is killed, the kubelet closes the
//! agent's stdin and the agent ends. With `--remote-bin` the pods need no shell; otherwise tcpxctl is
//! copied into the container by its `sh`.
#![forbid(unsafe_code)]

use super::install::Boot;
use super::rsh::Rsh;
use super::{ReachError, Transport};
use std::process::{Command, Stdio};
use tcpx_words::error::Outcome;

/// Pods, as `kubectl` with these options finds them.
pub struct Kubectl {
    options: Vec<String>,
}

impl Kubectl {
    /// With options of kubectl, such as `--namespace` and `--context`.
    pub fn new(options: Vec<String>) -> Self {
        Self { options }
    }

    /// The transport to one pod.
    ///
    /// # Errors
    /// The name begins with `-`.
    pub fn pod(&self, pod: &str, boot: Boot) -> Result<Box<dyn Transport>, ReachError> {
        let words = ["kubectl"].into_iter();
        let words = words.chain(self.options.iter().map(String::as_str));
        let words = shlex::try_join(words.chain(["exec", "--stdin"])).unwrap_or_default();
        Ok(Box::new(Rsh::new(pod, &format!("{words} {{}} --"), boot)?))
    }

    /// The running pods that a label selector chooses, in the order of their names.
    ///
    /// # Errors
    /// `kubectl get pods` fails, which is said in its own words, or finds none.
    pub fn pods(&self, selector: &str) -> Result<Vec<String>, ReachError> {
        let wrong = |what: String| ReachError::new("kubectl", Outcome::NotRun, what);
        let mut command = Command::new("kubectl");
        command
            .args(&self.options)
            .args(["get", "pods", "--selector", selector]);
        command.args([
            "--field-selector",
            "status.phase=Running",
            "--output",
            "name",
        ]);
        // kubectl asks the API server with a limit of its own.
        command.arg("--request-timeout=15s").stdin(Stdio::null());
        let ended = command
            .output()
            .map_err(|error| wrong(format!("cannot start `kubectl`: {error}")))?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty());
            let last = tcpx_words::units::printable(last.unwrap_or("it printed no reason"));
            return Err(wrong(format!("`kubectl get pods` failed: {last}")));
        }
        let said = String::from_utf8_lossy(&ended.stdout);
        let names = said.lines().filter_map(|line| line.strip_prefix("pod/"));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable_by_key(|name| (name.len(), name.clone()));
        if names.is_empty() {
            return Err(wrong(format!("no pod that runs has the labels {selector}"))
                .next("check the labels with `kubectl get pods --show-labels`"));
        }
        Ok(names)
    }
}
