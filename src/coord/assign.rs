//! From a scenario and both nodes' facts to what each end is told: which plugin,
//! which role, which environment, which address.
#![forbid(unsafe_code)]

use super::launch::{End, Greeting};
use super::reach::Addresses;
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

/// Why nothing can be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub next_step: Option<String>,
}

/// The local end's part, then the peer's. The end that receives listens, with
/// both directions the peer.
pub fn assign(scenario: &Scenario, nodes: [&Greeting; 2]) -> Result<[EndPlan; 2], Refusal> {
    let (sends, listener) = match scenario.transfer.direction {
        Direction::Forward => ([true, false], End::Peer),
        Direction::Reverse => ([false, true], End::Local),
        Direction::Both | Direction::PingPong => ([true, true], End::Peer),
    };
    let both = sends == [true, true];
    let place = Place::of(nodes);
    let listen = place.address_of(listener, nodes)?;
    let plugins = plugins(scenario, nodes, place)?;
    let end = |end: End, plugin: Choice| {
        let at = end as usize;
        // With both directions the roles of `[env.send]` and `[env.recv]` go to local and peer.
        let side = if end == listener { Side::Recv } else { Side::Send };
        let control = (place == Place::Apart).then(|| place.address_of(end, nodes).ok()).flatten();
        let env = environment(scenario, &nodes[at].facts, side, &plugin, control);
        EndPlan {
            warnings: task_chunk_warning(scenario, &env, &nodes[at].facts, end).into_iter().collect(),
            env,
            plugin,
            sends: sends[at],
            receives: both || !sends[at],
            listen: (end == listener).then_some(listen),
        }
    };
    let [local, peer] = plugins;
    Ok([end(End::Local, local), end(End::Peer, peer)])
}

/// Whether the two ends are two machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Both are children of the coordinator: they meet on loopback.
    Here,
    /// One network stack, reached in another way.
    SameStack,
    /// Two, or it cannot be told.
    Apart,
}

impl Place {
    fn of(nodes: [&Greeting; 2]) -> Self {
        match nodes[0].facts.host.is_same_stack(&nodes[1].facts.host) {
            Some(true) if nodes.iter().all(|node| node.addresses == Addresses::default()) => Self::Here,
            Some(true) => Self::SameStack,
            _ => Self::Apart,
        }
    }

    /// Where an end can be reached by the other.
    fn address_of(self, end: End, nodes: [&Greeting; 2]) -> Result<IpAddr, Refusal> {
        let (node, other) = (nodes[end as usize], nodes[end.other() as usize]);
        if self == Self::Here {
            return Ok(Ipv4Addr::LOCALHOST.into());
        }
        let known = [node.reached_at, node.addresses.there, other.addresses.here, first_address(&node.facts)];
        // An address from outside, behind a translation, is none of the node's own.
        let own = known.into_iter().flatten().find(|address| has_address(&node.facts, *address));
        own.ok_or_else(|| Refusal {
            why: format!("no address is known by which the {} end can be reached", end.name()),
            next_step: Some("name the nodes by their own addresses".into()),
        })
    }
}

fn has_address(facts: &NodeFacts, wanted: IpAddr) -> bool {
    let has = |nic: &Nic| nic.addresses.known().is_some_and(|all| all.contains(&wanted));
    // A node whose interfaces cannot be read is believed.
    facts.nics.known().is_none_or(|nics| nics.iter().any(has))
}

fn first_address(facts: &NodeFacts) -> Option<IpAddr> {
    let nics = facts.nics.known()?.iter().filter(|nic| nic.name != "lo" && nic.is_up());
    nics.flat_map(|nic| nic.addresses.known()).flatten().copied().find(IpAddr::is_ipv4)
}

/// Each node's meaning of the scenario's plugin. The software plugin is the same
/// whether it is linked in or lies beside the program, which it does not on a
/// node that was only sent the program.
fn plugins(scenario: &Scenario, nodes: [&Greeting; 2], place: Place) -> Result<[Choice; 2], Refusal> {
    let of = |end: End| {
        nodes[end as usize]
            .plugin
            .clone()
            .map_err(|no| Refusal { why: format!("the {} end: {}", end.name(), no.why), next_step: no.next_step })
    };
    let wants_soft = scenario.plugin == PluginChoice::Name("soft".into());
    let or_builtin = |chosen: Result<Choice, Refusal>| match chosen {
        Err(_) if wants_soft && place != Place::Here => Ok(builtin("no library of it on this node")),
        other => other,
    };
    let (local, peer) = (or_builtin(of(End::Local))?, or_builtin(of(End::Peer))?);
    let one_is_builtin = (local.source == Source::Builtin) != (peer.source == Source::Builtin);
    if one_is_builtin && is_soft(&local) && is_soft(&peer) {
        let why = "the software plugin; the other end has no library of it";
        return Ok([builtin(why), builtin(why)]);
    }
    if place == Place::SameStack && scenario.transfer.memory == Memory::Device && !(is_soft(&local) && is_soft(&peer)) {
        return Err(Refusal {
            why: "both ends are the same machine: packets that never leave it are not steered into device memory"
                .into(),
            next_step: Some("use another peer, or transfer.memory = \"host\"".into()),
        });
    }
    Ok([local, peer])
}

