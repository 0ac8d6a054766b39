//! The range of every value: one rule per key.
//!
//! The table checks a scenario, from a file or as JSON from a peer, and it words what was expected
//! for a value of the wrong type. Bounds that an editor can check are in the schema too; a test in
//! `schema` compares the two.
#![forbid(unsafe_code)]

use super::checked::{Memory, PluginLibrary, Scenario, Unpack};
use super::error::{InvalidValue, ScenarioError};
use super::fault::{Fault, Sides};
use super::mesh::Rails;
use super::resolve::ABI_VARIABLE;
use super::topology::{GpuLanes, Gpus, MappedNics, NicMap, Nics, PeerGpus};
use super::traffic_rules::TRAFFIC_RULES;
use std::collections::BTreeSet;
use std::time::Duration;
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::error::Outcome;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::progress::{Idle, Policy, Threads};
use tcpx_words::units::{ByteCount, TimeSpan};

/// The largest request the TCPX family carries: a receive's scatter list has
/// 2048 entries, and its unpack slice is 4 MiB (plugin 3.1.9).
pub(crate) const TCPX_CHUNK_MAX: ByteCount = ByteCount(4 << 20);
/// A plugin counts a request's bytes, and a registration's, in C ints.
const CHUNK_MAX: u64 = i32::MAX as u64;
pub(super) const TOTAL_MAX: u64 = 1 << 40;
/// Longer than any run should take; a longer deadline is most likely a wrong unit.
const LIMIT_MAX: Duration = Duration::from_secs(24 * 3600);
const VARIABLES_MAX: usize = 256;
const VARIABLES_BYTES_MAX: usize = 64 << 10;
const VALUE_BYTES_MAX: usize = 4096;

const WINDOW: &str = "a whole number from 1 to 16: a plugin's comm has 16 request slots";
const DEADLINE: &str = "a time above zero and up to 24h, such as \"3s\" or \"500ms\"";

pub(super) struct Rule {
    pub key: &'static str,
    pub expected: &'static str,
    holds: fn(&Scenario) -> bool,
    /// Whether `expected` also describes the type.
    pub is_about_type: bool,
}

/// A rule about one key.
pub(super) const fn rule(
    key: &'static str,
    expected: &'static str,
    holds: fn(&Scenario) -> bool,
) -> Rule {
    Rule {
        key,
        expected,
        holds,
        is_about_type: true,
    }
}

/// A rule about a key that depends on other keys.
pub(super) const fn together(
    key: &'static str,
    expected: &'static str,
    holds: fn(&Scenario) -> bool,
) -> Rule {
    Rule {
        key,
        expected,
        holds,
        is_about_type: false,
    }
}

