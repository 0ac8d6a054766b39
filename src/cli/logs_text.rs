//! A report of log files as text.
#![forbid(unsafe_code)]

use super::logs_harness;
use super::output::Columns;
use std::collections::BTreeMap;
use std::fmt::Write;
use tcpx_logs::{
    Comm, HarnessState, LogEnd, LogReport, OwnSignature, Role, Severity, SignatureFinding,
};
use tcpx_words::units::{counted, printable};

/// Rows of a table without `--verbose`.
const ROWS: usize = 20;
/// Processes that are named of one finding.
const NAMED: usize = 4;
/// Lines from the start and from the end that state an error in words.
const STATED: usize = 3;
/// Kinds of last lines.
const ENDS: usize = 3;

pub(crate) fn render(report: &LogReport, verbose: bool) -> String {
    let mut text = head(report);
    if let Some(harness) = &report.harness {
        text.push_str(&logs_harness::render(harness, verbose));
    }
    findings(report, &mut text);
    first_failure(report, &mut text);
    waits(report, &mut text);
    ends(report, &mut text);
    builds(report, &mut text);
    unknown(report, verbose, &mut text);
    comms(report, verbose, &mut text);
    settings(report, verbose, &mut text);
    telemetry(report, &mut text);
    rest(report, verbose, &mut text);
    text
}

/// `1 line`, `2 lines`.
fn many(count: impl TryInto<usize>, what: &str) -> String {
    counted(count.try_into().unwrap_or(usize::MAX), what)
}

fn head(report: &LogReport) -> String {
    let inputs = &report.inputs;
    let mut text = format!(
        "# logs : {}, {}, {} bytes; {} of known kinds\n",
        many(inputs.files, "file"),
        many(inputs.lines, "line"),
        inputs.bytes,
        many(inputs.matched_lines, "line")
    );
    if inputs.filtered_records > 0 {
        let _ = writeln!(
            text,
            "# filters : {} records of known kinds are of another rank, node or time, or lack it",
            inputs.filtered_records
        );
    }
    if inputs.assumed_years > 0 && !report.findings.is_empty() {
        let years: Vec<String> = inputs.taken_years.iter().map(i64::to_string).collect();
        let _ = writeln!(
            text,
            "# times : no date in {} has a year: {} is taken, the last in which they are past",
            many(inputs.assumed_years, "file"),
            named(&years)
        );
    }
    let _ = writeln!(
        text,
        "# transport : {} ({})",
        report.transport.headline(),
        report.transport.because
    );
    if report.transport.named.len() > 1 {
        for (name, processes) in &report.transport.named {
            let _ = writeln!(text, "#   {name} : {}", named(processes));
        }
    }
    for (version, processes) in &report.transport.versions {
        let _ = writeln!(text, "# version : {version} on {}", named(processes));
    }
    if report.transport.versions.len() > 1 {
        text.push_str("WARNING versions of the plugin differ\n");
    }
    text + &replaced(&report.own_signatures)
}

/// The user's signatures that replace others.
pub(crate) fn replaced(own: &[OwnSignature]) -> String {
    let mut text = String::new();
    for one in own {
        if let Some(replaced) = &one.replaces {
            let _ = writeln!(
                text,
                "# signature : {} of {} replaces the one of {replaced}",
                one.name, one.file
            );
        }
    }
    text
}

/// What failed, then what followed in one line each.
fn findings(report: &LogReport, text: &mut String) {
    let all = report.findings.iter();
    let (told, findings): (Vec<_>, Vec<_>) = all.partition(|one| report.is_in_verdict(one));
    folded("# lines that the verdict is about", &told, text);
    let (causes, followed): (Vec<_>, Vec<_>) = findings
        .into_iter()
        .partition(|one| one.role != Role::Consequence);
    // Without anything else, a consequence is all that the log says about the failure.
    let shown = if causes.is_empty() {
        &followed
    } else {
        &causes
    };
    shown.iter().for_each(|one| text.push_str(&finding(one)));
    if !causes.is_empty() {
        let first = causes.first().map(|one| &one.first);
        let is_earlier = |one: &&SignatureFinding| {
            first.is_some_and(|first| one.first.file == first.file && one.first.line < first.line)
        };
        let title = match followed.iter().any(is_earlier) {
            true => "# what followed, and other lines of the same failure",
            false => "# what followed",
        };
        folded(title, &followed, text);
    }
    if !report.findings.is_empty() {
        if !report.stated.is_empty() {
            text.push_str("# other lines that state an error and have no signature :\n");
            stated(report, text);
        }
        return;
    }
    let verdicts = report.harness.iter().flat_map(|harness| &harness.verdicts);
    if verdicts
        .into_iter()
        .all(|verdict| verdict.state == HarnessState::Finished)
    {
        nothing_found(report, text);
    }
}

