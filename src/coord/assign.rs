//! From a scenario and both nodes' facts to what each end is told: which plugin,
//! which role, which environment, which address.
#![forbid(unsafe_code)]

use super::launch::End;
use super::worker::memory::SOFT_CUDA;
use crate::node::{Nic, NodeFacts};
use crate::plugin::{self, Choice, LoadError, Source};
use crate::record::Finding;
use crate::scenario::{Direction, Gpus, Memory, Nics, PluginChoice, Scenario, Side};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// What one end is told.
pub struct EndPlan {
    /// Which plugin.
    pub plugin: Choice,
    /// On top of the node's environment.
    pub env: BTreeMap<String, String>,
    /// Whether it sends.
    pub sends: bool,
    /// Whether it receives.
    pub receives: bool,
    /// Where it listens; `None` for the end that connects.
    pub listen: Option<IpAddr>,
    /// What is legal and will hurt.
    pub warnings: Vec<Finding>,
}

/// The local end's part, then the peer's. The end that receives listens, with
/// both directions the peer.
pub fn assign(scenario: &Scenario, facts: &[Option<Box<NodeFacts>>; 2]) -> Result<[EndPlan; 2], LoadError> {
    let (sends, listener) = match scenario.transfer.direction {
        Direction::Forward => ([true, false], 1),
        Direction::Reverse => ([false, true], 0),
        Direction::Both | Direction::PingPong => ([true, true], 1),
    };
    let both = sends == [true, true];
    let end = |at: usize| {
        // With both directions the roles of `[env.send]` and `[env.recv]` go to local and peer.
        let side = if at == listener { Side::Recv } else { Side::Send };
        let plugin = choose(scenario)?;
        let env = environment(scenario, facts[at].as_deref(), side, &plugin);
        Ok(EndPlan {
            warnings: task_chunk_warning(scenario, &env, End::ALL[at]).into_iter().collect(),
            env,
            plugin,
            sends: sends[at],
            receives: both || !sends[at],
            listen: (at == listener).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        })
    };
    Ok([end(0)?, end(1)?])
}

/// The scenario's plugin on this node.
pub fn choose(scenario: &Scenario) -> Result<Choice, LoadError> {
    let exe = std::env::current_exe().unwrap_or_default();
    let wanted = match &scenario.plugin {
        PluginChoice::Name(name) => name.clone(),
        PluginChoice::Path(path) => {
            return Ok(Choice { source: Source::File(path.into()), why: "asked for".into(), passed_over: Vec::new() });
        }
    };
    plugin::choose(&wanted, |name| std::env::var(name).ok(), &exe)
}

/// What the worker gets on top of the node's own environment. The user's values
/// win over what is derived here.
pub fn environment(
    scenario: &Scenario,
    facts: Option<&NodeFacts>,
    side: Side,
    plugin: &Choice,
) -> BTreeMap<String, String> {
    let node = facts.and_then(|facts| facts.host.name.known().cloned()).unwrap_or_default();
    let mut env = scenario.worker_env(side, &node);
    let set = |name: &str| env.contains_key(name) || std::env::var_os(name).is_some();
    let mut derived = BTreeMap::new();
    if !set("NCCL_DYNAMIC_CHUNK_SIZE") {
        derived.insert("NCCL_DYNAMIC_CHUNK_SIZE".to_owned(), task_chunk(scenario, &env).to_string());
    }
    if !set("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME")
        && !set("TCPXSOFT_SOCKET_IFNAME")
        && let Some(nics) = data_nics(scenario, facts)
    {
        derived.insert("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME".to_owned(), format!("={}", nics.join(",")));
    }
    // Which device memory the software plugin takes: a GPU's where there is one,
    // and ordinary memory in its place where there is none.
    let soft = match &plugin.source {
        Source::Builtin => true,
        Source::File(path) => path.to_string_lossy().contains("tcpxsoft"),
    };
    if scenario.transfer.memory == Memory::Device && soft && !set(SOFT_CUDA) {
        let has_gpu = facts.and_then(|facts| facts.gpus.devices.known()).is_some_and(|gpus| !gpus.is_empty());
        let stand_in = !has_gpu || matches!(scenario.topology.gpus, Gpus::StandIns(_));
        let memory = if stand_in { "standin" } else { "device" };
        derived.insert(SOFT_CUDA.to_owned(), memory.to_owned());
    }
    env.extend(derived);
    env
}