pub(super) fn builtin(why: &str) -> Choice {
    Choice { source: Source::Builtin, why: why.into(), passed_over: Vec::new() }
}

fn is_soft(plugin: &Choice) -> bool {
    match &plugin.source {
        Source::Builtin => true,
        Source::File(path) => path.to_string_lossy().contains("tcpxsoft"),
    }
}

/// What a scenario's plugin means on this node.
pub fn choose(wanted: &PluginChoice) -> Result<Choice, LoadError> {
    let exe = std::env::current_exe().unwrap_or_default();
    match wanted {
        PluginChoice::Name(name) => plugin::choose(name, |name| std::env::var(name).ok(), &exe),
        PluginChoice::Path(path) => {
            Ok(Choice { source: Source::File(path.into()), why: "asked for".into(), passed_over: Vec::new() })
        }
    }
}

/// What the worker gets on top of the node's own environment. The user's values
/// win over what is derived here.
pub fn environment(
    scenario: &Scenario,
    facts: &NodeFacts,
    side: Side,
    plugin: &Choice,
    control: Option<IpAddr>,
) -> BTreeMap<String, String> {
    let node = facts.host.name.known().cloned().unwrap_or_default();
    let mut env = scenario.worker_env(side, &node);
    let set = |name: &str| env.contains_key(name) || facts.environment.contains_key(name);
    let mut derived = BTreeMap::new();
    if !set("NCCL_DYNAMIC_CHUNK_SIZE") {
        derived.insert("NCCL_DYNAMIC_CHUNK_SIZE".to_owned(), task_chunk(scenario, &env, facts).to_string());
    }
    if !set("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME")
        && !set("TCPXSOFT_SOCKET_IFNAME")
        && let Some(nics) = data_nics(scenario, facts, control)
    {
        derived.insert("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME".to_owned(), format!("={}", nics.join(",")));
    }
    // Which device memory the software plugin takes: a GPU's where there is one,
    // and ordinary memory in its place where there is none.
    if scenario.transfer.memory == Memory::Device && is_soft(plugin) && !set(SOFT_CUDA) {
        let has_gpu = facts.gpus.devices.known().is_some_and(|gpus| !gpus.is_empty());
        let stand_in = !has_gpu || matches!(scenario.topology.gpus, Gpus::StandIns(_));
        let memory = if stand_in { "standin" } else { "device" };
        derived.insert(SOFT_CUDA.to_owned(), memory.to_owned());
    }
    env.extend(derived);
    env
}

/// What a worker will see of a variable.
fn effective<'a>(env: &'a BTreeMap<String, String>, facts: &'a NodeFacts, name: &str) -> Option<&'a str> {
    env.get(name).or_else(|| facts.environment.get(name)).map(String::as_str)
}

/// Data sockets of one comm, as the plugin counts them.
fn sockets(env: &BTreeMap<String, String>, facts: &NodeFacts) -> u64 {
    let number = |name: &str| {
        let value = effective(env, facts, name).and_then(|text| text.trim().parse::<u64>().ok());
        value.filter(|value| (1..=16).contains(value)).unwrap_or(1)
    };
    (number("NCCL_NSOCKS_PERTHREAD") * number("NCCL_SOCKET_NTHREADS")).min(8)
}

/// A message of more than one task chunk per socket makes TCPX 3.1.9 lose the
/// pages of the earlier ones; one of 0 never moves.
fn task_chunk_warning(
    scenario: &Scenario,
    env: &BTreeMap<String, String>,
    facts: &NodeFacts,
    end: End,
) -> Option<Finding> {
    let task_chunk: u64 = effective(env, facts, "NCCL_DYNAMIC_CHUNK_SIZE")?.trim().parse().ok()?;
    let (chunk, sockets) = (scenario.transfer.chunk.0, sockets(env, facts));
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
fn task_chunk(scenario: &Scenario, env: &BTreeMap<String, String>, facts: &NodeFacts) -> u64 {
    let share = scenario.transfer.chunk.0.div_ceil(sockets(env, facts)).next_multiple_of(4096);
    share.clamp(512 * 1024, i32::MAX as u64 - 1)
}

/// Interfaces that carry data: every one that is up, but loopback, bridges of
/// containers, and the one that leads to the peer, unless it is the only one;
/// `None` leaves the choice to the plugin.
fn data_nics(scenario: &Scenario, facts: &NodeFacts, control: Option<IpAddr>) -> Option<Vec<String>> {
    let up = || -> Option<Vec<String>> {
        let nics: Vec<&Nic> = facts.nics.known()?.iter().filter(|nic| carries_data(nic)).collect();
        let leads =
            |nic: &&&Nic| nic.addresses.known().zip(control).is_some_and(|(all, control)| all.contains(&control));
        let rails: Vec<String> = nics.iter().filter(|nic| !leads(nic)).map(|nic| nic.name.clone()).collect();
        let all = || nics.iter().map(|nic| nic.name.clone()).collect::<Vec<_>>();
        let names = if rails.is_empty() { all() } else { rails };
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
