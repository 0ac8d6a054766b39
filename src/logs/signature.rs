//! A signature of `probes/logs/*.toml`: which lines match, what they mean, what to do.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How bad a line is for the run that logged it, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The process ends right after it.
    Fatal,
    /// A call failed, or a feature is lost.
    Error,
    /// Nothing moves, or moves slowly, while calls keep returning success.
    Stall,
    /// Suspicious; the run continued.
    Warning,
    /// Reports a fact.
    Info,
    /// Looks like a problem and is harmless.
    Benign,
}

impl Severity {
    /// Whether lines of this severity are findings.
    pub fn is_finding(self) -> bool {
        self <= Self::Warning
    }

    /// The word in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fatal => "fatal",
            Self::Error => "error",
            Self::Stall => "stall",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Benign => "benign",
        }
    }
}

/// A part of the life of a process, by its own lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Until its last connection is made.
    Setup,
    /// Between setup and close.
    Transfer,
    /// From the first comm that is closed.
    Close,
}

/// How a finding relates to the failure of its run, in the order of reports.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Names what failed.
    #[default]
    Cause,
    /// Reports a failure without its reason: an exception, an exit code, a lost peer.
    General,
    /// Follows an earlier failure: an abort, a signal, a watchdog's kill, a remote error.
    Consequence,
}

/// What else a log must show for a signature to be a finding; otherwise its lines are info.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// A line or a variable of TCPX.
    TcpxExpected,
    /// A communicator of several nodes, or none of one node or one rank.
    SeveralNodes,
    /// A communicator of several nodes, processes of NCCL on several hosts, or a command for several nodes.
    SpansNodes,
    /// No network that came up.
    NoNetwork,
    /// A setting that asks for EFA.
    EfaExpected,
    /// Any other finding.
    OtherFindings,
    /// A process that initialized no communicator after these lines, of a job on several nodes.
    UnfinishedInit,
    /// The end of its file right behind such a line, and no line that shows that the job went on.
    EndOfLog,
}

/// A fact that is read from the lines of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    /// Groups `key` and `value`: a setting of the process.
    Setting,
    /// Group `transport`: a network whose plugin NCCL loaded.
    TransportLoaded,
    /// Group `transport`: a network that NCCL initialized.
    TransportUp,
    /// Group `transport`: the network that NCCL chose.
    Transport,
    /// Group `transport`: the network of a channel.
    TransportUsed,
    /// Group `nodes`: the nodes of a communicator.
    Nodes,
    /// Groups `sequence` and `operation`: the collective that a rank waits for.
    Collective,
    /// Group `enqueued`: the last collective that a rank of PyTorch started.
    Progress,
    /// `AllReduce: opCount 1f2 ... comm 0x55d1c0ffee00`: a collective that a rank of NCCL starts.
    OpCount,
    /// The process initialized a communicator, so its earlier warnings did not stop it.
    InitComplete,
    /// `rank 3 ... busId 1000 ... commId 0x2ef1`: the GPU on which a rank begins to make a communicator.
    RankGpu,
    /// Groups `rank` and `ranks`: which of all ranks a process says that it is.
    AnnouncedRank,
    /// Groups `rank` and `host`: a row of a table of all ranks of a job.
    ListedRank,
    /// Group `version`: the version of the plugin.
    Version,
    /// `[0]eth1:10.0.1.25<0>`: NICs and their addresses.
    Devices,
    /// A connected flow, with its index.
    Flow,
    /// A flow that is slow, with `cnt` and `nanos`.
    Polls,
    /// A comm's last line, with what it sent.
    Volume,
    /// A step of a program that drives the plugin itself, read by `harness`.
    Harness,
    /// The next line is NCCL's last warning, which PyTorch quotes in an exception.
    LastWarning,
}

impl Fact {
    /// The named groups of the regex that the fact is read from; others have no name.
    pub(super) fn groups(self) -> [&'static str; 2] {
        match self {
            Self::Setting => ["key", "value"],
            Self::TransportLoaded | Self::TransportUp | Self::Transport | Self::TransportUsed => {
                ["transport", ""]
            }
            Self::Nodes => ["nodes", ""],
            Self::Collective => ["sequence", "operation"],
            Self::Progress => ["enqueued", ""],
            Self::AnnouncedRank => ["rank", "ranks"],
            Self::ListedRank => ["rank", "host"],
            Self::Version => ["version", ""],
            Self::OpCount
            | Self::InitComplete
            | Self::RankGpu
            | Self::Devices
            | Self::Flow
            | Self::Polls
            | Self::Volume
            | Self::Harness
            | Self::LastWarning => ["", ""],
        }
    }

    pub(super) fn has_groups(self) -> bool {
        self.groups() != ["", ""]
    }
}

