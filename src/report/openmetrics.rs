//! The counters of every recorder of a node for Prometheus: OpenMetrics 1.0, or the older text
//! format 0.0.4.
//!
//! A series is the sum over the channels of one kind of process, one side and one interface, and
//! never one channel or process id: a node that starts jobs for weeks has as many series as kinds.
//! A node with more kinds has the rest as `others`.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::state::{RunState, WorkerState};
use tcpx_run_model::timeline::stands_still;
use tcpx_words::side::Side;

/// Most label sets of one family.
const SERIES_MAX: usize = 256;
/// Longest label value, in characters.
const VALUE_MAX: usize = 64;
/// The role of what is beyond [`SERIES_MAX`].
const OTHERS: &str = "others";

/// The dialect of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsDialect {
    /// OpenMetrics 1.0, which ends with `# EOF`.
    OpenMetrics,
    /// Text format 0.0.4.
    Text,
}

impl MetricsDialect {
    /// The value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What a series is the sum of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    role: String,
    side: Side,
    nic: String,
}

/// Sums over the channels of a series.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    channels: u64,
    in_flight: u64,
    high_water: u64,
    stalled: u64,
    in_call: u64,
    head_age_ms: u64,
    posted: u64,
    done: u64,
    consumed: u64,
    bytes: u64,
    tests: u64,
    not_done: u64,
    errors: u64,
}

impl Totals {
    fn add(&mut self, channel: &ChannelNow, stall_after_ms: u64) {
        let sum = |into: &mut u64, value: u64| *into = into.saturating_add(value);
        sum(&mut self.posted, channel.posted);
        sum(&mut self.done, channel.done);
        sum(&mut self.consumed, channel.consumed);
        sum(&mut self.bytes, channel.bytes);
        sum(&mut self.tests, channel.tests);
        sum(&mut self.not_done, channel.tests_not_done);
        sum(&mut self.errors, channel.rc_errors);
        if channel.closed {
            return;
        }
        self.channels += 1;
        sum(
            &mut self.in_flight,
            channel.posted.saturating_sub(channel.consumed),
        );
        self.high_water = self.high_water.max(channel.in_flight_high_water);
        self.stalled += u64::from(stands_still(channel, stall_after_ms));
        self.in_call += u64::from(channel.in_call.is_some());
        self.head_age_ms = self.head_age_ms.max(channel.head_age_ms.unwrap_or(0));
    }
}

/// The kind of a family.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    pick: fn(&Totals) -> f64,
}

const fn counter(name: &'static str, help: &'static str, pick: fn(&Totals) -> f64) -> Family {
    let kind = Kind::Counter;
    Family {
        name,
        kind,
        help,
        pick,
    }
}

const fn gauge(name: &'static str, help: &'static str, pick: fn(&Totals) -> f64) -> Family {
    let kind = Kind::Gauge;
    Family {
        name,
        kind,
        help,
        pick,
    }
}

const FAMILIES: &[Family] = &[
    gauge("tcpx_channels", "Channels that are not closed.", |of| {
        of.channels as f64
    }),
    gauge(
        "tcpx_in_flight_requests",
        "Requests posted and not yet consumed, over all channels.",
        |of| of.in_flight as f64,
    ),
    gauge(
        "tcpx_in_flight_requests_max",
        "Most requests that one channel had in flight.",
        |of| of.high_water as f64,
    ),
    gauge(
        "tcpx_stalled_channels",
        "Channels with requests in flight of which none changed state for 3 seconds.",
        |of| of.stalled as f64,
    ),
    gauge(
        "tcpx_channels_in_call",
        "Channels whose thread is inside a call of the plugin.",
        |of| of.in_call as f64,
    ),
    gauge(
        "tcpx_head_age_seconds",
        "Age of the oldest request in flight.",
        |of| of.head_age_ms as f64 / 1e3,
    ),
    counter("tcpx_requests_posted", "Requests posted.", |of| {
        of.posted as f64
    }),
    counter("tcpx_requests_done", "Requests done.", |of| of.done as f64),
    counter("tcpx_requests_consumed", "Requests consumed.", |of| {
        of.consumed as f64
    }),
    counter("tcpx_bytes_done", "Bytes of the requests done.", |of| {
        of.bytes as f64
    }),
    counter("tcpx_tests", "Calls of test.", |of| of.tests as f64),
    counter(
        "tcpx_tests_not_done",
        "Calls of test that returned done=0.",
        |of| of.not_done as f64,
    ),
    counter(
        "tcpx_call_errors",
        "Calls that returned a code other than success.",
        |of| of.errors as f64,
    ),
];

/// What the recorders of a node show now. `unreadable` is the number of recorders that could not
/// be read.
pub fn openmetrics(state: &RunState, unreadable: usize, dialect: MetricsDialect) -> String {
    let mut series: BTreeMap<Labels, Totals> = BTreeMap::new();
    let mut processes = 0;
    for worker in state.workers.values().filter(|worker| !worker.is_gone()) {
        processes += 1;
        for channel in &worker.channels {
            let labels = labels(worker, channel);
            let totals = series.entry(labels).or_default();
            totals.add(channel, state.stall_after_ms);
        }
    }
    let series = bounded(series, state);
    let mut text = String::new();
    for family in FAMILIES {
        head(&mut text, family, dialect);
        for (labels, totals) in &series {
            let suffix = if family.kind == Kind::Counter {
                "_total"
            } else {
                ""
            };
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(
                text,
                "{}{suffix}{{role=\"{}\",side=\"{}\",interface=\"{}\"}} {}",
                family.name,
                value(&labels.role),
                labels.side,
                value(&labels.nic),
                (family.pick)(totals)
            );
        }
    }
    for (name, help, number) in [
        (
            "tcpx_processes",
            "Processes of this node with a recorder.",
            processes,
        ),
        (
            "tcpx_unreadable_recorders",
            "Recorders that could not be read.",
            unreadable,
        ),
    ] {
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {number}"
        );
    }
    if dialect == MetricsDialect::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn labels(worker: &WorkerState, channel: &ChannelNow) -> Labels {
    let role = worker
        .process
        .as_ref()
        .map_or("", |process| process.role.as_str());
    Labels {
        role: role.to_owned(),
        side: channel.side,
        nic: worker.nic(channel.device).unwrap_or("unknown").to_owned(),
    }
}

