//! Computes the plan of each end of each pair from the scenario and the facts of both nodes:
//! plugin, role, environment, CPUs and address.
#![forbid(unsafe_code)]

use super::drive::RunRequest;
use super::end::End;
use super::launch::Greeting;
use crate::protocol::message::{LaneTask, NoPlugin, WORKERS_MAX, Work};
use crate::protocol::variables::{GPU, SOFT_CUDA, SOFT_SEND_BUFFER, VISIBLE};
use crate::reach::Addresses;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tcpx_node::pci::shared_bridges;
use tcpx_node::plugin_files::{ChosenPlugin, PluginSource};
use tcpx_node::{Gpu, Host, Nic, NodeFacts, cuda_order};
use tcpx_run_model::finding::{Finding, Severity};
use tcpx_run_model::ids::{Lane, NodeId, PairIntro, Rail};
use tcpx_run_model::scenario::{
    CpuSet, Direction, GpuLanes, Gpus, Memory, NicMap, Nics, PluginChoice, PluginLibrary,
    Processes, Scenario,
};
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::progress::Policy;
use tcpx_words::side::Side;

/// The plan of one end of a pair.
pub(crate) struct EndPlan {
    /// The plugin file.
    pub plugin: ChosenPlugin,
    /// Environment of the worker in addition to the node's.
    pub env: BTreeMap<String, String>,
    /// Whether it sends.
    pub sends: bool,
    /// Whether it receives.
    pub receives: bool,
    /// Address to listen on; `None` for the end that connects.
    pub listen: Option<IpAddr>,
    /// Port to listen on; 0 for any free port.
    pub port: u16,
    /// This end of each lane.
    pub lanes: Vec<LaneTask>,
    /// CPUs of the worker; `None` for all.
    pub cpus: Option<CpuSet>,
    /// Workers of the run on the same machine, this one included.
    pub workers_here: u32,
    /// Whether the other end is on the same machine too.
    pub peer_here: bool,
    /// Findings about settings that are valid and will cause problems.
    pub warnings: Vec<Finding>,
}

/// Why no worker can be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AssignError {
    /// The reason.
    pub why: String,
    /// What the user can do.
    pub next_step: Option<String>,
}

/// A pair of workers and the plan of each end.
pub(super) struct PairPlan {
    pub(super) intro: PairIntro,
    pub(super) ends: [EndPlan; 2],
}

/// The rail of a pair, in a mesh that measures each rail by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RailChoice<'a> {
    /// Place in each node's list of data interfaces, from 0.
    Number(usize),
    /// The interface of this name on both nodes, and its place in `mesh.rails`.
    Named(usize, &'a str),
}

/// The rail that two nodes have under this choice; `None` if one of them lacks it.
pub(super) fn rail(
    scenario: &Scenario,
    ends: [(&str, &Greeting); 2],
    choice: RailChoice<'_>,
) -> Option<Rail> {
    let [first, second] = rails(scenario, ends).map(|nics| {
        let mut nics = nics?.into_iter();
        match choice {
            RailChoice::Number(number) => nics.nth(number),
            RailChoice::Named(_, name) => nics.find(|nic| nic == name),
        }
    });
    let (RailChoice::Number(place) | RailChoice::Named(place, _)) = choice;
    Some(Rail {
        number: u32::try_from(place).unwrap_or(u32::MAX),
        nics: [first?, second?],
    })
}

/// The data interfaces of two nodes; `None` where they are unknown.
pub(super) fn rails(scenario: &Scenario, ends: [(&str, &Greeting); 2]) -> [Option<Vec<String>>; 2] {
    let place = Place::of_nodes(ends.map(|(_, greeting)| greeting));
    End::ALL.map(|end| place.rails(scenario, end, ends))
}

