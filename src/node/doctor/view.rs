//! Derived facts: those that are put together from several others before one comparison
//! can check them. Which interfaces are rails, which rail serves which GPU, which CPUs serve
//! a rail's interrupts.
//!
//! They are under `view` in the document that checks read, beside the facts that were read
//! and the mistakes that `lint` found.
#![forbid(unsafe_code)]

use super::evaluate::Subject;
use super::facts::DoctorFacts;
use super::lint::{self, Machine, NicPlace, VariableTable};
use super::predicate::compare_versions;
use crate::cpu::CpuList;
use crate::ethtool::Ethtool;
use crate::manager::SocketAnswer;
use crate::system::mount_of;
use crate::{Closeness, Fact, Gpu, Nic, closeness, nearest};
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tcpx_words::plugin_family::PluginFamily;

/// Ports that UCCL's test programs use for their bootstrap.
const BOOTSTRAP_PORTS: [u16; 10] = [
    12345, 12347, 20000, 20001, 20002, 20003, 20004, 20005, 20006, 20007,
];
const DATA: [&str; 2] = ["NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "TCPXSOFT_SOCKET_IFNAME"];
const CONTROL: &str = "NCCL_GPUDIRECTTCPX_CTRL_DEV";
/// Prefixes of container interfaces, which never carry transfers.
const CONTAINERS: [&str; 6] = ["docker", "br-", "virbr", "cni", "flannel", "cali"];

/// The document that checks read.
pub(super) fn document(facts: &DoctorFacts, subject: Subject) -> Value {
    let view = View::from_facts(facts, subject);
    let lint = match (&facts.no_environment, VariableTable::embedded()) {
        (Some(why), _) => json!(Fact::<()>::unknown(why)),
        (None, Ok(table)) => {
            json!(lint::lint(&table, &facts.node.environment, &machine(facts, subject)).by_kind())
        }
        (None, Err(_)) => json!({}),
    };
    let mut document = serde_json::to_value(facts).unwrap_or_else(|_| json!({}));
    document["view"] = json!(view);
    document["lint"] = lint;
    document["tcpx"] = json!(subject.tcpx);
    document
}

/// The facts that the rules of `lint` need.
pub(super) fn machine(facts: &DoctorFacts, subject: Subject) -> Machine {
    let place = |nic: &Nic| NicPlace {
        node: nic.numa_node.known().copied(),
        irq_cpus: irq_cpus(facts, nic)
            .known()
            .filter(|cpus| !cpus.is_empty())
            .cloned(),
        has_address: nic.reachable_at().known().map(|all| !all.is_empty()),
    };
    let nodes = facts.node.cpu.numa_nodes.known().into_iter().flatten();
    Machine {
        online: facts.node.cpu.online.known().cloned(),
        nodes: nodes
            .filter_map(|node| Some((node.id, node.cpus.known()?.clone())))
            .collect(),
        nics: facts.node.nics.known().map(|all| {
            all.iter()
                .map(|nic| (nic.name.clone(), place(nic)))
                .collect()
        }),
        default_interface: facts.default_interface.known().cloned(),
        rails: automatic(facts, subject)
            .iter()
            .map(|nic| nic.name.clone())
            .collect(),
        gpus: gpus(facts).len(),
        manager_answers: facts
            .manager
            .sockets
            .known()
            .map(|all| all.values().any(|one| *one == SocketAnswer::Accepts)),
        chunk: subject.chunk,
    }
}

/// The family of the plugin that was loaded, by the name in its table.
fn loaded_family(facts: &DoctorFacts) -> Fact<PluginFamily> {
    match &facts.tested {
        Some(tested) => tested
            .plugin_name
            .as_ref()
            .map(|name| PluginFamily::of_table_name(name)),
        None => Fact::unknown("the plugin was not loaded"),
    }
}

/// Everything under `view`.
#[derive(Serialize)]
struct View {
    rails: Fact<Vec<Rail>>,
    gpus: Fact<Vec<GpuView>>,
    control: Fact<Control>,
    devmem: Fact<bool>,
    xids: Fact<Vec<String>>,
    manager_rules: Vec<SocketView>,
    plugins: Fact<Vec<PluginView>>,
    plugin_files: Fact<Vec<String>>,
    plugin_sha256: Fact<String>,
    loaded_family: Fact<PluginFamily>,
    pairing: Vec<String>,
    plugin_users: Fact<Vec<String>>,
    ports_taken: Fact<Vec<u16>>,
    local_ports: Fact<u32>,
}

#[derive(Serialize)]
struct Rail {
    name: String,
    up: bool,
    carrier: Fact<bool>,
    addresses: Fact<Vec<IpAddr>>,
    mtu: Fact<u32>,
    driver: Fact<String>,
    speed: Fact<u32>,
    numa: Fact<String>,
    gpus: Fact<usize>,
    header_split: Fact<bool>,
    ntuple: Fact<bool>,
    large_buffers: Fact<bool>,
    dropped: Fact<u64>,
    header_overflows: Fact<u64>,
    interrupts: Fact<usize>,
    interrupts_far: Fact<String>,
}

#[derive(Serialize)]
struct GpuView {
    name: String,
    rail: Fact<String>,
    same_root: Fact<bool>,
    device_file: Fact<bool>,
    memory: Fact<SocketAnswer>,
    metadata: Fact<SocketAnswer>,
    node_by_number: Fact<bool>,
    memory_free_bytes: Fact<u64>,
}

#[derive(Serialize)]
struct Control {
    interface: String,
    up: bool,
    addresses: Fact<Vec<IpAddr>>,
}

#[derive(Serialize)]
struct SocketView {
    name: &'static str,
    answer: Fact<SocketAnswer>,
}

#[derive(Serialize)]
struct PluginView {
    name: String,
    real_path: Fact<String>,
    tables: Fact<Vec<String>>,
    missing: Fact<Vec<String>>,
    no_exec: Fact<bool>,
}

impl View {
    fn from_facts(facts: &DoctorFacts, subject: Subject) -> Self {
        let rails = rails(facts, subject);
        let users = facts.plugin_users.as_ref();
        Self {
            gpus: facts
                .node
                .gpus
                .devices
                .as_ref()
                .map(|all| all.iter().map(|gpu| gpu_view(facts, gpu, &rails)).collect()),
            rails: facts
                .node
                .nics
                .as_ref()
                .map(|_| rails.iter().map(|nic| rail(facts, nic, &rails)).collect()),
            control: control(facts),
            devmem: devmem(facts, &rails),
            xids: log_lines(facts, "Xid"),
            manager_rules: ["rx_rule_manager", "rx_rule_uninstall"]
                .map(|name| SocketView {
                    name,
                    answer: facts.manager.socket(name),
                })
                .into(),
            plugins: facts
                .plugins
                .as_ref()
                .map(|all| all.iter().map(|one| plugin_view(facts, one)).collect()),
            plugin_files: facts.plugins.as_ref().map(|all| distinct(all)),
            plugin_sha256: facts.plugins.as_ref().and_then(|all| {
                all.first()
                    .map_or_else(|| Fact::unknown("no plugin"), |one| one.sha256.clone())
            }),
            loaded_family: loaded_family(facts),
            pairing: pairing(facts),
            plugin_users: users.map(|users| {
                users
                    .found
                    .iter()
                    .map(|user| format!("pid {} ({})", user.pid, user.program))
                    .collect()
            }),
            ports_taken: facts.listening.as_ref().map(|taken| {
                BOOTSTRAP_PORTS
                    .into_iter()
                    .filter(|port| taken.contains(port))
                    .collect()
            }),
            local_ports: facts
                .system
                .local_ports
                .as_ref()
                .map(|(first, last)| u32::from(last - first) + 1),
        }
    }
}

fn nics(facts: &DoctorFacts) -> &[Nic] {
    facts
        .node
        .nics
        .known()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn gpus(facts: &DoctorFacts) -> &[Gpu] {
    facts
        .node
        .gpus
        .devices
        .known()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn shares_root(gpu: &Gpu, nic: &Nic) -> bool {
    matches!(closeness(gpu, nic), Closeness::SamePciRoot { .. })
}

/// The control interface: the one that the environment names, or that of the default route.
fn control_name(facts: &DoctorFacts) -> Option<&str> {
    let named = facts.node.environment.get(CONTROL).map(String::as_str);
    let exists = named.filter(|name| nics(facts).iter().any(|nic| nic.name == *name));
    exists.or_else(|| facts.default_interface.known().map(String::as_str))
}

/// The interfaces that carry data: those that the environment names, else those that
/// [`automatic`] finds. The control interface is never among them; if the environment names
/// it as a data interface, `lint` reports that.
pub(super) fn rails(facts: &DoctorFacts, subject: Subject) -> Vec<&Nic> {
    let control = control_name(facts);
    let list = DATA
        .iter()
        .find_map(|name| facts.node.environment.get(*name))
        .filter(|list| list.len() >= 2);
    let named: Vec<&Nic> = match list {
        Some(list) => nics(facts)
            .iter()
            .filter(|nic| {
                lint::interface_matches(list, &nic.name)
                    && Some(nic.name.as_str()) != control
                    && nic.name != "lo"
            })
            .collect(),
        None => Vec::new(),
    };
    if named.is_empty() {
        automatic(facts, subject)
    } else {
        named
    }
}

/// The data interfaces by the machine's topology: for TCPX the physical NICs that share a
/// PCI root with a GPU, else every interface that is up and has an address.
fn automatic(facts: &DoctorFacts, subject: Subject) -> Vec<&Nic> {
    let control = facts.default_interface.known().map(String::as_str);
    let but_control = |nic: &&Nic| Some(nic.name.as_str()) != control;
    let physical: Vec<&Nic> = nics(facts)
        .iter()
        .filter(|nic| !nic.is_virtual && nic.name != "lo")
        .collect();
    if subject.tcpx {
        let beside: Vec<&Nic> = physical
            .iter()
            .copied()
            .filter(|nic| gpus(facts).iter().any(|gpu| shares_root(gpu, nic)))
            .collect();
        let others = || physical.iter().copied().filter(but_control).collect();
        return if beside.is_empty() { others() } else { beside };
    }
    let container = |nic: &Nic| CONTAINERS.iter().any(|prefix| nic.name.starts_with(prefix));
    let up: Vec<&Nic> = nics(facts)
        .iter()
        .filter(|nic| nic.name != "lo" && nic.is_up() && !container(nic))
        .filter(|nic| nic.addresses.known().is_some_and(|all| !all.is_empty()))
        .collect();
    // The control interface carries data only if it is the only one.
    let others: Vec<&Nic> = up.iter().copied().filter(but_control).collect();
    if others.is_empty() { up } else { others }
}

fn rail(facts: &DoctorFacts, nic: &Nic, rails: &[&Nic]) -> Rail {
    let driver = driver_of(facts, nic);
    let own = data_interrupts(facts, nic);
    Rail {
        name: nic.name.clone(),
        up: nic.is_up(),
        carrier: nic.carrier.clone(),
        addresses: nic.reachable_at(),
        mtu: nic.mtu.clone(),
        driver: nic.driver.clone(),
        speed: nic
            .speed
            .mbit_per_s()
            .ok_or_else(|| nic.speed.to_string())
            .into(),
        // As in the file, because the plugin reads the file as text.
        numa: match &nic.numa_node {
            Fact::Unknown { unknown } if unknown.ends_with(": -1") => Fact::Known("-1".to_owned()),
            numa => numa.as_ref().map(ToString::to_string),
        },
        gpus: facts.node.gpus.devices.as_ref().map(|all| {
            all.iter()
                .filter(|gpu| served_by(gpu, rails).is_some_and(|(rail, _)| rail.name == nic.name))
                .count()
        }),
        header_split: driver.as_ref().and_then(|driver| header_split(driver)),
        ntuple: driver.as_ref().and_then(|driver| {
            setting(
                &driver.features,
                "rx-ntuple-filter",
                "the kernel has no feature",
            )
        }),
        large_buffers: driver.as_ref().and_then(|driver| {
            let missing = "the driver has no private flag";
            setting(&driver.private_flags, "enable-max-rx-buffer-size", missing)
        }),
        dropped: driver
            .as_ref()
            .and_then(|driver| sum_of_counters(driver, "dropped")),
        header_overflows: driver
            .as_ref()
            .and_then(|driver| sum_of_counters(driver, "_hbo")),
        interrupts: own.as_ref().map(|(count, _)| *count),
        interrupts_far: own.and_then(|(_, cpus)| far_from(facts, nic, &cpus)),
    }
}

fn driver_of<'a>(facts: &'a DoctorFacts, nic: &Nic) -> Fact<&'a Ethtool> {
    match facts.drivers.get(&nic.name) {
        Some(driver) => driver.as_ref(),
        None => Fact::unknown("the driver was not queried"),
    }
}

fn header_split(driver: &Ethtool) -> Fact<bool> {
    match driver.header_split() {
        Some((on, _)) => Fact::Known(on),
        None => Fact::unknown("the driver has no header-split setting"),
    }
}

/// The setting `name`; `missing` begins the reason if there is no such setting.
fn setting(all: &Fact<BTreeMap<String, bool>>, name: &str, missing: &str) -> Fact<bool> {
    all.as_ref().and_then(|all| match all.get(name) {
        Some(on) => Fact::Known(*on),
        None => Fact::unknown(format!("{missing} {name}")),
    })
}

/// The sum of all counters whose name contains `part`.
fn sum_of_counters(driver: &Ethtool, part: &str) -> Fact<u64> {
    driver.counters.as_ref().map(|all| {
        let matching = all.iter().filter(|(name, _)| name.contains(part));
        matching.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
    })
}

/// The rail nearest to `gpu`, and how near it is.
fn served_by<'a>(gpu: &Gpu, rails: &[&'a Nic]) -> Option<(&'a Nic, Closeness)> {
    nearest(gpu, rails.iter().copied())
}

