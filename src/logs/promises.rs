//! Causes that send their reader to another line: they are told where the log has such a line.
//!
//! A signature does not know what else a log holds. "The error of that rank, logged before" is true of most logs, and
//! costs its reader an hour where nothing was logged before, or in a log of another process.
#![forbid(unsafe_code)]

use super::report::{LinePlace, LogReport, SignatureFinding};

/// Words of a cause that is in an earlier line.
const EARLIER: [&str; 8] = [
    "earlier line",
    "logged before",
    "line before it",
    "lines before it",
    "line above names",
    "lines above",
    "rank reported before",
    "failure above it",
];
/// Words of a cause that only supposes such a line, or names something else as well.
const SUPPOSED: [&str; 4] = ["before or ", ": see ", "if an earlier", "may say why"];
/// Words of a cause that is in a warning of NCCL, of any process.
const WARNING: &str = "first NCCL WARN of any rank";
/// Words of a cause that is in the innermost of NCCL's failed calls.
const CHAIN: &str = "ends in `->";
/// Words of causes that suppose that no line has NCCL's reason.
pub(super) const NO_REASON: &str = "NCCL_DEBUG is not set";
/// What PyTorch writes before the last warning of NCCL.
const LAST_ERROR: &str = "Last error: ";
/// What is told instead.
pub(super) const NOT_HERE: &str =
    "the reason is not in this log: it is in that of another process, or was not logged";

/// The same where the first finding names a cause.
pub(super) const IN_FIRST: &str = "no line before it tells the reason: the first finding may";

/// The same where the log shows that NCCL writes its lines elsewhere.
pub(super) const IN_FILES: &str =
    "NCCL's reason is in the files that NCCL_DEBUG_FILE names, which are not read here";

/// Takes the causes that send to lines which the log does not have out of the findings. `states_more`: whether a later
/// line of a finding's process states an error.
pub(super) fn keep(report: &mut LogReport, states_more: impl Fn(&SignatureFinding) -> bool) {
    let lines = Lines::of(report);
    let has_others = report.findings.len() > 1;
    let first = report.findings.first().filter(|one| one.order() == 0);
    let first = first.map(|one| one.first.clone());
    for finding in &mut report.findings {
        let has_earlier = lines.has_before(&finding.first);
        let is_kept = |cause: &String| {
            let is_sure = !SUPPOSED.iter().any(|words| cause.contains(words));
            let is_earlier = EARLIER.iter().any(|words| cause.contains(words)) && is_sure;
            (has_earlier || !is_earlier)
                && (lines.has_warning || !cause.contains(WARNING))
                && (lines.has_chain || !cause.contains(CHAIN))
        };
        let before = finding.causes.len();
        finding.causes.retain(is_kept);
        // Another finding may be the reason, and so may what the process says behind it.
        let says_none = |cause: &String| cause.ends_with(super::reasons::NO_MORE);
        if finding.causes.iter().any(says_none) && (has_others || states_more(finding)) {
            for cause in &mut finding.causes {
                if let Some(said) = cause.strip_suffix(super::reasons::NO_MORE) {
                    *cause = said.to_owned();
                }
            }
        }
        let has_reason = has_last_error(finding);
        let is_in_files = finding.causes.iter().any(|cause| cause == IN_FILES);
        if finding.causes.len() < before && !has_reason && !is_in_files {
            let is_told = first.as_ref().is_some_and(|first| *first != finding.first);
            let told = if is_told { IN_FIRST } else { NOT_HERE };
            finding.causes.push(told.to_owned());
        }
        if has_reason || lines.has_warning {
            let supposes = |cause: &String| cause.starts_with(NO_REASON);
            finding.causes.retain(|cause| !supposes(cause));
        }
    }
}

/// Whether an exception quotes the last warning of NCCL.
fn has_last_error(finding: &SignatureFinding) -> bool {
    let text = finding.after.as_deref();
    let quoted = text.and_then(|text| text.rsplit_once(LAST_ERROR));
    quoted.is_some_and(|(_, quoted)| !quoted.trim().is_empty())
}

/// The lines of a report that may tell why something failed.
struct Lines {
    places: Vec<LinePlace>,
    has_warning: bool,
    has_chain: bool,
}

