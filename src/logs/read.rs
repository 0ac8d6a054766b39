//! Reads inputs one after another into one report.
#![forbid(unsafe_code)]

use super::catalogue::SignatureCatalogue;
use super::compose::compose;
use super::filter::LogFilter;
use super::harness::Harness;
use super::input::{self, InputProblem, KnownRuns, Source, problem};
use super::report::LogReport;
use super::scan::{ReadLines, Scanned, Stream, scan};
use super::tally::Tally;
use super::telemetry::{self, Telemetry};
use super::time::Years;
use super::{markup, own_events, terminal};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, UNIX_EPOCH};
use tcpx_run_model::record::RunFiles;

/// Most telemetry files that are reported one by one.
const TELEMETRY_MAX: usize = 1024;
/// Interval between checks for growth of followed files.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Bytes that are read from a stream at once, and how many such parts wait for a look.
const PART: usize = 64 * 1024;
const PARTS_WAITING: usize = 16;

/// Reads logs and keeps what was found in them.
pub struct LogReader<'a> {
    catalogue: &'a SignatureCatalogue,
    filter: &'a LogFilter,
    pub(super) threads: usize,
    tally: Tally,
    harness: Harness,
    files: Vec<String>,
    /// For each file.
    years: Vec<Years>,
    /// For each file, whether all that was read of it are events of a run that are no log lines.
    only_events: Vec<bool>,
    bytes: u64,
    telemetry: Vec<Telemetry>,
    /// Runs that are read from their folder or from a bundle.
    runs: KnownRuns,
    problems: Vec<InputProblem>,
}