/// At most [`SERIES_MAX`] series: of more, each side of the rest is one.
fn bounded(series: BTreeMap<Labels, Totals>, state: &RunState) -> BTreeMap<Labels, Totals> {
    if series.len() <= SERIES_MAX {
        return series;
    }
    let kept: std::collections::BTreeSet<Labels> =
        series.keys().take(SERIES_MAX - 2).cloned().collect();
    let mut bounded: BTreeMap<Labels, Totals> = BTreeMap::new();
    for worker in state.workers.values().filter(|worker| !worker.is_gone()) {
        for channel in &worker.channels {
            let mut labels = labels(worker, channel);
            if !kept.contains(&labels) {
                labels.role = OTHERS.to_owned();
                labels.nic = OTHERS.to_owned();
            }
            let totals = bounded.entry(labels).or_default();
            totals.add(channel, state.stall_after_ms);
        }
    }
    bounded
}

fn head(text: &mut String, family: &Family, dialect: MetricsDialect) {
    let kind = if family.kind == Kind::Counter {
        "counter"
    } else {
        "gauge"
    };
    // The older format has the name of the samples in the head.
    let suffix = match (dialect, family.kind) {
        (MetricsDialect::Text, Kind::Counter) => "_total",
        _ => "",
    };
    let name = family.name;
    let _ = writeln!(
        text,
        "# HELP {name}{suffix} {}\n# TYPE {name}{suffix} {kind}",
        family.help
    );
}

/// A label value: escaped, and cut.
fn value(text: &str) -> String {
    let cut: String = text.chars().take(VALUE_MAX).collect();
    cut.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::counters::ProcessFacts;
    use tcpx_run_model::event::{Event, EventKind};
    use tcpx_run_model::ids::{NodeId, Unit, Who, WorkerId};

    fn node(processes: u32, role: impl Fn(u32) -> String) -> RunState {
        let mut state = RunState::default();
        for pid in 0..processes {
            let worker = WorkerId {
                node: NodeId(0),
                unit: Unit::Process { pid, recorder: 0 },
            };
            let facts = ProcessFacts {
                role: role(pid),
                nics: [(0, "eth1".to_owned())].into(),
                ..ProcessFacts::default()
            };
            let channel = |side, quiet_ms| ChannelNow {
                side,
                posted: 20,
                done: 10,
                consumed: 4,
                bytes: 1000,
                tests: 100,
                tests_not_done: 90,
                in_flight_high_water: 16,
                head_age_ms: Some(quiet_ms),
                quiet_ms,
                ..ChannelNow::default()
            };
            let channels = vec![channel(Side::Send, 10), channel(Side::Recv, 4500)];
            for kind in [EventKind::Process(facts), EventKind::Sample(channels)] {
                state.apply(&Event::new(0.0, Who::Worker(worker), kind));
            }
        }
        state
    }

    #[test]
    fn processes_of_one_role_are_one_series() {
        let state = node(3, |_| "a \"job\"".to_owned());
        let text = openmetrics(&state, 2, MetricsDialect::OpenMetrics);
        for line in [
            "# TYPE tcpx_requests_posted counter",
            r#"tcpx_requests_posted_total{role="a \"job\"",side="recv",interface="eth1"} 60"#,
            r#"tcpx_in_flight_requests{role="a \"job\"",side="send",interface="eth1"} 48"#,
            r#"tcpx_stalled_channels{role="a \"job\"",side="recv",interface="eth1"} 3"#,
            r#"tcpx_stalled_channels{role="a \"job\"",side="send",interface="eth1"} 0"#,
            r#"tcpx_head_age_seconds{role="a \"job\"",side="recv",interface="eth1"} 4.5"#,
            "tcpx_processes 3",
            "tcpx_unreadable_recorders 2",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let text = openmetrics(&state, 2, MetricsDialect::Text);
        assert!(text.contains("# TYPE tcpx_requests_posted_total counter"));
        assert!(!text.contains("EOF"));
    }

    #[test]
    fn more_roles_than_series_are_others() {
        let state = node(1000, |pid| format!("rank {pid}"));
        let text = openmetrics(&state, 0, MetricsDialect::OpenMetrics);
        let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(series("tcpx_channels{"), SERIES_MAX);
        let posted = text
            .lines()
            .filter(|line| line.starts_with("tcpx_requests_posted_total{"));
        let numbers = posted.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        assert_eq!(numbers.sum::<u64>(), 1000 * 2 * 20, "nothing is lost");
    }

    #[test]
    fn a_node_without_recorders_has_its_two_gauges() {
        let text = openmetrics(&RunState::default(), 0, MetricsDialect::OpenMetrics);
        assert!(
            text.contains("tcpx_processes 0\n") && !text.contains('{'),
            "{text}"
        );
    }
}