/// Plans every pair of two nodes, given with their names. The receiving end listens; with both
/// directions, the second end. `before` is the number of pairs that the run already has: the first
/// pair planned here listens on port `port + before`, the next on the port after it, and so on.
/// With `port` 0, each listens on any free port. All use `rail` if there is one.
pub(super) fn assign(
    request: &RunRequest<'_>,
    ids: [NodeId; 2],
    ends: [(&str, &Greeting); 2],
    rail: Option<&Rail>,
    before: usize,
) -> Result<Vec<PairPlan>, AssignError> {
    let (scenario, work, port) = (request.scenario, &request.work, request.bootstrap_port);
    let nodes = ends.map(|(_, greeting)| greeting);
    let (sends, listener) = match scenario.transfer.direction {
        Direction::Forward => ([true, false], End::Second),
        Direction::Reverse => ([false, true], End::First),
        Direction::Both | Direction::PingPong => ([true, true], End::Second),
    };
    if rail.is_some() {
        ends.iter()
            .try_for_each(|(name, node)| lets_choose(scenario, name, &node.facts))?;
    }
    let place = Place::of_nodes(nodes);
    let listen = place.address_of(listener, ends)?;
    let plugins = plugins(scenario, ends, place)?;
    let gpus = if *work == Work::Transfer {
        gpus(scenario, nodes, &plugins)
    } else {
        Default::default()
    };
    let lanes = lanes(scenario, &gpus)?;
    let nodes_plan = NodesPlan {
        scenario,
        ends,
        place,
        plugins,
        sends,
        listener,
        listen,
        gpus,
        rail,
        first_port: if port == 0 {
            0
        } else {
            port.saturating_add(before as u16)
        },
    };
    let pairs: Vec<Vec<Lane>> = match scenario.topology.processes {
        Processes::PerGpu => lanes.iter().map(|lane| vec![*lane]).collect(),
        Processes::Single => vec![lanes],
    };
    let plan = |(number, lanes): (usize, Vec<Lane>)| {
        let ends = End::ALL.map(|end| nodes_plan.end(end, number, &lanes));
        let intro = PairIntro {
            nodes: ids,
            lanes,
            rail: rail.cloned(),
            round: None,
        };
        PairPlan { intro, ends }
    };
    Ok(pairs.into_iter().enumerate().map(plan).collect())
}

/// What all pairs of two nodes have in common.
struct NodesPlan<'a> {
    scenario: &'a Scenario,
    ends: [(&'a str, &'a Greeting); 2],
    place: Place,
    plugins: [ChosenPlugin; 2],
    sends: [bool; 2],
    listener: End,
    listen: IpAddr,
    /// The GPUs of each node that take part.
    gpus: [Vec<u32>; 2],
    rail: Option<&'a Rail>,
    /// Port of the first pair; 0 for any free port.
    first_port: u16,
}

impl NodesPlan<'_> {
    /// The plan of one end of the pair `number`, which has these lanes.
    fn end(&self, end: End, number: usize, lanes: &[Lane]) -> EndPlan {
        let scenario = self.scenario;
        let plugin = self.plugins[end as usize].clone();
        let facts = &self.ends[end as usize].1.facts;
        let sends = self.sends[end as usize];
        let is_listener = end == self.listener;
        // With both directions, local has the role of `[env.send]` and peer that of `[env.recv]`.
        let side = if is_listener { Side::Recv } else { Side::Send };
        let lanes = self.lanes(end, lanes);
        let rails = self.rails(end, &lanes);
        let env = environment_on(scenario, facts, side, &plugin, rails.as_deref());
        EndPlan {
            warnings: task_chunk_warning(scenario, &env, facts)
                .into_iter()
                .collect(),
            cpus: cpus(scenario, facts, side, rails.as_deref()),
            // `share_machines` counts them.
            workers_here: 1,
            peer_here: false,
            lanes,
            env,
            plugin,
            sends,
            receives: self.sends == [true, true] || !sends,
            listen: is_listener.then_some(self.listen),
            port: if self.first_port == 0 {
                0
            } else {
                self.first_port.saturating_add(number as u16)
            },
        }
    }

    /// One end of each lane. Its interfaces are unset for host memory, and where none is known.
    fn lanes(&self, end: End, lanes: &[Lane]) -> Vec<LaneTask> {
        let (facts, gpus) = (&self.ends[end as usize].1.facts, &self.gpus[end as usize]);
        let rails = self.place.rails(self.scenario, end, self.ends);
        let rails = rails.as_deref().unwrap_or_default();
        let task = |lane: &Lane| {
            let gpu = lane.gpus().map(|gpus| gpus[end as usize]);
            let number = gpus.iter().position(|one| Some(*one) == gpu);
            let nics = match (self.rail, gpu.zip(number)) {
                (Some(rail), _) => vec![rail.nics[end as usize].clone()],
                (None, Some(gpu)) => nics_of(self.scenario, facts, gpu, gpus.len(), rails),
                (None, None) => Vec::new(),
            };
            LaneTask {
                lane: *lane,
                gpu,
                nics,
                connections: self.scenario.connections_of(*lane),
            }
        };
        lanes.iter().map(task).collect()
    }

    /// The interfaces that the plugin of one end is given: those of its lanes, or all.
    fn rails(&self, end: End, lanes: &[LaneTask]) -> Option<Vec<String>> {
        let mut used: Vec<String> = Vec::new();
        for nic in lanes.iter().flat_map(|lane| &lane.nics) {
            if !used.contains(nic) {
                used.push(nic.clone());
            }
        }
        if used.is_empty() || lanes.iter().any(|lane| lane.nics.is_empty()) {
            return self.place.rails(self.scenario, end, self.ends);
        }
        Some(used)
    }
}