/// The number of interrupts for packets of `nic`, and the CPUs that serve them.
fn data_interrupts(facts: &DoctorFacts, nic: &Nic) -> Fact<(usize, CpuList)> {
    let all = facts.interrupts.as_ref();
    all.and_then(|all| {
        let Some(at) = nic.pci_address.known() else {
            return Fact::unknown("no PCI function");
        };
        let own: Vec<_> = all
            .iter()
            .filter(|one| one.pci_address == *at && one.carries_data())
            .collect();
        match own.iter().find_map(|one| one.cpus.why()) {
            Some(why) => Fact::unknown(why),
            None => Fact::Known((
                own.len(),
                own.iter()
                    .filter_map(|one| one.cpus.known())
                    .flat_map(CpuList::iter)
                    .collect(),
            )),
        }
    })
}

fn irq_cpus(facts: &DoctorFacts, nic: &Nic) -> Fact<CpuList> {
    data_interrupts(facts, nic).map(|(_, cpus)| cpus)
}

/// The `cpus` that are not on the interface's NUMA node, in words; empty if there are
/// none.
fn far_from(facts: &DoctorFacts, nic: &Nic, cpus: &CpuList) -> Fact<String> {
    let Some(node) = nic.numa_node.known() else {
        return Fact::unknown("the interface's NUMA node is unknown");
    };
    let nodes = facts
        .node
        .cpu
        .numa_nodes
        .known()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let near = nodes
        .iter()
        .find(|one| one.id == *node)
        .and_then(|one| one.cpus.known());
    let Some(near) = near else {
        return Fact::unknown(format!("the CPUs of NUMA node {node} are unknown"));
    };
    let far: BTreeSet<u32> = cpus.iter().filter(|cpu| !near.contains(*cpu)).collect();
    Fact::Known(match far.is_empty() {
        true => String::new(),
        false => format!(
            "CPUs {}; NUMA node {node} has {near}",
            far.into_iter().collect::<CpuList>()
        ),
    })
}

