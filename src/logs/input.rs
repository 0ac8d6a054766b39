//! Opens inputs: files, folders, compressed files, bundles, stdin.
#![forbid(unsafe_code)]

use super::packed::Packing;
use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use tcpx_recorder::format::FILE_SUFFIX;
use tcpx_run_model::record::RunFiles;

/// Most files of a folder, including its subfolders.
const FILES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 16;
/// Bytes from which the kind of a file is detected.
const HEAD: usize = 4096;
/// An input that was not read, or only in part.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct InputProblem {
    /// Path of the file or folder.
    pub path: String,
    /// The problem, in one sentence.
    pub problem: String,
}

/// The files of `paths`; of a folder all files below it, by name.
pub(super) fn expand(paths: &[PathBuf], problems: &mut Vec<InputProblem>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            walk(path, 0, &mut files, problems);
        } else {
            files.push(path.clone());
        }
    }
    files
}

fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>, problems: &mut Vec<InputProblem>) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return problems.push(problem(folder, error)),
    };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && depth < DEPTH_MAX {
            walk(&entry.path(), depth + 1, files, problems);
        } else if kind.is_file() {
            if files.len() >= FILES_MAX {
                return problems.push(problem(
                    folder,
                    format!("more than {FILES_MAX} files; the rest was not read"),
                ));
            }
            files.push(entry.path());
        }
    }
}

/// The bundle of a run, if the file is one; any other compressed file is a log.
pub(super) fn bundle(path: &Path) -> Option<RunFiles> {
    let name = path.file_name()?.to_string_lossy();
    let is_meant =
        (name.ends_with(".tar.gz") || name.ends_with(".tgz")) && RunFiles::is_bundle(path);
    is_meant.then(|| RunFiles::open(path).ok()).flatten()
}

/// Whether a file of a bundle holds log lines; reports in it only quote them.
pub(super) fn is_log(name: &str) -> bool {
    !name.ends_with(FILE_SUFFIX) && (name == "events.jsonl" || name.starts_with("nodes/"))
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
        source.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        Ok(Self {
            head: head.clone(),
            source: Cursor::new(head).chain(source),
            is_packed: false,
            is_utf16: false,
        })
    }
}

/// Opens a file; `-` is stdin.
///
/// # Errors
/// The file cannot be opened, or its compression is not supported.
pub(super) fn open(path: &Path) -> io::Result<Source> {
    let source: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path)?)
    };
    plain(source)
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

/// What to do with a file that is a dump of PyTorch's flight recorder: the collectives of one
/// rank, as a pickle or as JSON.
pub(super) fn flight_recorder(head: &[u8]) -> Option<&'static str> {
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

/// Whether a file of a folder with these first bytes is passed over: it is not text, and nothing
/// that is told.
pub(super) fn is_skipped(head: &[u8]) -> bool {
    head.contains(&0) && flight_recorder(head).is_none()
}
