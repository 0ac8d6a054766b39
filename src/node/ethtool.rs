//! Settings and counters of a network driver, by the ioctl that `ethtool` uses; the program
//! is not needed.
//!
//! Header split is in one of three places: a private flag of gve on kernels before 6.8
//! (`enable-strict-header-split`), a ring parameter on later kernels, which only netlink
//! has (`ethtool_netlink`), or, in some field notes, a feature. All are read;
//! [`Ethtool::header_split`] decides which one counts.
#![expect(unsafe_code, reason = "SIOCETHTOOL takes a pointer inside a union")]

use crate::{Fact, Root, ethtool_netlink};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::{AddressFamily, SocketType, socket};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

// <linux/ethtool.h>
const GET_DRIVER_INFO: u32 = 0x03;
const GET_RINGS: u32 = 0x10;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_PRIVATE_FLAGS: u32 = 0x27;
const GET_STRING_SET_SIZES: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const GET_CHANNELS: u32 = 0x3c;
const STATISTICS: u32 = 1;
const PRIVATE_FLAGS: u32 = 2;
const FEATURES: u32 = 4;
const NAME_BYTES: usize = 32;
/// Most strings in one set; no driver has as many.
const STRINGS_MAX: u32 = 8192;

/// Features and statistics that matter for TCPX; the others are left out.
const FEATURES_KEPT: [&str; 2] = ["rx-ntuple-filter", "tcp-data-split"];
const STATISTICS_KEPT: [&str; 5] = ["devmem", "_sph", "_hbo", "hsplit", "dropped"];

/// Answers of the driver of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ethtool {
    /// Name of the driver.
    pub driver: Fact<String>,
    /// Version of the driver.
    pub driver_version: Fact<String>,
    /// Every private flag, by name.
    pub private_flags: Fact<BTreeMap<String, bool>>,
    /// The features that matter for TCPX, if the kernel has them.
    pub features: Fact<BTreeMap<String, bool>>,
    /// `on`, `off` or `auto`: the ring parameter of kernel 5.17 and later.
    pub tcp_data_split: Fact<String>,
    /// Receive ring entries, as set.
    pub rx_ring: Fact<u32>,
    /// Receive queues, combined ones included.
    pub rx_queues: Fact<u32>,
    /// Counters about device memory, header split and drops, since the driver started.
    pub counters: Fact<BTreeMap<String, u64>>,
}

impl Ethtool {
    /// Asks the driver of `interface`.
    pub(crate) fn read(root: &Root, interface: &str) -> Fact<Self> {
        root.ask(&format!("ethtool-{interface}"), || {
            Fact::Known(Self::query(interface))
        })
    }

    fn query(interface: &str) -> Self {
        let driver = Driver::open(interface);
        Self {
            driver: answer(&driver, |driver| driver.info(4)),
            driver_version: answer(&driver, |driver| driver.info(36)),
            private_flags: answer(&driver, Driver::private_flags),
            features: answer(&driver, Driver::features),
            tcp_data_split: ethtool_netlink::tcp_data_split(interface)
                .map_err(|error| format!("ethtool netlink: {error}"))
                .into(),
            rx_ring: answer(&driver, |driver| driver.word(GET_RINGS, 5)),
            // Combined channels receive too.
            rx_queues: answer(&driver, |driver| {
                Ok(driver
                    .word(GET_CHANNELS, 5)?
                    .saturating_add(driver.word(GET_CHANNELS, 8)?))
            }),
            counters: answer(&driver, Driver::counters),
        }
    }

    /// Whether header split is on, and which setting says so. `None` if the driver has none of
    /// the settings.
    pub(crate) fn header_split(&self) -> Option<(bool, &'static str)> {
        let flag =
            |flags: &Fact<BTreeMap<String, bool>>, name: &str| flags.known()?.get(name).copied();
        let private = || flag(&self.private_flags, "enable-strict-header-split");
        let plain = || flag(&self.private_flags, "enable-header-split");
        let ring = || self.tcp_data_split.known().map(|word| word == "on");
        let feature = || flag(&self.features, "tcp-data-split");
        private()
            .map(|on| (on, "private flag enable-strict-header-split"))
            .or_else(|| plain().map(|on| (on, "private flag enable-header-split")))
            .or_else(|| ring().map(|on| (on, "ring parameter tcp-data-split")))
            .or_else(|| feature().map(|on| (on, "feature tcp-data-split")))
    }
}

