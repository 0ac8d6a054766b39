//! Opens inputs: files, folders, compressed files, bundles, stdin.
#![forbid(unsafe_code)]

use super::packed::Packing;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use tcpx_recorder::format::FILE_SUFFIX;
use tcpx_recorder::format::MAGIC;
use tcpx_run_model::adopt::LOGS;
use tcpx_run_model::record::{ADOPTED, ArchiveError, DOCTOR, FilesError, RunFiles};
use tcpx_run_model::repeats::take_repeats;

/// Most files of a folder, including its subfolders.
const FILES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 16;
/// Most bytes of the first event of a run.
const EVENT_BYTES_MAX: u64 = 1 << 20;
/// Bytes from which the kind of a file is detected.
const HEAD: usize = 4096;
/// The note on a pipe, a socket or a device in a folder.
const NO_FILE: &str = "is a pipe, a socket or a device, and was not read: name it to read it";

/// An input that was not read, or only in part.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct InputProblem {
    /// Path of the file or folder.
    pub path: String,
    /// The problem, in one sentence.
    pub problem: String,
}

/// The files of `paths`; of a folder all files below it, by name. A file is named once, whatever
/// names it has. The runs of the folders are added to `known`.
pub(super) fn expand(
    paths: &[PathBuf],
    known: &mut KnownRuns,
    problems: &mut Vec<InputProblem>,
) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            walk(path, 0, &mut files, known, problems);
        } else {
            files.push(path.clone());
        }
    }
    for repeat in take_repeats(&mut files) {
        problems.push(problem(&repeat.path, repeat.words()));
    }
    files
}

/// A run: the name of its folder, and when its first event was.
type RunKey = (String, String);

/// Runs whose lines are read, with where they are read from.
#[derive(Default)]
pub(super) struct KnownRuns(HashMap<RunKey, PathBuf>);

impl KnownRuns {
    /// Adds a run. If it is there already, returns from where it is read.
    pub(super) fn add(&mut self, files: &RunFiles) -> Option<&Path> {
        match self.0.entry(run_key(files)?) {
            Entry::Vacant(entry) => {
                entry.insert(files.path().to_owned());
                None
            }
            Entry::Occupied(entry) => Some(entry.into_mut()),
        }
    }
}

/// Two nodes may make folders of one name within a second. Redaction leaves times unchanged.
fn run_key(files: &RunFiles) -> Option<RunKey> {
    #[derive(serde::Deserialize)]
    struct Head {
        at: String,
        ms: f64,
    }
    let mut line = String::new();
    let events = files.file(EVENTS).ok()?.take(EVENT_BYTES_MAX);
    BufReader::new(events).read_line(&mut line).ok()?;
    let first: Head = serde_json::from_slice(line.as_bytes()).ok()?;
    Some((files.id(), format!("{} {}", first.at, first.ms)))
}

/// Files of a run folder.
const EVENTS: &str = "events.jsonl";
const RECORD: &str = "run.json";
const SCENARIO: &str = "scenario.toml";
/// The note on a run folder.
const OF_RUN: &str = "is a run of tcpxctl: of its events the lines of the plugin and of programs were \
    read, of its other files only logs";

fn walk(
    folder: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
    known: &mut KnownRuns,
    problems: &mut Vec<InputProblem>,
) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return problems.push(problem(folder, error)),
    };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    if is_run(folder) {
        entries.retain(|entry| !is_of_run(&entry.file_name()));
        problems.push(problem(folder, OF_RUN));
        known.add(&RunFiles::Folder(folder.to_owned()));
    }
    // One note a kind and folder: there may be many.
    let (mut special, mut links, mut deep) = <(Passed, Passed, Passed)>::default();
    for entry in &entries {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && depth < DEPTH_MAX {
            walk(&entry.path(), depth + 1, files, known, problems);
        } else if kind.is_file() {
            if files.len() >= FILES_MAX {
                return problems.push(problem(
                    folder,
                    format!("more than {FILES_MAX} files; the rest was not read"),
                ));
            }
            files.push(entry.path());
        } else if !kind.is_dir() && !kind.is_symlink() {
            // Nothing says that a pipe in a folder is a log, or that it ends.
            special.add(entry);
        } else if kind.is_dir() {
            deep.add(entry);
        } else {
            links.add(entry);
        }
    }
    let too_deep = format!("is below {DEPTH_MAX} folders, and was not read");
    problems.extend(special.note(NO_FILE));
    problems.extend(links.note("is a link, and was not followed: name it to read it"));
    problems.extend(deep.note(&too_deep));
}

