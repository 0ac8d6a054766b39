//! Shows a worker a single GPU if its plugin cannot be told which one to use.
//!
//! A plugin asks its CUDA runtime which GPU is current. A shared runtime can be given the current
//! GPU from outside; a runtime that is linked into the plugin cannot. The worker of such a plugin
//! is started with its GPU as the only visible one, which is then number 0. TCPX 3.1.9 takes GPUs
//! 4 to 7 for the other NUMA node by their number, so a line of output warns that every GPU is
//! number 0.
#![forbid(unsafe_code)]

use crate::protocol::message::{LaneTask, Launch, Task};
use crate::protocol::variables::{GPU, VISIBLE};
use std::collections::BTreeMap;
use std::path::Path;
use tcpx_node::plugin_files::PluginSource;
use tcpx_run_model::scenario::Memory;

/// Occurs in a plugin that needs the shared runtime.
const SHARED: &[u8] = b"libcudart.so";

/// The worker's environment, and a warning for the user. `has` tells which variables are set on
/// the node; those are not changed.
pub(super) fn environment(
    launch: &Launch,
    has: impl Fn(&str) -> bool,
) -> (BTreeMap<String, String>, Option<String>) {
    let mut env = launch.env.clone();
    let set = |name: &str| env.contains_key(name) || has(name);
    let Some(gpu) = only_one(launch).filter(|_| !set(VISIBLE) && !set(GPU)) else {
        return (env, None);
    };
    env.insert(VISIBLE.to_owned(), gpu.to_string());
    env.insert(GPU.to_owned(), "0".to_owned());
    let said = format!(
        "the plugin's CUDA runtime is linked in: this worker sees GPU {gpu} only, as number 0 ({VISIBLE}={gpu}); \
         TCPX 3.1.9 picks the NUMA node by GPU number, so it treats GPUs 4 to 7 as on NUMA node 0"
    );
    (env, Some(said))
}

/// The GPU that must be the only visible one; `None` if all may be visible.
fn only_one(launch: &Launch) -> Option<u32> {
    let Task::Pair(task) = &launch.task else {
        return None;
    };
    let [LaneTask { gpu: Some(gpu), .. }] = task.lanes[..] else {
        return None;
    };
    let PluginSource::File(path) = &task.plugin.source else {
        return None;
    };
    let elsewhere = task.scenario.transfer.memory == Memory::Host
        || task.plugin.expected_family().is_software();
    (gpu != 0 && !elsewhere && !has_shared_runtime(path)).then_some(gpu)
}

/// A file that cannot be read counts as shared; the worker reports the error.
fn has_shared_runtime(plugin: &Path) -> bool {
    std::fs::read(plugin).map_or(true, |bytes| memchr::memmem::find(&bytes, SHARED).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{PairTask, Work};
    use tcpx_node::plugin_files::ChosenPlugin;
    use tcpx_run_model::scenario::{Gpus, Scenario};

    fn launch(plugin: PluginSource, gpus: Gpus, memory: Memory) -> Launch {
        let mut scenario = Scenario::default();
        let gpus = match gpus {
            Gpus::List(list) => list.into_iter().map(Some).collect(),
            _ => vec![None],
        };
        let lane = |gpu: Option<u32>| LaneTask {
            lane: gpu.into(),
            gpu,
            nics: Vec::new(),
            connections: 1,
        };
        scenario.transfer.memory = memory;
        let task = PairTask {
            plugin: ChosenPlugin::new(plugin, "", Vec::new()),
            lanes: gpus.into_iter().map(lane).collect(),
            cpus: None,
            run_id: "x".into(),
            scenario,
            sends: true,
            receives: false,
            node: "node0".into(),
            listen: None,
            port: 0,
            secret: String::new(),
            work: Work::Transfer,
            preflight: false,
            together: false,
            workers_here: 1,
            peer_here: false,
        };
        Launch {
            env: BTreeMap::new(),
            task: Task::Pair(Box::new(task)),
            stall_after_ms: 3000,
            looks_per_sample: 1,
            fault: None,
            sends_every_recording: true,
        }
    }

    #[test]
    fn a_runtime_that_is_linked_in_gets_one_gpu_and_a_shared_one_gets_all() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = |name: &str, text: &[u8]| {
            std::fs::write(folder.path().join(name), text).unwrap();
            PluginSource::File(folder.path().join(name))
        };
        let linked_in = || file("libnccl-net-tcpx.so", b"\x7fELF cudaGetDevice");
        let check = |plugin, gpus, memory, has: &str, expected: Option<&str>| {
            let (env, said) = environment(&launch(plugin, gpus, memory), |name| name == has);
            assert_eq!(env.get(VISIBLE).map(String::as_str), expected);
            assert_eq!(env.get(GPU).map(String::as_str), expected.map(|_| "0"));
            assert_eq!(said.is_some(), expected.is_some());
        };
        let five = || Gpus::List(vec![5]);
        check(linked_in(), five(), Memory::Device, "", Some("5"));
        check(linked_in(), five(), Memory::Auto, "", Some("5"));
        check(linked_in(), five(), Memory::Host, "", None);
        check(linked_in(), five(), Memory::Device, VISIBLE, None);
        check(linked_in(), five(), Memory::Device, GPU, None);
        check(linked_in(), Gpus::List(vec![0]), Memory::Device, "", None);
        check(linked_in(), Gpus::Auto, Memory::Device, "", None);
        check(
            file("shared.so", b"\x7fELF libcudart.so.12 "),
            five(),
            Memory::Device,
            "",
            None,
        );
        check(
            file("libnccl_net_tcpxsoft.so", b"\x7fELF"),
            five(),
            Memory::Device,
            "",
            None,
        );
        check(PluginSource::Builtin, five(), Memory::Device, "", None);
        check(
            PluginSource::File("/nonexistent".into()),
            five(),
            Memory::Device,
            "",
            None,
        );
    }
}
