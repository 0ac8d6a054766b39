//! The fault that a scenario injects.
//!
//! In a file this is one flat table whose keys depend on `by`. It is read into
//! that flat table first, so that a misspelt key is still reported at its own
//! place, and then into the enum, which cannot hold a key of another kind.
//!
//! Not here: injecting it. The software plugin has its own syntax for plugin faults and also drops
//! packets; driver faults are in `transfer/rogue.rs` of the engine; the agent sends signals.
#![forbid(unsafe_code)]

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tcpx_words::progress::DriverFault;
use tcpx_words::side::Side;
use tcpx_words::word_set;

/// A fault, by who commits it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(try_from = "FaultTable", into = "FaultTable")]
pub enum Fault {
    /// The software plugin misbehaves.
    Plugin {
        /// The end whose plugin it is.
        side: Sides,
        /// Handed to that plugin as `TCPXSOFT_FAULT`.
        spec: String,
    },
    /// The program that drives the plugin misbehaves.
    Driver {
        /// The end whose driver it is.
        side: Sides,
        /// How.
        kind: DriverFault,
        /// The channel it happens on.
        channel: u32,
        /// How many chunks go well before it.
        after_chunk: u64,
    },
    /// The network loses packets, simulated at the software plugin's data sockets.
    /// `scripts/lab hurt` breaks the network itself.
    Network {
        /// How.
        kind: NetworkFault,
        /// The end it is done at.
        side: Sides,
        /// The channel it happens on; absent: all channels.
        channel: Option<u32>,
        /// Percentage of packets to drop; absent: all packets.
        percent: Option<u32>,
        /// How many chunks go well before it.
        after_chunk: u64,
    },
    /// A process is stopped or ended by its agent, or an agent by itself.
    Process {
        /// How.
        kind: ProcessFault,
        /// The end it is done at.
        side: Sides,
        /// How many chunks go well before it.
        after_chunk: u64,
    },
    /// The fault cannot be injected: nothing is run, and recorded evidence of it is judged.
    Evidence {
        /// Name of the evidence.
        kind: String,
        /// The end at which it happened.
        side: Sides,
    },
}

impl Fault {
    /// Who commits it.
    pub fn by(&self) -> FaultBy {
        match self {
            Self::Plugin { .. } => FaultBy::Plugin,
            Self::Driver { .. } => FaultBy::Driver,
            Self::Network { .. } => FaultBy::Network,
            Self::Process { .. } => FaultBy::Process,
            Self::Evidence { .. } => FaultBy::Evidence,
        }
    }

    /// The value of `TCPXSOFT_FAULT` for the software plugin of one end, if the fault applies.
    pub fn of_plugin(&self, at: Side) -> Option<String> {
        match self {
            Self::Plugin { side, spec } if side.include(at) => Some(spec.clone()),
            Self::Network {
                kind: NetworkFault::Loss,
                side,
                channel,
                percent,
                after_chunk,
            } if side.include(at) => {
                let comm = channel
                    .map(|channel| format!(",comm={channel}"))
                    .unwrap_or_default();
                Some(format!(
                    "lose:after={after_chunk},percent={},side={at}{comm}",
                    percent.unwrap_or(100)
                ))
            }
            _ => None,
        }
    }
}

word_set! {
    /// The ends a fault applies to.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum Sides {
        /// The end that sends.
        Send = "send",
        /// The end that receives.
        Recv = "recv",
        /// Both ends.
        Both = "both",
    }
}

impl Sides {
    /// Whether `side` is one of them.
    pub fn include(self, side: Side) -> bool {
        matches!(
            (self, side),
            (Self::Both, _) | (Self::Send, Side::Send) | (Self::Recv, Side::Recv)
        )
    }
}

word_set! {
    /// What a network does to packets.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum NetworkFault {
        /// They do not arrive.
        Loss = "loss",
    }
}

word_set! {
    /// What happens to a process.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum ProcessFault {
        /// The worker is stopped, as by a debugger or a frozen container.
        Stop = "stop",
        /// The worker is killed, as by the kernel when memory runs out.
        Kill = "kill",
        /// The worker crashes, as by abort.
        Crash = "crash",
        /// The worker calls exit.
        Exit = "exit",
        /// The agent is killed without a message, and its worker ends with it.
        KillAgent = "kill-agent",
        /// The agent is ended with SIGTERM, as by a scheduler.
        EndAgent = "end-agent",
    }
}

word_set! {
    /// Who commits a fault.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum FaultBy {
        /// The software plugin.
        Plugin = "plugin",
        /// The program that drives the plugin.
        Driver = "driver",
        /// The network between the nodes.
        Network = "network",
        /// The operating system.
        Process = "process",
        /// Not injected: only its recorded evidence can be judged.
        Evidence = "evidence",
    }
}

/// `[fault]` as it stands in a file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct FaultTable {
    /// Who commits it; the other keys depend on this one.
    by: Option<FaultBy>,
    /// The end it happens at: send, recv or both.
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<Sides>,
    /// How; for a driver one of younger-tested-first, seventeenth-post,
    /// consumed-early, never-consumed, not-polling, not-posting; for a network
    /// loss; for a process one of stop, kill, crash, exit, kill-agent, end-agent; for
    /// evidence the name of a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// By a plugin: handed to it as TCPXSOFT_FAULT.
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<String>,
    /// By a driver or the network: the channel it happens on.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<u32>,
    /// How many chunks go well before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_chunk: Option<u64>,
    /// By the network: percentage of packets to drop.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u32>,
}