/// Tells every worker how many of the round are on its machine, and whether its peer is. `hosts` is by node id; `None` for
/// a missing node.
pub(super) fn share_machines(plans: &mut [PairPlan], hosts: &[Option<&Host>]) {
    let mut workers_of = vec![0_u32; hosts.len()];
    for node in plans.iter().flat_map(|plan| plan.intro.nodes) {
        workers_of[node.index()] += 1;
    }
    let are_together = |node: usize, other: usize| {
        let same = hosts[node]
            .zip(hosts[other])
            .and_then(|(a, b)| a.is_same_machine(b));
        node == other || same == Some(true)
    };
    let workers_at = |node: usize| {
        let others = (0..hosts.len()).filter(|other| are_together(node, *other));
        others.map(|other| workers_of[other]).sum()
    };
    let on_machine: Vec<u32> = (0..hosts.len()).map(workers_at).collect();
    for plan in plans {
        let nodes = plan.intro.nodes.map(NodeId::index);
        for (node, end) in nodes.iter().zip(&mut plan.ends) {
            end.workers_here = on_machine[*node];
            end.peer_here = are_together(nodes[0], nodes[1]);
        }
    }
}

/// Whether both ends are known to be on one machine.
pub(super) fn is_one_machine(nodes: [&Greeting; 2]) -> bool {
    Place::of_nodes(nodes) != Place::Apart
}

/// The GPUs of each node to transfer for; none for host memory. Without a map of lanes, both nodes
/// have the same ones.
fn gpus(scenario: &Scenario, nodes: [&Greeting; 2], plugins: &[ChosenPlugin; 2]) -> [Vec<u32>; 2] {
    let there = |node: &Greeting| cuda_gpus(scenario, &node.facts).len();
    let mut counts = nodes.map(there);
    if scenario.topology.lanes == GpuLanes::Same {
        counts = [counts[0].min(counts[1]); 2];
    }
    if scenario.traffic.is_some() {
        // An endpoint moves the memory of one GPU.
        counts = counts.map(|count| count.min(1));
    }
    let takes_gpus = match scenario.transfer.memory {
        Memory::Host => false,
        Memory::Device => true,
        Memory::Auto => !plugins
            .iter()
            .any(|plugin| plugin.expected_family().is_software()),
    };
    let all = |counts: [usize; 2]| counts.map(|count| (0..count as u32).collect());
    match &scenario.topology.gpus {
        Gpus::StandIns(count) => all([*count as usize; 2]),
        Gpus::OrStandIns(_) if counts[0].min(counts[1]) > 0 => all(counts),
        Gpus::OrStandIns(count) => all([*count as usize; 2]),
        Gpus::List(list) => [list.clone(), list.clone()],
        // A GPU chosen by the user's variable counts as one, whatever its number on the node.
        Gpus::Auto
            if takes_gpus
                && !nodes
                    .iter()
                    .any(|node| has_chosen_gpu(scenario, &node.facts)) =>
        {
            all(counts)
        }
        Gpus::Auto => Default::default(),
    }
}

/// The lanes between the GPUs of two nodes; one of host memory without GPUs.
fn lanes(scenario: &Scenario, gpus: &[Vec<u32>; 2]) -> Result<Vec<Lane>, AssignError> {
    let topology = &scenario.topology;
    let refused = |why: String, next_step: &str| AssignError {
        why,
        next_step: Some(next_step.to_owned()),
    };
    let has_gpus = gpus.iter().all(|gpus| !gpus.is_empty());
    if !has_gpus && topology.lanes != GpuLanes::Same {
        let why = "topology.lanes is about GPUs, and the run moves host memory";
        let next = "set topology.gpus, such as { or_stand_ins = 8 }, or omit topology.lanes";
        return Err(refused(why.to_owned(), next));
    }
    let correct = "correct the map, or topology.gpus";
    topology
        .check_connections(&gpus[0])
        .map_err(|why| refused(why, correct))?;
    let lanes = topology.lanes.between(&gpus[0], &gpus[1]);
    let lanes = lanes.map_err(|why| refused(why, correct))?;
    if topology.processes == Processes::PerGpu && lanes.len() > WORKERS_MAX {
        let why = format!(
            "processes = \"per-gpu\" is a worker per lane, here {}, but a node runs at most {WORKERS_MAX} workers",
            lanes.len()
        );
        let next = "set topology.processes = \"single\", or name fewer GPUs";
        return Err(refused(why, next));
    }
    Ok(if lanes.is_empty() {
        vec![Lane::Host]
    } else {
        lanes
    })
}

