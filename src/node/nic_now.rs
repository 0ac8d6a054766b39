//! The state and counters of one interface at this moment.
#![forbid(unsafe_code)]

use super::ethtool::Ethtool;
use super::nic::is_down_state;
use super::{Fact, Root, nic_counters};
use serde::{Deserialize, Serialize};

/// An interface at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicNow {
    /// Name of the interface.
    pub name: String,
    /// RFC 2863 state.
    pub operstate: Fact<String>,
    /// Names and values of the kernel's counters, then of the driver's counters about device
    /// memory, header split and drops, per queue if the driver has them.
    pub counters: Vec<(String, u64)>,
}

impl NicNow {
    /// Reads one interface. `name` may come from a plugin and must not be a path.
    pub fn read(root: &Root, name: &str) -> Self {
        let is_name = !name.contains('/') && !name.starts_with('.');
        let operstate = if is_name {
            root.line(&format!("/sys/class/net/{name}/operstate"))
        } else {
            Fact::unknown("not the name of an interface")
        };
        let mut counters = nic_counters(root, name);
        if is_name
            && let Some(driver) = Ethtool::read(root, name).known()
            && let Some(more) = driver.counters.known()
        {
            counters.extend(more.iter().map(|(name, count)| (name.clone(), *count)));
        }
        Self {
            name: name.to_owned(),
            operstate,
            counters,
        }
    }

    /// Whether the interface is known to be down.
    pub fn is_down(&self) -> bool {
        self.operstate
            .known()
            .is_some_and(|state| is_down_state(state))
    }
}
