//! Log lines of a plugin, and their counts.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// One log line, without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// NCCL log level: 2 is WARN, 3 is INFO, ...
    pub level: i32,
    /// The logger's `file` argument. TCPX passes `__PRETTY_FUNCTION__`.
    pub function: String,
    /// Line number in the source.
    pub line: i32,
    /// The message.
    pub text: String,
    /// Number of lines logged from this place so far, including this one.
    pub count: u64,
}

/// Words behind which a version is not the plugin's own.
const OTHERS: [&str; 13] = [
    "abi",
    "api",
    "cuda",
    "driver",
    "efa",
    "firmware",
    "gdrcopy",
    "kernel",
    "libfabric",
    "linux",
    "nccl",
    "provider",
    "runtime",
];

impl LogLine {
    /// The version that a plugin's line names as its own: behind `ver.` or `version`, or, with a
    /// dot, behind the plugin's name, as in `Initializing aws-ofi-nccl 1.16.0`.
    pub fn plugin_version(&self) -> Option<&str> {
        let mut before = "";
        for word in self.text.split_whitespace() {
            let name = before.trim_matches(|letter: char| !letter.is_alphanumeric());
            let name = name.to_ascii_lowercase();
            if OTHERS.contains(&name.as_str()) {
                return None;
            }
            let bare = word.trim_matches(|letter: char| ":,;()[]'\"".contains(letter));
            let bare = bare.trim_end_matches('.');
            let version = bare.strip_prefix(['v', 'V']).unwrap_or(bare);
            let is_number = version.starts_with(|first: char| first.is_ascii_digit());
            let is_labelled = matches!(name.as_str(), "ver" | "version");
            let is_named =
                name.contains("plugin") || name.contains("nccl") || name.starts_with("net/");
            if is_number && (is_labelled || is_named && version.contains('.')) {
                return Some(version);
            }
            before = word;
        }
        None
    }
}

/// Totals since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSummary {
    /// Lines received.
    pub lines: u64,
    /// Lines at level WARN.
    pub warnings: u64,
    /// Lines below WARN that NCCL would not print either, by `NCCL_DEBUG` of the process: they cost a
    /// call each.
    #[serde(default)]
    pub unprinted: u64,
    /// Lines that were passed on rather than suppressed.
    pub passed_on: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_names_its_version_in_its_own_words() {
        let check = |text: &str, expected: Option<&str>| {
            let line = LogLine {
                level: 3,
                function: String::new(),
                line: 1,
                text: text.to_owned(),
                count: 1,
            };
            assert_eq!(line.plugin_version(), expected, "{text}");
        };
        check("NET/GPUDirectTCPX ver. 3.1.9.", Some("3.1.9"));
        let dated = "NET/GPUDirectTCPX ver. 3.1.6._2023_09_27";
        check(dated, Some("3.1.6._2023_09_27"));
        check("NET/Strict ver. 1.", Some("1"));
        check("NET/OFI Initializing aws-ofi-nccl 1.16.0", Some("1.16.0"));
        check(
            "Initializing network FasTrak, version: 1.0.7",
            Some("1.0.7"),
        );
        check("NET/Foo : plugin v2.3.1-rc4 (abc)", Some("2.3.1-rc4"));
        check(
            "NET/OFI Using CUDA driver version 12060 with runtime 12060",
            None,
        );
        check("NET/OFI Using Libfabric version 1.22", None);
        check("NCCL version 2.27.3+cuda12.9", None);
        check("props: netDeviceType 1, netDeviceVersion 7", None);
        check("NET/Socket : Using [0]eth0:10.0.1.25<0>", None);
    }
}
