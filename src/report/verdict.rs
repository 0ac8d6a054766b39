//! The headline of every report: how the run ended, in one sentence.
#![forbid(unsafe_code)]

use super::story::{Story, StoryState, StoryTransfer};
use super::words::Language;
use tcpx_logs::{HarnessState, Severity as LineSeverity};
use tcpx_run_model::finding::{Finding, Severity};
use tcpx_words::error::Outcome;
use tcpx_words::units::ByteCount;

/// With more directions than this, only the range of their rates is shown.
const RATES_MAX: usize = 8;

/// How the headline is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// The run passed.
    Good,
    /// The run passed with a warning, or without a whole record.
    Warned,
    /// The run did not pass, missed a gate, or moved wrong bytes.
    Bad,
    /// The run has no recorded outcome.
    Open,
}

/// The headline of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunVerdict {
    pub(crate) tone: Tone,
    /// The outcome in capitals, such as `PASSED` or `STALLED`.
    pub(crate) word: String,
    pub(crate) sentence: String,
}

pub(super) fn verdict(story: &Story, language: Language) -> RunVerdict {
    let is_incomplete = story.is_incomplete();
    let word = match (&story.outcome, story.state) {
        (Some(Outcome::Passed), _) if is_incomplete => "PASSED, RECORD INCOMPLETE".to_owned(),
        (Some(outcome), _) => outcome.to_string().to_uppercase(),
        _ if is_examination(story) => "EXAMINED".to_owned(),
        (None, StoryState::Damaged) => "DAMAGED".to_owned(),
        (None, StoryState::Killed) => "KILLED".to_owned(),
        (None, StoryState::Interrupted) => "INTERRUPTED".to_owned(),
        (None, StoryState::Unwritten) => "UNWRITTEN".to_owned(),
        (None, StoryState::Adopted) => adopted(story),
        (None, StoryState::OtherVersion) => "OTHER VERSION".to_owned(),
        (None, StoryState::Running) => "RUNNING".to_owned(),
        (None, _) => "UNFINISHED".to_owned(),
    };
    let warned = story
        .findings
        .iter()
        .any(|finding| finding.severity == Severity::Warning);
    let tone = match story.outcome {
        Some(Outcome::Passed) if !story.unmet.is_empty() || story.wrong_bytes() > 0 => Tone::Bad,
        Some(Outcome::Passed) if warned || is_incomplete => Tone::Warned,
        Some(Outcome::Passed) => Tone::Good,
        Some(_) => Tone::Bad,
        None if story.state == StoryState::Adopted
            && let Some(first) = first(story) =>
        {
            match first.severity {
                Severity::Error => Tone::Bad,
                Severity::Warning | Severity::Info => Tone::Warned,
            }
        }
        None => match story.harness_state() {
            Some(HarnessState::Failed | HarnessState::Waits) => Tone::Bad,
            Some(HarnessState::Doubtful) => Tone::Warned,
            Some(HarnessState::Finished) | None => Tone::Open,
        },
    };
    RunVerdict {
        tone,
        word: language.outcome(&word),
        sentence: sentence(story, language),
    }
}

/// The first finding, if it is a problem.
fn first(story: &Story) -> Option<&Finding> {
    let first = story.findings.first();
    first.filter(|first| first.severity != Severity::Info)
}

/// The word for programs that no run started, by the first finding on them.
fn adopted(story: &Story) -> String {
    let Some(first) = first(story) else {
        let state = story.harness_state();
        return state.map_or_else(|| "ADOPTED".to_owned(), |state| state.name().to_uppercase());
    };
    let mut verdicts = story.harness.iter().flat_map(|one| &one.verdicts);
    if let Some(of_program) = verdicts.find(|verdict| verdict.condition == first.condition) {
        return of_program.state.name().to_uppercase();
    }
    let stalls = |line: &crate::story::LogFinding| {
        line.signature == first.condition && line.severity == LineSeverity::Stall
    };
    match first.severity {
        Severity::Error if story.stood_still() || story.log.iter().any(stalls) => "STALLED",
        Severity::Error => "FAILED",
        Severity::Warning | Severity::Info => "ADOPTED",
    }
    .to_owned()
}

/// Whether the folder holds only doctor checks and no run.
fn is_examination(story: &Story) -> bool {
    story.outcome.is_none()
        && story.series.is_empty()
        && story.nodes.is_empty()
        && !story.checks.is_empty()
}

fn sentence(story: &Story, language: Language) -> String {
    if is_examination(story) {
        return examined(story, language);
    }
    let moved = moved(story, language);
    let fallback = match story.outcome {
        Some(Outcome::Passed) => return moved,
        Some(_) => language.pick("No reason was recorded", "未记录原因"),
        None => language.pick("No final result was recorded", "未记录最终结果"),
    };
    let reason = story.reason.as_deref().unwrap_or(fallback);
    let reason = language.sentence(reason.trim_end_matches('.'));
    match language {
        Language::English => format!("{reason}. {moved}"),
        Language::Chinese => format!("{reason}。{moved}"),
    }
}