impl FaultBy {
    /// The keys that belong to it, beside `by`.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Plugin => &["side", "spec"],
            Self::Driver => &["side", "kind", "channel", "after_chunk"],
            Self::Network => &["side", "kind", "channel", "percent", "after_chunk"],
            Self::Process => &["side", "kind", "after_chunk"],
            Self::Evidence => &["side", "kind"],
        }
    }
}

/// Every key of `[fault]` beside `by`.
const KEYS: [&str; 6] = ["side", "kind", "spec", "channel", "after_chunk", "percent"];

/// Keys that a fault committed by `by` does not have; none if there is no such word.
pub(super) fn foreign_keys(by: &str) -> Vec<&'static str> {
    let known = FaultBy::ALL.iter().find(|known| known.to_string() == by);
    let keys = KEYS.into_iter();
    keys.filter(|key| known.is_some_and(|known| !known.keys().contains(key)))
        .collect()
}

impl FaultTable {
    fn present(&self) -> [(&'static str, bool); 6] {
        let present = [
            self.side.is_some(),
            self.kind.is_some(),
            self.spec.is_some(),
            self.channel.is_some(),
            self.after_chunk.is_some(),
            self.percent.is_some(),
        ];
        std::array::from_fn(|at| (KEYS[at], present[at]))
    }
}

// The messages open with the key they are about, in backquotes: that is how the
// reader of a file finds the place to point at.
impl TryFrom<FaultTable> for Fault {
    type Error = String;
    fn try_from(written: FaultTable) -> Result<Self, String> {
        let by = written
            .by
            .ok_or_else(|| format!("`fault` needs `by`: one of {}", listed(FaultBy::ALL)))?;
        let stray = written
            .present()
            .into_iter()
            .find(|(key, present)| *present && !by.keys().contains(key));
        if let Some((key, _)) = stray {
            return Err(format!(
                "`fault.{key}` is not valid with by = \"{by}\": expected {}",
                by.keys().join(", ")
            ));
        }
        let needs = |key: &str| format!("`fault` by = \"{by}\" needs `{key}`");
        let side = written.side.ok_or_else(|| needs("side"))?;
        let kind = || written.kind.clone().ok_or_else(|| needs("kind"));
        let after_chunk = written.after_chunk.unwrap_or(0);
        Ok(match by {
            FaultBy::Plugin => Self::Plugin {
                side,
                spec: written.spec.ok_or_else(|| needs("spec"))?,
            },
            FaultBy::Driver => {
                let kind = one_of(by, DriverFault::ALL, &kind()?)?;
                Self::Driver {
                    side,
                    kind,
                    channel: written.channel.unwrap_or(0),
                    after_chunk,
                }
            }
            FaultBy::Network => {
                let kind = one_of(by, NetworkFault::ALL, &kind()?)?;
                Self::Network {
                    kind,
                    side,
                    channel: written.channel,
                    percent: written.percent,
                    after_chunk,
                }
            }
            FaultBy::Process => Self::Process {
                kind: one_of(by, ProcessFault::ALL, &kind()?)?,
                side,
                after_chunk,
            },
            FaultBy::Evidence => Self::Evidence {
                kind: kind()?,
                side,
            },
        })
    }
}

fn one_of<T: Copy + ToString>(by: FaultBy, words: &[T], word: &str) -> Result<T, String> {
    let found = words
        .iter()
        .copied()
        .find(|known| known.to_string() == word);
    found.ok_or_else(|| {
        format!(
            "`fault.kind` is not a {by} fault: expected one of {}",
            listed(words)
        )
    })
}

fn listed(words: &[impl ToString]) -> String {
    words
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

impl From<Fault> for FaultTable {
    fn from(fault: Fault) -> Self {
        let none = Self::default();
        match fault {
            Fault::Plugin { side, spec } => Self {
                by: Some(FaultBy::Plugin),
                side: Some(side),
                spec: Some(spec),
                ..none
            },
            Fault::Driver {
                side,
                kind,
                channel,
                after_chunk,
            } => Self {
                by: Some(FaultBy::Driver),
                side: Some(side),
                kind: Some(kind.to_string()),
                channel: Some(channel),
                after_chunk: Some(after_chunk),
                ..none
            },
            Fault::Network {
                kind,
                side,
                channel,
                percent,
                after_chunk,
            } => Self {
                by: Some(FaultBy::Network),
                side: Some(side),
                kind: Some(kind.to_string()),
                channel,
                percent,
                after_chunk: Some(after_chunk),
                ..none
            },
            Fault::Process {
                kind,
                side,
                after_chunk,
            } => Self {
                by: Some(FaultBy::Process),
                side: Some(side),
                kind: Some(kind.to_string()),
                after_chunk: Some(after_chunk),
                ..none
            },
            Fault::Evidence { kind, side } => Self {
                by: Some(FaultBy::Evidence),
                side: Some(side),
                kind: Some(kind),
                ..none
            },
        }
    }
}