/// Entries of a folder that are not read for one reason.
#[derive(Default)]
struct Passed {
    first: Option<PathBuf>,
    others: usize,
}

impl Passed {
    fn add(&mut self, entry: &std::fs::DirEntry) {
        match self.first {
            Some(_) => self.others += 1,
            None => self.first = Some(entry.path()),
        }
    }

    fn note(self, why: &str) -> Option<InputProblem> {
        let more = match self.others {
            0 => String::new(),
            others => format!(" (and {others} more in this folder)"),
        };
        Some(problem(&self.first?, format!("{why}{more}")))
    }
}

/// The bundle of a run, if the file is one; any other compressed file is a log.
///
/// # Errors
/// The file is the bundle of a run, and expands too far.
pub(super) fn bundle(path: &Path) -> Result<Option<RunFiles>, FilesError> {
    let is_named = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.ends_with(".tar.gz") || name.ends_with(".tgz")
    };
    if !path.file_name().is_some_and(is_named) || !RunFiles::is_bundle(path) {
        return Ok(None);
    }
    match RunFiles::open(path) {
        Err(
            error @ FilesError::Bundle {
                source: ArchiveError::Expanded { is_of_run: true },
                ..
            },
        ) => Err(error),
        opened => Ok(opened.ok()),
    }
}

/// Whether a file of a bundle holds log lines; reports in it only quote them.
pub(super) fn is_log(name: &str) -> bool {
    !name.ends_with(FILE_SUFFIX) && (name == EVENTS || name.starts_with(LOGS))
}

/// Whether a folder is that of a run.
fn is_run(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).is_file();
    has(EVENTS) && [RECORD, SCENARIO, ADOPTED].into_iter().any(has)
}

/// Whether a file or folder in a run folder is tcpxctl's own and holds no log: the record, the
/// recordings, and reports, which quote lines.
fn is_of_run(name: &OsStr) -> bool {
    let own = [RECORD, SCENARIO, ADOPTED, DOCTOR, "nodes"];
    let made = ["report", "trace", "SUMMARY"];
    let stem = Path::new(name).file_stem();
    own.iter().any(|own| name == *own)
        || stem.is_some_and(|stem| made.iter().any(|made| stem == *made))
}

pub(super) fn problem(path: &Path, problem: impl std::fmt::Display) -> InputProblem {
    InputProblem {
        path: path.display().to_string(),
        problem: problem.to_string(),
    }
}

/// An open input with its first bytes, from which its kind is detected.
pub(super) struct Source {
    pub head: Vec<u8>,
    pub source: Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>,
    /// Whether it is a compressed file or UTF-16.
    pub is_packed: bool,
    pub is_utf16: bool,
}

impl Source {
    fn new(mut source: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut head = Vec::with_capacity(HEAD);
        if let Err(error) = source.by_ref().take(HEAD as u64).read_to_end(&mut head) {
            if head.is_empty() {
                return Err(error);
            }
            source = Box::new(Failing(Some(error)));
        }
        Ok(Self {
            head: head.clone(),
            source: Cursor::new(head).chain(source),
            is_packed: false,
            is_utf16: false,
        })
    }
}