fn has_chosen_gpu(scenario: &Scenario, facts: &NodeFacts) -> bool {
    variable(scenario, facts, GPU).is_some()
}

/// A node's GPUs as CUDA numbers them in its workers; `None` for one whose place is unknown.
fn cuda_gpus<'f>(scenario: &Scenario, facts: &'f NodeFacts) -> Vec<Option<&'f Gpu>> {
    let all = facts.gpus.devices.known().map_or(&[][..], Vec::as_slice);
    cuda_order(all, variable(scenario, facts, VISIBLE).as_deref())
}

/// The value of a variable in a node's workers, on either side.
fn variable(scenario: &Scenario, facts: &NodeFacts, name: &str) -> Option<String> {
    let node = facts.host.name.known().map_or("", String::as_str);
    let mut sides = [Side::Send, Side::Recv].into_iter();
    sides.find_map(|side| {
        let env = scenario.worker_env(side, node);
        effective(&env, facts, name).map(str::to_owned)
    })
}

/// The interfaces of a GPU, given with its place among `count`: set by `topology.map`, in turn, all, or the
/// nearest on the PCI tree. If the nearest is unknown, as for stand-ins, the rails are divided
/// evenly, with neighbouring GPUs on the same rail, as on real boards. Empty if none is known.
fn nics_of(
    scenario: &Scenario,
    facts: &NodeFacts,
    (gpu, number): (u32, usize),
    count: usize,
    rails: &[String],
) -> Vec<String> {
    let shared_out = || rails.get(number * rails.len() / count.max(1)).cloned();
    let one = match &scenario.topology.map {
        NicMap::Fixed(map) => match map.get(&gpu.to_string()) {
            Some(nics) => return nics.names().to_vec(),
            None => shared_out(),
        },
        NicMap::RoundRobin => rails.get(number % rails.len().max(1)).cloned(),
        NicMap::Nearest => {
            let gpus = cuda_gpus(scenario, facts);
            let gpu = gpus.get(gpu as usize).copied().flatten();
            gpu.and_then(|gpu| nearest(facts, gpu, rails))
                .or_else(shared_out)
        }
        NicMap::All => return rails.to_vec(),
    };
    one.into_iter().collect()
}

/// The rail that shares the most PCI bridges with a GPU; `None` if unknown.
fn nearest(facts: &NodeFacts, gpu: &Gpu, rails: &[String]) -> Option<String> {
    let gpu = gpu.pci_path.known()?;
    let shared = |rail: &&String| {
        let nic = facts.nics.known()?.iter().find(|nic| nic.name == **rail)?;
        Some(shared_bridges(gpu, nic.pci_path.known()?))
    };
    // `max_by_key` returns the last maximum, so reverse to get the first.
    let best = rails
        .iter()
        .rev()
        .max_by_key(|rail| shared(rail).unwrap_or(0))?;
    shared(&best)
        .filter(|bridges| *bridges > 0)
        .map(|_| best.clone())
}

/// The most specific entry of `[bindings]`.
fn cpus(
    scenario: &Scenario,
    facts: &NodeFacts,
    side: Side,
    rails: Option<&[String]>,
) -> Option<CpuSet> {
    let bindings = &scenario.bindings;
    let of_rail = || match rails {
        Some([rail]) => bindings.nic.get(rail),
        _ => None,
    };
    let of_node = || bindings.node.get(facts.host.name.known()?);
    let of_side = || match side {
        Side::Send => bindings.send.as_ref(),
        Side::Recv => bindings.recv.as_ref(),
    };
    of_rail().or_else(of_node).or_else(of_side).cloned()
}

