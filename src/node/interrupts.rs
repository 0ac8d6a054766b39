//! Interrupts of PCI functions, and the CPUs that serve them.
//!
//! `/proc/interrupts` names the function: gve calls its interrupts
//! `gve-ntfy-blkN@pci:0000:06:00.0`, and newer kernels have the function in the chip's name
//! (`PCI-MSIX-0000:06:00.0`). Interrupt numbers are not used: the ranges of two NICs are
//! adjacent, and an error of one in counting gives the wrong NUMA node.
#![forbid(unsafe_code)]

use crate::cpu::CpuList;
use crate::{Fact, PciAddress, Root};
use serde::{Deserialize, Serialize};

/// Most bytes that are read. A line has one counter per CPU: 208 CPUs and 400 lines are a
/// megabyte.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most interrupts that are kept; no machine has as many for its NICs.
const LINES_MAX: usize = 4096;

/// One interrupt of a PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Interrupt number, which may change at the next boot.
    pub number: u32,
    /// Name that the driver gave the interrupt.
    pub name: String,
    /// The PCI function.
    pub pci_address: PciAddress,
    /// The CPUs that serve the interrupt.
    pub cpus: Fact<CpuList>,
}

impl Interrupt {
    /// Reads the interrupts of the functions for which `wanted` is true.
    pub(crate) fn read(root: &Root, wanted: impl Fn(PciAddress) -> bool) -> Fact<Vec<Self>> {
        root.text_within("/proc/interrupts", FILE_BYTES_MAX)
            .map(|text| {
                let named = text
                    .lines()
                    .filter_map(parse)
                    .filter(|(_, _, at)| wanted(*at))
                    .take(LINES_MAX);
                named
                    .map(|(number, name, pci_address)| Self {
                        number,
                        name,
                        pci_address,
                        cpus: cpus(root, number),
                    })
                    .collect()
            })
    }

    /// Whether the interrupt is for packets rather than for the device's state.
    pub(crate) fn carries_data(&self) -> bool {
        !self.name.contains("mgmnt") && !self.name.contains("config")
    }
}

/// The CPUs that the kernel chose, or the set that it may choose from.
fn cpus(root: &Root, number: u32) -> Fact<CpuList> {
    let read = |file: &str| root.parsed::<CpuList>(&format!("/proc/irq/{number}/{file}"));
    match read("effective_affinity_list") {
        Fact::Known(list) if !list.is_empty() => Fact::Known(list),
        _ => read("smp_affinity_list"),
    }
}

/// `112:  0 … 0  PCI-MSI 1572865-edge  gve-ntfy-blk0@pci:0000:06:00.0`
fn parse(line: &str) -> Option<(u32, String, PciAddress)> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim().parse().ok()?;
    let words = || {
        rest.split_whitespace()
            .skip_while(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let name = words().last()?;
    let in_name = name.split_once("@pci:").and_then(|(_, at)| at.parse().ok());
    let in_chip = || {
        words().find_map(|word| {
            word.strip_prefix("PCI-MSI")?
                .split_once('-')?
                .1
                .parse()
                .ok()
        })
    };
    Some((number, crate::printable(name), in_name.or_else(in_chip)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_pci_function_is_in_the_name_or_in_the_chip() {
        for (line, expected) in [
            (
                " 112:   7   0  PCI-MSI 3145729-edge      gve-ntfy-blk0@pci:0000:06:00.0",
                Some((112, "gve-ntfy-blk0@pci:0000:06:00.0", "0000:06:00.0")),
            ),
            (
                " 42:   0  17959 PCI-MSIX-0000:00:04.0   2-edge      virtio3-tx",
                Some((42, "virtio3-tx", "0000:00:04.0")),
            ),
            ("LOC:    8671355    9120416   Local timer interrupts", None),
            ("  8:   0   0  IO-APIC   8-edge      rtc0", None),
            ("ERR:          0", None),
            ("", None),
        ] {
            let parsed = parse(line);
            let seen = parsed
                .as_ref()
                .map(|(number, name, at)| (*number, name.as_str(), at.to_string()));
            assert_eq!(
                seen,
                expected.map(|(number, name, at)| (number, name, at.to_owned())),
                "{line}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_line_is_parsed_or_skipped(line in "[ -~é\u{1b}]{0,80}") {
            if let Some((_, name, _)) = parse(&line) {
                prop_assert!(!name.chars().any(char::is_control));
            }
        }
    }
}
