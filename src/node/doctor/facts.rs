//! Everything that is read of a node to judge it: one document, which an agent
//! sends and a captured tree answers.
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

/// Interfaces whose drivers are asked; more are no rails.
const INTERFACES_MAX: usize = 64;
const NOT_LOOKED_AT: &str = "not looked at before a run";

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What the critical checks need: a few milliseconds, before every run.
    Critical,
    /// Everything.
    All,
}

/// What is looked at, and how far.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Laid over the node's own environment: what a worker gets.
    pub environment: &'a BTreeMap<String, String>,
    /// How much is read.
    pub depth: Depth,
    /// The plugin in question; without it every file that could be meant.
    pub plugin: Option<&'a Path>,
}

/// Libraries that the plugin and its users load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Libraries {
    /// The GPU driver's: `libcuda.so.1`.
    pub cuda: Fact<Library>,
    /// `libnccl.so.2`.
    pub nccl: Fact<Library>,
}

/// A plugin and CUDA after they were loaded, in processes of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tested {
    /// How many devices CUDA initialises.
    pub cuda_devices: Fact<usize>,
    /// What the plugin's table calls itself, once `init` has passed.
    pub plugin_name: Fact<String>,
    /// The version it logged.
    pub plugin_version: Fact<String>,
}

/// The facts of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// What `discover` shows, too. Its environment is the one that is judged: a
    /// worker's, where it is known.
    pub node: NodeFacts,
    /// Why that environment is not known: a captured tree need not have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_environment: Option<String>,
    /// The machine below.
    pub system: System,
    /// What is mounted.
    pub mounts: Fact<Vec<Mount>>,
    /// The drivers of physical interfaces, by interface.
    pub drivers: BTreeMap<String, Fact<Ethtool>>,
    /// Interrupts of those interfaces.
    pub interrupts: Fact<Vec<Interrupt>>,
    /// The receive-datapath-manager.
    pub manager: Manager,
    /// Files that could be the plugin.
    pub plugins: Fact<Vec<PluginFile>>,
    /// Libraries beside it.
    pub libraries: Libraries,
    /// Memory of the GPUs that the driver answers for.
    pub gpu_memory: Fact<Vec<GpuMemory>>,
    /// Processes that have it loaded.
    pub plugin_users: Fact<PluginUsers>,
    /// TCP ports that somebody listens on.
    pub listening: Fact<BTreeSet<u16>>,
    /// Where the default route goes.
    pub default_interface: Fact<String>,
    /// What loading showed, where that was asked for: it takes seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<Tested>,
}

impl Facts {
    /// Reads them.
    pub fn read(root: &Root, scope: Scope<'_>) -> Self {
        Self::about(root, NodeFacts::read(root), scope)
    }

    /// As [`Facts::read`], where the first part is there already.
    pub(crate) fn about(root: &Root, mut node: NodeFacts, scope: Scope<'_>) -> Self {
        node.environment.extend(scope.environment.clone());
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
                true => Fact::unknown("there is no GPU"),
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

impl Facts {
    /// Facts that another node sent or somebody kept: a claim of theirs, whose
    /// text is made fit for a terminal.
    ///
    /// # Errors
    /// Text that is not such a document.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
            .map(crate::cleaned)
            .and_then(serde_json::from_value)
    }
}

fn when<T>(wanted: bool, read: impl FnOnce() -> Fact<T>) -> Fact<T> {
    if wanted {
        read()
    } else {
        Fact::unknown(NOT_LOOKED_AT)
    }
}

fn of_known<T, U>(all: &Fact<Vec<T>>, pick: impl Fn(&T) -> Option<U>) -> Vec<U> {
    all.known().into_iter().flatten().filter_map(pick).collect()
}
