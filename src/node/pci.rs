//! PCI addresses, and the host bridge in a device's sysfs path.
#![forbid(unsafe_code)]

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// `domain:bus:device.function`, as sysfs writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain; four hexadecimal digits, or more below some host bridges.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number, below 32.
    pub device: u8,
    /// Function number, below 8.
    pub function: u8,
}

/// The text is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a PCI address such as 0000:06:00.0")]
pub struct BadPciAddress(String);

impl FromStr for PciAddress {
    type Err = BadPciAddress;
    fn from_str(text: &str) -> Result<Self, BadPciAddress> {
        let read = || {
            let (rest, function) = text.rsplit_once('.')?;
            let mut parts = rest.split(':');
            let address = Self {
                domain: hex(parts.next()?, 4..=8)?,
                bus: u8::try_from(hex(parts.next()?, 2..=2)?).ok()?,
                device: u8::try_from(hex(parts.next()?, 2..=2)?)
                    .ok()
                    .filter(|device| *device < 32)?,
                function: u8::try_from(hex(function, 1..=1)?)
                    .ok()
                    .filter(|function| *function < 8)?,
            };
            parts.next().is_none().then_some(address)
        };
        read().ok_or_else(|| BadPciAddress(text.chars().take(40).collect()))
    }
}

fn hex(digits: &str, width: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let valid =
        width.contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    valid
        .then(|| u32::from_str_radix(digits, 16).ok())
        .flatten()
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        f.pad(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// The last PCI function in a sysfs device path: `0000:00:03.0` for
/// `…/0000:00:03.0/virtio2`.
pub(crate) fn address_in(path: &str) -> Option<PciAddress> {
    path.rsplit('/').find_map(|part| part.parse().ok())
}

/// The host bridge in a sysfs device path, its `pciDDDD:BB` part.
pub(crate) fn root_in(path: &str) -> Option<&str> {
    path.split('/').find(|part| {
        part.strip_prefix("pci")
            .and_then(|rest| rest.split_once(':'))
            .is_some_and(|(domain, bus)| hex(domain, 4..=8).is_some() && hex(bus, 2..=2).is_some())
    })
}

/// The number of bridges that two device paths share, including the host bridge; 0 if either
/// has no host bridge.
pub fn shared_bridges(one: &str, other: &str) -> usize {
    let below_root = |path: &str| root_in(path).and_then(|root| path.find(root));
    let (Some(from_one), Some(from_other)) = (below_root(one), below_root(other)) else {
        return 0;
    };
    let parts = one[from_one..]
        .split('/')
        .zip(other[from_other..].split('/'));
    parts.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_as_it_is_parsed() {
        for text in ["0000:06:00.0", "0000:8c:1f.7", "10000:e1:00.0"] {
            assert_eq!(
                text.parse::<PciAddress>()
                    .map(|address| address.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
        assert_eq!(
            "0000:8C:00.0".parse::<PciAddress>().unwrap().to_string(),
            "0000:8c:00.0"
        );
        for text in [
            "",
            "06:00.0",
            "0000:06:00",
            "0000:06:20.0",
            "0000:06:00.8",
            "0000:+6:00.0",
            "0:0000:06:00.0",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_has_one_address_and_one_root() {
        let virtio = "/sys/devices/pci0000:00/0000:00:03.0/virtio2";
        assert_eq!(
            address_in(virtio)
                .map(|address| address.to_string())
                .as_deref(),
            Some("0000:00:03.0")
        );
        assert_eq!(root_in(virtio), Some("pci0000:00"));
        let none = "/sys/devices/virtual/net/pci";
        assert_eq!((address_in(none), root_in(none)), (None, None));
    }

    #[test]
    fn bridges_are_counted_from_the_root() {
        let switch = "/sys/devices/pci0000:01/0000:01:00.0/0000:02:00.0";
        let gpu = format!("{switch}/0000:03:00.0/0000:04:00.0");
        let nic = format!("{switch}/0000:03:02.0/0000:06:00.0");
        assert_eq!(shared_bridges(&gpu, &nic), 3);
        assert_eq!(
            shared_bridges(&gpu, "/sys/devices/pci0000:07/0000:07:00.0"),
            0
        );
        assert_eq!(
            shared_bridges("/sys/devices/virtual/net/lo", "/sys/devices/virtual/net/lo"),
            0
        );
    }
}
