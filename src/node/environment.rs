//! The variables that matter for a transfer. All others may hold secrets, and never enter a
//! run folder. One of these whose name is that of a secret is kept without its value.
#![forbid(unsafe_code)]

use crate::redact::{is_secret_variable, masked_value};
use crate::{Fact, Root, printable};
use std::collections::BTreeMap;
use std::ffi::OsString;

const PREFIXES: [&str; 4] = ["NCCL_", "TCPX", "UCCL_", "CUDA_"];
const NAMES: [&str; 1] = ["LD_LIBRARY_PATH"];
/// What a copied agent is started with, which no user sets.
const OWN: &str = "TCPXCTL_BOOT";
/// Most variables that are kept; no real environment has as many.
const VARIABLES_MAX: usize = 512;

/// The allow-listed variables of this process, or of the process that made the captured
/// tree.
pub(crate) fn read(root: &Root) -> Fact<BTreeMap<String, String>> {
    root.ask("environment", || Fact::Known(captured(std::env::vars_os())))
}

/// Stands for the value of a secret.
const MASK: &str = "***";

/// The allow-listed variables of `all` (usually `std::env::vars_os()`), by name.
pub fn captured(all: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let allowed = all.into_iter().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| is_allowed(name))?;
        Some((name, printable(&value.to_string_lossy())))
    });
    masked(allowed.take(VARIABLES_MAX).collect())
}

/// Stands for a path while secrets are searched.
const PATH: &str = "/opt/\0";

/// The variables with `***` for the values of secrets, and for secrets in other values, such as the password of a URL.
pub(crate) fn masked(mut all: BTreeMap<String, String>) -> BTreeMap<String, String> {
    for (name, value) in &mut all {
        if is_secret_variable(name, value) {
            MASK.clone_into(value);
        } else {
            *value = masked_beside_paths(value);
        }
    }
    all
}

/// A value with its secrets masked. A path is kept: a part of it may look like a secret.
fn masked_beside_paths(value: &str) -> String {
    if value.contains("://") {
        return masked_value(value, MASK);
    }
    let is_end = |letter: char| letter.is_whitespace() || ":;,=".contains(letter);
    let (mut without, mut paths) = (String::new(), Vec::new());
    for part in value.split_inclusive(is_end) {
        let path = part.trim_end_matches(is_end);
        match path.starts_with('/') || path.starts_with("./") || path.starts_with("~/") {
            true => {
                without.push_str(PATH);
                without.push_str(&part[path.len()..]);
                paths.push(path);
            }
            false => without.push_str(part),
        }
    }
    let masked = masked_value(&without, MASK);
    // A path that is itself a secret is gone, and which one it was is not known.
    if masked.matches(PATH).count() != paths.len() {
        return MASK.to_owned();
    }
    let paths = paths.into_iter().chain([""]);
    let parts = masked.split(PATH).zip(paths);
    parts.flat_map(|(part, path)| [part, path]).collect()
}

/// Parts of the names of variables that may differ between two nodes.
const PER_NODE: [&str; 8] = [
    "IFNAME",
    "BINDINGS",
    "CTRL_DEV",
    "PATH",
    "FAULT",
    "VISIBLE_DEVICES",
    "COMM_ID",
    "EXPORTER",
];

/// Whether a variable is a setting of a plugin, or of NCCL.
pub fn is_setting(name: &str) -> bool {
    name.starts_with("NCCL_") || name.starts_with("TCPXSOFT_")
}

/// Whether it is a setting that both ends of a connection must share.
pub fn is_shared(name: &str) -> bool {
    is_setting(name) && !PER_NODE.iter().any(|part| name.contains(part))
}

/// The plugin's settings that both ends of a connection must share: without those of a single
/// node.
pub fn shared_settings_of(captured: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut shared = captured;
    shared.retain(|name, _| is_shared(name));
    shared
}

/// Whether a variable of this name may be recorded.
pub(crate) fn is_allowed(name: &str) -> bool {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    plain
        && name != OWN
        && (NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_the_value_of_a_variable_is_masked() {
        let all = [
            (
                "NCCL_PROXY",
                "http://al:p4ssW0rdZ9@prox:1/",
                "http://***@prox:1/",
            ),
            (
                "NCCL_NOTE",
                "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
                "***",
            ),
            ("NCCL_COMM_ID", "10.0.1.25:4000", "10.0.1.25:4000"),
            ("NCCL_SOCKET_IFNAME", "eth1,eth2", "eth1,eth2"),
            (
                "NCCL_CONF",
                "/etc/x;password=Quietly77",
                "/etc/x;password=***",
            ),
            ("NCCL_CONF", "Bx7/qZ9pLw2+Rk5VtYc3mNd8HsJfQa1e", "***"),
            (
                "NCCL_CONF",
                "~/a,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",
                "~/a,***",
            ),
            (
                "LD_LIBRARY_PATH",
                "/a/x7Kq92LmPz4TbW8r:./b:/opt/conda/lib",
                "/a/x7Kq92LmPz4TbW8r:./b:/opt/conda/lib",
            ),
        ];
        for (name, value, expected) in all {
            let masked = captured([(name.into(), value.into())]);
            assert_eq!(masked[name], expected);
        }
    }

    #[test]
    fn settings_of_one_node_are_not_shared() {
        let all = ["NCCL_NSOCKS_PERTHREAD", "NCCL_SOCKET_IFNAME", "CUDA_HOME"];
        let all = all.map(|name| (name.to_owned(), "1".to_owned()));
        let shared = shared_settings_of(all.into_iter().collect());
        assert_eq!(
            shared.into_keys().collect::<Vec<_>>(),
            ["NCCL_NSOCKS_PERTHREAD"]
        );
    }

    #[test]
    fn the_value_of_a_secret_is_not_captured() {
        let all = [
            ("NCCL_APP_PASSWORD", "quietly"),
            ("NCCL_APP_TOKEN", "quietly"),
            ("NCCL_API_KEY", "quietly"),
            ("TCPX_PASS", "quietly"),
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_TOKEN_FILE", "/run/x"),
        ];
        let captured = captured(all.map(|(name, value)| (name.into(), value.into())));
        let values: Vec<&str> = captured.values().map(String::as_str).collect();
        assert_eq!(values, ["***", "***", "***", "INFO", "/run/x", "***"]);
    }

    #[test]
    fn only_the_allow_list_is_captured() {
        let all = [
            ("NCCL_NET", "GPUDirectTCPX_v7"),
            ("TCPXSOFT_IO", "helper"),
            ("UCCL_TCPX_DEBUG", "1"),
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            ("LD_LIBRARY_PATH", "/usr/local/tcpx/lib64\n"),
            ("LD_PRELOAD", "x"),
            ("AWS_SECRET", "x"),
            ("nccl_net", "x"),
            ("MY_NCCL_NET", "x"),
            ("NCCL_\x1b[2J", "x"),
        ];
        let captured = captured(all.map(|(name, value)| (name.into(), value.into())));
        let names: Vec<&str> = captured.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "CUDA_VISIBLE_DEVICES",
                "LD_LIBRARY_PATH",
                "NCCL_NET",
                "TCPXSOFT_IO",
                "UCCL_TCPX_DEBUG"
            ]
        );
        assert_eq!(captured["LD_LIBRARY_PATH"], "/usr/local/tcpx/lib64");
    }
}