const RULES: &[Rule] = &[
    rule("name", "1 to 100 printable characters", |s| {
        is_line(&s.name, 100)
    }),
    rule("requires", "a list of at most 8 of gpu, tcpx, peer", |s| {
        s.requires.len() <= 8
    }),
    rule(
        "transfer.connections",
        "a whole number from 1 to 1024",
        |s| (1..=1024).contains(&s.transfer.connections),
    ),
    rule(
        "transfer.chunk",
        "a size from 1 byte to 2 GiB - 1, such as \"512KiB\"",
        |s| (1..=CHUNK_MAX).contains(&s.transfer.chunk.0),
    ),
    rule(
        "transfer.total",
        "a size from 1 byte to 1 TiB, such as \"64MiB\"; it need not be a multiple of the chunk",
        |s| (1..=TOTAL_MAX).contains(&s.transfer.total.0),
    ),
    rule(
        "transfer.iterations",
        "a whole number from 1 to 1000000",
        |s| (1..=1_000_000).contains(&s.transfer.iterations),
    ),
    rule("transfer.warmup", "a whole number from 0 to 1000000", |s| {
        s.transfer.warmup <= 1_000_000
    }),
    rule("transfer.recv_window", WINDOW, |s| {
        (1..=16).contains(&s.transfer.recv_window)
    }),
    rule("transfer.send_window", WINDOW, |s| {
        (1..=16).contains(&s.transfer.send_window)
    }),
    together(
        "transfer.verify",
        "false: with unpack = \"none\" the bytes never reach device memory",
        |s| {
            !(s.transfer.verify
                && s.transfer.unpack == Unpack::None
                && s.transfer.memory == Memory::Device)
        },
    ),
    rule(
        "topology.gpus",
        "\"auto\", 1 to 64 different device numbers, { stand_ins = 1 to 64 }, or { or_stand_ins = 1 to 64 }",
        gpus,
    ),
    rule(
        "topology.nics",
        "\"auto\", 1 to 64 different interface names, or { first = 1 to 64 }",
        nics,
    ),
    rule(
        "topology.map",
        "\"nearest\", \"round-robin\", \"all\", or device = interface, such as { \"0\" = \"eth1\" }, or a list of interfaces",
        nic_map,
    ),
    rule(
        "topology.lanes",
        "\"same\", \"all\", or GPU = GPU of the second node, such as { \"0\" = 3 }, or a list of those",
        lanes,
    ),
    rule(
        "topology.gpu_connections",
        "at most 64 of GPU = a whole number from 1 to 1024",
        |s| {
            let connections = &s.topology.gpu_connections;
            let entry = |(gpu, count): (&String, &u32)| is_gpu(gpu) && (1..=1024).contains(count);
            connections.len() <= 64 && connections.iter().all(entry)
        },
    ),
    rule(
        "mesh.rails",
        "\"each\", \"all\", or 1 to 64 different interface names",
        mesh_rails,
    ),
    rule("mesh.budget", DEADLINE, |s| {
        s.mesh
            .as_ref()
            .and_then(|mesh| mesh.budget)
            .is_none_or(deadline)
    }),
    rule(
        "progress.threads",
        "\"auto\", or a whole number from 1 to 1024",
        |s| match s.progress.threads {
            Threads::Auto => true,
            Threads::Count(count) => (1..=1024).contains(&count),
        },
    ),
    together(
        "progress.threads",
        "\"auto\": only the policy \"opportunistic\" leaves the number of threads open",
        |s| s.progress.policy == Policy::Opportunistic || s.progress.threads == Threads::Auto,
    ),
    rule(
        "progress.idle",
        "adaptive, spin, yield, or a sleep up to 100ms such as \"sleep:10us\"",
        idle,
    ),
    // Checked by the type; the rule only words the error.
    rule("plugin", "a table with either `name` or `path`", |_| true),
    rule(
        "plugin.name",
        "auto, soft, builtin, or a library's name (a file goes into plugin.path)",
        |s| match &s.plugin.library {
            PluginLibrary::Name(name) => is_word(name, 100),
            PluginLibrary::Path(_) => true,
        },
    ),
    rule("plugin.path", "the path of a library file", |s| {
        match &s.plugin.library {
            PluginLibrary::Path(path) => is_line(path, 4096),
            PluginLibrary::Name(_) => true,
        }
    }),
    // As above.
    rule("plugin.abi", AbiVersion::RANGE, |_| true),
    rule("bindings", "a CPU list such as \"0-3,8\"", |s| {
        s.bindings.node.len() <= 1024 && s.bindings.nic.len() <= 1024
    }),
    rule("limits.stall_after", DEADLINE, |s| {
        deadline(s.limits.stall_after)
    }),
    rule("limits.give_up_after", DEADLINE, |s| {
        deadline(s.limits.give_up_after)
    }),
    rule("limits.connect", DEADLINE, |s| deadline(s.limits.connect)),
    rule("limits.total", DEADLINE, |s| deadline(s.limits.total)),
    rule("limits.close_grace", DEADLINE, |s| {
        deadline(s.limits.close_grace)
    }),
    rule(
        "fault.spec",
        "1 to 1000 printable characters",
        |s| match &s.fault {
            Some(Fault::Plugin { spec, .. }) => is_line(spec, 1000),
            _ => true,
        },
    ),
    together(
        "fault.kind",
        "a word of at most 64 letters, digits, `-`, `_` and `.`",
        |s| match &s.fault {
            Some(Fault::Evidence { kind, .. }) => is_word(kind, 64),
            _ => true,
        },
    ),
    together(
        "fault.side",
        "\"recv\": only a receive is ever consumed",
        |s| match &s.fault {
            Some(Fault::Driver { side, kind, .. }) => {
                !kind.needs_receiver() || *side == Sides::Recv
            }
            _ => true,
        },
    ),
    together(
        "fault.channel",
        "a channel of the transfer: 0 to connections - 1",
        |s| match &s.fault {
            Some(
                Fault::Driver { channel, .. }
                | Fault::Network {
                    channel: Some(channel),
                    ..
                },
            ) => *channel < s.transfer.connections,
            _ => true,
        },
    ),
    rule(
        "fault.percent",
        "a whole number from 1 to 100",
        |s| match &s.fault {
            Some(Fault::Network {
                percent: Some(percent),
                ..
            }) => (1..=100).contains(percent),
            _ => true,
        },
    ),
    rule(
        "expect.outcome",
        "passed, failed, stalled, plugin-died, peer-lost, not-run or interrupted",
        |s| s.expect.outcome != Some(Outcome::Usage),
    ),
    rule(
        "expect.finding",
        "a condition's name, such as \"window-never-consumed\"",
        |s| {
            s.expect
                .finding
                .as_ref()
                .is_none_or(|finding| is_word(finding, 64))
        },
    ),
    rule("expect.plugin", "the name a plugin gives itself", |s| {
        s.expect
            .plugin
            .as_ref()
            .is_none_or(|plugin| is_line(plugin, 100))
    }),
    rule(
        "expect.min_gb_per_s",
        "a number above zero and up to 100000, in 10^9 bytes per second",
        |s| {
            s.expect
                .min_gb_per_s
                .is_none_or(|rate| rate.get() > 0.0 && rate.get() <= 100_000.0)
        },
    ),
];

