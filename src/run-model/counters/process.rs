//! Facts about the process that writes a recorder: its role, plugin and devices.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tcpx_words::units::printable;

/// A process, as described by its recorder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// Its label: `NCCL rank 3`, or a scenario's.
    pub role: String,
    /// Plugin table, ncclNet version and plugin version: `TCPXSoft_v7 v7 0.1.0`.
    pub plugin: String,
    /// Interface of each plugin device; in JSON a list of pairs, as a number cannot be
    /// a key where serde flattens.
    #[serde(with = "device_names")]
    pub nics: BTreeMap<i64, String>,
    /// Whether the process has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_gone: bool,
    /// Whether it runs, and its counters are from a copy of its recorder: they change no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_copy: bool,
    /// Whether its recorder has no mark of its end and is of another boot or machine, or of a container
    /// that is not seen from here and in which it did nothing for long: whether it has ended is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_elsewhere: bool,
    /// How it ended, if it is known when: `was killed by signal 9 (SIGKILL)`. Without, its counters
    /// are those of their last change, and for how long they stood still is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Number of the signal that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Its set-up calls, if it is gone or has entered and left none for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupCalls>,
    /// The plugin call that has not returned, if it belongs to no channel: `init`, `connect`, `accept`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// Since when it has not returned, in nanoseconds since 1970, if that is a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside_since_ns: Option<u64>,
    /// A `connect` that has given no comm for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connecting: Option<ConnectingFacts>,
    /// Comms and listeners for which its recorder had no slot or no memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unrecorded: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ProcessFacts {
    /// The worker's name, with that of its endpoint: `pid 8955 (endpoint decode)`.
    pub fn with_endpoint(&self, name: &str) -> String {
        name_with_endpoint(name, &self.role)
    }
}

/// A process's name, with its label if that is an endpoint's: `pid 8955 (endpoint decode)`.
pub fn name_with_endpoint(name: &str, label: &str) -> String {
    match label.starts_with("endpoint ") {
        true => format!("{name} ({label})"),
        false => name.to_owned(),
    }
}

/// Calls of a process that belong to no channel: `init`, `listen`, `connect`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupCalls {
    /// The last one, by name.
    pub last: String,
    /// How many there were.
    pub count: u64,
    /// How many did not return 0.
    pub failed: u64,
    /// The last one that did not return 0, and its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Box<(String, i32)>>,
    /// When one was last entered or returned, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
}

/// A `connect` that has given no comm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectingFacts {
    /// Address of the listener: `10.0.1.25:4000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// When it was called first, in nanoseconds since 1970.
    pub since_ns: u64,
    /// How often it was called at least: a power of two, as each change is told.
    pub calls: u64,
    /// It has not returned, or is still called.
    pub goes_on: bool,
}

mod device_names {
    use super::BTreeMap;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        nics: &BTreeMap<i64, String>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(nics)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<i64, String>, D::Error> {
        Vec::deserialize(from).map(|nics| nics.into_iter().collect())
    }
}

impl ProcessFacts {
    /// Escapes control characters in every text.
    pub fn printable(self) -> Self {
        Self {
            role: printable(&self.role),
            plugin: printable(&self.plugin),
            nics: self
                .nics
                .into_iter()
                .map(|(device, name)| (device, printable(&name)))
                .collect(),
            is_gone: self.is_gone,
            is_copy: self.is_copy,
            is_elsewhere: self.is_elsewhere,
            ended: self.ended.map(|how| printable(&how)),
            signal: self.signal,
            setup: self.setup.map(|setup| SetupCalls {
                last: printable(&setup.last),
                last_error: setup
                    .last_error
                    .map(|error| Box::new((printable(&error.0), error.1))),
                ..setup
            }),
            inside: self.inside.map(|call| printable(&call)),
            inside_since_ns: self.inside_since_ns,
            connecting: self.connecting.map(|one| ConnectingFacts {
                peer: one.peer.map(|peer| printable(&peer)),
                ..one
            }),
            unrecorded: self.unrecorded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_with_its_endpoint_and_with_no_other_label() {
        let named = |label: &str| name_with_endpoint("pid 7", label);
        assert_eq!(named("endpoint decode"), "pid 7 (endpoint decode)");
        assert_eq!(named("NCCL rank 3"), "pid 7");
        assert_eq!(named(""), "pid 7");
    }
}