/// What is said where no line is a finding. A warning is never passed over in silence.
fn nothing_found(report: &LogReport, text: &mut String) {
    match report.unknown.first() {
        Some(first) => {
            let (kinds, lines) = (report.unknown.len(), &first.first);
            let _ = writeln!(
                text,
                "# {} and may be harmless; the first, {} :\n#   {}:{}: {}",
                match kinds {
                    1 => "1 kind of warnings has no signature".to_owned(),
                    kinds => format!("{kinds} kinds of warnings have no signature"),
                },
                many(first.count, "line"),
                lines.file,
                lines.line,
                first.sample
            );
        }
        None if report.inputs.filtered_records == 0 => text.push_str("# no findings\n"),
        None => text.push_str("# no findings in the lines that the filters select\n"),
    }
    if !report.stated.is_empty() {
        text.push_str(
            "# lines that state an error; they have no signature and may be harmless :\n",
        );
        stated(report, text);
    }
}

/// The first and the last lines that state an error in words.
fn stated(report: &LogReport, text: &mut String) {
    let all = report.stated.len();
    let is_shown = |number: usize| number < STATED || number + STATED >= all;
    for (_, line) in report
        .stated
        .iter()
        .enumerate()
        .filter(|(number, _)| is_shown(*number))
    {
        let place = &line.place;
        let _ = writeln!(text, "#   {}:{}: {}", place.file, place.line, line.sample);
    }
}

/// Findings in one line each.
fn folded(title: &str, findings: &[&SignatureFinding], text: &mut String) {
    if !findings.is_empty() {
        let _ = writeln!(text, "{title}");
    }
    for one in findings {
        let _ = writeln!(
            text,
            "#   {} : {} from {}:{}{}",
            one.signature,
            many(one.count, "line"),
            one.first.file,
            one.first.line,
            of(&one.processes)
        );
    }
}

/// Which of several files failed first, or that it is unknown.
fn first_failure(report: &LogReport, text: &mut String) {
    let Some(first) = &report.first_failure else {
        return;
    };
    let files = match (first.is_known, first.files.is_empty()) {
        (true, _) => named(&first.files),
        (false, true) => "unknown".to_owned(),
        (false, false) => format!("unknown: one of {}", named(&first.files)),
    };
    let _ = writeln!(text, "# failed first : {files} ({})", first.because);
}

/// Ranks that wait for a collective, and ranks that do not.
fn waits(report: &LogReport, text: &mut String) {
    for wait in &report.waits {
        let _ = writeln!(
            text,
            "# waits for {} number {} : {}",
            wait.operation,
            wait.sequence,
            ranks(&wait.ranks)
        );
    }
    if !report.not_waiting.is_empty() {
        let _ = writeln!(text, "# not among them : {}", ranks(&report.not_waiting));
    }
    for gap in &report.gaps {
        let group = if gap.group.is_empty() {
            String::new()
        } else {
            format!(" of group {}", gap.group)
        };
        for behind in gap.behind.iter().take(NAMED) {
            let _ = writeln!(
                text,
                "# gap : rank {} ({}) is {} behind : it started number {}, {}{group} {}",
                behind.rank,
                behind.process,
                many(gap.started - behind.started, "collective"),
                behind.started,
                many(gap.in_front, "rank"),
                gap.started
            );
        }
        if gap.behind.len() > NAMED {
            let _ = writeln!(
                text,
                "# gap : and {}{group}",
                many(gap.behind.len() - NAMED, "more rank")
            );
        }
    }
}

