//! A run's gates as JUnit XML, in the shape that CI systems read: one suite, one
//! case per gate.
#![forbid(unsafe_code)]

use super::Story;
use super::html::escape;
use std::fmt::Write;

/// `<testsuites>` of one run.
pub fn junit(story: &Story) -> String {
    let cases = cases(story);
    let failures = cases.iter().filter(|case| matches!(case.failure, Some((Kind::Failure, _)))).count();
    let errors = cases.iter().filter(|case| matches!(case.failure, Some((Kind::Error, _)))).count();
    let seconds = seconds(story);
    let name = escape(&story.scenario);
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "<testsuites name=\"tcpxctl\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{seconds:.3}\">",
        cases.len()
    );
    let stamp = story.started.as_deref().map(|at| at.chars().take(19).collect::<String>());
    let stamp = stamp.map(|at| format!(" timestamp=\"{}\"", escape(&at))).unwrap_or_default();
    let host = story.nodes.first().map(|node| format!(" hostname=\"{}\"", escape(&node.host))).unwrap_or_default();
    let _ = writeln!(
        text,
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" time=\"{seconds:.3}\"{stamp}{host}>",
        cases.len()
    );
    for case in &cases {
        let head = format!(
            "    <testcase classname=\"tcpxctl.{name}\" name=\"{}\" time=\"{:.3}\"",
            escape(&case.name),
            case.seconds
        );
        let _ = match &case.failure {
            None => writeln!(text, "{head}/>"),
            Some((kind, why)) => {
                let tag = if *kind == Kind::Error { "error" } else { "failure" };
                let why = escape(why);
                writeln!(
                    text,
                    "{head}>\n      <{tag} type=\"{}\" message=\"{why}\">{why}</{tag}>\n    </testcase>",
                    escape(&case.name)
                )
            }
        };
    }
    let about = format!("run {}\nfindings: {}", story.id, findings(story));
    let _ = writeln!(text, "    <system-out>{}</system-out>\n  </testsuite>\n</testsuites>", escape(&about));
    text
}

struct Case {
    name: String,
    seconds: f64,
    failure: Option<(Kind, String)>,
}

/// A gate that was not met, or nothing that could be gated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Failure,
    Error,
}

fn cases(story: &Story) -> Vec<Case> {
    let ended = match story.outcome.as_deref() {
        // A run that was meant to end so has exit code 0.
        _ if story.exit_code == Some(0) => None,
        Some("passed") => None,
        Some("not-run" | "interrupted") => Some((Kind::Error, story.reason.clone().unwrap_or_default())),
        Some(outcome) => {
            Some((Kind::Failure, format!("{outcome}: {}", story.reason.as_deref().unwrap_or("no reason recorded"))))
        }
        None => {
            let ends = || "the record ends before the run does".to_owned();
            Some((Kind::Error, story.reason.clone().unwrap_or_else(ends)))
        }
    };
    let mut cases = vec![Case { name: "outcome".to_owned(), seconds: seconds(story), failure: ended }];
    for transfer in &story.transfers {
        let wrong = transfer.wrong_bytes;
        cases.push(Case {
            name: format!("verified {}", transfer.direction()),
            seconds: transfer.seconds,
            failure: (wrong > 0)
                .then(|| (Kind::Failure, format!("{wrong} wrong bytes of {}", transfer.verified_bytes))),
        });
    }
    cases.extend(story.unmet.iter().map(|unmet| Case {
        name: unmet.split_whitespace().next().unwrap_or("gate").to_owned(),
        seconds: 0.0,
        failure: Some((Kind::Failure, unmet.clone())),
    }));
    cases
}

fn seconds(story: &Story) -> f64 {
    let at = |text: &Option<String>| text.as_ref()?.parse::<jiff::Timestamp>().ok();
    let span = at(&story.started).zip(at(&story.finished));
    span.map_or(0.0, |(from, to)| to.duration_since(from).as_secs_f64().max(0.0))
}

fn findings(story: &Story) -> String {
    let names: Vec<String> = story.findings.iter().map(|one| format!("{} ({})", one.condition, one.severity)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