/// Where the two ends are, relative to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Both agents are children of the coordinator: the workers use loopback.
    Here,
    /// The same network stack, reached through a transport such as ssh.
    SameStack,
    /// Two network stacks, or unknown.
    Apart,
}

impl Place {
    fn of_nodes(nodes: [&Greeting; 2]) -> Self {
        match nodes[0].facts.host.is_same_stack(&nodes[1].facts.host) {
            Some(true)
                if nodes
                    .iter()
                    .all(|node| node.addresses == Addresses::default()) =>
            {
                Self::Here
            }
            Some(true) => Self::SameStack,
            _ => Self::Apart,
        }
    }

    /// The data interfaces of one end; `None` if they are unknown or there is none.
    fn rails(
        self,
        scenario: &Scenario,
        end: End,
        ends: [(&str, &Greeting); 2],
    ) -> Option<Vec<String>> {
        let control = (self == Self::Apart)
            .then(|| self.address_of(end, ends).ok())
            .flatten();
        data_nics(scenario, &ends[end as usize].1.facts, control)
    }

    /// The address at which the other end can reach this one.
    fn address_of(self, end: End, ends: [(&str, &Greeting); 2]) -> Result<IpAddr, AssignError> {
        let ((name, node), (_, other)) = (ends[end as usize], ends[end.other() as usize]);
        if self == Self::Here {
            return loopback(&node.facts).ok_or_else(|| AssignError {
                why: "this machine has neither 127.0.0.1 nor ::1 on lo, at which the two workers would meet".into(),
                next_step: Some("bring the interface up: ip link set lo up".into()),
            });
        }
        let known = [node.reached_at, node.addresses.there, other.addresses.here];
        let own = reachable_at(&node.facts, known);
        own.ok_or_else(|| AssignError {
            why: format!("tcpxctl knows no address at which the other node can reach {name}"),
            next_step: Some("name the nodes by addresses of their own interfaces".into()),
        })
    }
}

/// The address at which another node can reach this one: the first of `known` that is one of its
/// own, because behind address translation the address used from outside is not; else its first.
pub(super) fn reachable_at(facts: &NodeFacts, known: [Option<IpAddr>; 3]) -> Option<IpAddr> {
    let all = known.into_iter().chain([first_address(facts)]);
    all.flatten().find(|address| has_address(facts, *address))
}

fn has_address(facts: &NodeFacts, wanted: IpAddr) -> bool {
    let has = |nic: &Nic| {
        nic.addresses
            .known()
            .is_some_and(|all| all.contains(&wanted))
    };
    // If the interfaces cannot be read, accept the address.
    facts.nics.known().is_none_or(|nics| nics.iter().any(has))
}

fn first_address(facts: &NodeFacts) -> Option<IpAddr> {
    let nics = facts
        .nics
        .known()?
        .iter()
        .filter(|nic| nic.name != "lo" && nic.is_up());
    let mut all: Vec<IpAddr> = nics
        .filter_map(|nic| nic.reachable_at().known().cloned())
        .flatten()
        .collect();
    all.sort_by_key(IpAddr::is_ipv6);
    all.first().copied()
}

/// The plugin file that the scenario's plugin resolves to on each node.
fn plugins(
    scenario: &Scenario,
    ends: [(&str, &Greeting); 2],
    place: Place,
) -> Result<[ChosenPlugin; 2], AssignError> {
    let of = |end: End| {
        let (name, node) = ends[end as usize];
        let plugin = node.plugin.clone();
        // On the machine where tcpxctl is installed, a missing library is an error.
        let plugin = if place == Place::Here {
            plugin
        } else {
            or_builtin(plugin, &scenario.plugin)
        };
        plugin.map_err(|no| AssignError {
            why: format!("{name}: {}", no.why),
            next_step: no.next_step,
        })
    };
    let [local, peer] = same_software([of(End::First)?, of(End::Second)?]);
    let both =
        |is: fn(PluginFamily) -> bool| is(local.expected_family()) && is(peer.expected_family());
    if place == Place::SameStack
        && scenario.transfer.memory == Memory::Device
        && !both(PluginFamily::is_software)
    {
        return Err(AssignError {
            why: "both ends are on the same machine: only packets that arrive through a NIC are placed in device memory"
                .into(),
            next_step: Some("use another peer, or transfer.memory = \"host\"".into()),
        });
    }
    Ok([local, peer])
}