/// The last lines of processes, if nothing else says why they stopped there.
fn ends(report: &LogReport, text: &mut String) {
    let explains =
        |one: &SignatureFinding| one.role != Role::Consequence && one.severity < Severity::Warning;
    let is_told = |end: &LogEnd| {
        let samples = report.findings.iter().any(|one| one.sample == end.sample);
        samples || report.harness.is_some()
    };
    if report.findings.iter().any(explains) {
        return;
    }
    // Where nothing failed, only silence makes a last message worth a line.
    let has_failed = report.findings.iter().any(|one| one.severity.is_finding());
    let matters = |end: &LogEnd| has_failed || end.silent_seconds.is_some();
    let ends = report.ends.iter();
    let ends: Vec<&LogEnd> = ends.filter(|end| !is_told(end) && matters(end)).collect();
    for end in ends.iter().take(ENDS) {
        let (place, processes) = (&end.last, named(&end.processes));
        let silent = end.silent_seconds.map_or(String::new(), |seconds| {
            format!(", {seconds:.0} s before the last line of its file")
        });
        let _ = writeln!(
            text,
            "# last message of {processes}{silent} :\n#   {}:{}: {}",
            place.file, place.line, end.sample
        );
    }
    if ends.len() > ENDS {
        let _ = writeln!(
            text,
            "# and {} of last lines (--json)",
            many(ends.len() - ENDS, "more kind")
        );
    }
}

fn ranks(ranks: &[u32]) -> String {
    let names: Vec<String> = ranks.iter().map(u32::to_string).collect();
    let word = if names.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", named(&names))
}

/// One finding, with what it means and what to do.
pub(crate) fn finding(finding: &SignatureFinding) -> String {
    let mut text = format!(
        "{} {} : {}, {}{}\n  {}\n",
        finding.severity.name().to_uppercase(),
        finding.signature,
        many(finding.count, "line"),
        times(finding),
        of(&finding.processes),
        finding.meaning
    );
    if let Some(polls) = finding.polls {
        let _ = writeln!(
            text,
            "  polled at least {:.0} times a second; longest wait {:.1} s",
            polls.per_second_min, polls.seconds_max
        );
    }
    for (number, cause) in finding.causes.iter().enumerate() {
        let _ = writeln!(text, "  cause {} : {cause}", number + 1);
    }
    if let Some(next) = &finding.next_step {
        let _ = writeln!(text, "  next : {next}");
    }
    let mut line = |place: String, line: &str| {
        let _ = writeln!(text, "  {place}: {line}");
    };
    let first = &finding.first;
    for before in &finding.before {
        line(format!("{} before", first.file), before);
    }
    line(format!("{}:{}", first.file, first.line), &finding.sample);
    if let Some(after) = &finding.after {
        line(format!("{} behind", first.file), after);
    }
    text
}

fn times(finding: &SignatureFinding) -> String {
    match (&finding.first.at, &finding.last.at) {
        (Some(first), Some(last)) if first == last => first.clone(),
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => {
            let (first, last) = (finding.first.line, finding.last.line);
            // A time in a form that is not read is one.
            let unread = if has_clock(&finding.sample) {
                ""
            } else {
                ", without a time"
            };
            format!("lines {first} to {last}{unread}")
        }
    }
}

/// Whether a text has hours, minutes and seconds, `08:14:04`, or begins with seconds since 1970 as UCX writes them.
fn has_clock(text: &str) -> bool {
    let seconds = text.strip_prefix('[').and_then(|text| text.split_once('.'));
    let is_number = |text: &str| text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_some_and(|(seconds, _)| is_number(seconds)) {
        return true;
    }
    text.as_bytes().windows(8).any(|window| {
        let is_in_form = |(at, byte): (usize, &u8)| match at {
            2 | 5 => *byte == b':',
            _ => byte.is_ascii_digit(),
        };
        window.iter().enumerate().all(is_in_form)
    })
}

fn named(processes: &[String]) -> String {
    let more = processes.len().saturating_sub(NAMED);
    let first = processes[..processes.len() - more].join(", ");
    if more == 0 {
        first
    } else {
        format!("{first} and {more} more")
    }
}

/// The processes of a line, which lines on hosts do not have.
fn of(processes: &[String]) -> String {
    match processes.is_empty() {
        true => String::new(),
        false => format!(", {}", named(processes)),
    }
}

