//! What is wrong with an environment: a pure look at names and values, over a
//! table of everything that is known to be read (`probes/node/variables.toml`).
//!
//! A mistake has a kind, which one check of the environment layer reports, and
//! where it can be mended without guessing, the line that mends it. What the
//! rules cannot know (no NICs were read) leaves a kind open, never clean.
//!
//! Not here: reading an environment, or deciding how bad a mistake is.
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
pub use table::Table;

use crate::Fact;
use crate::cpu::CpuList;
use std::collections::BTreeMap;

/// An environment, by name.
pub(crate) type Environment = BTreeMap<String, String>;

/// What the rules need to know of the machine; every part may be missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    /// CPUs that are online.
    pub online: Option<CpuList>,
    /// CPUs of each NUMA node.
    pub nodes: BTreeMap<u32, CpuList>,
    /// Interfaces; none read is `None`.
    pub nics: Option<BTreeMap<String, NicPlace>>,
    /// The interface of the default route.
    pub default_interface: Option<String>,
    /// Interfaces that share a host bridge with a GPU.
    pub rails: Vec<String>,
    /// How many GPUs there are.
    pub gpus: usize,
    /// Whether any of the manager's sockets accepts, in the folder that the
    /// environment names or the plugin's default.
    pub manager_answers: Option<bool>,
    /// Bytes of one message, where a scenario says so.
    pub chunk: Option<u64>,
}

/// Where an interface stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct NicPlace {
    /// Its NUMA node.
    pub node: Option<u32>,
    /// CPUs that serve its interrupts.
    pub irq_cpus: Option<CpuList>,
    /// Whether it holds an IPv4 address.
    pub has_ipv4: Option<bool>,
}

/// What kind of mistake; the name of its list in the document of facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// A name that nobody is known to read.
    UnknownName,
    /// A name that is passed on, and read by nothing.
    ReadByNobody,
    /// A name of another product.
    OtherProduct,
    /// A value that the integer parser takes for another number.
    NotANumber,
    /// A number out of range, which restores the default.
    OutOfRange,
    /// `NCCL_DYNAMIC_CHUNK_SIZE` unset or 0: nothing moves.
    TaskChunk,
    /// More data sockets than a comm has.
    Sockets,
    /// So many threads that no socket is left.
    NoSockets,
    /// A message that does not fit the unpack slice.
    ChunkSlice,
    /// A message of more than one task chunk per socket.
    ChunkLeak,
    /// Statistics are exported, and nobody says where to.
    Exporter,
    /// The exporter's CPU is not there.
    ExporterCpu,
    /// A switch that turns the plugin or its device memory off.
    Disabled,
    /// The data interfaces are not those of the machine.
    Interfaces,
    /// The control interface is not there.
    Control,
    /// The control interface is among the data interfaces.
    ControlAmongData,
    /// Bindings that the plugin cannot read, or crashes on.
    BindingsSyntax,
    /// Bindings for CPUs or interfaces that are not there.
    BindingsOffline,
    /// Bindings outside the interface's NUMA node.
    BindingsFar,
    /// Sender and receiver threads share CPUs.
    BindingsShared,
    /// Bindings mostly on CPUs that serve the interface's interrupts.
    BindingsOnIrqs,
    /// The manager's folder is not named.
    PrefixUnset,
    /// It is named, and nobody answers there.
    PrefixDead,
    /// Its socket names do not fit.
    PrefixTooLong,
    /// Two variables name two plugins.
    PluginPaths,
    /// Every accept waits five seconds.
    SteeringWait,
    /// CUDA's numbers are not the machine's.
    VisibleDevices,
}

impl Kind {
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

    /// Its name in documents: `task-chunk`.
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

/// What would mend it, where that is no guess.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Set it to this.
    Set(String, String),
    /// Remove it.
    Unset(String),
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lint {
    /// What kind.
    pub kind: Kind,
    /// In words, with name and value.
    pub text: String,
    /// What mends it; all of them together.
    pub fixes: Vec<Fix>,
}

/// What the rules found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    /// Every mistake.
    pub lints: Vec<Lint>,
    /// Kinds that could not be looked for, and why.
    pub open: BTreeMap<Kind, String>,
}

impl Findings {
    fn add(&mut self, kind: Kind, text: impl Into<String>, fixes: impl IntoIterator<Item = Fix>) {
        let text = crate::printable(&text.into());
        self.lints.push(Lint {
            kind,
            text,
            fixes: fixes.into_iter().collect(),
        });
    }

    fn open(&mut self, kinds: impl IntoIterator<Item = Kind>, why: &str) {
        self.open
            .extend(kinds.into_iter().map(|kind| (kind, why.to_owned())));
    }

    /// The mistakes of each kind, by its name; all kinds are there.
    pub(crate) fn by_kind(&self) -> BTreeMap<String, Fact<Vec<String>>> {
        let of = |kind: Kind| {
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
        Kind::ALL
            .into_iter()
            .map(|kind| (kind.name(), of(kind)))
            .collect()
    }
}

/// Every rule over one environment.
pub(crate) fn lint(table: &Table, environment: &Environment, machine: &Machine) -> Findings {
    let mut findings = Findings::default();
    names::look(table, environment, &mut findings);
    numbers::look(table, environment, &mut findings);
    settings::look(environment, machine, &mut findings);
    interfaces::look(environment, machine, &mut findings);
    bindings::look(environment, machine, &mut findings);
    manager::look(environment, machine, &mut findings);
    findings
}

/// `NAME=value`, as it stands in a shell.
fn pair(environment: &Environment, name: &str) -> String {
    format!(
        "{name}={}",
        environment.get(name).map_or("", String::as_str)
    )
}