fn gpu_view(facts: &DoctorFacts, gpu: &Gpu, rails: &[&Nic]) -> GpuView {
    let best = served_by(gpu, rails);
    let rail = best
        .map(|(nic, _)| nic.name.clone())
        .ok_or_else(|| "no rail found".to_owned());
    let open = facts.system.nvidia_devices.as_ref();
    GpuView {
        name: format!("GPU {} ({})", gpu.index, gpu.pci_address),
        same_root: match (gpu.pci_path.why(), best) {
            (Some(why), _) => Fact::unknown(why),
            (None, None) => Fact::unknown("no rail found"),
            (None, Some((nic, near))) => match nic.pci_path.why() {
                Some(why) => Fact::unknown(why),
                None => Fact::Known(matches!(near, Closeness::SamePciRoot { .. })),
            },
        },
        rail: rail.into(),
        device_file: gpu.device_minor.as_ref().and_then(|minor| {
            open.map(|all| all.iter().any(|name| *name == format!("nvidia{minor}")))
        }),
        memory: facts
            .manager
            .socket(&format!("get_gpu_fd_{}", gpu.pci_address)),
        metadata: facts
            .manager
            .socket(&format!("get_gpu_metadata_{}", gpu.pci_address)),
        memory_free_bytes: facts.gpu_memory.as_ref().and_then(|all| {
            let own = all
                .iter()
                .find(|one| one.pci_address == gpu.pci_address)
                .map(|one| one.free_bytes);
            own.ok_or_else(|| "the driver did not report this GPU".to_owned())
                .into()
        }),
        // `dev < 4 ? 0 : 1` in 3.1.9's gpu/cuda_wrapper.cu.
        node_by_number: gpu
            .numa_node
            .as_ref()
            .map(|node| *node == u32::from(gpu.index >= 4)),
    }
}

