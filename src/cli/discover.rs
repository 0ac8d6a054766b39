//! `tcpxctl discover`: shows a node's NICs, its GPUs and its plugin's devices.
//!
//! NICs and GPUs are read from /sys and /proc and are shown whether or not a plugin loads. The
//! plugin is loaded in a worker, so if it exits, crashes or hangs in `init`, only its part of
//! the output is missing. A value that cannot be read is shown as unknown.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending};
use super::nodes::Nodes;
use super::output::{Columns, print, print_error, print_json};
use super::plugin_arguments::PluginArguments;
use super::scenario::first_point;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tcpx_coord::{Loaded, Task, WorkerMessage};
use tcpx_coord::{TaskError, TaskNode, environment};
use tcpx_engine::gpu::CudaNode;
use tcpx_engine::plugin::Device;
use tcpx_node::plugin_files::ChosenPlugin;
use tcpx_node::{Fact, Gpu, Nic, NodeFacts, Speed};
use tcpx_run_model::scenario::Scenario;
use tcpx_words::side::Side;
use tcpx_words::units::printable;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    plugin: PluginArguments,
    /// Time limit for loading and initialising the plugin, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiscoverPairDocument<'a> {
    schema: &'static str,
    nodes: Vec<DiscoverDocument<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiscoverDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "super::schemas::Object"))]
    node: &'a NodeFacts,
    #[cfg_attr(test, schemars(with = "Option<super::schemas::Object>"))]
    cuda: Option<&'a CudaNode>,
    cuda_error: Option<&'a str>,
    #[cfg_attr(test, schemars(with = "Option<super::schemas::Object>"))]
    plugin: Option<&'a ChosenPlugin>,
    #[cfg_attr(test, schemars(with = "Option<super::schemas::Object>"))]
    loaded: Option<&'a Loaded>,
    #[cfg_attr(test, schemars(with = "Option<super::schemas::Problem>"))]
    error: Option<&'a TaskError>,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let scenario = first_point(None, &[], &arguments.plugin)?;
    let nodes = arguments.nodes.all(&scenario.plugin)?;
    let patience = Duration::from_secs(arguments.timeout);
    let found: Vec<DiscoveredNode> = nodes
        .iter()
        .map(|(_, node)| DiscoveredNode::ask(node, &scenario, patience))
        .collect();
    let code = found
        .iter()
        .filter_map(|found| found.loaded.as_ref().err())
        .map(|problem| problem.outcome.exit_code());
    let code = code.max().unwrap_or(0);
    if common.json {
        match found.as_slice() {
            [one] => print_json(&one.document()),
            all => print_json(&DiscoverPairDocument {
                schema: "tcpxctl.discover-pair/1",
                nodes: all.iter().map(DiscoveredNode::document).collect(),
            }),
        }
        return Ok(Ending::code(code));
    }
    for (at, ((name, _), found)) in nodes.iter().zip(&found).enumerate() {
        if nodes.len() > 1 {
            print(&format!(
                "{}# Node : {name}\n",
                if at > 0 { "\n" } else { "" }
            ));
        }
        found.show(common);
    }
    Ok(Ending::code(code))
}

/// The facts and the plugin of one node.
struct DiscoveredNode<'a> {
    facts: &'a NodeFacts,
    /// The GPUs by CUDA, asked in a separate worker, because a driver may end its process.
    cuda: Result<CudaNode, String>,
    choice: Option<&'a ChosenPlugin>,
    loaded: Result<Loaded, TaskError>,
}

impl<'a> DiscoveredNode<'a> {
    /// Without `SOCKET_IFNAME` variables, so that the plugin shows its own choice of interfaces.
    fn ask(node: &'a TaskNode, scenario: &Scenario, patience: Duration) -> Self {
        let choice = node.plugin.as_ref();
        let loaded = match choice {
            Err(no) => Err(no.clone().into()),
            Ok(choice) => {
                let mut env = environment(scenario, &node.facts, Side::Send, choice, None);
                env.retain(|name, _| !name.ends_with("SOCKET_IFNAME"));
                node.ask(
                    Task::Probe {
                        plugin: choice.clone(),
                    },
                    &env,
                    patience,
                    |message| match message {
                        WorkerMessage::Loaded(loaded) => Some(*loaded),
                        _ => None,
                    },
                )
            }
        };
        let gpus = node.ask(
            Task::Gpus,
            &BTreeMap::new(),
            patience,
            |message| match message {
                WorkerMessage::Gpus(gpus) => Some(gpus),
                _ => None,
            },
        );
        let cuda = gpus.unwrap_or_else(|problem| Err(problem.message));
        Self {
            facts: &node.facts,
            cuda,
            choice: choice.ok(),
            loaded,
        }
    }