impl Lines {
    fn of(report: &LogReport) -> Self {
        let known = report
            .findings
            .iter()
            .chain(&report.benign)
            .chain(&report.seen);
        let known = known.map(|one| (&one.first, &one.sample));
        let unknown = report.unknown.iter().map(|one| (&one.first, &one.sample));
        let stated = report.stated.iter().map(|one| (&one.place, &one.sample));
        let failures = report
            .findings
            .iter()
            .chain(&report.benign)
            .map(|one| &one.first);
        let others = unknown.clone().chain(stated).map(|(place, _)| place);
        let is_warning = |(_, sample): (&LinePlace, &String)| sample.contains("NCCL WARN ");
        let is_chain = |(_, sample): (&LinePlace, &String)| sample.contains(" -> ");
        let places = failures.chain(others).cloned().collect();
        let has_chain = known.clone().any(is_chain);
        let has_warning = known.chain(unknown).any(is_warning);
        Self {
            places,
            has_warning,
            has_chain,
        }
    }

    /// Whether a line is before another one, or in another file.
    fn has_before(&self, line: &LinePlace) -> bool {
        let is_before = |one: &LinePlace| one.file != line.file || one.line < line.line;
        self.places.iter().any(is_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFilter, LogReader, SignatureCatalogue};

    fn report(text: &str) -> LogReport {
        let catalogue = SignatureCatalogue::embedded().unwrap();
        let filter = LogFilter::default();
        let mut reader = LogReader::new(&catalogue, &filter);
        reader.source("x.log", text.as_bytes(), text.as_bytes());
        reader.report()
    }

    fn causes(text: &str) -> Vec<String> {
        let found = report(text).findings.into_iter();
        let found = found.filter(|one| one.signature.starts_with("nccl-"));
        found.flat_map(|one| one.causes).collect()
    }

    #[test]
    fn that_the_log_gives_no_further_reason_is_told_where_no_later_line_states_an_error() {
        let check = |text: &str, is_told: bool| {
            let found = report(text).findings.remove(0);
            let says = |cause: &String| cause.ends_with(crate::reasons::NO_MORE);
            assert_eq!(found.causes.iter().any(says), is_told, "{text}: {found:?}");
        };
        let error = "RuntimeError: the two halves disagree";
        let rank = format!("[rank0]: {error}\n");
        for (text, is_told) in [
            (format!("{error}\n"), true),
            (
                format!("{error}\nthe table could not be read: bad magic\n"),
                false,
            ),
            (
                format!("{error}\nEI9999: hccl fftsplus task timeout occurred, num:1\n"),
                false,
            ),
            (format!("{error}\nstep 7, loss 0.1\n"), true),
            (format!("{error}\n{error}\n"), true),
            (
                format!("{rank}[rank0]: the table could not be read: bad magic\n"),
                false,
            ),
            (
                format!("{rank}[rank1]: the table could not be read: bad magic\n"),
                true,
            ),
        ] {
            check(&text, is_told);
        }
    }

    #[test]
    fn a_cause_in_another_line_is_told_where_there_is_one() {
        let error =
            "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:2251, unhandled system error\n";
        let alone = causes(error);
        assert!(alone.iter().any(|cause| cause == NOT_HERE), "{alone:?}");
        assert!(
            alone.iter().all(|cause| !cause.contains(WARNING)),
            "{alone:?}"
        );
        let warning = "node-a:71:80 [0] net.cc:7 NCCL WARN an odd thing\n";
        let both = causes(&format!("{warning}{error}"));
        assert!(both.iter().any(|cause| cause.contains(WARNING)), "{both:?}");
        assert!(both.iter().all(|cause| cause != NOT_HERE), "{both:?}");
        let quoted = report(&format!(
            "{error}ncclSystemError: System call failed.\nLast error:\nCall to ibv_create_cq failed with error Cannot allocate memory\n"
        ));
        let of_error = |one: &&SignatureFinding| one.signature == "nccl-error-text";
        let quoted = quoted.findings.iter().find(of_error).unwrap();
        let supposes = |cause: &&String| cause.starts_with(NO_REASON) || *cause == NOT_HERE;
        assert_eq!(quoted.causes.iter().find(supposes), None, "{quoted:?}");
        let call = "/src/host/init.cu:7: non-zero status: 7 nvshmem setup connections failed\n";
        let first = report(call).findings.remove(0).causes;
        assert_eq!(first, [NOT_HERE]);
    }
}
