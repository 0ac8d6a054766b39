//! `tcpxctl doctor`: checks a node, or two together, before anything runs on it.
//!
//! ```console
//! $ tcpxctl doctor
//! $ tcpxctl doctor --peer 10.0.0.226
//! $ tcpxctl doctor --fleet 'a3-[0-15]'
//! $ eval "$(tcpxctl doctor --fix-env)"
//! $ tcpxctl doctor --capture node.tar.gz          # on the node
//! $ tar xzf node.tar.gz -C tree && tcpxctl doctor --sysroot tree    # anywhere
//! ```
//!
//! Without `--load` and `--peer`, the doctor loads, starts and changes nothing, and needs no
//! other program. The checks are those of GPUDirect-TCPX; `--plugin soft` makes fewer. The exit
//! code is 1 if a check fails, and 3 if none fails and one that could fail is UNKNOWN.
#![forbid(unsafe_code)]

use super::Common;
use super::doctor_fleet::{FleetCheck, fleet};
use super::doctor_table::{Paint, Report, Section};
use super::failure::{Ended, Ending, Failure};
use super::nodes::{Nodes, node_at};
use super::output::{path_text, print, print_json, say, stdout_colors};
use super::plugin_arguments::PluginArguments;
use super::report::{beside, keep_map};
use super::scenario::first_point;
use super::signals::interrupted;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tcpx_coord::{Examine, Loaded, Task, WorkerMessage};
use tcpx_coord::{TaskNode, environment};
use tcpx_engine::gpu::CudaNode;
use tcpx_node::doctor::lint::VariableTable;
use tcpx_node::doctor::{
    Capture, Catalogue, Depth, DoctorFacts, ProbedRails, Scope, Subject, Tested, capture, examine,
    examine_pair, probe, rail_names,
};
use tcpx_node::plugin_files::{ChosenPlugin, must_have_table};
use tcpx_node::redact::Outlet;
use tcpx_node::{NodeFacts, Root};
use tcpx_report::{check_writable, write_whole_unless};
use tcpx_run_model::scenario::PluginChoice;
use tcpx_words::error::Outcome;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::side::Side;

/// Most bytes of a facts file; real ones have some hundred kilobytes.
const FACTS_BYTES_MAX: u64 = 64 << 20;
/// Time limit for the peer to read its facts and to try the rails.
const PEER_PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for CUDA, and for the plugin, to initialise.
const LOAD_PATIENCE: Duration = Duration::from_secs(20);
/// Linux's default range, for a node whose range is unknown.
const EPHEMERAL: (u16, u16) = (32_768, 60_999);

#[derive(Args)]
pub(crate) struct Arguments {
    /// Plugin to check the node for: tcpx, soft, builtin, or a file.
    #[arg(long, value_name = "PLUGIN", default_value = "tcpx")]
    plugin: String,
    /// Check the environment that this scenario sets.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Check a captured tree instead of this machine.
    #[arg(long, value_name = "DIR", conflicts_with = "capture")]
    sysroot: Option<PathBuf>,
    /// Write the files that the checks read, redacted, as an archive for --sysroot.
    #[arg(long, value_name = "FILE.tar.gz")]
    capture: Option<PathBuf>,
    /// Do not replace names and addresses in the capture.
    #[arg(long, requires = "capture")]
    no_redact: bool,
    /// Print only the shell lines that correct the environment.
    #[arg(long, conflicts_with_all = ["capture", "facts"])]
    fix_env: bool,
    /// Compare with the facts of another node, as `doctor --facts` prints them there.
    #[arg(long, value_name = "FILE", conflicts_with = "peer")]
    peer_facts: Option<PathBuf>,
    /// Check every node of a list such as node_ips/tcpx.txt or a3-[0-15]; print what fails or differs.
    #[arg(long, value_name = "FILE|NAMES", conflicts_with_all = ["sysroot", "capture", "fix_env", "peer_facts", "load", "facts", "peer", "join", "from"])]
    fleet: Option<String>,
    /// Also load CUDA and the plugin, each in a separate process; takes seconds.
    #[arg(long, conflicts_with_all = ["sysroot", "fix_env"])]
    load: bool,
    /// Print the facts as JSON, and make no checks.
    #[arg(long, conflicts_with = "peer_facts")]
    facts: bool,
    #[command(flatten)]
    nodes: Nodes,
}

