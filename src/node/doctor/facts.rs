//! Everything that the doctor reads of a node, as one document. An agent sends it, and a
//! captured tree yields the same.
#![forbid(unsafe_code)]

use crate::ethtool::Ethtool;
use crate::interrupts::Interrupt;
use crate::libraries::{self, Library};
use crate::manager::{self, Manager};
use crate::nvml::GpuMemory;
use crate::plugin_files::{PluginFile, plugin_files};
use crate::processes::PluginUsers;
use crate::system::{self, Mount, System};
use crate::{Fact, NodeFacts, PciAddress, Root, environment, sockets};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most interfaces whose drivers are queried. No machine has more rails.
const INTERFACES_MAX: usize = 64;
const NOT_READ: &str = "not read before a run";

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What the critical checks need. Takes a few milliseconds, before every run.
    Critical,
    /// Everything.
    All,
}

/// What is read of a node.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Variables that a worker gets; they override the node's own environment.
    pub environment: &'a BTreeMap<String, String>,
    /// How much is read.
    pub depth: Depth,
    /// The plugin file to examine; `None` examines every file that could be the plugin.
    pub plugin: Option<&'a Path>,
}

/// Libraries that the plugin and its users load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Libraries {
    /// `libcuda.so.1`, from the GPU driver.
    pub cuda: Fact<Library>,
    /// `libnccl.so.2`.
    pub nccl: Fact<Library>,
}

/// Results of loading the plugin and CUDA, each in a separate process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tested {
    /// The number of CUDA devices after `cuInit`.
    pub cuda_devices: Fact<usize>,
    /// The name in the plugin's table, after `init` succeeded.
    pub plugin_name: Fact<String>,
    /// The version in the plugin's log.
    pub plugin_version: Fact<String>,
}

/// The facts of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorFacts {
    /// The facts that `discover` prints. Their environment is the one that is checked: a
    /// worker's environment, if it is known.
    pub node: NodeFacts,
    /// Why the environment is unknown: a captured tree may not contain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_environment: Option<String>,
    /// Machine, kernel settings, kernel log and device files.
    pub system: System,
    /// Mounted file systems.
    pub mounts: Fact<Vec<Mount>>,
    /// Answers of the drivers of physical interfaces, by interface.
    pub drivers: BTreeMap<String, Fact<Ethtool>>,
    /// Interrupts of the physical interfaces.
    pub interrupts: Fact<Vec<Interrupt>>,
    /// The receive-datapath-manager.
    pub manager: Manager,
    /// Files that could be the plugin.
    pub plugins: Fact<Vec<PluginFile>>,
    /// Libraries that the plugin and NCCL load.
    pub libraries: Libraries,
    /// Memory of the GPUs, as the driver reports it.
    pub gpu_memory: Fact<Vec<GpuMemory>>,
    /// Processes that have a plugin loaded.
    pub plugin_users: Fact<PluginUsers>,
    /// TCP ports with a listener.
    pub listening: Fact<BTreeSet<u16>>,
    /// The interface of the default route.
    pub default_interface: Fact<String>,
    /// Results of loading the plugin and CUDA, if requested: loading takes seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<Tested>,
}

impl DoctorFacts {
    /// Reads everything within `scope`.
    pub fn read(root: &Root, scope: Scope<'_>) -> Self {
        Self::about(root, NodeFacts::read(root), scope)
    }

    /// As [`DoctorFacts::read`], if the facts of the node are already read.
    pub(crate) fn about(root: &Root, mut node: NodeFacts, scope: Scope<'_>) -> Self {
        node.environment
            .extend(environment::masked(scope.environment.clone()));
        let judged = node.environment.clone();
        let variable = |name: &str| judged.get(name).cloned();
        let all = scope.depth == Depth::All;
        let gpus: Vec<PciAddress> = of_known(&node.gpus.devices, |gpu| Some(gpu.pci_address));
        let folders = libraries::search_path(root, variable("LD_LIBRARY_PATH").as_deref());
        let physical = of_known(&node.nics, |nic| {
            (!nic.is_virtual).then(|| nic.name.clone())
        });
        let pci: BTreeSet<PciAddress> =
            of_known(&node.nics, |nic| nic.pci_address.known().copied())
                .into_iter()
                .collect();
        Self {
            no_environment: environment::read(root).why().map(str::to_owned),
            system: System::read(root, all),
            mounts: system::mounts(root),
            drivers: physical
                .into_iter()
                .take(INTERFACES_MAX)
                .map(|name| (name.clone(), Ethtool::read(root, &name)))
                .collect(),
            interrupts: when(all, || Interrupt::read(root, |at| pci.contains(&at))),
            manager: Manager::read(
                root,
                variable(manager::PREFIX)
                    .as_deref()
                    .unwrap_or(manager::DEFAULT_PREFIX),
                &gpus,
                all,
            ),
            plugins: plugin_files(root, &variable, scope.plugin, all),
            libraries: Libraries {
                cuda: libraries::find(root, &folders, "libcuda.so.1"),
                nccl: when(all, || libraries::find(root, &folders, "libnccl.so.2")),
            },
            gpu_memory: match gpus.is_empty() {
                true => Fact::unknown("no GPU found"),
                false => when(all, || GpuMemory::read(root)),
            },
            plugin_users: when(all, || PluginUsers::read(root)),
            listening: when(all, || sockets::listening(root)),
            default_interface: sockets::default_interface(root),
            tested: None,
            node,
        }
    }
}

impl DoctorFacts {
    /// Parses facts that another node sent, or that come from a file. Control characters
    /// are removed from all texts.
    ///
    /// # Errors
    /// The text is not a document of facts.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        crate::read_cleaned(text)
    }
}

fn when<T>(wanted: bool, read: impl FnOnce() -> Fact<T>) -> Fact<T> {
    if wanted {
        read()
    } else {
        Fact::unknown(NOT_READ)
    }
}

fn of_known<T, U>(all: &Fact<Vec<T>>, pick: impl Fn(&T) -> Option<U>) -> Vec<U> {
    all.known().into_iter().flatten().filter_map(pick).collect()
}