fn answer<T>(driver: &io::Result<Driver>, question: impl Fn(&Driver) -> io::Result<T>) -> Fact<T> {
    let driver = match driver {
        Ok(driver) => driver,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    match question(driver) {
        Ok(answer) => Fact::Known(answer),
        Err(error) => Fact::unknown(error.to_string()),
    }
}

/// A socket for ioctls to the driver of one interface.
struct Driver {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Driver {
    fn open(interface: &str) -> io::Result<Self> {
        let mut name = [0; libc::IFNAMSIZ];
        if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
            return Err(io::Error::other("not the name of an interface"));
        }
        for (to, byte) in name.iter_mut().zip(interface.bytes()) {
            *to = byte.cast_signed();
        }
        Ok(Self {
            socket: socket(AddressFamily::INET, SocketType::DGRAM, None)?,
            name,
        })
    }

    /// Sends one command. `words` starts with its number and receives the answer.
    fn ask(&self, words: &mut [u32]) -> io::Result<()> {
        let mut request = libc::ifreq {
            ifr_name: self.name,
            ifr_ifru: libc::__c_anonymous_ifr_ifru {
                ifru_data: words.as_mut_ptr().cast(),
            },
        };
        // SAFETY: the kernel writes at most what the question's own lengths say,
        // and every caller sizes `words` by them; both outlive the call.
        let answer =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
        if answer < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// The text at byte `at` of `struct ethtool_drvinfo`: 32 bytes each for name, version, …
    fn info(&self, at: usize) -> io::Result<String> {
        // The struct has 196 bytes; 256 are enough.
        let mut words = [0; 64];
        words[0] = GET_DRIVER_INFO;
        self.ask(&mut words)?;
        let text = text_at(&words, at);
        if text.is_empty() {
            Err(io::Error::other("the driver reports an empty text"))
        } else {
            Ok(text)
        }
    }

    /// Word `at` of an answer of at most sixteen words.
    fn word(&self, question: u32, at: usize) -> io::Result<u32> {
        let mut words = [0; 16];
        words[0] = question;
        self.ask(&mut words)?;
        Ok(words[at])
    }

    fn names(&self, set: u32) -> io::Result<Vec<String>> {
        let mut sizes = [GET_STRING_SET_SIZES, 0, 1 << set, 0, 0, 0];
        self.ask(&mut sizes)?;
        // The kernel clears the bit of a set that it does not have.
        let count = if sizes[2] & (1 << set) == 0 {
            0
        } else {
            sizes[4].min(STRINGS_MAX)
        };
        let mut words = vec![0; 3 + count as usize * NAME_BYTES / 4];
        words[..3].copy_from_slice(&[GET_STRINGS, set, count]);
        if count > 0 {
            self.ask(&mut words)?;
        }
        Ok((0..count as usize)
            .map(|index| text_at(&words, 12 + index * NAME_BYTES))
            .collect())
    }

    fn private_flags(&self) -> io::Result<BTreeMap<String, bool>> {
        let names = self.names(PRIVATE_FLAGS)?;
        let mut words = [GET_PRIVATE_FLAGS, 0];
        if !names.is_empty() {
            self.ask(&mut words)?;
        }
        Ok(names
            .into_iter()
            .take(32)
            .enumerate()
            .map(|(bit, name)| (name, words[1] & (1 << bit) != 0))
            .collect())
    }

    fn features(&self) -> io::Result<BTreeMap<String, bool>> {
        let names = self.names(FEATURES)?;
        let blocks = names.len().div_ceil(32);
        let mut words = vec![0; 2 + blocks * 4];
        words[..2].copy_from_slice(&[GET_FEATURES, blocks as u32]);
        self.ask(&mut words)?;
        // Of each block: available, requested, active, never changed.
        let active = |bit: usize| {
            words
                .get(2 + bit / 32 * 4 + 2)
                .is_some_and(|word| word & (1 << (bit % 32)) != 0)
        };
        let all = names
            .into_iter()
            .enumerate()
            .map(|(bit, name)| (name, active(bit)));
        Ok(all
            .filter(|(name, _)| FEATURES_KEPT.contains(&name.as_str()))
            .collect())
    }

    fn counters(&self) -> io::Result<BTreeMap<String, u64>> {
        let names = self.names(STATISTICS)?;
        let mut words = vec![0; 2 + names.len() * 2];
        words[..2].copy_from_slice(&[GET_STATISTICS, names.len() as u32]);
        if !names.is_empty() {
            self.ask(&mut words)?;
        }
        let count = |index: usize| match words.get(2 + index * 2..4 + index * 2) {
            Some([low, high]) => u64::from(*low) | u64::from(*high) << 32,
            _ => 0,
        };
        let kept = |name: &str| STATISTICS_KEPT.iter().any(|part| name.contains(part));
        Ok(names
            .into_iter()
            .enumerate()
            .filter(|(_, name)| kept(name))
            .map(|(at, name)| (name, count(at)))
            .collect())
    }
}

/// The NUL-terminated text at byte `at` of an answer.
fn text_at(words: &[u32], at: usize) -> String {
    let bytes = words
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .skip(at)
        .take(NAME_BYTES);
    let text: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    crate::printable(&String::from_utf8_lossy(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_features_and_no_header_split() {
        let lo = Ethtool::query("lo");
        assert!(lo.features.known().is_some(), "{lo:?}");
        assert_eq!(lo.header_split(), None, "{lo:?}");
        let none = Ethtool::query("no-such-nic");
        assert!(none.driver.why().is_some() && none.features.why().is_some());
    }

    #[test]
    fn the_private_flag_of_gve_takes_precedence() {
        let mut answers = Ethtool {
            driver: Fact::unknown("x"),
            driver_version: Fact::unknown("x"),
            private_flags: Fact::unknown("x"),
            features: Fact::unknown("x"),
            tcp_data_split: Fact::Known("on".to_owned()),
            rx_ring: Fact::unknown("x"),
            rx_queues: Fact::unknown("x"),
            counters: Fact::unknown("x"),
        };
        assert_eq!(answers.header_split().map(|(on, _)| on), Some(true));
        answers.private_flags =
            Fact::Known([("enable-strict-header-split".to_owned(), false)].into());
        assert_eq!(answers.header_split().map(|(on, _)| on), Some(false));
    }
}
