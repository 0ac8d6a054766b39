//! RxDM's socket folder, and the two variables that name the plugin.
#![forbid(unsafe_code)]

use super::{Environment, Findings, Fix, LintKind, Machine, pair};
use crate::manager::{PATH_BYTES_MAX, PREFIX};

/// The folder in Google's manifests.
const PUBLISHED: &str = "/run/tcpx";
/// The longest socket name below the folder.
const LONGEST: &str = "/get_gpu_metadata_0000:04:00.0";
const PLUGINS: [&str; 2] = ["UCCL_TCPX_PLUGIN_PATH", "NCCL_GPUDIRECTTCPX_PLUGIN_PATH"];

pub(super) fn check(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    let fix = || [Fix::Set(PREFIX.to_owned(), PUBLISHED.to_owned())];
    match (environment.get(PREFIX), machine.manager_answers) {
        (Some(prefix), _) if prefix.len() + LONGEST.len() > PATH_BYTES_MAX => {
            let text = format!(
                "{}: socket paths in this folder are longer than {PATH_BYTES_MAX} bytes",
                pair(environment, PREFIX)
            );
            findings.add(LintKind::PrefixTooLong, text, fix());
        }
        (Some(_), Some(false)) => {
            let elsewhere = environment
                .get(PREFIX)
                .is_some_and(|prefix| prefix != PUBLISHED);
            let fixes = elsewhere.then(|| Fix::Set(PREFIX.to_owned(), PUBLISHED.to_owned()));
            findings.add(
                LintKind::PrefixDead,
                format!("{}: no RxDM answers there", pair(environment, PREFIX)),
                fixes,
            );
        }
        // Without the variable, an RxDM that answers in /tmp was set up to be found there.
        (None, Some(true)) | (Some(_), Some(true)) => {}
        (None, Some(false)) => {
            findings.add(
                LintKind::PrefixUnset,
                format!("{PREFIX} is not set: the plugin looks in /tmp"),
                fix(),
            );
        }
        (Some(_), None) => findings.open([LintKind::PrefixDead], "RxDM's sockets were not tried"),
        (None, None) => findings.open([LintKind::PrefixUnset], "RxDM's sockets were not tried"),
    }
    if let (Some(one), Some(other)) = (environment.get(PLUGINS[0]), environment.get(PLUGINS[1]))
        && one != other
    {
        let text = format!(
            "{}, but {}",
            pair(environment, PLUGINS[0]),
            pair(environment, PLUGINS[1])
        );
        findings.add(
            LintKind::PluginPaths,
            text,
            [Fix::Set(PLUGINS[1].to_owned(), one.clone())],
        );
    }
}
