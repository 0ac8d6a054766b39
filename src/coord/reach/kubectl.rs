//! Kubernetes: pods that are there, each reached by `kubectl exec`.
//!
//! The streams of `kubectl exec` are those of the agent. If kubectl is killed, the kubelet closes the
//! agent's stdin and the agent ends. With `--remote-bin` the pods need no shell; otherwise tcpxctl is
//! copied into the container by its `sh`.
#![forbid(unsafe_code)]

use super::helper::Helpers;
use super::install::Boot;
use super::rsh::Rsh;
use super::{ReachError, Transport, Until};
use std::io;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tcpx_words::error::Outcome;

/// Longest wait for the list of pods; longer than kubectl's own limit for the API server.
const PODS_MAX: Duration = Duration::from_secs(20);

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
    /// `kubectl get pods` fails, which is said in its own words, finds none, or is interrupted.
    pub fn pods(
        &self,
        selector: &str,
        interrupted: &AtomicBool,
    ) -> Result<Vec<String>, ReachError> {
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
        command.arg("--request-timeout=15s");
        let until = Until::after(PODS_MAX);
        let answer = Helpers::default()
            .ask(&mut command, until, interrupted)
            .map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => {
                    let max = PODS_MAX.as_secs();
                    wrong(format!("`kubectl get pods` did not end within {max} s"))
                        .next("run it by hand: a login that its configuration names may wait")
                }
                io::ErrorKind::Interrupted => ReachError::interrupted("kubectl"),
                _ => wrong(format!("cannot start `kubectl`: {error}")),
            })?;
        if !answer.status.success() {
            return Err(wrong(format!(
                "`kubectl get pods` failed: {}",
                answer.why()
            )));
        }
        let names = answer
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("pod/"));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable_by_key(|name| (name.len(), name.clone()));
        if names.is_empty() {
            return Err(wrong(format!("no pod that runs has the labels {selector}"))
                .next("check the labels with `kubectl get pods --show-labels`"));
        }
        Ok(names)
    }
}