fn builds(report: &LogReport, text: &mut String) {
    for build in &report.builds {
        let hosts: Vec<String> = build
            .lines
            .iter()
            .take(2 * NAMED)
            .map(|(host, lines)| format!("{host} {lines:?}"))
            .collect();
        let _ = writeln!(
            text,
            "WARNING builds of the plugin differ : {} writes {} at lines {}",
            build.function,
            build.signature,
            hosts.join(", ")
        );
    }
}

fn unknown(report: &LogReport, verbose: bool, text: &mut String) {
    if report.unknown.is_empty() {
        return;
    }
    let mut columns = Columns::new(&["count", "unknown warning", "first"]);
    let rows = if verbose { usize::MAX } else { ROWS };
    report.unknown.iter().take(rows).for_each(|one| {
        let first = format!("{}:{}", one.first.file, one.first.line);
        columns.row([one.count.to_string(), one.shape.clone(), first]);
    });
    text.push_str(&columns.render());
    more(report.unknown.len(), rows, text);
}

fn more(all: usize, rows: usize, text: &mut String) {
    if all > rows {
        let _ = writeln!(text, "# and {} more (--verbose, or --json)", all - rows);
    }
}

fn comms(report: &LogReport, verbose: bool, text: &mut String) {
    if report.comms.is_empty() {
        return;
    }
    let mut columns = Columns::new(&[
        "from",
        "nic",
        "to",
        "nic",
        "kind",
        "sender",
        "receiver",
        "slow-send",
        "slow-recv",
    ]);
    let rows = if verbose { usize::MAX } else { ROWS };
    // What is slow is looked for first.
    let mut all: Vec<&Comm> = report.comms.iter().collect();
    all.sort_by_key(|comm| std::cmp::Reverse(comm.slow_at_sender + comm.slow_at_receiver));
    let shown = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    for comm in all.iter().take(rows) {
        columns.row([
            comm.from.clone(),
            shown(&comm.from_nic),
            comm.to.clone(),
            shown(&comm.to_nic),
            comm.kind.to_owned(),
            shown(&comm.sender),
            shown(&comm.receiver),
            comm.slow_at_sender.to_string(),
            comm.slow_at_receiver.to_string(),
        ]);
    }
    text.push_str(&columns.render());
    more(report.comms.len(), rows, text);
}

/// Without `--verbose` only those in which processes differ.
fn settings(report: &LogReport, verbose: bool, text: &mut String) {
    let mut columns = Columns::new(&["setting", "value", "processes"]);
    let mut rows = 0;
    for setting in report
        .settings
        .iter()
        .filter(|setting| verbose || !setting.processes.is_empty())
    {
        columns.row([
            setting.key.clone(),
            setting.value.clone(),
            named(&setting.processes),
        ]);
        rows += 1;
    }
    if rows > 0 {
        text.push_str(&columns.render());
    }
    if rows < report.settings.len() {
        let _ = writeln!(
            text,
            "# settings with one value in all processes that log them : {} (--verbose)",
            report.settings.len() - rows
        );
    }
}

fn telemetry(report: &LogReport, text: &mut String) {
    for file in &report.telemetry {
        let _ = writeln!(
            text,
            "# telemetry {} : {} requests, {} incomplete, {} unfinished",
            file.file, file.requests, file.incomplete, file.unfinished
        );
        for stage in &file.stages {
            let _ = writeln!(
                text,
                "#   {:12} : p50 {:.1} us, max {:.1} us",
                stage.stage, stage.us_p50, stage.us_max
            );
        }
    }
}

fn rest(report: &LogReport, verbose: bool, text: &mut String) {
    let counted = |findings: &[SignatureFinding]| {
        let of: BTreeMap<&str, u64> = findings
            .iter()
            .map(|one| (one.signature.as_str(), one.count))
            .collect();
        of.iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if !report.benign.is_empty() {
        let _ = writeln!(text, "# harmless here : {}", counted(&report.benign));
    }
    if verbose && !report.seen.is_empty() {
        let _ = writeln!(text, "# seen : {}", counted(&report.seen));
    }
    for problem in &report.problems {
        let _ = writeln!(
            text,
            "# note : {}: {}",
            printable(&problem.path),
            problem.problem
        );
    }
}