impl Arguments {
    /// The plugin's path, if `--plugin` is a file.
    fn file(&self) -> Option<PathBuf> {
        let is_path = self.plugin.contains('/') || self.plugin.ends_with(".so");
        is_path.then(|| PathBuf::from(&self.plugin))
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FactsDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "super::schemas::Keys"))]
    facts: &'a DoctorFacts,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FixEnvDocument<'a> {
    schema: &'static str,
    lines: &'a [String],
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let catalogue =
        Catalogue::embedded().map_err(|error| Failure::new(Outcome::NotRun, error.to_string()))?;
    let root = root(arguments)?;
    let (subject, extra) = subject(arguments, &root)?;
    let plugin = arguments.file();
    if let (Some(file), false, None) = (&plugin, subject.tcpx, &arguments.sysroot) {
        // Only TCPX has checks of the file; without this one, any file name would pass.
        must_have_table(file).map_err(|error| Failure::because(Outcome::NotRun, &error))?;
    }
    let scope = Scope {
        environment: &extra,
        depth: Depth::All,
        plugin: plugin.as_deref(),
    };
    if let Some(hosts) = &arguments.fleet {
        let check = FleetCheck {
            catalogue: &catalogue,
            subject,
            scope,
        };
        return fleet(common, &arguments.nodes, hosts, &check);
    }
    let mut facts = match &arguments.capture {
        Some(path) => captured(path, scope, arguments.no_redact)?,
        None => DoctorFacts::read(&root, scope),
    };
    if arguments.load {
        facts.tested = Some(tested(&facts, &extra));
    }
    if arguments.facts {
        print_json(&FactsDocument {
            schema: "tcpxctl.facts/1",
            facts: &facts,
        });
        return Ok(Ending::PASSED);
    }
    if arguments.fix_env {
        let table =
            VariableTable::embedded().map_err(|problem| Failure::new(Outcome::NotRun, problem))?;
        fix_env(common, &tcpx_node::doctor::exports(&table, &facts, subject));
        return Ok(Ending::PASSED);
    }
    let there = match &arguments.peer_facts {
        Some(path) => Some((peer_facts(path)?, None)),
        None => on_peer(arguments, &facts, scope, subject)?,
    };
    let here = Section {
        node: node_name(&facts),
        checks: examine(&catalogue, &facts, subject).rows,
    };
    let (peer, both) = match &there {
        None => (None, None),
        Some((peer, tried)) => {
            let section = Section {
                node: node_name(peer),
                checks: examine(&catalogue, peer, subject).rows,
            };
            (
                Some(section),
                Some(examine_pair(&catalogue, &facts, peer, tried.as_ref(), subject).rows),
            )
        }
    };
    let report = Report {
        catalogue: &catalogue,
        tcpx: subject.tcpx,
        plugin: plugin.as_deref(),
        here,
        peer,
        both,
    };
    match common.json {
        true => print_json(&report.document()),
        false => print(&report.text(Paint(stdout_colors(common)))),
    }
    Ok(Ending::code(report.exit_code()))
}