/// One kind of log line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Signature {
    /// A stable name that people can quote.
    pub name: String,
    /// Text that every such line contains; the scanner searches for it.
    pub literal: String,
    /// A regex that the message must match too, if the literal is not specific enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// How bad such a line is.
    pub severity: Severity,
    /// What such a line means, in one sentence.
    pub meaning: String,
    /// Likely causes, the likeliest first.
    #[serde(default)]
    pub causes: Vec<String>,
    /// What to do.
    #[serde(default)]
    pub next: Option<String>,
    /// Releases in which it was observed: `plugin 3.1.9`, `NCCL 2.26 and later`.
    pub versions: String,
    /// Phases in which such a line is harmless.
    #[serde(default)]
    pub benign: Vec<Phase>,
    /// The phase that such a line delimits: the end of `setup`, or the start of `close`.
    #[serde(default)]
    pub marks: Option<Phase>,
    /// The fact that is read from such a line.
    #[serde(default)]
    pub fact: Option<Fact>,
    /// How such a line relates to the failure.
    #[serde(default)]
    pub role: Role,
    /// What else the log must show for such a line to be a finding.
    #[serde(default)]
    pub needs: Option<Need>,
    /// The network that such a line shows to be up.
    #[serde(default)]
    pub network: Option<String>,
    /// The library whose network it is, where that is not NCCL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Meanings of the values of the group `code`, for `{means}` in the texts.
    #[serde(default)]
    pub table: BTreeMap<String, String>,
    /// Whether any other signature of a line hides this one.
    #[serde(default)]
    pub fallback: bool,
    /// Whether it only tells of which network a line is: other signatures of the line do not hide it, nor does it
    /// hide them, and an error in such a line still needs one that explains it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub label: bool,
    /// Signatures in whose company a harmless line is not harmless.
    #[serde(default)]
    pub unless: Vec<String>,
    /// Whether what such a harmless line tells may be why the process crashes behind it, which is told with the crash.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lead: bool,
    /// Signatures of failures of which it may be the reason too, where one of them is the first finding behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leads_to: Vec<String>,
    /// Signatures with a later line of the same process beside which such a line is info: what it
    /// reports was got over.
    #[serde(default)]
    pub settled_by: Vec<String>,
    /// Other findings that such a line only follows, where the log has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    /// Whether it is a launcher's line on a process that ended: it follows any error of a program before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub launcher: bool,
    /// Whether it only passes on what a line near it tells, behind which it stands then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passes_on: bool,
    /// Whether it may be all that a process notices of the end of another one, behind which it stands where the log
    /// tells of that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loss: bool,
    /// Whether such a line, which is no finding, is told as info where the log has no finding: the job had to do without
    /// what it was told to use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub got_over: bool,
    /// What such a line says of whose the error before it was, for that error's sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blames: Option<String>,
    /// Signatures that match too and are hidden by this one.
    #[serde(default)]
    pub over: Vec<String>,
    /// What the lines below such a line tell more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Below>,
    /// A complete line; the test of this signature.
    pub example: String,
    /// The user's file that it is in; `None` for a shipped one.
    #[serde(skip)]
    pub file: Option<String>,
}

impl Signature {
    /// The first of `signatures` with this name.
    pub(super) fn named<'a>(signatures: &'a [Self], name: &str) -> Option<&'a Self> {
        signatures.iter().find(|one| one.name == name)
    }

    /// Whether its lines are of another program than NCCL and its plugins, so that the same words in a line that NCCL
    /// calls information are no error.
    pub(super) fn is_foreign_error(&self) -> bool {
        let is_of_nccl = self.example.to_ascii_lowercase().contains("nccl");
        self.file.is_none() && self.severity.is_finding() && !is_of_nccl
    }
}

/// Findings that a line follows if they are before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Follows {
    /// Names of signatures; `unknown-warning` is an error that none explains.
    pub names: Vec<String>,
    /// Most lines between the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<u64>,
    /// Whether both lines name a process and these differ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_process: bool,
}

/// What the lines below a line tell, as far as they do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Below {
    /// A regex that is searched for again and again in the lines below. All values of a group are listed. Of several
    /// such texts the one with the least value of a group `time` counts.
    pub regex: String,
    /// What the line means where every group in this text was found.
    pub meaning: String,
    /// What to do then.
    pub next: String,
    /// The causes then, if they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// How bad the line is then, and how it relates to the failure, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Lines below the example.
    pub example: String,
}

/// A signature of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnSignature {
    /// Its name.
    pub name: String,
    /// The file that it is in.
    pub file: String,
    /// Where the signature is from that it replaces: `tcpxctl`, or another file of the user.
    pub replaces: Option<String>,
}

impl OwnSignature {
    /// A signature of a user among those that were known before.
    pub(super) fn new(signature: &Signature, known: &[Signature]) -> Self {
        let replaced = known.iter().find(|other| other.name == signature.name);
        Self {
            name: signature.name.clone(),
            file: signature.file.clone().unwrap_or_default(),
            replaces: replaced
                .map(|other| other.file.clone().unwrap_or_else(|| SHIPPED.to_owned())),
        }
    }
}

/// Where shipped signatures are from.
const SHIPPED: &str = "tcpxctl";
