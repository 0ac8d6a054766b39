//! A run as one archive that can be sent: the recorded files, the reports made from them, and
//! the checksum of every file.
//!
//! Redaction takes two passes: the first collects the names in every file, the second replaces
//! them in all files. The size is bounded: samples are thinned and recorders beyond the bound
//! are omitted, and the summary lists both.
//!
//! Not here: reading a bundle (`record::RunFiles`), and saving the map of replaced names.
#![forbid(unsafe_code)]

use super::gather::catalogue;
use super::second_look::{LookedFor, revealing, told};
use super::{Format, Language, Story, redacted, render, short};
use flate2::{Compression, GzBuilder};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use tar::{Builder, EntryType, Header};
use tcpx_logs::KnownLines;
use tcpx_node::redact::{Cleared, Outlet};
use tcpx_run_model::adopt::LOGS;
use tcpx_run_model::record::{ENTRIES_MAX, RunFiles, is_name, record_value, thin};
use tcpx_words::units::{ByteCount, hex, printable};

/// Name of the file with the SHA-256 checksums, in the format of `sha256sum`.
const SUMS: &str = "SHA256SUMS";
/// Name of the file with the resolved scenario.
const SCENARIO: &str = "scenario.toml";
/// Name of the file to read first.
const SUMMARY: &str = "SUMMARY.md";
/// Maximum size of all recorders together. Readers of bundles accept more.
const RECORDERS_MAX: u64 = 128 << 20;
/// Maximum size of all events that are not samples.
const EVENTS_MAX: usize = 32 << 20;
/// Maximum size of any other file.
const FILE_MAX: u64 = 16 << 20;
/// Maximum number of the run's files: a bundle has a few of its own.
const FILES_MAX: usize = ENTRIES_MAX - 16;

/// Endings of the names of compressed logs.
const PACKED: [&str; 4] = [".gz", ".xz", ".zst", ".bz2"];

/// The contents of a bundle that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bundled {
    /// Name of the bundle's top folder.
    pub name: String,
    /// The files in the bundle, except the checksums.
    pub files: Vec<BundledFile>,
    /// What was thinned or omitted, one sentence each.
    pub cut: Vec<String>,
    /// What a redacted bundle may still reveal, as [`Verified::revealing`].
    pub revealing: Vec<String>,
}

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BundledFile {
    /// Path below the bundle's top folder.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// SHA-256 in hexadecimal.
    pub(crate) sha256: String,
}

/// Which lines and words of the logs of other programs a bundle has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLines {
    /// Those of forms that this program reads. What another program printed may be a name or a secret in any form, and
    /// no search finds all of them. The same holds for the words of a line.
    Known,
    /// All.
    All,
}

/// The files of a bundle while it is built.
#[derive(Default)]
struct Contents {
    files: BTreeMap<String, Vec<u8>>,
    cut: Vec<String>,
}

impl Contents {
    /// Leaves the lines of logs out that this program does not read.
    fn keep_known_lines(&mut self) {
        let of_run = std::mem::take(&mut self.files);
        let (mut left_out, mut of, mut logs) = (0, 0, 0);
        for (name, bytes) in of_run {
            if !name.starts_with(LOGS) {
                self.files.insert(name, bytes);
                continue;
            }
            let read = catalogue()
                .map_err(ToString::to_string)
                .and_then(|catalogue| {
                    KnownLines::read(catalogue, bytes).map_err(|error| error.to_string())
                });
            let (known, was_packed) = match read {
                Ok(read) => read,
                Err(error) => {
                    self.cut.push(format!("{name} is omitted: {error}"));
                    continue;
                }
            };
            if known.left_out > 0 {
                (left_out, of, logs) = (left_out + known.left_out, of + known.lines, logs + 1);
            }
            let ending = PACKED.iter().find_map(|ending| name.strip_suffix(ending));
            let name = ending.filter(|_| was_packed).unwrap_or(&name).to_owned();
            self.files.insert(name, known.text);
        }
        if left_out > 0 {
            let logs = tcpx_words::units::counted(logs, "log");
            self.cut.push(format!(
                "{left_out} of {of} lines of {logs} are left out: they are in no form that tcpxctl reads; --all-lines keeps them"
            ));
        }
    }
}

/// A bundle in memory.
pub struct Packed {
    about: Bundled,
    files: BTreeMap<String, Cleared>,
}

