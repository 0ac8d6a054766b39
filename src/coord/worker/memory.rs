//! Chooses the memory of a worker's message buffers.
//!
//! GPU memory, host memory, or host memory as a stand-in for GPU memory, which only the software
//! plugin accepts. The GPU is opened after the plugin is loaded, so that the GPU can be made
//! current in a CUDA runtime that the plugin loads, and before any plugin call that binds to the
//! current GPU.
#![forbid(unsafe_code)]

use super::load::Ready;
use super::{Context, TaskResult};
use crate::protocol::message::{PairTask, Work};
use crate::protocol::variables::{GPU, SOFT_CUDA};
use std::collections::BTreeMap;
use std::sync::Arc;
use tcpx_engine::gpu::{
    CudaMemory, DeviceMemory, HostMemory, MemoryError, Wanted, cuda_node, loaded_runtimes,
};
use tcpx_engine::plugin::{About, Device};
use tcpx_run_model::scenario::Memory;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::plugin_family::PluginFamily;

/// The memory of each lane of the task; lanes of one GPU share it.
pub(super) fn of_lanes(
    context: &Context,
    task: &PairTask,
    ready: &Ready,
) -> TaskResult<Vec<Arc<dyn DeviceMemory>>> {
    let mut by_gpu: BTreeMap<Option<u32>, Arc<dyn DeviceMemory>> = BTreeMap::new();
    let mut lanes = Vec::new();
    for lane in &task.lanes {
        let memory = match by_gpu.get(&lane.gpu) {
            Some(memory) => Arc::clone(memory),
            None => open(context, task, ready, lane.gpu)?.memory(),
        };
        by_gpu.insert(lane.gpu, Arc::clone(&memory));
        lanes.push(memory);
    }
    Ok(lanes)
}

/// Memory that the scenario asks for.
pub(super) enum Opened {
    /// The host's, or as a stand-in for a GPU's.
    Host(HostMemory),
    Gpu(Arc<CudaMemory>),
}

impl Opened {
    fn memory(self) -> Arc<dyn DeviceMemory> {
        match self {
            Self::Host(memory) => Arc::new(memory),
            Self::Gpu(memory) => memory,
        }
    }
}

/// Opens the memory that the scenario asks for.
pub(super) fn open(
    context: &Context,
    task: &PairTask,
    ready: &Ready,
    gpu: Option<u32>,
) -> TaskResult<Opened> {
    let about = ready.net.about();
    // TCPX is for device memory; without a GPU it does not load.
    let family = about.family();
    let takes_cuda =
        family == PluginFamily::Tcpx || ready.loaded.devices.iter().any(Device::takes_cuda);
    let stand_in = || Ok(Opened::Host(HostMemory::device_stand_in()));
    match task.scenario.transfer.memory {
        Memory::Auto if takes_cuda && !family.is_software() && cuda_node().is_ok() => {}
        Memory::Auto | Memory::Host => return Ok(Opened::Host(HostMemory::host())),
        // `mr` shows how any plugin answers a registration.
        Memory::Device if matches!(task.work, Work::Mr) && !(takes_cuda && cuda_node().is_ok()) => {
            return stand_in();
        }
        Memory::Device if !takes_cuda => return Err(host_only(context, &about)),
        // Set for the software plugin, or by a user who tries another plugin with a stand-in.
        Memory::Device if std::env::var(SOFT_CUDA).is_ok_and(|kind| kind == "standin") => {
            return stand_in();
        }
        Memory::Device => {}
    }
    open_gpu(context, gpu, family).map(Opened::Gpu)
}

fn host_only(context: &Context, about: &About) -> Box<super::Failure> {
    let message = format!(
        "transfer.memory is \"device\", but no device of {} accepts GPU memory",
        about.name
    );
    let next = if about.family().is_software() {
        format!(
            "set {SOFT_CUDA}=standin (ordinary memory as a stand-in) or =device in the worker's environment"
        )
    } else {
        "set transfer.memory = \"host\"; `tcpxctl discover` lists the memory each device accepts"
            .to_owned()
    };
    context.failure(Outcome::NotRun, message, Some(next))
}

fn open_gpu(
    context: &Context,
    gpu: Option<u32>,
    family: PluginFamily,
) -> TaskResult<Arc<CudaMemory>> {
    let wanted = wanted(context, gpu)?;
    let memory =
        CudaMemory::open(&wanted).map_err(|error| memory_failure(context, &error.into()))?;
    let ordinal = memory.device().ordinal;
    if family == PluginFamily::Tcpx && ordinal != 0 && loaded_runtimes().is_empty() {
        // The runtime is linked into the plugin, so tcpxctl cannot make a GPU current in it.
        let message = format!(
            "the plugin has no shared CUDA runtime, so it would use GPU 0 instead of GPU {ordinal}"
        );
        let next = format!(
            "set CUDA_VISIBLE_DEVICES={ordinal} and {GPU}=0; TCPX 3.1.9 picks the NUMA node by GPU number, so it then treats GPUs 4 to 7 as on NUMA node 0"
        );
        return Err(context.failure(Outcome::NotRun, message, Some(next)));
    }
    Ok(Arc::new(memory))
}

fn wanted(context: &Context, gpu: Option<u32>) -> TaskResult<Wanted> {
    if let Ok(text) = std::env::var(GPU) {
        return text
            .parse()
            .map_err(|error| context.failure(Outcome::Usage, format!("{GPU}: {error}"), None));
    }
    Ok(Wanted::Ordinal(gpu.unwrap_or(0) as usize))
}

/// The failure for memory that cannot be allocated: the run cannot start on this node.
pub(super) fn memory_failure(context: &Context, error: &MemoryError) -> Box<super::Failure> {
    context.failure(Outcome::NotRun, error.to_string(), error.next_step())
}
