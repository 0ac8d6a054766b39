//! The environment linter: pure rules over names and values of variables, with a table of
//! every variable that is known to be read (`probes/node/variables.toml`).
//!
//! A mistake has a kind, which one check of the environment layer reports. If it can be
//! corrected without guessing, it carries the fix. If a rule lacks a fact (no NICs could be
//! read), its kinds are open: UNKNOWN, not clean.
//!
//! Not here: reading an environment, or deciding how severe a mistake is.
#![forbid(unsafe_code)]

mod bindings;
mod fix;
mod interfaces;
mod manager;
mod names;
mod numbers;
mod settings;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use fix::exports;
pub(crate) use interfaces::matches as interface_matches;
use numbers::integer;
pub use table::VariableTable;

use crate::Fact;
use crate::cpu::CpuList;
use std::collections::BTreeMap;

/// Values of variables, by name.
pub(crate) type Environment = BTreeMap<String, String>;

/// The facts of the machine that the rules need; each may be missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    /// Online CPUs.
    pub online: Option<CpuList>,
    /// CPUs of each NUMA node.
    pub nodes: BTreeMap<u32, CpuList>,
    /// Interfaces, by name; `None` if they could not be read.
    pub nics: Option<BTreeMap<String, NicPlace>>,
    /// The interface of the default route.
    pub default_interface: Option<String>,
    /// Interfaces that share a host bridge with a GPU.
    pub rails: Vec<String>,
    /// The number of GPUs.
    pub gpus: usize,
    /// Whether any of RxDM's sockets accepts a connection, in the folder that the
    /// environment names or in the plugin's default folder.
    pub manager_answers: Option<bool>,
    /// Bytes of one message, if a scenario sets it.
    pub chunk: Option<u64>,
}

/// An interface, as far as the rules need it.
#[derive(Debug, Clone, Default)]
pub(crate) struct NicPlace {
    /// NUMA node of the device.
    pub node: Option<u32>,
    /// CPUs that serve the interrupts of the interface.
    pub irq_cpus: Option<CpuList>,
    /// Whether the interface has an address that another node can reach.
    pub has_address: Option<bool>,
}

/// The kind of a mistake. [`LintKind::name`] is the name of its list in the document of facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LintKind {
    /// A name that no known program reads.
    UnknownName,
    /// A name that appears in scripts and notes, but that nothing reads.
    ReadByNobody,
    /// A variable of another product.
    OtherProduct,
    /// A value that the integer parser reads as another number.
    NotANumber,
    /// A number out of range, which the plugin replaces with its default.
    OutOfRange,
    /// `NCCL_DYNAMIC_CHUNK_SIZE` unset or 0: nothing moves.
    TaskChunk,
    /// More data sockets than a comm has.
    Sockets,
    /// More threads than sockets, so that each thread gets none.
    NoSockets,
    /// A message that does not fit into one unpack slot.
    ChunkSlice,
    /// A message of more than one task chunk per socket.
    ChunkLeak,
    /// Statistics are exported, but the path is not set.
    Exporter,
    /// The exporter's CPU does not exist.
    ExporterCpu,
    /// A setting that disables the plugin or its GPU memory.
    Disabled,
    /// The list of data interfaces matches none, or names one that does not exist.
    Interfaces,
    /// The control interface does not exist, or has no address.
    Control,
    /// The control interface is also a data interface.
    ControlAmongData,
    /// Bindings that the plugin cannot parse, or crashes on.
    BindingsSyntax,
    /// Bindings for CPUs or interfaces that do not exist.
    BindingsOffline,
    /// Bindings outside the interface's NUMA node.
    BindingsFar,
    /// Sender and receiver threads share CPUs.
    BindingsShared,
    /// Bindings mostly on CPUs that serve the interface's interrupts.
    BindingsOnIrqs,
    /// RxDM's folder is not set, and no RxDM answers in the default folder.
    PrefixUnset,
    /// RxDM's folder is set, and no RxDM answers there.
    PrefixDead,
    /// Socket paths in RxDM's folder are too long.
    PrefixTooLong,
    /// Two variables name two plugin files.
    PluginPaths,
    /// Every accept waits longer than a second.
    SteeringWait,
    /// CUDA numbers the GPUs differently from the machine.
    VisibleDevices,
}

