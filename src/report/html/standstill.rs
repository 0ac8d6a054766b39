//! The state in which a run stopped moving: both ends of one channel, and every window.
#![forbid(unsafe_code)]

use crate::chart::{duration, requests, seconds};
use crate::page::{HtmlRow, Page};
use crate::story::{ChannelWindow, Story};

/// A longer table of windows is folded.
const OPEN_MAX: usize = 24;

pub(super) fn standstill(page: &mut Page, story: &Story) {
    if !story.stood_still() {
        return;
    }
    page.section("standstill", "State when the transfer stopped");
    if let Some(ms) = story.axis.stall_ms {
        page.tag(
            "p",
            &format!(
                "A stall was declared {} after the command started.",
                seconds(ms)
            ),
        );
    }
    if let Some(timeline) = &story.timeline {
        let svg = requests(timeline);
        page.figure(
            &format!("Requests of channel {} on both ends", timeline.channel),
            &timeline.why,
            &svg,
        );
        if !timeline.notes.is_empty() {
            let row = |(at, node, words): &(i64, String, String)| {
                HtmlRow::from([duration(*at as f64), node.clone(), words.clone()])
            };
            let rows: Vec<HtmlRow> = timeline.notes.iter().map(row).collect();
            page.table("", &["#from the last change", "node", "log line"], &rows);
        }
    }
    windows(page, story);
}

fn windows(page: &mut Page, story: &Story) {
    let rows: Vec<HtmlRow> = story.windows.iter().map(row).collect();
    let open = rows.len() <= OPEN_MAX;
    page.folded(
        &format!(
            "Windows of {} channel ends (p posted, d done, u unpacked; oldest first)",
            rows.len()
        ),
        open,
        |page| {
            page.table(
                "",
                &[
                    "node",
                    "channel",
                    "interface",
                    "window",
                    "#posted",
                    "#done",
                    "#consumed",
                    "#head age, ms",
                    "#quiet, ms",
                    "#tests",
                    "#not done",
                    "#rc errors",
                    "in call",
                    "last error",
                    "addresses",
                ],
                &rows,
            );
        },
    );
}

fn row(window: &ChannelWindow) -> HtmlRow {
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let cells = vec![
        window.worker.name.clone(),
        window.channel(),
        window.dev.clone(),
        dump(window),
        window.posted.to_string(),
        window.done.to_string(),
        window.consumed.to_string(),
        number(window.head_age_ms),
        window.quiet_ms.to_string(),
        window.tests.to_string(),
        window.tests_not_done.to_string(),
        window.rc_errors.to_string(),
        window.in_call.clone().unwrap_or_default(),
        window
            .last_error
            .as_ref()
            .map(|(call, code)| format!("{call} {code}"))
            .unwrap_or_default(),
        window
            .addresses
            .as_ref()
            .map(|(local, peer)| {
                let known = |end: &Option<String>| end.clone().unwrap_or_else(|| "?".to_owned());
                format!("{} to {}", known(local), known(peer))
            })
            .unwrap_or_default(),
    ];
    HtmlRow {
        cells,
        marked: window.in_flight() > 0,
    }
}

/// The requests of a window as letters, or their number where the letters are not known.
pub(crate) fn dump(window: &ChannelWindow) -> String {
    match (window.requests.is_empty(), window.in_flight()) {
        (false, _) => window.requests.clone(),
        (true, 0) => "empty".to_owned(),
        (true, count) => format!("{count} in flight"),
    }
}