fn control(facts: &DoctorFacts) -> Fact<Control> {
    let Some(name) = control_name(facts) else {
        return Fact::unknown(
            facts
                .default_interface
                .why()
                .unwrap_or("no default route")
                .to_owned(),
        );
    };
    let nic = nics(facts).iter().find(|nic| nic.name == name);
    let view = nic.map(|nic| Control {
        interface: nic.name.clone(),
        up: nic.is_up(),
        addresses: nic.reachable_at(),
    });
    view.ok_or_else(|| format!("no interface {name}")).into()
}

/// Whether the kernel has device-memory TCP: true if the kernel log says so or a driver
/// counts such packets; false only if every rail's driver has counters and none for them.
fn devmem(facts: &DoctorFacts, rails: &[&Nic]) -> Fact<bool> {
    if facts
        .system
        .kernel_log
        .known()
        .is_some_and(|lines| lines.iter().any(|line| line.contains("devmem-tcp enabled")))
    {
        return Fact::Known(true);
    }
    let counters: Option<Vec<&BTreeMap<String, u64>>> = rails
        .iter()
        .map(|nic| facts.drivers.get(&nic.name)?.known()?.counters.known())
        .collect();
    match counters {
        Some(all)
            if all
                .iter()
                .any(|one| one.keys().any(|name| name.contains("devmem"))) =>
        {
            Fact::Known(true)
        }
        Some(all) if !all.is_empty() && all.iter().all(|one| !one.is_empty()) => Fact::Known(false),
        _ => Fact::unknown("neither the kernel log nor the drivers' counters show it"),
    }
}

