//! `tcpxctl discover`: what this node is, and what the plugin makes of it.
//!
//! The kernel's NICs and the GPUs come from /sys and /proc and are shown whether
//! or not a plugin loads; the plugin is loaded in a worker, so one that exits,
//! crashes or hangs in `init` costs its own part only. No device is ever
//! invented: what cannot be read says so.
#![forbid(unsafe_code)]

use super::Common;
use super::output::{Columns, complain, print, print_json, refuse_scenario};
use crate::coord::message::{FromWorker, Loaded, Phase, Task, ToWorker, how_ended};
use crate::coord::supervise::{Heard, Worker};
use crate::coord::{choose, environment};
use crate::error::{NextStep, Outcome};
use crate::gpu::{CudaError, CudaNode, cuda_node};
use crate::node::{Fact, Gpu, Nic, NodeFacts, Root, Speed};
use crate::plugin::{Choice, Device};
use crate::scenario::{Scenario, Side, resolve};
use crate::units::printable;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Plugin: auto, soft, builtin, a path, or a name X for libnccl-net-X.so.
    #[arg(long, value_name = "PLUGIN")]
    plugin: Option<String>,
    /// Longest the plugin may take to load and initialise, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    timeout: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    node: &'a NodeFacts,
    cuda: Option<&'a CudaNode>,
    cuda_error: Option<String>,
    plugin: Option<&'a Choice>,
    loaded: Option<&'a Loaded>,
    error: Option<&'a Problem>,
}

/// Why a plugin could not be asked.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Problem {
    /// Whose problem it is.
    pub(crate) outcome: Outcome,
    /// What happened.
    pub(crate) message: String,
    /// What to do.
    pub(crate) next_step: Option<String>,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> ExitCode {
    let scenario = match super::run::inputs(None, &[], arguments.plugin.as_deref()).and_then(|inputs| resolve(&inputs))
    {
        Ok(points) => points.into_iter().next().map(|point| point.scenario).unwrap_or_default(),
        Err(error) => return refuse_scenario(common, &error),
    };
    let facts = NodeFacts::read(&Root::live());
    let cuda = cuda_node();
    let (choice, asked) = match choose(&scenario) {
        Ok(choice) => {
            let asked = ask(&scenario, &facts, &choice, Duration::from_secs(arguments.timeout));
            (Some(choice), asked)
        }
        Err(error) => {
            let problem =
                Problem { outcome: Outcome::NotRun, message: error.to_string(), next_step: error.next_step() };
            (None, Err(problem))
        }
    };
    let code = asked.as_ref().err().map_or(0, |problem| problem.outcome.exit_code());
    if common.json {
        print_json(&Document {
            schema: "tcpxctl.discover/1",
            node: &facts,
            cuda: cuda.as_ref().ok(),
            cuda_error: cuda.as_ref().err().map(ToString::to_string),
            plugin: choice.as_ref(),
            loaded: asked.as_ref().ok(),
            error: asked.as_ref().err(),
        });
        return ExitCode::from(code);
    }
    print(&node_text(&facts));
    print(&cuda_text(&cuda, &facts));
    if let Some(choice) = &choice {
        print(&format!("#\n# Plugin : {} ({})\n", choice.source, choice.why));
        for other in &choice.passed_over {
            print(&format!("#   passed over : {} ({})\n", other.candidate, other.why));
        }
    }
    match &asked {
        Ok(loaded) => print(&plugin_text(loaded, &facts)),
        Err(problem) => complain(common, &problem.message, problem.next_step.clone()),
    }
    ExitCode::from(code)
}

/// Loads `choice` in a worker and lists its devices. The plugin's own choice of
/// interfaces is left alone: this shows what it would take.
fn ask(scenario: &Scenario, facts: &NodeFacts, choice: &Choice, patience: Duration) -> Result<Loaded, Problem> {
    let mut env = environment(scenario, Some(facts), Side::Send, choice);
    env.retain(|name, _| !name.ends_with("SOCKET_IFNAME"));
    ask_worker(Task::Probe { plugin: choice.clone() }, &env, patience, |message| match message {
        FromWorker::Loaded(loaded) => Some(*loaded),
        _ => None,
    })
}