/// Loads CUDA, then the plugin, each within a time limit.
fn tested(facts: &DoctorFacts, env: &BTreeMap<String, String>) -> Tested {
    let candidate = facts
        .plugins
        .known()
        .into_iter()
        .flatten()
        .find(|one| one.real_path.known().is_some());
    let node = TaskNode::here(&PluginChoice::named("builtin"));
    let cuda = node.ask(Task::Gpus, env, LOAD_PATIENCE, |message| match message {
        WorkerMessage::Gpus(found) => Some(found),
        _ => None,
    });
    let devices = |cuda: CudaNode| match cuda.devices.len() {
        0 => Err("CUDA has no device".to_owned()),
        count => Ok(count),
    };
    let loaded = candidate
        .ok_or_else(|| "no plugin was found to load".to_owned())
        .and_then(|one| {
            let task = Task::Probe {
                plugin: ChosenPlugin::of_file(one.path.clone().into()),
            };
            let loaded = node.ask(task, env, LOAD_PATIENCE, |message| match message {
                WorkerMessage::Loaded(loaded) => Some(*loaded),
                _ => None,
            });
            loaded.map_err(|problem| problem.message)
        });
    let version = |loaded: &Loaded| {
        loaded
            .version
            .clone()
            .ok_or_else(|| "the plugin logged no version".to_owned())
    };
    Tested {
        cuda_devices: cuda
            .map_err(|problem| problem.message)
            .and_then(|found| found.and_then(devices))
            .into(),
        plugin_version: loaded
            .as_ref()
            .map_err(Clone::clone)
            .and_then(version)
            .into(),
        plugin_name: loaded.map(|loaded| loaded.about.name).into(),
    }
}

/// The facts of the node of `--peer`, and the result of trying each rail.
fn on_peer(
    arguments: &Arguments,
    facts: &DoctorFacts,
    scope: Scope<'_>,
    subject: Subject,
) -> Result<Option<(DoctorFacts, Option<ProbedRails>)>, Failure> {
    let Some(way) = arguments.nodes.peer_of_here()? else {
        return Ok(None);
    };
    // The doctor looks at the plugin files itself, so the node need not choose a plugin.
    let node = node_at(&*way, &PluginChoice::named("builtin"))?;
    let rails = probe::rails(&facts.node, &rail_names(facts, subject));
    let range = facts
        .system
        .local_ports
        .known()
        .copied()
        .unwrap_or(EPHEMERAL);
    let offered = probe::listen(&rails, range);
    if let Err(error) = &offered {
        say(&format!(
            "warning: the rails were not tried: cannot listen on them: {error}\n"
        ));
    }
    let (_listening, offer) = offered.ok().unzip();
    let task = Examine {
        tcpx: subject.tcpx,
        plugin: scope.plugin.map(Path::to_path_buf),
        offer,
    };
    let task = Task::Examine(Box::new(task));
    let found = node.ask(
        task,
        scope.environment,
        PEER_PATIENCE,
        |message| match message {
            WorkerMessage::Examined(found) => Some(*found),
            _ => None,
        },
    )?;
    if let (Some(file), false) = (scope.plugin, subject.tcpx) {
        // As for this node's file: only TCPX has checks of the file.
        let mut all = found.facts.plugins.known().into_iter().flatten();
        let why = match all.find(|one| Path::new(&one.path) == file) {
            Some(one) => one.why_not(),
            None => Some(format!("{}: not checked", file.display())),
        };
        if let Some(why) = why {
            let message = format!("plugin on {}: {why}", way.node());
            let next = "put the same file on both nodes";
            return Err(Failure::new(Outcome::NotRun, message).next(next));
        }
    }
    Ok(Some((found.facts, found.tried)))
}

fn root(arguments: &Arguments) -> Result<Root, Failure> {
    let Some(path) = &arguments.sysroot else {
        return Ok(Root::live());
    };
    let not_a_folder = |why: &str| {
        let message = format!("--sysroot {}: {why}", path.display());
        let next = "name the folder that holds the captured /proc and /sys";
        Failure::new(Outcome::Usage, message).next(next)
    };
    if !path.is_dir() {
        return Err(not_a_folder("there is no such folder"));
    }
    Root::captured(path).map_err(|error| not_a_folder(&error.to_string()))
}