/// The rules of every key.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().chain(TRAFFIC_RULES)
}

impl Scenario {
    /// Checks that every value is within its range.
    ///
    /// # Errors
    /// The first key that is not, with what was expected.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.refused()
            .map_or(Ok(()), |refused| Err(ScenarioError::InvalidValue(refused)))
    }

    /// Checks what depends on the plugin. `longest` is the device with the smallest maximum message
    /// size, and that size in bytes.
    ///
    /// # Errors
    /// A chunk above 4 MiB with a plugin of the TCPX family, or above that size.
    pub fn check_against_plugin(
        &self,
        family: PluginFamily,
        longest: Option<(&str, u64)>,
    ) -> Result<(), ScenarioError> {
        let chunk = self.transfer.chunk;
        let expected = match longest.filter(|(_, bytes)| *bytes < chunk.0) {
            _ if family.has_tcpx_semantics() && chunk > TCPX_CHUNK_MAX => {
                "at most 4MiB with a plugin of the TCPX family: one receive unpacks no more"
                    .to_owned()
            }
            Some((device, bytes)) => {
                format!("at most {bytes}, the longest message of device {device} (maxP2pBytes)")
            }
            None => return Ok(()),
        };
        Err(ScenarioError::InvalidValue(
            self.refuse("transfer.chunk", expected),
        ))
    }

    pub(super) fn refused(&self) -> Option<InvalidValue> {
        let broken = all().find(|rule| !(rule.holds)(self));
        broken
            .map(|rule| self.refuse(rule.key, rule.expected.to_owned()))
            .or_else(|| self.refused_variable())
    }

    fn refuse(&self, key: &str, expected: String) -> InvalidValue {
        InvalidValue {
            key: key.to_owned(),
            value: self.leaves().remove(key),
            expected,
        }
    }

    fn refused_variable(&self) -> Option<InvalidValue> {
        let (count, bytes) = self.env.size();
        if count > VARIABLES_MAX || bytes > VARIABLES_BYTES_MAX {
            let expected = format!(
                "at most {VARIABLES_MAX} variables of {VARIABLES_BYTES_MAX} bytes together"
            );
            return Some(self.refuse("env", expected));
        }
        let mut variables = self
            .env
            .tables()
            .flat_map(|(under, table)| table.iter().map(move |entry| (under.clone(), entry)));
        let is_sound = |name: &String, value: &String| {
            is_variable(name) && is_value(value) && name != ABI_VARIABLE
        };
        let (under, (name, _)) = variables.find(|(_, (name, value))| !is_sound(name, value))?;
        let expected = match name.as_str() {
            ABI_VARIABLE => "plugin.abi instead: no worker reads this variable".to_owned(),
            name if is_variable(name) => {
                format!("at most {VALUE_BYTES_MAX} bytes without control characters")
            }
            _ => "a name of letters, digits and `_` that does not start with a digit".to_owned(),
        };
        let path: Vec<&str> = under
            .iter()
            .map(String::as_str)
            .chain([name.as_str()])
            .collect();
        Some(self.refuse(&super::identity::dotted(&path), expected))
    }
}

fn deadline(time: TimeSpan) -> bool {
    !time.0.is_zero() && time.0 <= LIMIT_MAX
}

fn idle(scenario: &Scenario) -> bool {
    match scenario.progress.idle {
        Idle::Sleep(time) => !time.0.is_zero() && time.0 <= Duration::from_millis(100),
        _ => true,
    }
}

fn gpus(scenario: &Scenario) -> bool {
    match &scenario.topology.gpus {
        Gpus::Auto => true,
        Gpus::StandIns(count) | Gpus::OrStandIns(count) => (1..=64).contains(count),
        Gpus::List(gpus) => are_different(gpus),
    }
}

fn nics(scenario: &Scenario) -> bool {
    match &scenario.topology.nics {
        Nics::Auto => true,
        Nics::First(count) => (1..=64).contains(count),
        Nics::List(nics) => is_nic_list(nics),
    }
}