impl<'a> LogReader<'a> {
    /// A reader that has read nothing yet.
    pub fn new(catalogue: &'a SignatureCatalogue, filter: &'a LogFilter) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (tally, files, telemetry, problems) =
            <(Tally, Vec<String>, Vec<Telemetry>, Vec<InputProblem>)>::default();
        Self {
            catalogue,
            filter,
            threads,
            tally,
            harness: Harness::default(),
            files,
            years: Vec::new(),
            only_events: Vec::new(),
            bytes: 0,
            telemetry,
            runs: KnownRuns::default(),
            problems,
        }
    }

    /// Reads files, all files of folders, and stdin for `-`. A file that cannot be read is
    /// listed in the report's problems. Binary files in folders are skipped.
    pub fn paths(&mut self, paths: &[PathBuf]) {
        for path in input::expand(paths, &mut self.runs, &mut self.problems) {
            let is_asked_for = paths.contains(&path);
            match input::bundle(&path) {
                Err(error) => self.problems.push(problem(&path, error)),
                Ok(Some(files)) => self.bundle(&path, &files),
                Ok(None) => match input::open(&path) {
                    Err(error) => self.problems.push(problem(&path, error)),
                    Ok(opened) if !is_asked_for && input::is_skipped(&opened.head) => {}
                    Ok(opened) => self.opened(&path.display().to_string(), opened),
                },
            }
        }
    }

    /// Reads the text files of a bundle without unpacking it.
    fn bundle(&mut self, path: &Path, files: &RunFiles) {
        if let Some(from) = self.runs.add(files) {
            let note = format!(
                "is a bundle of the run that is read from {}, and was not read again",
                from.display()
            );
            return self.problems.push(problem(path, note));
        }
        for name in files.names().iter().filter(|name| input::is_log(name)) {
            let shown = format!("{}:{name}", path.display());
            match files
                .file(name)
                .and_then(|file| input::plain(Box::new(file)))
            {
                Ok(opened) if input::is_skipped(&opened.head) => {}
                Ok(opened) => self.opened(&shown, opened),
                Err(error) => self.problems.push(problem(Path::new(&shown), error)),
            }
        }
    }

    fn opened(&mut self, name: &str, opened: Source) {
        if let Some(note) = input::no_log(&opened.head) {
            return self.problems.push(problem(Path::new(name), note));
        }
        if opened.is_utf16 {
            let note = "is UTF-16; it was read as UTF-8, with the same line numbers";
            self.problems.push(problem(Path::new(name), note));
        }
        self.source(name, &opened.head, opened.source);
    }

    /// Reads one stream. `head` is a copy of its first bytes.
    pub(super) fn source(&mut self, name: &str, head: &[u8], source: impl Read + Send) {
        let file = self.file(name);
        if telemetry::is_events(head) && self.telemetry.len() < TELEMETRY_MAX {
            match telemetry::read(source) {
                Ok(telemetry) => self.telemetry.push(Telemetry {
                    file: name.to_owned(),
                    ..telemetry
                }),
                Err(error) => self.problems.push(problem(Path::new(name), error)),
            }
            return;
        }
        self.lines(file, ReadLines::default(), source);
    }

    fn file(&mut self, name: &str) -> u32 {
        let written = std::fs::metadata(name)
            .and_then(|meta| meta.modified())
            .ok();
        let since = written.and_then(|written| written.duration_since(UNIX_EPOCH).ok());
        // Before the year 2^63 / 31 557 600.
        let written = since.map(|since| since.as_secs() as i64);
        self.years.push(Years::until(written));
        self.only_events.push(false);
        self.files.push(super::compose::shown(name.as_bytes()));
        // The number of files is bounded where folders are read.
        (self.files.len() - 1) as u32
    }

    /// Reads lines that are not in a file; `name` is shown instead of a path.
    pub fn stream(&mut self, name: &str, source: impl Read + Send) {
        let file = self.file(name);
        self.lines(file, ReadLines::default(), source);
    }

    /// Reads more lines of a file, of which `before` were read earlier. Returns how far it is read then.
    fn lines(&mut self, file: u32, before: ReadLines, source: impl Read + Send) -> ReadLines {
        let left_out = AtomicU64::new(0);
        let markup = AtomicU64::new(0);
        let source = match own_events::log_lines(source, &left_out) {
            Ok(lines) => terminal::whole(markup::plain(lines, &markup)),
            Err(error) => {
                self.in_part(file, error);
                return before;
            }
        };
        let stream = Stream {
            source,
            file,
            before,
            years: self.years.get(file as usize).copied().unwrap_or_default(),
        };
        let Scanned {
            mut tally,
            bytes,
            years,
            ends_within,
            result,
        } = scan(
            self.catalogue,
            self.filter,
            stream,
            self.threads,
            &mut self.harness,
        );
        if let Some(known) = self.years.get_mut(file as usize) {
            *known = years;
        }
        let (lines, left_out) = (tally.lines, left_out.into_inner());
        tally.lines = lines.saturating_sub(left_out);
        if let Some(only_events) = self.only_events.get_mut(file as usize) {
            let is_none = left_out > 0 && tally.lines == 0;
            *only_events = is_none && (before.count == 0 || *only_events);
        }
        self.tally.merge(tally);
        self.bytes += bytes + markup.into_inner();
        if let Err(error) = result {
            self.in_part(file, error);
        }
        ReadLines {
            count: before.count + lines,
            ends_within,
        }
    }

    fn in_part(&mut self, file: u32, error: io::Error) {
        let name = self.files.get(file as usize).cloned().unwrap_or_default();
        let problem = problem(Path::new(&name), format!("read only in part: {error}"));
        self.problems.push(problem);
    }

    /// The report of everything read so far.
    pub fn report(&self) -> LogReport {
        let mut report = compose(self.catalogue, &self.tally, &self.files);
        let logs = self.only_events.iter().filter(|only| !**only).count();
        (report.inputs.files, report.inputs.bytes) = (logs, self.bytes);
        let of_files = self.files.iter().zip(&self.years);
        let yearless = of_files.filter(|(_, years)| years.is_assumed);
        report.inputs.taken_years = yearless.clone().map(|(_, years)| years.year).collect();
        let yearless: BTreeSet<&String> = yearless.map(|(file, _)| file).collect();
        report.inputs.assumed_years = yearless.len();
        for place in report.places_mut() {
            let at = place.at.as_deref().and_then(super::time::without_year);
            if let Some(at) = at.filter(|_| yearless.contains(&place.file)) {
                place.at = Some(at.to_owned());
            }
        }
        report.telemetry.clone_from(&self.telemetry);
        report.harness =
            self.harness
                .report(&self.files, &report.findings, &self.tally.ends.last_us());
        // What a verdict rests on is not harmless, and the verdict says what it means.
        let (told, benign) = std::mem::take(&mut report.benign)
            .into_iter()
            .partition(|one| report.is_in_verdict(one));
        report.benign = benign;
        report.seen.extend::<Vec<_>>(told);
        for (count, what) in [
            (self.harness.left_out, "lines of more programs"),
            (
                self.harness.runs_left_out(),
                "runs of more ends of one file",
            ),
        ] {
            if count > 0 {
                let problem = format!("{count} {what} than are followed were left out");
                report.problems.push(input::problem(Path::new(""), problem));
            }
        }
        report.problems.splice(0..0, self.problems.iter().cloned());
        report
    }
}