impl Packed {
    /// Name of the bundle's top folder, redacted like the rest.
    pub fn name(&self) -> &str {
        &self.about.name
    }

    /// Writes it as an archive.
    ///
    /// # Errors
    /// Writing to `to` fails.
    pub fn write(self, to: &mut dyn Write) -> io::Result<Bundled> {
        write(&self.about.name, &self.files, to)?;
        Ok(self.about)
    }
}

/// A run and its report as a bundle, with `lines` of the logs. If the outlet does not redact, the summary says so.
pub fn bundle(files: &RunFiles, story: &Story, lines: LogLines, outlet: &mut Outlet) -> Packed {
    let mut recorded = recorded(files);
    if let Some(redactor) = outlet.redactor() {
        for (name, bytes) in &recorded.files {
            redactor.learn_file(name, bytes);
        }
    }
    // Only now: of a quoted line, the whole log tells more names than the line.
    let story = &match outlet.redactor() {
        Some(redactor) if !story.redacted => Cow::Owned(redacted(story.clone(), redactor)),
        _ => Cow::Borrowed(story),
    };
    if lines == LogLines::Known {
        recorded.keep_known_lines();
    }
    let folders = folders(files, outlet);
    let mut cleared = BTreeMap::new();
    for (name, bytes) in recorded.files {
        let is_plain = name.starts_with(LOGS) && lines == LogLines::Known || name == SCENARIO;
        let file = match is_plain {
            true => outlet.log(&name, bytes),
            false => outlet.file(&name, bytes),
        };
        match file {
            Ok(bytes) => drop(cleared.insert(cleared_name(&name, &folders, outlet), bytes)),
            Err(error) => recorded.cut.push(format!("{name} is omitted: {error}")),
        }
    }
    let unknown = outlet
        .redactor()
        .map_or(0, |redactor| redactor.unknown_words());
    if unknown > 0 {
        let words = tcpx_words::units::counted(unknown, "word");
        recorded.cut.push(format!(
            "{words} that tcpxctl does not know became word0, word1 and so on; --all-lines keeps them"
        ));
    }
    let reports = [
        ("report.html", Format::Html),
        ("report.md", Format::Markdown),
        ("report.json", Format::Json),
    ];
    for (name, format) in reports {
        let report = render(story, format, false, Language::English, outlet);
        cleared.insert(name.to_owned(), report);
    }
    let cut: Vec<String> = recorded
        .cut
        .iter()
        .map(|words| outlet.foreign_name(words))
        .collect();
    let summary = outlet.rendered(summary(story, &cleared, &cut));
    cleared.insert(SUMMARY.to_owned(), summary);
    let name = tcpx_words::units::file_name(&outlet.name(&story.id));
    let bundled: Vec<BundledFile> = cleared
        .iter()
        .map(|(name, file)| BundledFile {
            name: name.clone(),
            bytes: file.bytes().len() as u64,
            sha256: sum(file.bytes()),
        })
        .collect();
    let mut texts = Vec::new();
    if outlet.is_redacting() {
        texts.extend(
            cleared
                .iter()
                .flat_map(|(name, file)| revealing(name, file)),
        );
        texts.truncate(REVEALING_MAX);
    }
    // Neither redacted nor doubted: a checksum beside the name `secret.log` is no secret.
    let sums = Cleared::sums(&cleared, bundled.iter().map(|file| file.sha256.as_str()));
    cleared.insert(SUMS.to_owned(), sums);
    let about = Bundled {
        name,
        files: bundled,
        cut,
        revealing: texts,
    };
    Packed {
        about,
        files: cleared,
    }
}

/// The folder of each node in the run, and its redacted name in the bundle. A folder's name is
/// the node's name with unsafe characters replaced, so redacting the path alone would miss it.
fn folders(files: &RunFiles, outlet: &mut Outlet) -> BTreeMap<String, String> {
    let names = files.node_names();
    let folder = |name: &str| tcpx_words::units::file_name(name);
    names
        .iter()
        .map(|name| (folder(name), folder(&outlet.name(name))))
        .collect()
}