/// A source that passes whole lines of another one.
pub(super) trait LineSource {
    /// The lines that are to be read next.
    fn out(&mut self) -> &mut Cursor<Vec<u8>>;

    /// Reads a part of the source. Returns whether there was one.
    fn fill(&mut self) -> io::Result<bool>;
}

/// Reads from the lines of a source, and fills them again when they are used up.
pub(super) fn read_lines(source: &mut impl LineSource, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let size = source.out().read(buffer)?;
        if size > 0 || buffer.is_empty() {
            return Ok(size);
        }
        // The end of the source may still give a line without an end.
        if !source.fill()? && source.out().get_ref().is_empty() {
            return Ok(0);
        }
    }
}

/// What follows the first bytes of a stream that could not be read further.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// At most so many first bytes of a stream, and the stream from its start on. What could not be read is an error behind
/// them.
pub(super) fn with_head<'a>(
    mut source: impl Read + Send + 'a,
    size: usize,
) -> (Vec<u8>, Box<dyn Read + Send + 'a>) {
    let mut head = Vec::with_capacity(size);
    let taken = source.by_ref().take(size as u64).read_to_end(&mut head);
    let front = Cursor::new(head.clone());
    match taken {
        Ok(_) => (head, Box::new(front.chain(source))),
        Err(error) => (head, Box::new(front.chain(Failing(Some(error))))),
    }
}

/// Opens a file; `-` is stdin.
///
/// # Errors
/// The file cannot be opened, or its compression is not supported.
pub(super) fn open(path: &Path) -> io::Result<Source> {
    plain(raw(path)?)
}

fn raw(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        tcpx_words::input::refuse_device(&io::stdin())?;
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(tcpx_words::input::open(path)?))
}

/// Opens a stream that is read while it is written. Its first bytes that are there tell its kind:
/// more may not come for a long time.
///
/// # Errors
/// As for [`open`], or it is no log.
pub(super) fn live(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let mut source = raw(path)?;
    let mut head = vec![0; HEAD];
    let size = source.read(&mut head)?;
    head.truncate(size);
    if let Some(note) = no_log(&head) {
        return Err(io::Error::other(note));
    }
    let is_text = matches!(Packing::of(&head), Ok(None));
    let source = Box::new(Cursor::new(head).chain(source));
    Ok(if is_text {
        source
    } else {
        Box::new(plain(source)?.source)
    })
}

/// Decompresses a stream, and decodes UTF-16, which may be compressed; other streams pass
/// unchanged.
pub(super) fn plain(source: Box<dyn Read + Send>) -> io::Result<Source> {
    let mut opened = Source::new(source)?;
    if let Some(packing) = Packing::of(&opened.head)?.filter(|packing| !packing.is_text()) {
        opened = Source::new(packing.unpack(Box::new(opened.source)))?;
        opened.is_packed = true;
    }
    let text = Packing::of(&opened.head).ok().flatten();
    if let Some(packing) = text.filter(Packing::is_text) {
        opened = Source::new(packing.unpack(Box::new(opened.source)))?;
        (opened.is_packed, opened.is_utf16) = (true, true);
    }
    Ok(opened)
}

/// A log as text, for a folder whose files are redacted: `.xz`, `.zst` and UTF-16 are unpacked;
/// gzip, which redaction reads, text, and compressions that are not read here pass unchanged.
/// Also returns whether it was unpacked. Text that is damaged ends with a line that says so.
///
/// # Errors
/// The stream cannot be read.
pub fn unpack(log: Box<dyn Read + Send>) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let opened = Source::new(log)?;
    match Packing::of(&opened.head) {
        Ok(Some(Packing::Gzip)) | Ok(None) | Err(_) => Ok((Box::new(opened.source), false)),
        Ok(Some(_)) => Ok(match plain(Box::new(opened.source)) {
            Ok(opened) => {
                let (text, end) = (opened.source, Cursor::new(Vec::new()));
                (Box::new(UntilDamage { text, end }), true)
            }
            Err(error) => (Box::new(Cursor::new(damage(&error))), true),
        }),
    }
}