    fn document(&self) -> DiscoverDocument<'_> {
        DiscoverDocument {
            schema: "tcpxctl.discover/1",
            node: self.facts,
            cuda: self.cuda.as_ref().ok(),
            cuda_error: self.cuda.as_ref().err().map(String::as_str),
            plugin: self.choice,
            loaded: self.loaded.as_ref().ok(),
            error: self.loaded.as_ref().err(),
        }
    }

    fn show(&self, common: &Common) {
        print(&node_text(self.facts));
        print(&cuda_text(&self.cuda, self.facts));
        if let Some(choice) = self.choice {
            print(&format!(
                "#\n# Plugin : {} ({})\n",
                choice.source, choice.why
            ));
            for other in &choice.passed_over {
                print(&format!(
                    "#   passed over : {} ({})\n",
                    other.candidate, other.why
                ));
            }
        }
        match &self.loaded {
            Ok(loaded) => print(&plugin_text(loaded, self.facts)),
            Err(problem) => {
                print_error(common, &problem.message, problem.next_step.as_deref());
            }
        }
    }
}

/// The fact's value, or `-` if it is unknown.
fn or_dash<T: ToString>(fact: &Fact<T>) -> String {
    fact.known().map_or("-".into(), ToString::to_string)
}

fn speed(speed: &Speed) -> String {
    speed
        .mbit_per_s()
        .map_or("-".into(), |mbit| mbit.to_string())
}

fn node_text(facts: &NodeFacts) -> String {
    let mut text = format!(
        "# Host : {}  kernel {}\n",
        or_dash(&facts.host.name),
        or_dash(&facts.host.kernel)
    );
    text.push_str("#\n# Network interfaces, from the kernel\n");
    match &facts.nics.known() {
        Some(nics) => text.push_str(&nic_table(nics)),
        None => text.push_str(&format!(
            "#   unknown: {}\n",
            facts.nics.why().unwrap_or("not readable")
        )),
    }
    text.push_str("#\n# GPUs, from the kernel\n");
    match facts.gpus.devices.known() {
        Some(gpus) if gpus.is_empty() => text.push_str("#   none\n"),
        Some(gpus) => text.push_str(&gpu_table(gpus)),
        None => text.push_str(&format!(
            "#   unknown: {}\n",
            facts.gpus.devices.why().unwrap_or("not readable")
        )),
    }
    text
}

fn nic_table(nics: &[Nic]) -> String {
    let mut columns = Columns::new(&[
        "nic", "state", "mtu", "Mbit/s", "driver", "pci", "numa", "address",
    ]);
    for nic in nics {
        let addresses = nic.addresses.known().map(|all| {
            all.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        });
        columns.row([
            nic.name.clone(),
            or_dash(&nic.operstate),
            or_dash(&nic.mtu),
            speed(&nic.speed),
            or_dash(&nic.driver),
            or_dash(&nic.pci_address),
            or_dash(&nic.numa_node),
            addresses
                .filter(|text| !text.is_empty())
                .unwrap_or("-".into()),
        ]);
    }
    columns.render()
}

fn gpu_table(gpus: &[Gpu]) -> String {
    let mut columns = Columns::new(&["pci", "model", "numa"]);
    for gpu in gpus {
        columns.row([
            gpu.pci_address.to_string(),
            or_dash(&gpu.model),
            or_dash(&gpu.numa_node),
        ]);
    }
    columns.render()
}

