//! The event stream of a run folder, as samples and notes over time.
#![forbid(unsafe_code)]

use crate::coord::event::{Event, What};
use crate::coord::message::FromAgent;
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use tcpx_run_model::record::{Sample, Series};

/// Longest line of an event stream that is read.
const LINE_MAX: u64 = 16 << 20;

/// What an event stream holds of interest to a timeline.
#[derive(Debug, Default)]
pub struct Stream {
    /// By node: `local`, `peer`.
    pub series: BTreeMap<String, Series>,
    /// What the coordinator noted: nanoseconds since 1970 by its clock, and the words.
    pub notes: Vec<(u64, String)>,
    /// Lines that were no events.
    pub unreadable: u64,
}

/// Reads the `events.jsonl` of a run, whole or as far as it is written.
/// `ahead_us` says what a node's clock is ahead of the coordinator's, whose time
/// is meant everywhere.
///
/// # Errors
/// It cannot be read.
pub fn read_stream(mut reader: impl BufRead, ahead_us: impl Fn(&str) -> i64) -> io::Result<Stream> {
    let mut stream = Stream::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if io::Read::take(&mut reader, LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(stream);
        }
        match serde_json::from_slice::<Event>(&line) {
            Ok(event) => stream.take(event, &ahead_us),
            Err(_) => stream.unreadable += 1,
        }
    }
}

impl Stream {
    fn take(&mut self, event: Event, ahead_us: &impl Fn(&str) -> i64) {
        let told: Option<jiff::Timestamp> = event.at.parse().ok();
        let told_ns = told.and_then(|at| u64::try_from(at.as_nanosecond()).ok());
        let at_ns =
            event.node_us.map(|us| us.saturating_sub_signed(ahead_us(&event.node)).saturating_mul(1000)).or(told_ns);
        let Some(at_ns) = at_ns else {
            self.unreadable += 1;
            return;
        };
        match event.what {
            What::Note(text) => self.notes.push((at_ns, tcpx_words::units::printable(&text))),
            What::Said(said) => {
                if let FromAgent::Sample(channels) | FromAgent::Stall(channels) = *said {
                    let of_gpu = event.gpu.map(|gpu| format!(" gpu {gpu}")).unwrap_or_default();
                    self.series.entry(event.node + &of_gpu).or_default().push(Sample { at_ns, channels });
                }
            }
            What::Upload { .. } | What::Closely(_) | What::Found(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::record::ChannelNow;

    #[test]
    fn a_stream_that_is_cut_off_or_mixed_up_is_read_as_far_as_it_goes() {
        let channels = vec![ChannelNow { side: "recv".into(), bytes: 9, ..ChannelNow::default() }];
        let event = Event {
            at: "2026-11-20T10:00:00Z".into(),
            ms: 1.0,
            node: "peer".into(),
            gpu: None,
            node_us: Some(7),
            what: What::Said(Box::new(FromAgent::Sample(channels.clone()))),
        };
        let line = serde_json::to_string(&event).expect("JSON");
        let note = r#"{"at":"2026-11-20T10:00:00Z","ms":1,"node":"coordinator","note":"stall declared"}"#;
        let text = format!("{line}\nnonsense\n{note}\n{}", &line[..30]);
        let stream = read_stream(text.as_bytes(), |_| -3).expect("read");
        assert_eq!(stream.series["peer"].last(), Some(&Sample { at_ns: 10_000, channels }));
        assert_eq!(stream.notes, [(1_795_168_800_000_000_000, "stall declared".to_owned())]);
        assert_eq!(stream.unreadable, 2);
    }
}