/// The plugins of a pair: the built-in software plugin at both ends, if one end has no library of it.
pub(super) fn same_software(chosen: [ChosenPlugin; 2]) -> [ChosenPlugin; 2] {
    let built_in = |choice: &ChosenPlugin| choice.source == PluginSource::Builtin;
    let is_soft = |choice: &ChosenPlugin| choice.expected_family() == PluginFamily::TcpxSoft;
    if built_in(&chosen[0]) == built_in(&chosen[1]) || !chosen.iter().all(is_soft) {
        return chosen;
    }
    let why = "the other node does not have the software plugin's library";
    chosen.map(|choice| builtin(why, choice.abi))
}

/// Uses the built-in software plugin if the node has no library of it. Both are the same code, and
/// a node to which tcpxctl was copied has no library.
pub(super) fn or_builtin(
    plugin: Result<ChosenPlugin, NoPlugin>,
    wanted: &PluginChoice,
) -> Result<ChosenPlugin, NoPlugin> {
    match plugin {
        Err(_) if wanted.library == PluginLibrary::Name("soft".into()) => Ok(builtin(
            "this node does not have the software plugin's library",
            wanted.abi,
        )),
        other => other,
    }
}

fn builtin(why: &str, abi: Option<AbiVersion>) -> ChosenPlugin {
    ChosenPlugin {
        abi,
        ..ChosenPlugin::new(PluginSource::Builtin, why, Vec::new())
    }
}

/// Environment of a worker that uses all rails, in addition to the node's own. `control` is the
/// node's address towards the peer.
pub fn environment(
    scenario: &Scenario,
    facts: &NodeFacts,
    side: Side,
    plugin: &ChosenPlugin,
    control: Option<IpAddr>,
) -> BTreeMap<String, String> {
    environment_on(
        scenario,
        facts,
        side,
        plugin,
        data_nics(scenario, facts, control).as_deref(),
    )
}

/// Environment of a worker that uses these rails. Values set by the user override derived ones.
fn environment_on(
    scenario: &Scenario,
    facts: &NodeFacts,
    side: Side,
    plugin: &ChosenPlugin,
    rails: Option<&[String]>,
) -> BTreeMap<String, String> {
    let node = facts.host.name.known().cloned().unwrap_or_default();
    let mut env = scenario.worker_env(side, &node);
    let set = |name: &str| env.contains_key(name) || facts.environment.contains_key(name);
    let mut derived = BTreeMap::new();
    if !set("NCCL_DYNAMIC_CHUNK_SIZE") {
        derived.insert(
            "NCCL_DYNAMIC_CHUNK_SIZE".to_owned(),
            task_chunk(scenario, &env, facts).to_string(),
        );
    }
    if !IFNAME.into_iter().any(&set)
        && let Some(rails) = rails
    {
        derived.insert(IFNAME[0].to_owned(), format!("={}", rails.join(",")));
    }
    // Device memory of the software plugin: GPU memory, or host memory as a stand-in without a GPU.
    if scenario.transfer.memory == Memory::Device
        && plugin.expected_family().is_software()
        && !set(SOFT_CUDA)
    {
        let has_gpu = facts
            .gpus
            .devices
            .known()
            .is_some_and(|gpus| !gpus.is_empty());
        let stand_in = !has_gpu || matches!(scenario.topology.gpus, Gpus::StandIns(_));
        let memory = if stand_in { "standin" } else { "device" };
        derived.insert(SOFT_CUDA.to_owned(), memory.to_owned());
    }
    // A policy that tests every channel in turn does not count on the kernel's buffers to finish a send.
    if scenario.progress.policy != Policy::WindowFullOnly
        && plugin.expected_family().is_software()
        && !set(SOFT_SEND_BUFFER)
    {
        derived.insert(SOFT_SEND_BUFFER.to_owned(), "auto".to_owned());
    }
    env.extend(derived);
    env
}

/// The variables that choose a plugin's interfaces.
const IFNAME: [&str; 2] = ["NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "TCPXSOFT_SOCKET_IFNAME"];

/// Whether the interfaces of a node's workers are left to the mesh.
fn lets_choose(scenario: &Scenario, name: &str, facts: &NodeFacts) -> Result<(), AssignError> {
    let node = facts.host.name.known().map_or("", String::as_str);
    for side in [Side::Send, Side::Recv] {
        let env = scenario.worker_env(side, node);
        for variable in IFNAME {
            if let Some(value) = effective(&env, facts, variable) {
                return Err(AssignError {
                    why: format!(
                        "{name} has {variable}={value}, so `mesh.rails` cannot choose an interface"
                    ),
                    next_step: Some(format!("unset {variable}, or set mesh.rails=\"all\"")),
                });
            }
        }
    }
    Ok(())
}

/// The value of a variable in the worker.
fn effective<'a>(
    env: &'a BTreeMap<String, String>,
    facts: &'a NodeFacts,
    name: &str,
) -> Option<&'a str> {
    env.get(name)
        .or_else(|| facts.environment.get(name))
        .map(String::as_str)
}