/// The files of a run that belong in a bundle.
fn recorded(files: &RunFiles) -> Contents {
    let mut contents = Contents::default();
    let (mut recorders, mut omitted) = (0, 0);
    for name in files.names() {
        let is_recorder = name.ends_with(tcpx_recorder::format::FILE_SUFFIX);
        let is_meant = matches!(
            name.as_str(),
            "run.json" | SCENARIO | "doctor.json" | "adopted.json"
        ) || name.starts_with("nodes/")
            || name.starts_with(LOGS);
        if name == "events.jsonl" {
            match events(files, &mut contents.cut) {
                Ok(bytes) => drop(contents.files.insert(name, bytes)),
                Err(error) => contents
                    .cut
                    .push(format!("events.jsonl is omitted: {error}")),
            }
            continue;
        }
        if !is_meant {
            continue;
        }
        // Readers refuse a bundle with other names, or with more entries.
        if !is_name(&format!("{}/{name}", files.id())) {
            let shown = printable(&name);
            let why = "is omitted: its name is too long or has control characters";
            contents.cut.push(format!("{shown} {why}"));
            continue;
        }
        if contents.files.len() >= FILES_MAX {
            omitted += 1;
            continue;
        }
        let most = if is_recorder {
            RECORDERS_MAX - recorders
        } else {
            FILE_MAX
        };
        match files.read(&name, most) {
            Ok(bytes) => {
                recorders += if is_recorder { bytes.len() as u64 } else { 0 };
                contents.files.insert(name, bytes);
            }
            Err(error) => contents.cut.push(format!("{name} is omitted: {error}")),
        }
    }
    if omitted > 0 {
        contents
            .cut
            .push(format!("{omitted} files are omitted, beyond {FILES_MAX}"));
    }
    facts(&mut contents);
    contents
}

/// Every event except most samples, in the original order.
fn events(files: &RunFiles, cut: &mut Vec<String>) -> io::Result<Vec<u8>> {
    let file = BufReader::with_capacity(1 << 20, files.file("events.jsonl")?);
    let (mut lines, mut size, mut lost) = (Vec::<(u64, Vec<u8>)>::new(), 0, 0u64);
    let thinned = thin(file, |number, line, _| {
        size += line.len();
        if size <= EVENTS_MAX {
            lines.push((number, line.to_vec()));
        } else {
            lost += 1;
        }
    })?;
    let samples = thinned.samples.values().flat_map(|samples| samples.lines());
    lines.extend(samples.map(|(number, line)| (number, line.to_vec())));
    lines.sort_by_key(|line| line.0);
    if thinned.passed_over() > 0 {
        cut.push(format!(
            "events.jsonl has {} of {} samples",
            thinned.sampled - thinned.passed_over(),
            thinned.sampled
        ));
    }
    if lost > 0 {
        cut.push(format!(
            "events.jsonl lacks the last {lost} events, beyond {}",
            ByteCount(EVENTS_MAX as u64).about()
        ));
    }
    Ok(lines.into_iter().flat_map(|line| line.1).collect())
}

/// Adds the facts of each node as a file.
fn facts(contents: &mut Contents) {
    let record = contents
        .files
        .get("run.json")
        .and_then(|bytes| record_value(bytes).ok());
    let nodes = record
        .as_ref()
        .and_then(|record| record["nodes"].as_array())
        .into_iter()
        .flatten();
    for node in nodes.filter(|node| node["facts"].is_object()) {
        let name = tcpx_words::units::file_name(node["name"].as_str().unwrap_or("node"));
        let text = serde_json::to_string_pretty(&node["facts"]).unwrap_or_default();
        contents
            .files
            .entry(format!("nodes/{name}/facts.json"))
            .or_insert_with(|| text.into_bytes());
    }
}

/// The name of a file in the bundle.
fn cleared_name(name: &str, folders: &BTreeMap<String, String>, outlet: &mut Outlet) -> String {
    let of_node = name
        .strip_prefix("nodes/")
        .and_then(|rest| rest.split_once('/'));
    match of_node.and_then(|(folder, file)| Some((folders.get(folder)?, file))) {
        Some((folder, file)) => format!("nodes/{folder}/{}", outlet.name(file)),
        None if name.starts_with(LOGS) => outlet.foreign_name(name),
        None => outlet.name(name),
    }
}