/// How many doctor checks have each verdict.
fn examined(story: &Story, language: Language) -> String {
    let count = |verdict: &str| {
        let checks = story.checks.iter();
        checks.filter(|check| check.verdict == verdict).count()
    };
    let counts = format!(
        "{} FAIL, {} WARN, {} UNKNOWN, {} PASS",
        count("FAIL"),
        count("WARN"),
        count("UNKNOWN"),
        count("PASS")
    );
    match language {
        Language::English => format!("The nodes were checked; no transfer was run: {counts}."),
        Language::Chinese => format!("仅检查了节点，没有运行传输：{counts}。"),
    }
}

/// The range of the median rates, and the slowest direction.
fn rate_range(measured: &[&StoryTransfer], language: Language) -> String {
    let mut by_rate = measured.to_vec();
    by_rate.sort_by(|a, b| {
        a.record
            .median_gb_per_s
            .total_cmp(&b.record.median_gb_per_s)
    });
    let [slowest, .., fastest] = by_rate.as_slice() else {
        return String::new();
    };
    let direction = &slowest.direction;
    let (low, high) = (
        slowest.record.median_gb_per_s,
        fastest.record.median_gb_per_s,
    );
    let count = measured.len();
    match language {
        Language::English => {
            format!(
                "median {low:.3} to {high:.3} GB/s in {count} directions, the slowest {direction}"
            )
        }
        Language::Chinese => {
            format!("{count} 个方向的中位数为 {low:.3} 至 {high:.3} GB/s，最慢的是 {direction}")
        }
    }
}

/// The range of the rates in the logs of programs that drive the plugin themselves.
fn of_programs(story: &Story, language: Language) -> String {
    let results = story.harness_results();
    if results.is_empty() {
        let none = "The logs have no result.";
        return language.pick(none, "日志中没有结果。").to_owned();
    }
    let right = results.iter().filter(|one| one.wrong.is_none());
    let rates: Vec<f64> = right.filter_map(|one| one.gb_per_s).collect();
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    let count = results.len();
    let wrong = match (count - rates.len(), language) {
        (0, _) => String::new(),
        (wrong, Language::English) => format!(", {wrong} without a rate that holds"),
        (wrong, Language::Chinese) => format!("，其中 {wrong} 个没有成立的速率"),
    };
    match (language, rates.is_empty()) {
        (Language::English, true) => format!("None of {count} results in the logs holds."),
        (Language::Chinese, true) => format!("日志中的 {count} 个结果都不成立。"),
        (Language::English, false) => {
            format!("{count} results in the logs: {low:.3} to {high:.3} GB/s{wrong}.")
        }
        (Language::Chinese, false) => {
            format!("日志中有 {count} 个结果：{low:.3} 至 {high:.3} GB/s{wrong}。")
        }
    }
}

/// How many bytes were verified, and the rates that were measured.
fn moved(story: &Story, language: Language) -> String {
    if story.transfers.is_empty() && story.harness.is_some() {
        return of_programs(story, language);
    }
    if story.transfers.is_empty() {
        return story.no_results(language).to_owned();
    }
    let verified = ByteCount(story.verified_bytes()).about();
    let wrong = story.wrong_bytes();
    let measured: Vec<&StoryTransfer> = story
        .transfers
        .iter()
        .filter(|one| one.record.iterations > 0)
        .collect();
    if measured.len() > RATES_MAX {
        let rates = rate_range(&measured, language);
        return match language {
            Language::English => format!("{verified} verified, {wrong} bytes wrong; {rates}."),
            Language::Chinese => format!("已校验 {verified}，错误 {wrong} 字节；{rates}。"),
        };
    }
    let rates: Vec<String> = measured
        .iter()
        .map(|one| match language {
            Language::English => {
                format!("{:.3} GB/s {}", one.record.median_gb_per_s, one.direction)
            }
            Language::Chinese => {
                format!("{} {:.3} GB/s", one.direction, one.record.median_gb_per_s)
            }
        })
        .collect();
    let rates = match (rates.as_slice(), language) {
        ([], Language::English) => "no worker reported its results".to_owned(),
        ([], Language::Chinese) => "没有 worker 报告结果".to_owned(),
        (rates, Language::English) => format!("median {}", rates.join(", ")),
        (rates, Language::Chinese) => format!("中位数 {}", rates.join("，")),
    };
    match language {
        Language::English => format!("{verified} verified, {wrong} bytes wrong; {rates}."),
        Language::Chinese => format!("已校验 {verified}，错误 {wrong} 字节；{rates}。"),
    }
}