/// Number of data sockets of one comm, computed as the plugin does.
fn sockets(env: &BTreeMap<String, String>, facts: &NodeFacts) -> u64 {
    let number = |name: &str| {
        let value = effective(env, facts, name).and_then(|text| text.trim().parse::<u64>().ok());
        value.filter(|value| (1..=16).contains(value)).unwrap_or(1)
    };
    (number("NCCL_NSOCKS_PERTHREAD") * number("NCCL_SOCKET_NTHREADS")).min(8)
}

const CHUNK_SIZE_ZERO: &str = "dynamic-chunk-size-zero";
const EXCEEDS_TASK_CHUNKS: &str = "message-exceeds-task-chunks";
/// Conditions that a run warns of before it starts. The catalogue is in a crate above this one.
pub const WARNED_OF: [&str; 2] = [CHUNK_SIZE_ZERO, EXCEEDS_TASK_CHUNKS];

/// Warns of a task chunk size that stalls TCPX 3.1.9: with more than one task chunk per socket in a
/// message, the plugin loses the pages of the earlier ones; with size 0, no bytes move.
fn task_chunk_warning(
    scenario: &Scenario,
    env: &BTreeMap<String, String>,
    facts: &NodeFacts,
) -> Option<Finding> {
    let task_chunk: u64 = effective(env, facts, "NCCL_DYNAMIC_CHUNK_SIZE")?
        .trim()
        .parse()
        .ok()?;
    let (chunk, sockets) = (scenario.transfer.chunk.0, sockets(env, facts));
    let fits = task_chunk > 0 && chunk <= task_chunk.saturating_mul(sockets);
    (!fits).then(|| Finding {
        condition: if task_chunk == 0 { CHUNK_SIZE_ZERO } else { EXCEEDS_TASK_CHUNKS }.into(),
        severity: Severity::Warning,
        confidence: 1.0,
        // `drive` sets it, because it knows the node.
        subject: None,
        channel: None,
        because: vec![format!(
            "transfer.chunk is {chunk} bytes, NCCL_DYNAMIC_CHUNK_SIZE {task_chunk} on {sockets} data sockets"
        )],
        cannot_see: Vec::new(),
        next_step: Some(format!("set NCCL_DYNAMIC_CHUNK_SIZE to {} or more", chunk.div_ceil(sockets))),
        reference: None,
    })
}

/// A value for `NCCL_DYNAMIC_CHUNK_SIZE`: if unset, TCPX 3.1.9 cuts every message into pieces of no
/// bytes and never finishes. One task chunk per socket and message, at least the 512 KiB that
/// production uses.
fn task_chunk(scenario: &Scenario, env: &BTreeMap<String, String>, facts: &NodeFacts) -> u64 {
    let share = scenario
        .transfer
        .chunk
        .0
        .div_ceil(sockets(env, facts))
        .next_multiple_of(4096);
    share.clamp(512 * 1024, i32::MAX as u64 - 1)
}

/// The address at which two workers of one node meet: ::1 where `lo` has no 127.0.0.1, none where it has neither.
fn loopback(facts: &NodeFacts) -> Option<IpAddr> {
    let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    let nics = facts.nics.known().map_or(&[][..], Vec::as_slice);
    let lo = nics.iter().find(|nic| nic.name == "lo");
    let Some(held) = lo.and_then(|lo| lo.addresses.known()) else {
        return Some(v4);
    };
    [v4, v6].into_iter().find(|one| held.contains(one))
}