/// Runs one task in a worker of its own and returns what `pick` makes of its
/// messages; a worker that fails, dies or hangs is a problem in words.
pub(crate) fn ask_worker<T>(
    task: Task,
    env: &std::collections::BTreeMap<String, String>,
    patience: Duration,
    pick: impl Fn(FromWorker) -> Option<T>,
) -> Result<T, Problem> {
    let (to_heard, heard) = mpsc::channel();
    let not_run = |message: String| Problem { outcome: Outcome::NotRun, message, next_step: None };
    let program = std::env::current_exe().map_err(|error| not_run(format!("cannot find this program: {error}")))?;
    let worker = Worker::start(&program, env, move |one| drop(to_heard.send(one)))
        .map_err(|error| not_run(format!("cannot start a worker: {error}")))?;
    worker.tell(&ToWorker::Start(Box::new(task)));
    let until = Instant::now() + patience;
    let (mut phase, mut last_warning, mut answer, mut failure) = (Phase::Starting, None, None, None);
    loop {
        match heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Heard::Message(FromWorker::Phase(next))) => phase = next,
            Ok(Heard::Message(FromWorker::Failed(failed))) => {
                failure = Some(Problem {
                    outcome: failed.outcome,
                    message: format!("{}: {}", failed.phase, failed.message),
                    next_step: failed.next_step,
                });
            }
            Ok(Heard::Message(FromWorker::Finished(_))) => {
                return match (answer, failure) {
                    (Some(answer), None) => Ok(answer),
                    (_, Some(failure)) => Err(failure),
                    (None, None) => Err(not_run("the worker ended without an answer".into())),
                };
            }
            Ok(Heard::Message(message)) => answer = answer.or_else(|| pick(message)),
            Ok(Heard::Log(line)) if line.level == tcpx_abi::level::WARN => last_warning = Some(line.text),
            Ok(Heard::Log(_) | Heard::Output { .. }) => {}
            Ok(Heard::Exited { code, signal }) => {
                let how = how_ended(code, signal);
                let said = last_warning.map(|line| format!("; its last WARN: {line}")).unwrap_or_default();
                let message = format!("the plugin {how} while {phase}{said}");
                return Err(Problem { outcome: Outcome::PluginDied, message, next_step: None });
            }
            Err(_) => {
                let message = format!("the plugin hangs while {phase}; it was ended after {} s", patience.as_secs());
                return Err(not_run(message));
            }
        }
    }
}

/// A fact or a dash.
fn or_dash<T: ToString>(fact: &Fact<T>) -> String {
    fact.known().map_or("-".into(), ToString::to_string)
}

fn speed(speed: &Speed) -> String {
    speed.mbit_per_s().map_or("-".into(), |mbit| mbit.to_string())
}

fn node_text(facts: &NodeFacts) -> String {
    let mut text = format!("# Host : {}  kernel {}\n", or_dash(&facts.host.name), or_dash(&facts.host.kernel));
    text.push_str("#\n# Network interfaces, from the kernel\n");
    match &facts.nics.known() {
        Some(nics) => text.push_str(&nic_table(nics)),
        None => text.push_str(&format!("#   unknown: {}\n", facts.nics.why().unwrap_or("not readable"))),
    }
    text.push_str("#\n# GPUs, from the kernel\n");
    match facts.gpus.devices.known() {
        Some(gpus) if gpus.is_empty() => text.push_str("#   none\n"),
        Some(gpus) => text.push_str(&gpu_table(gpus)),
        None => text.push_str(&format!("#   unknown: {}\n", facts.gpus.devices.why().unwrap_or("not readable"))),
    }
    text
}

fn nic_table(nics: &[Nic]) -> String {
    let mut columns = Columns::new(&["nic", "state", "mtu", "Mbit/s", "driver", "pci", "numa", "address"]);
    for nic in nics {
        let addresses =
            nic.addresses.known().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        columns.row([
            nic.name.clone(),
            or_dash(&nic.operstate),
            or_dash(&nic.mtu),
            speed(&nic.speed),
            or_dash(&nic.driver),
            or_dash(&nic.pci_address),
            or_dash(&nic.numa_node),
            addresses.filter(|text| !text.is_empty()).unwrap_or("-".into()),
        ]);
    }
    columns.render()
}

fn gpu_table(gpus: &[Gpu]) -> String {
    let mut columns = Columns::new(&["pci", "model", "numa"]);
    for gpu in gpus {
        columns.row([gpu.pci_address.to_string(), or_dash(&gpu.model), or_dash(&gpu.numa_node)]);
    }
    columns.render()
}

/// What CUDA makes of them, which may be less, and in another order.
fn cuda_text(cuda: &Result<CudaNode, CudaError>, facts: &NodeFacts) -> String {
    let cuda = match cuda {
        Ok(cuda) => cuda,
        Err(error) => return format!("#\n# GPUs, from CUDA\n#   none: {}\n", printable(&error.to_string())),
    };
    let visible = cuda
        .visible_devices
        .as_ref()
        .map_or_else(String::new, |value| format!(", CUDA_VISIBLE_DEVICES is `{}`", printable(value)));
    let mut columns = Columns::new(&["cuda", "pci", "gpu", "numa", "name", "memory", "cc", "dma-buf", "usable"]);
    for gpu in &cuda.devices {
        let known =
            facts.gpus.devices.known().and_then(|all| all.iter().find(|one| one.pci_address == gpu.pci_address));
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
    format!("#\n# GPUs, from CUDA {}{visible}\n{}", cuda.cuda, columns.render())
}

fn plugin_text(loaded: &Loaded, facts: &NodeFacts) -> String {
    let mut text = String::new();
    if let Some(file) = &loaded.file {
        text.push_str(&format!("#   file : {}  sha256 {}\n", file.realpath.display(), file.sha256));
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
    let pointers: Vec<&str> =
        [(tcpx_abi::PTR_HOST, "host"), (tcpx_abi::PTR_CUDA, "cuda"), (tcpx_abi::PTR_DMABUF, "dmabuf")]
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
        of(&|nic| nic.addresses.known().and_then(|all| all.first()).map_or("-".into(), ToString::to_string)),
        of(&|nic| or_dash(&nic.operstate)),
        pointers.join("+"),
        device.max_comms.to_string(),
        device.max_recvs.to_string(),
        device_type,
    ]
}
