//! Opens inputs: files, folders, compressed files, bundles, stdin.
#![forbid(unsafe_code)]

use flate2::read::MultiGzDecoder;
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
/// Magic numbers of compressed files that are not read here, with a program that is.
const FOREIGN: [(&[u8], &str); 4] = [
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"\xfd7zXZ\0", "xzcat"),
    (b"BZh", "bzcat"),
    (b"PK\x03\x04", "unzip -p"),
];

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

/// An open file with its first bytes, from which its kind is detected.
pub(super) struct Opened<R> {
    pub head: Vec<u8>,
    pub source: Chain<Cursor<Vec<u8>>, R>,
}

impl<R: Read> Opened<R> {
    fn new(mut source: R) -> io::Result<Self> {
        let mut head = Vec::with_capacity(HEAD);
        source.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        Ok(Self {
            head: head.clone(),
            source: Cursor::new(head).chain(source),
        })
    }
}

/// An open input.
pub(super) type Source = Opened<Box<dyn Read + Send>>;

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

/// Decompresses a gzip stream; other streams pass unchanged.
pub(super) fn plain(source: Box<dyn Read + Send>) -> io::Result<Source> {
    let opened = Opened::new(source)?;
    if opened.head.starts_with(b"\x1f\x8b") {
        return Opened::new(Box::new(MultiGzDecoder::new(opened.source)));
    }
    if let Some((_, reader)) = FOREIGN
        .iter()
        .find(|(magic, _)| opened.head.starts_with(magic))
    {
        let advice = format!("unsupported compression; run `{reader} FILE | tcpxctl logs -`");
        return Err(io::Error::new(io::ErrorKind::Unsupported, advice));
    }
    Ok(Opened {
        head: opened.head,
        source: Cursor::new(Vec::new()).chain(Box::new(opened.source)),
    })
}

/// Whether a file with these first bytes is not text. Binary files are skipped in folders only.
pub(super) fn is_binary(head: &[u8]) -> bool {
    head.contains(&0)
}
