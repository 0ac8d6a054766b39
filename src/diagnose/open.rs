//! Evidence from where it lies: a run folder, finished or not, a bundle, and recorders of
//! programs that run now.
#![forbid(unsafe_code)]

use super::collect::Collector;
use super::evidence::Evidence;
use crate::coord::event::Event;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tcpx_run_model::record::live::Update;
use tcpx_run_model::record::{ChannelNow, Frame, RunFiles, RunRecord};
use tcpx_run_model::scenario::Scenario;
use tcpx_words::error::NextStep;

/// Longest event, and largest file of a run folder, that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How long programs that run are looked at, and how often.
const LOOK_FOR: Duration = Duration::from_millis(700);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why there is no evidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A folder without an event stream.
    #[error("{} has no events.jsonl to judge by: {why}", path.display())]
    NoEvents {
        /// Which.
        path: PathBuf,
        /// In the system's words.
        why: String,
    },
    /// No run was ever kept here.
    #[error("there is no run in {}", .0.display())]
    NoRuns(PathBuf),
    /// Nothing more comes from a node.
    #[error("{0}")]
    Lost(String),
}

impl NextStep for OpenError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::NoEvents { .. } | Self::NoRuns(_) => {
                Some("name a folder under reports/, a process that writes a recorder, or a recorder file".into())
            }
            Self::Lost(_) => None,
        }
    }
}

/// The newest run folder below `reports`.
///
/// # Errors
/// There is none.
pub fn newest_run(reports: &Path) -> Result<PathBuf, OpenError> {
    let folders = std::fs::read_dir(reports).into_iter().flatten().flatten();
    let runs = folders.filter_map(|entry| {
        let events = entry.path().join("events.jsonl");
        let began = std::fs::metadata(&events).and_then(|meta| meta.modified()).ok()?;
        Some((began, entry.path()))
    });
    runs.max().map(|(_, path)| path).ok_or_else(|| OpenError::NoRuns(reports.to_owned()))
}

/// What a run left, as far as it has got, in its folder or in a bundle.
///
/// # Errors
/// It has no event stream.
pub fn of_files(files: &RunFiles) -> Result<Evidence, OpenError> {
    let no_events = |error: io::Error| OpenError::NoEvents { path: files.path().to_owned(), why: error.to_string() };
    let mut events = BufReader::new(files.file("events.jsonl").map_err(no_events)?);
    let scenario = text_of(files, "scenario.toml").and_then(|text| toml::from_str::<Scenario>(&text).ok());
    let mut collector = scenario.as_ref().map(Collector::of_run).unwrap_or_default();
    let mut line = Vec::new();
    while (&mut events).take(FILE_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        // A line that is cut off, or from another version, says nothing.
        if let Ok(event) = serde_json::from_slice::<Event>(&line) {
            collector.event(&event);
        }
        line.clear();
    }
    for (node, frame) in frames(files) {
        collector.frame(&node, None, &frame);
    }
    let record = text_of(files, "run.json").and_then(|text| serde_json::from_str::<RunRecord>(&text).ok());
    if let Some(record) = record {
        collector.record(&record);
    }
    Ok(collector.into_evidence())
}

fn text_of(files: &RunFiles, name: &str) -> Option<String> {
    String::from_utf8(files.read(name, FILE_BYTES_MAX).ok()?).ok()
}

/// `nodes/peer/frame-gpu3.json`, by the name of the node in the event stream.
fn frames(files: &RunFiles) -> Vec<(String, Frame)> {
    let frame = |name: String| {
        let (node, file) = name.strip_prefix("nodes/")?.split_once('/')?;
        let gpu = file.strip_prefix("frame")?.strip_suffix(".json")?;
        let frame = serde_json::from_str(&text_of(files, &name)?).ok()?;
        Some((format!("{node}{}", gpu.replace("-gpu", " gpu ")), frame))
    };
    let mut frames: Vec<(String, Frame)> = files.names().into_iter().filter_map(frame).collect();
    frames.sort_by(|a, b| a.0.cmp(&b.0));
    frames
}

/// What programs that run now show while they are looked at for a moment.
///
/// # Errors
/// What `look` fails with.
pub fn of_recorders<E>(mut look: impl FnMut(&mut Vec<Update>) -> Result<(), E>) -> Result<Evidence, E> {
    let (mut collector, began) = (Collector::default(), Instant::now());
    loop {
        let mut updates = Vec::new();
        look(&mut updates)?;
        updates.iter().for_each(|update| collector.update(update));
        if began.elapsed() >= LOOK_FOR {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    for (node, pid) in standing_processes(collector.evidence()) {
        let nodes = &collector.evidence().nodes;
        let found = nodes.iter().find(|one| one.name == node);
        let nics = found.map(|one| one.channels.iter().map(|channel| channel.nic.clone()).collect::<Vec<_>>());
        let mut nics = nics.unwrap_or_default();
        nics.sort_unstable();
        nics.dedup();
        let channels = found_channels(collector.evidence(), &node);
        collector.frame(&node, None, &Frame::take(pid, &nics, channels, None));
    }
    Ok(collector.into_evidence())
}

fn found_channels(evidence: &Evidence, node: &str) -> Vec<ChannelNow> {
    let found = evidence.nodes.iter().find(|one| one.name == node);
    found.map(|one| one.channels.iter().map(|channel| channel.now.clone()).collect()).unwrap_or_default()
}

/// Processes of this machine with a channel that stands still: `pid 4242`.
fn standing_processes(evidence: &Evidence) -> Vec<(String, u32)> {
    let mut found: Vec<(String, u32)> = evidence
        .standing()
        .filter_map(|spot| Some((spot.node.name.clone(), spot.node.name.strip_prefix("pid ")?.parse().ok()?)))
        .collect();
    found.dedup();
    found
}