/// The line that stands for what cannot be read.
fn damage(error: &io::Error) -> Vec<u8> {
    format!("\n[the rest is damaged: {error}]\n").into_bytes()
}

/// Text up to where its compressed form is damaged, and a line that says so.
struct UntilDamage<R> {
    text: R,
    end: Cursor<Vec<u8>>,
}

impl<R: Read> Read for UntilDamage<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.end.get_ref().is_empty() {
            match self.text.read(buffer) {
                Ok(size) => return Ok(size),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    self.end = Cursor::new(damage(&error));
                }
            }
        }
        self.end.read(buffer)
    }
}

/// What to do with a file that is a dump of PyTorch's flight recorder: the collectives of one
/// rank, as a pickle or as JSON.
fn flight_recorder(head: &[u8]) -> Option<&'static str> {
    let has = |key: &[u8]| memchr::memmem::find(head, key).is_some();
    let keys = has(b"pg_config") && (has(b"nccl_version") || has(b"entries"));
    match head {
        [0x80, 2..=5, ..] | [b'{', ..] if keys => Some(
            "is a dump of PyTorch's flight recorder, which is no log; `torchfrtrace DIR --prefix \
             nccl_trace_rank_` compares the dumps of all ranks (`--prefix` is the name up to the rank)",
        ),
        _ => None,
    }
}

/// What to do with a file that is no log.
pub(super) fn no_log(head: &[u8]) -> Option<&'static str> {
    let recording = "is a recording of a tap or of a run, which is no log; `tcpxctl diagnose FILE`, \
        `tcpxctl watch FILE` and `tcpxctl report FILE` read it";
    let record = "is the record of a run, which is no log: `tcpxctl report RUN` and `tcpxctl diagnose \
        RUN` read its folder, and so does `tcpxctl logs RUN`";
    let trace =
        "is what `tcpxctl trace` wrote, which is no log: `tcpxctl logs RUN` reads the run's lines";
    let is_recording = head.starts_with(&MAGIC);
    let front = &head[..head.len().min(64)];
    let is_trace = memchr::memmem::find(front, br#""schema":"tcpxctl.trace/"#);
    let is_record = memchr::memmem::find(front, br#""schema": "tcpxctl.run/"#)
        .or_else(|| memchr::memmem::find(front, br#""schema":"tcpxctl.run/"#));
    is_recording
        .then_some(recording)
        .or(is_record.map(|_| record))
        .or(is_trace.map(|_| trace))
        .or_else(|| flight_recorder(head))
}

/// Whether a file of a folder with these first bytes is passed over: it is not text, and nothing
/// that is told.
pub(super) fn is_skipped(head: &[u8]) -> bool {
    head.contains(&0) && flight_recorder(head).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(file: &[u8]) -> (String, bool) {
        let (mut text, was_packed) = unpack(Box::new(Cursor::new(file.to_vec()))).expect("read");
        let mut all = String::new();
        text.read_to_string(&mut all).expect("text");
        (all, was_packed)
    }

    #[test]
    fn what_redaction_cannot_read_is_unpacked_and_damage_is_told() {
        let xz = include_bytes!("fixtures/one.log.xz");
        let (text, was_packed) = unpacked(xz);
        assert_eq!((text.lines().count(), was_packed), (20_000, true));
        let (text, was_packed) = unpacked(&xz[..xz.len() / 2]);
        assert!(was_packed && text.ends_with("]\n") && text.contains("the rest is damaged"));
        let lines = "node0:71:71 [0] NCCL INFO a line\n".repeat(400);
        let utf16: Vec<u8> = lines.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(unpacked(&utf16), (lines.clone(), true));
        assert_eq!(unpacked(lines.as_bytes()), (lines.clone(), false));
        assert!(!unpacked(b"PK\x03\x04..").1);
    }
}