/// Reads files and follows them as they grow, and stdin and pipes while they are written, until
/// `go_on` returns false or nothing can grow any more. `go_on` is called after each check, with the
/// report if there are new lines. A file that became shorter is read again from its start. A
/// compressed file and a file in UTF-16 are read once.
pub fn follow(
    reader: &mut LogReader<'_>,
    paths: &[PathBuf],
    mut go_on: impl FnMut(Option<&LogReport>) -> bool,
) {
    let files = input::expand(paths, &mut reader.runs, &mut reader.problems);
    let (mut growing, mut streams) = (Vec::new(), Vec::new());
    let mut before = reader.bytes;
    for path in files {
        // What is taken from a pipe to look at it is gone.
        let is_stream = path == Path::new("-") || path.metadata().is_ok_and(|file| !file.is_file());
        if is_stream {
            let number = reader.file(&path.display().to_string());
            streams.push(WrittenStream::new(number, path));
        } else if input::open(&path).is_ok_and(|one| one.is_packed) {
            let note = "is read once: compressed files and UTF-16 are not followed";
            reader.problems.push(problem(&path, note));
            reader.paths(&[path]);
        } else {
            growing.push(Growing::new(
                reader.file(&path.display().to_string()),
                &path,
            ));
        }
    }
    loop {
        growing.iter_mut().for_each(|file| file.look(reader));
        let mut has_more = false;
        for stream in &mut streams {
            has_more |= stream.look(reader);
        }
        let report = (reader.bytes != before).then(|| reader.report());
        before = reader.bytes;
        let is_over = growing.is_empty() && streams.iter().all(|stream| stream.is_over);
        if !go_on(report.as_ref()) || is_over {
            return;
        }
        if !has_more {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Stdin or a pipe. A thread reads it, because a read waits for the writer.
struct WrittenStream {
    number: u32,
    path: PathBuf,
    parts: Receiver<io::Result<Vec<u8>>>,
    /// The start of a line whose end has not come.
    rest: Vec<u8>,
    lines: ReadLines,
    is_over: bool,
}

impl WrittenStream {
    fn new(number: u32, path: PathBuf) -> Self {
        let (sender, parts) = sync_channel(PARTS_WAITING);
        let of_thread = path.clone();
        // It ends with the stream, with this reader, or with the process.
        std::thread::spawn(move || {
            if let Err(error) = send_parts(&of_thread, &sender) {
                // The reader may be gone.
                let _ = sender.send(Err(error));
            }
        });
        Self {
            number,
            path,
            parts,
            rest: Vec::new(),
            lines: ReadLines::default(),
            is_over: false,
        }
    }

    /// Reads the complete lines that have come. Returns whether more are waiting.
    fn look(&mut self, reader: &mut LogReader<'_>) -> bool {
        while !self.is_over && self.rest.len() < super::blocks::BLOCK {
            match self.parts.try_recv() {
                Ok(Ok(part)) => self.rest.extend(part),
                Ok(Err(error)) => reader.problems.push(problem(&self.path, error)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.is_over = true,
            }
        }
        let is_full = self.rest.len() >= super::blocks::BLOCK;
        let end = match memchr::memrchr(b'\n', &self.rest) {
            Some(at) if !self.is_over => at + 1,
            None if !self.is_over && !is_full => 0,
            _ => self.rest.len(),
        };
        if end > 0 {
            let rest = self.rest.split_off(end);
            let whole = std::mem::replace(&mut self.rest, rest);
            self.lines = reader.lines(self.number, self.lines, whole.as_slice());
        }
        is_full
    }
}

/// Sends what a stream holds, as it comes.
fn send_parts(path: &Path, parts: &SyncSender<io::Result<Vec<u8>>>) -> io::Result<()> {
    let mut source = input::live(path)?;
    loop {
        let mut part = vec![0; PART];
        match source.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(size) => part.truncate(size),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if parts.send(Ok(part)).is_err() {
            return Ok(());
        }
    }
}

/// A file that another process writes.
struct Growing {
    number: u32,
    path: PathBuf,
    /// Bytes that were read.
    read: u64,
    lines: ReadLines,
    failed: bool,
}

impl Growing {
    fn new(number: u32, path: &Path) -> Self {
        Self {
            number,
            path: path.to_owned(),
            read: 0,
            lines: ReadLines::default(),
            failed: false,
        }
    }

    fn look(&mut self, reader: &mut LogReader<'_>) {
        if let Err(error) = self.try_look(reader)
            && !std::mem::replace(&mut self.failed, true)
        {
            reader.problems.push(problem(&self.path, error));
        }
    }

    /// Reads new lines, up to the last complete one.
    fn try_look(&mut self, reader: &mut LogReader<'_>) -> io::Result<()> {
        if !std::fs::metadata(&self.path)?.is_file() {
            return Err(io::Error::other("only a regular file can be followed"));
        }
        let mut file = File::open(&self.path)?;
        let size = file.metadata()?.len();
        if size < self.read {
            (self.read, self.lines) = (0, ReadLines::default());
        }
        if size == self.read {
            return Ok(());
        }
        let whole = last_line_end(&mut file, self.read, size)?;
        if whole > self.read {
            file.seek(SeekFrom::Start(self.read))?;
            let new = file.take(whole - self.read);
            self.lines = reader.lines(self.number, self.lines, new);
            self.read = whole;
        }
        Ok(())
    }
}

/// The end of the last complete line between `from` and `to`, or `to` within a line that is
/// longer than a block.
fn last_line_end(file: &mut File, from: u64, to: u64) -> io::Result<u64> {
    let begin = to.saturating_sub(super::blocks::BLOCK as u64).max(from);
    file.seek(SeekFrom::Start(begin))?;
    let mut tail = Vec::new();
    file.take(to - begin).read_to_end(&mut tail)?;
    match memchr::memrchr(b'\n', &tail) {
        Some(at) => Ok(begin + at as u64 + 1),
        None if to - from >= super::blocks::BLOCK as u64 => Ok(to),
        None => Ok(from),
    }
}