/// What the node is checked for, and the variables that a scenario sets.
fn subject(
    arguments: &Arguments,
    root: &Root,
) -> Result<(Subject, BTreeMap<String, String>), Failure> {
    let tcpx = match (arguments.plugin.as_str(), arguments.file()) {
        (_, Some(file)) => PluginFamily::expected_of_path(&file) == PluginFamily::Tcpx,
        ("soft" | "builtin", None) => false,
        ("tcpx" | "auto", None) => true,
        (other, None) => {
            let message = format!("--plugin {other}: expected tcpx, soft, builtin or a file");
            return Err(Failure::new(Outcome::Usage, message));
        }
    };
    // The software plugin is only loaded by a run, which sets its environment. Google's plugin
    // is also loaded by programs that inherit the shell's environment.
    if tcpx && arguments.scenario.is_none() {
        return Ok((Subject { tcpx, chunk: None }, BTreeMap::new()));
    }
    let scenario = first_point(arguments.scenario.clone(), &[], &PluginArguments::default())?;
    // Variables are derived from the plugin's family alone, so the file need not exist.
    let choice = ChosenPlugin::of_file(
        if tcpx {
            "libnccl-net-tcpx.so"
        } else {
            "libnccl_net_tcpxsoft.so"
        }
        .into(),
    );
    let env = environment(&scenario, &NodeFacts::read(root), Side::Send, &choice, None);
    Ok((
        Subject {
            tcpx,
            chunk: Some(scenario.transfer.chunk.0),
        },
        env,
    ))
}

fn node_name(facts: &DoctorFacts) -> String {
    facts
        .node
        .host
        .name
        .known()
        .cloned()
        .unwrap_or_else(|| "this node".to_owned())
}

fn fix_env(common: &Common, lines: &[String]) {
    if common.json {
        print_json(&FixEnvDocument {
            schema: "tcpxctl.doctor-fix-env/1",
            lines,
        });
    } else if lines.is_empty() {
        say("# nothing to correct in this environment\n");
    } else {
        print(&format!("{}\n", lines.join("\n")));
    }
}

/// Reads the facts of another node from a file of `doctor --facts`.
fn peer_facts(path: &Path) -> Result<DoctorFacts, Failure> {
    read_facts(path).map_err(|problem| {
        let message = format!("{}: {problem}", path.display());
        let next = "make the file on the other node with `tcpxctl doctor --facts`";
        Failure::new(Outcome::Usage, message).next(next)
    })
}

fn read_facts(path: &Path) -> Result<DoctorFacts, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > FACTS_BYTES_MAX {
        return Err(format!(
            "not a regular file of at most {} MiB",
            FACTS_BYTES_MAX >> 20
        ));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FACTS_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    DoctorFacts::from_json(&text).map_err(|error| format!("not the facts of a node: {error}"))
}

fn captured(path: &Path, scope: Scope<'_>, as_it_is: bool) -> Result<DoctorFacts, Failure> {
    let failed = |why: &str| {
        let message = format!("cannot write the capture {}: {why}", path_text(path));
        Failure::new(Outcome::NotRun, message)
    };
    if path.symlink_metadata().is_ok() {
        return Err(failed("it exists").next("name a file that does not exist yet"));
    }
    check_writable(path)?;
    let mut outlet = Outlet::of_command(as_it_is);
    let Capture {
        facts,
        entries,
        archive,
    } = capture(scope, &mut outlet).map_err(|error| failed(&error.to_string()))?;
    let stop = interrupted()?;
    write_whole_unless(path, &stop, |to| to.write_all(archive.bytes()))?;
    let how = if as_it_is { "NOT redacted" } else { "redacted" };
    say(&format!(
        "# Capture : {} ({entries} entries, {how})\n",
        path_text(path)
    ));
    keep_map(&beside(path), &outlet)?;
    Ok(facts)
}
