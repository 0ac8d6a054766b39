//! A run as JUnit XML: one suite, with a case for the outcome, each transfer and each gate that
//! was not met.
#![forbid(unsafe_code)]

use super::Story;
use super::suite::{JunitCase, JunitResult, JunitSuite};
use tcpx_words::error::Outcome;

/// The run as a JUnit XML document.
pub(crate) fn junit(story: &Story) -> String {
    let suite = JunitSuite {
        name: story.scenario.clone(),
        classname: format!("tcpxctl.{}", story.scenario),
        seconds: seconds(story),
        started: story.started.as_ref().and_then(|at| at.parse().ok()),
        host: story.nodes.first().map(|node| node.host.clone()),
        cases: cases(story),
        system_out: Some(format!("run {}\nfindings: {}", story.id, findings(story))),
    };
    suite.render()
}

fn cases(story: &Story) -> Vec<JunitCase> {
    let ended = match story.outcome {
        // A run that ended as its scenario expects has exit code 0.
        _ if story.exit_code == Some(0) => JunitResult::Passed(None),
        Some(Outcome::Passed) => JunitResult::Passed(None),
        Some(Outcome::NotRun | Outcome::Interrupted) => {
            JunitResult::Error(story.reason.clone().unwrap_or_default())
        }
        Some(outcome) => JunitResult::Failure(format!(
            "{outcome}: {}",
            story.reason.as_deref().unwrap_or("no reason recorded")
        )),
        None => {
            let fallback = || "no final result was recorded".to_owned();
            JunitResult::Error(story.reason.clone().unwrap_or_else(fallback))
        }
    };
    let mut cases = vec![JunitCase {
        name: "outcome".to_owned(),
        seconds: seconds(story).unwrap_or(0.0),
        ended,
    }];
    cases.extend(story.transfers.iter().map(|transfer| JunitCase {
        name: format!("verified {}", transfer.direction),
        seconds: transfer.record.seconds,
        ended: match transfer.record.wrong_bytes {
            0 => JunitResult::Passed(None),
            wrong => JunitResult::Failure(format!(
                "{wrong} wrong bytes of {}",
                transfer.record.verified_bytes
            )),
        },
    }));
    cases.extend(story.unmet.iter().map(|unmet| JunitCase {
        name: unmet.split_whitespace().next().unwrap_or("gate").to_owned(),
        seconds: 0.0,
        ended: JunitResult::Failure(unmet.clone()),
    }));
    cases
}

/// How long the run took; `None` without a record of its end.
fn seconds(story: &Story) -> Option<f64> {
    let at = |text: &Option<String>| text.as_ref()?.parse::<jiff::Timestamp>().ok();
    let (from, to) = at(&story.started).zip(at(&story.finished))?;
    Some(to.duration_since(from).as_secs_f64().max(0.0))
}

fn findings(story: &Story) -> String {
    let names: Vec<String> = story
        .findings
        .iter()
        .map(|one| format!("{} ({})", one.condition, one.severity))
        .collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