impl LintKind {
    /// Every kind, in the order of the checks.
    pub(crate) const ALL: [Self; 27] = [
        Self::UnknownName,
        Self::ReadByNobody,
        Self::OtherProduct,
        Self::NotANumber,
        Self::OutOfRange,
        Self::TaskChunk,
        Self::Sockets,
        Self::NoSockets,
        Self::ChunkSlice,
        Self::ChunkLeak,
        Self::Exporter,
        Self::ExporterCpu,
        Self::Disabled,
        Self::Interfaces,
        Self::Control,
        Self::ControlAmongData,
        Self::BindingsSyntax,
        Self::BindingsOffline,
        Self::BindingsFar,
        Self::BindingsShared,
        Self::BindingsOnIrqs,
        Self::PrefixUnset,
        Self::PrefixDead,
        Self::PrefixTooLong,
        Self::PluginPaths,
        Self::SteeringWait,
        Self::VisibleDevices,
    ];

    /// The name in documents, in kebab case: `task-chunk`.
    pub(crate) fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}

/// A correction of one variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Set the variable to the value.
    Set(String, String),
    /// Remove the variable.
    Unset(String),
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lint {
    /// The kind.
    pub kind: LintKind,
    /// The mistake in words, with name and value of the variable.
    pub text: String,
    /// The corrections, which all belong together.
    pub fixes: Vec<Fix>,
}

/// The result of all rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    /// Every mistake.
    pub lints: Vec<Lint>,
    /// Kinds that could not be checked, and why.
    pub open: BTreeMap<LintKind, String>,
}

impl Findings {
    fn add(
        &mut self,
        kind: LintKind,
        text: impl Into<String>,
        fixes: impl IntoIterator<Item = Fix>,
    ) {
        let text = crate::printable(&text.into());
        self.lints.push(Lint {
            kind,
            text,
            fixes: fixes.into_iter().collect(),
        });
    }

    fn open(&mut self, kinds: impl IntoIterator<Item = LintKind>, why: &str) {
        self.open
            .extend(kinds.into_iter().map(|kind| (kind, why.to_owned())));
    }

    /// The mistakes of each kind, by its name. Every kind is listed.
    pub(crate) fn by_kind(&self) -> BTreeMap<String, Fact<Vec<String>>> {
        let of = |kind: LintKind| {
            let found: Vec<String> = self
                .lints
                .iter()
                .filter(|lint| lint.kind == kind)
                .map(|lint| lint.text.clone())
                .collect();
            match self.open.get(&kind) {
                Some(why) if found.is_empty() => Fact::unknown(why.clone()),
                _ => Fact::Known(found),
            }
        };
        LintKind::ALL
            .into_iter()
            .map(|kind| (kind.name(), of(kind)))
            .collect()
    }
}

/// Applies every rule to one environment.
pub(crate) fn lint(
    table: &VariableTable,
    environment: &Environment,
    machine: &Machine,
) -> Findings {
    let mut findings = Findings::default();
    names::check(table, environment, &mut findings);
    numbers::check(table, environment, &mut findings);
    settings::check(environment, machine, &mut findings);
    interfaces::check(environment, machine, &mut findings);
    bindings::check(environment, machine, &mut findings);
    manager::check(environment, machine, &mut findings);
    findings
}

/// `NAME=value`, for messages.
fn pair(environment: &Environment, name: &str) -> String {
    format!(
        "{name}={}",
        environment.get(name).map_or("", String::as_str)
    )
}