fn summary(story: &Story, files: &BTreeMap<String, Cleared>, cut: &[String]) -> String {
    let mut text = short(story, Language::English);
    let how = match story.redacted {
        true => {
            "Redacted: host names, addresses, user names, home directories and secrets are replaced; each always gets the same replacement."
        }
        false => "**NOT REDACTED**: contains real names, addresses and other recorded text.",
    };
    text.push_str(&format!("\n---\n\n{how}\n\n"));
    match cut.is_empty() {
        true => text.push_str("Nothing was omitted.\n\n"),
        false => cut.iter().for_each(|words| {
            text.push_str(&format!(
                "* incomplete: {}\n",
                super::markdown::inline(words)
            ))
        }),
    }
    text.push_str("\nThese commands read the bundle without unpacking: `tcpxctl report|diagnose|watch --replay|logs|trace FILE`. `tcpxctl bundle --verify FILE` checks it.\n\n");
    for (name, file) in files {
        text.push_str(&format!(
            "* `{}`, {} bytes\n",
            super::markdown::code(name),
            file.bytes().len()
        ));
    }
    text
}

fn sum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn write(folder: &str, files: &BTreeMap<String, Cleared>, to: &mut dyn Write) -> io::Result<()> {
    // Until it has its name, only this tells whose file a killed writer left.
    let packed = GzBuilder::new().comment("tcpxctl");
    let mut archive = Builder::new(packed.write(to, Compression::fast()));
    // The summary comes first in the archive.
    let first = files.iter().filter(|(name, _)| *name == SUMMARY);
    let others = files.iter().filter(|(name, _)| *name != SUMMARY);
    for (name, file) in first.chain(others) {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_mtime(tcpx_words::units::now_us() / 1_000_000);
        header.set_size(file.bytes().len() as u64);
        archive.append_data(&mut header, format!("{folder}/{name}"), file.bytes())?;
    }
    archive.into_inner()?.finish()?.flush()
}

/// The result of checking a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Number of files that match their checksum.
    pub intact: usize,
    /// Files that are changed, missing or unlisted, one sentence each.
    pub problems: Vec<String>,
    /// File, line and offset of text that looks like an address, a name or a secret, masked; at
    /// most 20 of a file, and then that there may be more.
    pub revealing: Vec<String>,
    /// Whether the bundle's report is marked as redacted.
    pub redacted: bool,
}

/// Once there are so many places, no further file is looked at.
const REVEALING_MAX: usize = 200;

/// Checks every file of a bundle against its checksum, and takes a second look for what must not leave: secrets, and
/// names and addresses if the bundle is redacted.
pub fn verify(files: &RunFiles) -> Verified {
    let mut verified = Verified::default();
    let text = |name: &str| {
        files
            .read(name, FILE_MAX)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut has_sums = true;
    let sums: BTreeMap<String, String> = match text(SUMS) {
        Ok(text) => text
            .lines()
            .filter_map(|line| line.split_once("  "))
            .map(|(sum, name)| (name.into(), sum.into()))
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let none = "it has no SHA256SUMS: it is no bundle of tcpxctl, or was packed again without them";
            verified.problems.push(none.to_owned());
            has_sums = false;
            BTreeMap::new()
        }
        Err(error) => {
            verified.problems.push(format!("{SUMS}: {error}"));
            BTreeMap::new()
        }
    };
    let report = text("report.json")
        .ok()
        .and_then(|text| serde_json::from_str::<Value>(&text).ok());
    verified.redacted = report.is_some_and(|report| report["redacted"] == Value::Bool(true));
    let looked_for = match verified.redacted {
        true => LookedFor::All,
        false => LookedFor::Secrets,
    };
    let names = files.names();
    for name in names.iter().filter(|name| *name != SUMS) {
        let Ok(bytes) = files.read(name, u64::MAX - 1) else {
            continue;
        };
        match sums.get(name) {
            Some(known) if *known == sum(&bytes) => verified.intact += 1,
            Some(_) => verified
                .problems
                .push(format!("{name} does not match its checksum")),
            None if has_sums => verified.problems.push(format!("{name} has no checksum")),
            None => {}
        }
        if verified.revealing.len() < REVEALING_MAX {
            verified.revealing.extend(told(name, &bytes, looked_for));
            if verified.revealing.len() >= REVEALING_MAX {
                let end =
                    format!("the search ended with {name}: the other files were not looked at");
                verified.revealing.push(end);
            }
        }
    }
    let gone = sums
        .keys()
        .filter(|name| !names.contains(name))
        .map(|name| format!("{name} is missing"));
    verified.problems.extend(gone);
    verified
}
