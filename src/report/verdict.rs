//! The first words of every report: how it ended, in one sentence that holds.
#![forbid(unsafe_code)]

use super::story::{State, Story, Transfer};
use super::words::Language;
use tcpx_run_model::finding::Severity;
use tcpx_words::error::Outcome;
use tcpx_words::units::ByteCount;

/// Rates that are told one by one.
const RATES_MAX: usize = 8;

/// Good, bad, or not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Everything that was asked for holds.
    Good,
    /// It holds, with a warning.
    Warned,
    /// Something does not hold.
    Bad,
    /// Nobody can say.
    Open,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(crate) tone: Tone,
    /// `PASSED`, `STALLED`, ...
    pub(crate) word: String,
    /// One sentence.
    pub(crate) sentence: String,
}

pub(super) fn verdict(story: &Story, language: Language) -> Verdict {
    let word = match (&story.outcome, story.state) {
        (Some(outcome), _) => outcome.to_string().to_uppercase(),
        _ if is_examination(story) => "EXAMINED".to_owned(),
        (None, State::Damaged) => "DAMAGED".to_owned(),
        (None, State::Killed) => "KILLED".to_owned(),
        (None, State::OtherVersion) => "OTHER VERSION".to_owned(),
        (None, State::Running) => "RUNNING".to_owned(),
        (None, _) => "UNFINISHED".to_owned(),
    };
    let warned = story
        .findings
        .iter()
        .any(|finding| finding.severity == Severity::Warning);
    let tone = match story.outcome {
        Some(Outcome::Passed) if !story.unmet.is_empty() || story.wrong_bytes() > 0 => Tone::Bad,
        Some(Outcome::Passed) if warned => Tone::Warned,
        Some(Outcome::Passed) => Tone::Good,
        Some(_) => Tone::Bad,
        None => Tone::Open,
    };
    Verdict {
        tone,
        word,
        sentence: sentence(story, language),
    }
}

/// No run, but what the nodes are.
fn is_examination(story: &Story) -> bool {
    story.outcome.is_none()
        && story.series.is_empty()
        && story.nodes.is_empty()
        && !story.checks.is_empty()
}

fn sentence(story: &Story, language: Language) -> String {
    if is_examination(story) {
        let of = |verdict: &str| {
            story
                .checks
                .iter()
                .filter(|check| check.verdict == verdict)
                .count()
        };
        let counts = format!(
            "{} FAIL, {} WARN, {} UNKNOWN, {} PASS",
            of("FAIL"),
            of("WARN"),
            of("UNKNOWN"),
            of("PASS")
        );
        return match language {
            Language::English => format!("The nodes were examined and nothing was run: {counts}."),
            Language::Chinese => format!("仅检查了节点，没有运行传输：{counts}。"),
        };
    }
    let moved = moved(story, language);
    let unsaid = match story.outcome {
        Some(Outcome::Passed) => return moved,
        Some(_) => language.pick("no reason was recorded", "未记录原因"),
        None => language.pick(
            "The record ends before the run does",
            "记录在运行结束前中断",
        ),
    };
    let reason = story.reason.as_deref().unwrap_or(unsaid);
    format!(
        "{}{} {moved}",
        reason.trim_end_matches('.'),
        language.pick(".", "。")
    )
}

/// Many rates by their ends.
fn among(measured: &[&Transfer], language: Language) -> String {
    let median = |one: &&&Transfer| one.record.median_gb_per_s;
    let by_rate = |a: &&&Transfer, b: &&&Transfer| median(a).total_cmp(&median(b));
    let (slowest, fastest) = (
        measured.iter().min_by(by_rate),
        measured.iter().max_by(by_rate),
    );
    let direction = slowest.map_or("", |one| one.direction.as_str());
    let [low, high] = [slowest, fastest].map(|one| one.as_ref().map_or(0.0, median));
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

/// What was moved and how fast, as far as it was measured.
fn moved(story: &Story, language: Language) -> String {
    if story.transfers.is_empty() {
        return language
            .pick("Nothing was measured.", "没有测量结果。")
            .to_owned();
    }
    let verified = ByteCount(story.verified_bytes()).about();
    let wrong = story.wrong_bytes();
    let measured: Vec<&Transfer> = story
        .transfers
        .iter()
        .filter(|one| one.record.iterations > 0)
        .collect();
    if measured.len() > RATES_MAX {
        let rates = among(&measured, language);
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
        ([], Language::English) => "no measured iteration was completed".to_owned(),
        ([], Language::Chinese) => "没有完成任何计时迭代".to_owned(),
        (rates, Language::English) => format!("median {}", rates.join(", ")),
        (rates, Language::Chinese) => format!("中位数 {}", rates.join("，")),
    };
    match language {
        Language::English => format!("{verified} verified, {wrong} bytes wrong; {rates}."),
        Language::Chinese => format!("已校验 {verified}，错误 {wrong} 字节；{rates}。"),
    }
}
