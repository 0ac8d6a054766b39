//! `tcpxctl bundle`: packs a run and its report into one file.
//!
//! ```console
//! $ tcpxctl bundle reports/20261120T101500Z-4conn
//! # Bundle : 20261120T101500Z-4conn.tar.gz (14 files, 1.2 MiB, redacted)
//! # Map : 20261120T101500Z-4conn.tar.gz.map.json (the real names: do not send it)
//! $ tcpxctl bundle a3-0.tcpxrec a3-1.tcpxrec logs/    # recordings and logs of other programs
//! $ tcpxctl bundle --verify 20261120T101500Z-4conn.tar.gz
//! # Bundle : 14 files have the right checksum; redacted, and no name or secret found
//! ```
//!
//! `report`, `diagnose`, `watch --replay`, `logs` and `trace` read a bundle like a run folder.
//! Nothing in it is unpacked, loaded or run.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{path_text, print, print_error, print_json, say};
use super::report::{beside, keep_map, open, warn_of_revealing};
use super::signals::end_soon;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tcpx_diagnose::findings_from_files;
use tcpx_node::redact::Outlet;
use tcpx_report::{self, Bundled, LogLines, Verified, bundle, gather, verify};
use tcpx_run_model::record::RunFiles;
use tcpx_words::error::Outcome;
use tcpx_words::units::ByteCount;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run folder [default: the newest run]; or recorder files, process ids, logs and folders of these, which become
    /// one run folder below --reports.
    #[arg(value_name = "RUN|FILE|PID", conflicts_with = "verify")]
    what: Vec<PathBuf>,
    /// Bundle to write [default: RUN.tar.gz in the current folder].
    #[arg(long, value_name = "FILE", conflicts_with = "verify")]
    out: Option<PathBuf>,
    /// Do not replace names and addresses, and keep all lines of logs.
    #[arg(long, conflicts_with = "verify")]
    no_redact: bool,
    /// Keep also those lines of logs that are in no form that tcpxctl reads, and all words of lines; else a word that
    /// tcpxctl does not know becomes `word1`. They are redacted, but no search finds every name and secret in what other
    /// programs print: read them before you send them.
    #[arg(long, conflicts_with = "verify")]
    all_lines: bool,
    /// Check a bundle's checksums, and search it for secrets, and, if it is redacted, for names and addresses.
    #[arg(long, value_name = "FILE")]
    verify: Option<PathBuf>,
    /// Folder of the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BundleDocument<'a> {
    schema: &'static str,
    out: &'a Path,
    bytes: u64,
    redacted: bool,
    map: Option<&'a Path>,
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "super::schemas::Bundled"))]
    bundled: &'a Bundled,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BundleVerifiedDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "super::schemas::Verified"))]
    verified: &'a Verified,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    if let Some(path) = &arguments.verify {
        return verified(common, path);
    }
    let runs = open(common, &arguments.what, &arguments.reports)?;
    let [files] = runs.as_slice() else {
        let message = format!("{} runs are named, and a bundle has one", runs.len());
        return Err(Failure::new(Outcome::Usage, message).next("make a bundle of each run"));
    };
    let out = arguments.out.as_deref();
    let leaves = match (arguments.no_redact, arguments.all_lines) {
        (true, _) => Leaves::AsItIs,
        (false, true) => Leaves::AllLines,
        (false, false) => Leaves::KnownLines,
    };
    let outcome = write(common, files, out, leaves, Signals::End, print)?;
    Ok(Ending::from(outcome))
}

/// What of a run leaves the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// The run, redacted, and of the logs of other programs the lines and words that are known.
    KnownLines,
    /// The run and all lines of its logs, redacted.
    AllLines,
    /// Everything as it is.
    AsItIs,
}

/// What a signal does while a bundle is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signals {
    /// The bundle is the last thing that a command does after a signal.
    AreForTheCaller,
    /// It ends the command, which leaves no file.
    End,
}

/// Writes a bundle, and prints its summary line with `tell`. `Failed` if a redacted bundle may
/// still reveal something.
pub(crate) fn write(
    common: &Common,
    files: &RunFiles,
    out: Option<&Path>,
    leaves: Leaves,
    signals: Signals,
    tell: fn(&str),
) -> Result<Outcome, Failure> {
    let redact = leaves != Leaves::AsItIs;
    let lines = match leaves {
        Leaves::KnownLines => LogLines::Known,
        Leaves::AllLines | Leaves::AsItIs => LogLines::All,
    };
    let stop = match signals {
        Signals::AreForTheCaller => Arc::default(),
        Signals::End => end_soon()?,
    };
    let mut outlet = Outlet::of_command(!redact);
    let story = gather(files, findings_from_files);
    if let Some(redactor) = outlet.redactor()
        && leaves == Leaves::AllLines
    {
        redactor.keep_words();
    }
    let packed = bundle(files, &story, lines, &mut outlet);
    let out = out.map_or_else(
        || PathBuf::from(format!("{}.tar.gz", packed.name())),
        Path::to_owned,
    );
    let mut bundled = None;
    tcpx_report::write_whole_unless(&out, &stop, |to| {
        bundled = Some(packed.write(to)?);
        Ok(())
    })?;
    let Some(bundled) = bundled else {
        return Ok(Outcome::Passed);
    };
    let map = outlet.is_redacting().then(|| beside(&out));
    if let Some(map) = &map {
        keep_map(map, &outlet)?;
    }
    let bytes = std::fs::metadata(&out).map_or(0, |meta| meta.len());
    if common.json {
        let map = map.as_deref();
        print_json(&BundleDocument {
            schema: "tcpxctl.bundle/1",
            out: &out,
            bytes,
            redacted: redact,
            map,
            bundled: &bundled,
        });
        return Ok(warn_of_revealing(common, &bundled.revealing));
    }
    let how = if redact { "redacted" } else { "NOT redacted" };
    tell(&format!(
        "# Bundle : {} ({} files, {}, {how})\n",
        path_text(&out),
        bundled.files.len(),
        ByteCount(bytes).about()
    ));
    bundled
        .cut
        .iter()
        .for_each(|words| say(&format!("# Incomplete : {words}\n")));
    Ok(warn_of_revealing(common, &bundled.revealing))
}

fn verified(common: &Common, path: &Path) -> Ended {
    let files = RunFiles::open(path)?;
    let verified = verify(&files);
    let is_good = verified.problems.is_empty() && verified.revealing.is_empty();
    if common.json {
        print_json(&BundleVerifiedDocument {
            schema: "tcpxctl.bundle-verified/1",
            verified: &verified,
        });
    } else {
        let how = match (verified.redacted, verified.revealing.is_empty()) {
            (true, true) => "redacted, and no name or secret found",
            (true, false) => "redacted, but some texts look like names or secrets",
            (false, true) => "NOT redacted, and no secret found",
            (false, false) => "NOT redacted, and some texts look like secrets",
        };
        print(&format!(
            "# Bundle : {} files have the right checksum; {how}\n",
            verified.intact
        ));
    }
    for problem in &verified.problems {
        print_error(common, problem, None);
    }
    warn_of_revealing(common, &verified.revealing);
    let outcome = if is_good {
        Outcome::Passed
    } else {
        Outcome::Failed
    };
    Ok(Ending::from(outcome))
}