/// Interfaces that carry data. By default every interface that is up, except loopback, container
/// bridges and, unless there is no other, the control interface towards the peer. `None` leaves the
/// choice to the plugin.
fn data_nics(
    scenario: &Scenario,
    facts: &NodeFacts,
    control: Option<IpAddr>,
) -> Option<Vec<String>> {
    let up = || -> Option<Vec<String>> {
        let nics: Vec<&Nic> = facts
            .nics
            .known()?
            .iter()
            .filter(|nic| carries_data(nic))
            .collect();
        let is_control = |nic: &&&Nic| {
            nic.addresses
                .known()
                .zip(control)
                .is_some_and(|(all, control)| all.contains(&control))
        };
        let rails: Vec<String> = nics
            .iter()
            .filter(|nic| !is_control(nic))
            .map(|nic| nic.name.clone())
            .collect();
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
    let container = ["docker", "br-", "virbr", "cni", "flannel", "cali"]
        .iter()
        .any(|prefix| nic.name.starts_with(prefix));
    nic.name != "lo"
        && nic.is_up()
        && !container
        && nic.addresses.known().is_some_and(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_node::{Fact, fixture};

    #[test]
    fn workers_of_one_node_meet_at_the_loopback_address_that_it_has() {
        let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        let mut facts = NodeFacts::read(&fixture::a3_high().root);
        let template = facts.nics.known().expect("interfaces")[0].clone();
        for (held, met_at) in [
            (Fact::Known(vec![v4, v6]), Some(v4)),
            (Fact::Known(vec![v6]), Some(v6)),
            (Fact::Known(Vec::new()), None),
            (Fact::from(Err("not read".to_owned())), Some(v4)),
        ] {
            let lo = Nic {
                name: "lo".to_owned(),
                addresses: held,
                ..template.clone()
            };
            facts.nics = Fact::Known(vec![lo]);
            assert_eq!(loopback(&facts), met_at);
        }
    }

    #[test]
    fn all_gpus_of_both_nodes_are_used_unless_the_user_chose_some() {
        let tcpx = || ChosenPlugin::of_file("/usr/local/tcpx/lib64/libnccl-net-tcpx.so".into());
        let node = |environment: &[(&str, &str)]| {
            let mut facts = NodeFacts::read(&fixture::a3_high().root);
            let given = environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            facts.environment.extend(given);
            Greeting {
                version: String::new(),
                build: None,
                pid: 1,
                facts: Box::new(facts),
                plugin: Ok(tcpx()),
                addresses: Addresses::default(),
                reached_at: None,
            }
        };
        let taken = |scenario: &Scenario, node: &Greeting| {
            let gpus = gpus(scenario, [node, node], &[tcpx(), tcpx()]);
            lanes(scenario, &gpus)
        };
        let own = |gpus: &[u32]| Ok(gpus.iter().map(|gpu| Lane::Gpu(*gpu)).collect());
        assert_eq!(
            taken(&Scenario::default(), &node(&[])),
            own(&[0, 1, 2, 3, 4, 5, 6, 7])
        );
        assert_eq!(
            taken(&Scenario::default(), &node(&[(GPU, "0000:0a:00.0")])),
            Ok(vec![Lane::Host])
        );
        // A scheduler gives a job some of the GPUs, which CUDA numbers from 0.
        let of_job = node(&[(VISIBLE, "5,2")]);
        assert_eq!(taken(&Scenario::default(), &of_job), own(&[0, 1]));
        let rails = ["eth1", "eth2", "eth3", "eth4"].map(str::to_owned);
        let near = |node: &Greeting, gpu| {
            let place = (gpu, gpu as usize);
            nics_of(&Scenario::default(), &node.facts, place, 8, &rails)
        };
        assert_eq!(near(&of_job, 0), near(&node(&[]), 5));
        assert_ne!(near(&of_job, 0), near(&node(&[]), 0));
        let mut listed = Scenario::default();
        listed.topology.gpus = Gpus::List(vec![2, 5]);
        assert_eq!(taken(&listed, &node(&[])), own(&[2, 5]));
        listed.topology.lanes = GpuLanes::All;
        let crossed = [(2, 2), (2, 5), (5, 2), (5, 5)].map(|(from, to)| Lane::between(from, to));
        assert_eq!(taken(&listed, &node(&[])), Ok(crossed.to_vec()));
        listed.transfer.memory = Memory::Host;
        listed.topology.gpus = Gpus::Auto;
        let refused = taken(&listed, &node(&[])).expect_err("no GPUs");
        assert!(refused.why.contains("host memory"), "{}", refused.why);
        listed.topology.gpus = Gpus::StandIns(9);
        let refused = taken(&listed, &node(&[])).expect_err("81 workers");
        assert!(refused.why.contains("here 81"), "{}", refused.why);
        listed.topology.processes = Processes::Single;
        assert_eq!(taken(&listed, &node(&[])).map(|lanes| lanes.len()), Ok(81));
    }
}