fn is_nic_list(nics: &[String]) -> bool {
    are_different(nics) && nics.iter().all(|nic| is_interface(nic))
}

fn mesh_rails(scenario: &Scenario) -> bool {
    match scenario.mesh.as_ref().map(|mesh| &mesh.rails) {
        None | Some(Rails::Each | Rails::All) => true,
        Some(Rails::List(nics)) => is_nic_list(nics),
    }
}

fn nic_map(scenario: &Scenario) -> bool {
    match &scenario.topology.map {
        NicMap::Nearest | NicMap::RoundRobin | NicMap::All => true,
        NicMap::Fixed(map) => {
            let entry =
                |(gpu, nics): (&String, &MappedNics)| is_gpu(gpu) && is_nic_list(nics.names());
            (1..=64).contains(&map.len()) && map.iter().all(entry)
        }
    }
}

fn lanes(scenario: &Scenario) -> bool {
    match &scenario.topology.lanes {
        GpuLanes::Same | GpuLanes::All => true,
        GpuLanes::Fixed(map) => {
            let entry =
                |(gpu, peers): (&String, &PeerGpus)| is_gpu(gpu) && are_different(peers.numbers());
            (1..=64).contains(&map.len()) && map.iter().all(entry)
        }
    }
}

/// A number as CUDA counts GPUs, written in one way only.
fn is_gpu(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|gpu| gpu.to_string() == text)
}

fn are_different<T: Ord>(items: &[T]) -> bool {
    (1..=64).contains(&items.len()) && items.iter().collect::<BTreeSet<_>>().len() == items.len()
}

/// One line that a terminal can show.
fn is_line(text: &str, chars_max: usize) -> bool {
    !text.trim().is_empty()
        && text.chars().count() <= chars_max
        && text == super::error::printable(text, chars_max)
}

fn is_word(text: &str, chars_max: usize) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    (1..=chars_max).contains(&text.len()) && text.chars().all(fits)
}

/// As the kernel's `dev_valid_name`: at most 15 bytes, no slash, colon or space.
fn is_interface(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
    (1..=15).contains(&name.len()) && name != "." && name != ".." && name.chars().all(fits)
}

fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && name.len() <= 128 && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_value(value: &str) -> bool {
    value.len() <= VALUE_BYTES_MAX && !value.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound() {
        assert!(Scenario::default().check().is_ok());
        assert!(
            Scenario::default()
                .check_against_plugin(PluginFamily::Tcpx, None)
                .is_ok()
        );
        let refused = Scenario::default()
            .check_against_plugin(PluginFamily::Other, Some(("eth1", 1000)))
            .expect_err("512 KiB");
        assert!(
            refused
                .to_string()
                .contains("at most 1000, the longest message of device eth1"),
            "{refused}"
        );
        assert!(
            Scenario::default()
                .check_against_plugin(PluginFamily::Other, Some(("eth1", 512 << 10)))
                .is_ok()
        );
    }

    #[test]
    fn only_the_tcpx_family_bounds_the_chunk_at_four_mib() {
        let mut scenario = Scenario::default();
        for (chunk, tcpx) in [
            (4u64 << 20, true),
            ((4 << 20) + 1, false),
            (CHUNK_MAX, false),
        ] {
            scenario.transfer.chunk = ByteCount(chunk);
            assert!(scenario.check().is_ok(), "{chunk}");
            assert!(
                scenario
                    .check_against_plugin(PluginFamily::Other, None)
                    .is_ok(),
                "{chunk}"
            );
            assert_eq!(
                scenario
                    .check_against_plugin(PluginFamily::Tcpx, None)
                    .is_ok(),
                tcpx,
                "{chunk}"
            );
        }
    }

    #[test]
    fn a_total_need_not_be_a_multiple_of_the_chunk() {
        let mut scenario = Scenario::default();
        scenario.transfer.total = ByteCount(1_000_003);
        assert!(scenario.check().is_ok());
        scenario.transfer.total = ByteCount(1);
        assert!(scenario.check().is_ok());
    }

    #[test]
    fn the_same_rules_hold_for_json_from_a_peer() {
        let mut scenario = Scenario::default();
        scenario.transfer.recv_window = 17;
        let json = serde_json::to_string(&scenario).expect("serialises");
        let refused = Scenario::from_json(&json)
            .expect_err("window 17")
            .to_string();
        assert_eq!(
            refused,
            "`transfer.recv_window` cannot be 17: expected a whole number from 1 to 16: a plugin's comm has 16 request slots"
        );
    }
}