fn log_lines(facts: &DoctorFacts, word: &str) -> Fact<Vec<String>> {
    facts.system.kernel_log.as_ref().map(|lines| {
        lines
            .iter()
            .filter(|line| line.contains(word))
            .cloned()
            .collect()
    })
}

fn plugin_view(facts: &DoctorFacts, one: &crate::plugin_files::PluginFile) -> PluginView {
    let mounts = facts.mounts.as_ref();
    PluginView {
        name: one.path.clone(),
        real_path: one.real_path.clone(),
        tables: one.tables.clone(),
        missing: one.missing.clone(),
        no_exec: one.real_path.as_ref().and_then(|path| {
            mounts.map(|mounts| mount_of(mounts, path).is_some_and(|mount| mount.no_exec))
        }),
    }
}

/// The different files behind all paths, compared by hash if the hashes were read.
fn distinct(all: &[crate::plugin_files::PluginFile]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let file = |one: &crate::plugin_files::PluginFile| {
        let path = one.real_path.known()?;
        let identity = one.sha256.known().unwrap_or(path).clone();
        seen.insert(identity).then(|| path.clone())
    };
    all.iter().filter_map(file).collect()
}

/// The NCCL version that each release of the plugin is built for, as Google lists them.
const RELEASES: [(&str, &str); 2] = [("3.1.9", "2.19.3"), ("3.1.12", "2.19.4")];

/// Versions on this node that are known not to work together.
fn pairing(facts: &DoctorFacts) -> Vec<String> {
    let newer =
        |version: &str, than: &str| compare_versions(version, than).is_some_and(Ordering::is_ge);
    let nccl = facts
        .libraries
        .nccl
        .known()
        .and_then(|library| library.version.known());
    let plugin = facts
        .tested
        .as_ref()
        .and_then(|tested| tested.plugin_version.known());
    let mut problems = Vec::new();
    if let Some(version) = nccl.filter(|version| !newer(version, "2.19")) {
        problems.push(format!(
            "NCCL {version} cannot load v7 plugins (2.19 can) and falls back to sockets"
        ));
    }
    let release = plugin.and_then(|plugin| {
        RELEASES
            .iter()
            .find(|(version, _)| plugin.starts_with(version))
    });
    if let (Some(nccl), Some((version, with))) = (nccl, release)
        && nccl != with
    {
        problems.push(format!(
            "plugin {version} is built for NCCL {with}; this node has NCCL {nccl}"
        ));
    }
    let paths = facts
        .plugins
        .known()
        .into_iter()
        .flatten()
        .filter_map(|one| one.real_path.known());
    let latest = paths.into_iter().find(|path| path.contains("latest"));
    if let (Some(driver), Some(path)) = (facts.node.gpus.driver_version.known(), latest)
        && newer(driver, "580")
    {
        problems.push(format!(
            "driver {driver} with {path}: `latest` is an old build that fails on 580 and newer"
        ));
    }
    problems
}