/// The GPUs as CUDA lists them: possibly fewer, and in another order.
fn cuda_text(cuda: &Result<CudaNode, String>, facts: &NodeFacts) -> String {
    let cuda = match cuda {
        Ok(cuda) => cuda,
        Err(error) => return format!("#\n# GPUs, from CUDA\n#   none: {}\n", printable(error)),
    };
    let visible = cuda
        .visible_devices
        .as_ref()
        .map_or_else(String::new, |value| {
            format!(", CUDA_VISIBLE_DEVICES is `{}`", printable(value))
        });
    let mut columns = Columns::new(&[
        "cuda", "pci", "gpu", "numa", "name", "memory", "cc", "dma-buf", "usable",
    ]);
    for gpu in &cuda.devices {
        let known = facts
            .gpus
            .devices
            .known()
            .and_then(|all| all.iter().find(|one| one.pci_address == gpu.pci_address));
        let (major, minor) = gpu.compute_capability;
        columns.row([
            gpu.ordinal.to_string(),
            gpu.pci_address.to_string(),
            known.map_or("-".into(), |one| one.index.to_string()),
            known.map_or("-".into(), |one| or_dash(&one.numa_node)),
            printable(&gpu.name),
            format!("{} MiB", gpu.memory >> 20),
            format!("{major}.{minor}"),
            if gpu.dma_buf { "yes" } else { "no" }.to_owned(),
            if gpu.mig { "no, a MIG instance" } else { "yes" }.to_owned(),
        ]);
    }
    format!(
        "#\n# GPUs, from CUDA {}{visible}\n{}",
        cuda.cuda,
        columns.render()
    )
}

fn plugin_text(loaded: &Loaded, facts: &NodeFacts) -> String {
    let mut text = String::new();
    if let Some(file) = &loaded.file {
        text.push_str(&format!(
            "#   file : {}  sha256 {}\n",
            file.realpath.display(),
            file.sha256
        ));
    }
    let version = loaded.version.as_deref().unwrap_or("not logged");
    text.push_str(&format!(
        "#   table : {} from {} (exports {}), version {version}\n",
        loaded.about.name,
        loaded.symbol,
        loaded.exports.join(" ")
    ));
    let mut columns = Columns::new(&[
        "dev",
        "name",
        "pci",
        "numa",
        "Mbit/s",
        "from",
        "mtu",
        "driver",
        "address",
        "link",
        "ptr",
        "maxComms",
        "maxRecvs",
        "netDevice",
    ]);
    for device in &loaded.devices {
        columns.row(device_row(device, facts));
    }
    text.push_str(&columns.render());
    text
}

fn device_row(device: &Device, facts: &NodeFacts) -> [String; 14] {
    let nics = facts.nics.known().map(Vec::as_slice).unwrap_or_default();
    let nic = nics.iter().find(|nic| nic.name == device.name);
    let of = |pick: &dyn Fn(&Nic) -> String| nic.map_or("-".into(), pick);
    // TCPX claims 10000 when sysfs has no number.
    let readable = nic.and_then(|nic| nic.speed.mbit_per_s()).is_some();
    let from = if readable { "sysfs" } else { "plugin" };
    let device_type = match device.net_device_type {
        tcpx_abi::NET_DEVICE_HOST => "HOST".to_owned(),
        tcpx_abi::NET_DEVICE_UNPACK => format!("UNPACK {}", device.net_device_version),
        other => format!("{other}/{}", device.net_device_version),
    };
    let pointers: Vec<&str> = [
        (tcpx_abi::PTR_HOST, "host"),
        (tcpx_abi::PTR_CUDA, "cuda"),
        (tcpx_abi::PTR_DMABUF, "dmabuf"),
    ]
    .into_iter()
    .filter(|(bit, _)| device.ptr_support & bit != 0)
    .map(|(_, name)| name)
    .collect();
    [
        device.index.to_string(),
        device.name.clone(),
        of(&|nic| or_dash(&nic.pci_address)),
        of(&|nic| or_dash(&nic.numa_node)),
        device.speed_mbps.to_string(),
        from.to_owned(),
        of(&|nic| or_dash(&nic.mtu)),
        of(&|nic| or_dash(&nic.driver)),
        of(&|nic| {
            nic.addresses
                .known()
                .and_then(|all| all.first())
                .map_or("-".into(), ToString::to_string)
        }),
        of(&|nic| or_dash(&nic.operstate)),
        pointers.join("+"),
        device.max_comms.to_string(),
        device.max_recvs.to_string(),
        device_type,
    ]
}
