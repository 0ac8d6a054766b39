//! Processors, NUMA nodes and memory.
#![forbid(unsafe_code)]

use crate::root::{printable, unexpected};
use crate::{Fact, Root};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Highest CPU number taken from a list; the kernel's own limit is 8192.
const CPU_MAX: u32 = 65_535;

/// A set of CPUs in the kernel's syntax: `0-51,104-155`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuList(Vec<RangeInclusive<u32>>);

/// The text is not a CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a CPU list such as 0-51,104-155")]
pub struct BadCpuList(String);

impl CpuList {
    /// The number of CPUs; a CPU that is listed twice counts once.
    pub(crate) fn len(&self) -> usize {
        self.iter().collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Whether the list is empty, as for a NUMA node without CPUs.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is in the list.
    pub(crate) fn contains(&self, cpu: u32) -> bool {
        self.0.iter().any(|range| range.contains(&cpu))
    }

    /// The CPUs, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().cloned().flatten()
    }
}

/// Joins consecutive CPUs into ranges.
impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        for cpu in cpus.into_iter().collect::<std::collections::BTreeSet<_>>() {
            match ranges.last_mut() {
                Some(last) if last.end().checked_add(1) == Some(cpu) => *last = *last.start()..=cpu,
                _ => ranges.push(cpu..=cpu),
            }
        }
        Self(ranges)
    }
}

impl FromStr for CpuList {
    type Err = BadCpuList;
    fn from_str(text: &str) -> Result<Self, BadCpuList> {
        let number = |digits: &str| digits.parse().ok().filter(|cpu| *cpu <= CPU_MAX);
        let range = |part: &str| match part.split_once('-') {
            Some((low, high)) => {
                Some(number(low)?..=number(high)?).filter(|range| !range.is_empty())
            }
            None => number(part).map(|cpu| cpu..=cpu),
        };
        let text = text.trim();
        let parts = text.split(',').filter(|_| !text.is_empty());
        let ranges: Option<Vec<_>> = parts.map(range).collect();
        ranges
            .filter(|ranges| ranges.len() <= CPU_MAX as usize)
            .map(Self)
            .ok_or_else(|| BadCpuList(text.chars().take(40).collect()))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |range: &RangeInclusive<u32>| match (range.start(), range.end()) {
            (low, high) if low == high => low.to_string(),
            (low, high) => format!("{low}-{high}"),
        };
        f.pad(&self.0.iter().map(part).collect::<Vec<_>>().join(","))
    }
}

impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Number of the node.
    pub id: u32,
    /// CPUs of the node.
    pub cpus: Fact<CpuList>,
}

/// The processors of a machine, and its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Model name of the first processor.
    pub model: Fact<String>,
    /// Logical CPUs that are online.
    pub online: Fact<CpuList>,
    /// The number of online CPUs.
    pub count: Fact<usize>,
    /// NUMA nodes, by number.
    pub numa_nodes: Fact<Vec<NumaNode>>,
    /// Usable memory, in bytes (`MemTotal`).
    pub memory_total_bytes: Fact<u64>,
    /// Memory that can be allocated without swapping, in bytes (`MemAvailable`).
    pub memory_available_bytes: Fact<u64>,
}

impl Cpu {
    /// Reads `/proc` and `/sys`.
    pub(crate) fn read(root: &Root) -> Self {
        let online: Fact<CpuList> = root.parsed("/sys/devices/system/cpu/online");
        let meminfo = root.text("/proc/meminfo");
        Self {
            model: root
                .text("/proc/cpuinfo")
                .and_then(|text| field(&text, "model name", "/proc/cpuinfo")),
            count: online.as_ref().map(CpuList::len),
            online,
            numa_nodes: numa_nodes(root),
            memory_total_bytes: meminfo
                .as_ref()
                .and_then(|text| kilobytes(text, "MemTotal")),
            memory_available_bytes: available_in(&meminfo),
        }
    }
}

/// Memory that can be allocated without swapping, in bytes (`MemAvailable`).
pub fn memory_available(root: &Root) -> Fact<u64> {
    available_in(&root.text("/proc/meminfo"))
}

fn available_in(meminfo: &Fact<String>) -> Fact<u64> {
    meminfo
        .as_ref()
        .and_then(|text| kilobytes(text, "MemAvailable"))
}

fn numa_nodes(root: &Root) -> Fact<Vec<NumaNode>> {
    let folder = "/sys/devices/system/node";
    root.names(folder).map(|names| {
        let ids = names
            .iter()
            .filter_map(|name| name.strip_prefix("node")?.parse().ok());
        let mut ids: Vec<u32> = ids.collect();
        ids.sort_unstable();
        ids.into_iter()
            .map(|id| NumaNode {
                id,
                cpus: cpus_of(root, &format!("{folder}/node{id}/cpulist")),
            })
            .collect()
    })
}

/// As [`Root::parsed`], but an empty file is an empty list: the node has memory and no CPU.
fn cpus_of(root: &Root, path: &str) -> Fact<CpuList> {
    root.text(path).and_then(|text| {
        text.parse()
            .map_or_else(|_| unexpected(path, &text), Fact::Known)
    })
}

/// The value of the first `key: value` line. `file` is named in the reason if there is none.
pub(super) fn field(text: &str, key: &str, file: &str) -> Fact<String> {
    let values = text.lines().filter_map(|line| line.split_once(':'));
    let value = values
        .filter(|(name, _)| name.trim() == key)
        .map(|(_, value)| printable(value))
        .next();
    value
        .filter(|value| !value.is_empty())
        .ok_or_else(|| format!("{file}: no `{key}` line"))
        .into()
}

fn kilobytes(text: &str, key: &str) -> Fact<u64> {
    field(text, key, "/proc/meminfo").and_then(|value| {
        let number = value
            .strip_suffix("kB")
            .and_then(|number| number.trim().parse::<u64>().ok());
        let bytes = number.and_then(|number| number.checked_mul(1024));
        bytes.map_or_else(
            || unexpected("/proc/meminfo", &format!("{key}: {value}")),
            Fact::Known,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpu_lists_are_parsed_as_the_kernel_writes_them() {
        for (text, count) in [
            ("0-51,104-155", 104),
            ("0", 1),
            ("", 0),
            ("0,2,4-5", 4),
            ("1-2,2-3\n", 3),
        ] {
            assert_eq!(
                text.parse::<CpuList>().map(|list| list.len()),
                Ok(count),
                "{text}"
            );
        }
        let node: CpuList = "52-103,156-207".parse().unwrap();
        assert!(node.contains(52) && node.contains(207) && !node.contains(104));
        for text in ["-1", "3-1", "a", "0-", "0,,1", "0-4294967295", "0;1"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_meminfo_line_without_kb_is_rejected() {
        assert_eq!(
            kilobytes("MemTotal:  16 kB\n", "MemTotal"),
            Fact::Known(16_384)
        );
        for text in [
            "MemTotal: 16 MB",
            "MemTotal: -1 kB",
            "MemTotal: 18446744073709551615 kB",
            "Mem: 1 kB",
        ] {
            assert_eq!(kilobytes(text, "MemTotal").known(), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_parsed_cpu_list_prints_and_parses_again(text in "[0-9,\\- x]{0,40}") {
            if let Ok(list) = text.parse::<CpuList>() {
                prop_assert_eq!(list.to_string().parse::<CpuList>(), Ok(list));
            }
        }
    }
}