/// What a worker will see of a variable.
fn effective(env: &BTreeMap<String, String>, name: &str) -> Option<String> {
    env.get(name).cloned().or_else(|| std::env::var(name).ok())
}

/// Data sockets of one comm, as the plugin counts them.
fn sockets(env: &BTreeMap<String, String>) -> u64 {
    let number = |name: &str| {
        let value = effective(env, name).and_then(|text| text.trim().parse::<u64>().ok());
        value.filter(|value| (1..=16).contains(value)).unwrap_or(1)
    };
    (number("NCCL_NSOCKS_PERTHREAD") * number("NCCL_SOCKET_NTHREADS")).min(8)
}

/// A message of more than one task chunk per socket makes TCPX 3.1.9 lose the
/// pages of the earlier ones; one of 0 never moves.
fn task_chunk_warning(scenario: &Scenario, env: &BTreeMap<String, String>, end: End) -> Option<Finding> {
    let task_chunk: u64 = effective(env, "NCCL_DYNAMIC_CHUNK_SIZE")?.trim().parse().ok()?;
    let (chunk, sockets) = (scenario.transfer.chunk.0, sockets(env));
    let fits = task_chunk > 0 && chunk <= task_chunk.saturating_mul(sockets);
    (!fits).then(|| Finding {
        condition: if task_chunk == 0 { "task-chunk-zero" } else { "message-exceeds-task-chunks" }.into(),
        severity: "warning".into(),
        confidence: 1.0,
        node: Some(end.name().into()),
        channel: None,
        because: vec![format!(
            "transfer.chunk is {chunk} bytes, NCCL_DYNAMIC_CHUNK_SIZE {task_chunk} on {sockets} data sockets"
        )],
        cannot_see: Vec::new(),
        next_step: Some(format!("set NCCL_DYNAMIC_CHUNK_SIZE to {} or more", chunk.div_ceil(sockets))),
        reference: None,
    })
}

/// Unset, TCPX 3.1.9 cuts every message into zero-byte pieces and never ends.
/// One task chunk per socket and message, but not below what production uses.
fn task_chunk(scenario: &Scenario, env: &BTreeMap<String, String>) -> u64 {
    let share = scenario.transfer.chunk.0.div_ceil(sockets(env)).next_multiple_of(4096);
    share.clamp(512 * 1024, i32::MAX as u64 - 1)
}

/// Interfaces that carry data: every one that is up, but loopback and bridges of
/// containers; `None` leaves the choice to the plugin.
fn data_nics(scenario: &Scenario, facts: Option<&NodeFacts>) -> Option<Vec<String>> {
    let up = || -> Option<Vec<String>> {
        let nics = facts?.nics.known()?;
        let names: Vec<String> = nics.iter().filter(|nic| carries_data(nic)).map(|nic| nic.name.clone()).collect();
        (!names.is_empty()).then_some(names)
    };
    match &scenario.topology.nics {
        Nics::List(names) => Some(names.clone()),
        Nics::Auto => up(),
        Nics::First(count) => up().map(|mut names| {
            names.truncate(*count as usize);
            names
        }),
    }
}

fn carries_data(nic: &Nic) -> bool {
    let container =
        ["docker", "br-", "virbr", "cni", "flannel", "cali"].iter().any(|prefix| nic.name.starts_with(prefix));
    nic.name != "lo" && nic.is_up() && !container && nic.addresses.known().is_some_and(|all| !all.is_empty())
}
