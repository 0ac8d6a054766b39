//! The settings that `tune` changes, with their values from the smallest to the largest.
#![forbid(unsafe_code)]

use tcpx_run_model::scenario::Scenario;
use tcpx_words::progress::{Idle, Policy, Threads};
use tcpx_words::units::{ByteCount, TimeSpan};

/// One setting.
pub(crate) struct Knob {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// From the smallest use of sockets, memory and cores to the largest.
    pub(crate) values: Vec<KnobValue>,
    /// The index of the scenario's own value.
    pub(crate) own: usize,
}

/// One value of a knob.
pub(crate) struct KnobValue {
    /// As a user writes it.
    pub(crate) text: String,
    set: Box<dyn Fn(&mut Scenario)>,
}

impl Knob {
    /// Sets the scenario to the value with this index.
    pub(crate) fn apply(&self, value: usize, scenario: &mut Scenario) {
        if let Some(value) = self.values.get(value) {
            (value.set)(scenario);
        }
    }

    /// A knob over `values` and the scenario's own, in the order of `rank`.
    fn over<T: PartialEq + Clone + 'static, K: Ord>(
        name: &'static str,
        own: T,
        values: impl IntoIterator<Item = T>,
        rank: fn(&T) -> K,
        text: fn(&T) -> String,
        set: fn(&mut Scenario, T),
    ) -> Self {
        let mut all = vec![own.clone()];
        all.extend(values.into_iter().filter(|value| *value != own));
        all.sort_by_key(rank);
        Self {
            name,
            own: all.iter().position(|value| *value == own).unwrap_or(0),
            values: all
                .into_iter()
                .map(|value| KnobValue {
                    text: text(&value),
                    set: Box::new(move |scenario| set(scenario, value.clone())),
                })
                .collect(),
        }
    }
}

/// Data sockets of a connection.
const SOCKETS: &str = "NCCL_NSOCKS_PERTHREAD";
/// Largest message of TCPX.
const CHUNK_MAX: u64 = 4 << 20;

/// The knobs of a scenario, on a node with `cores` cores for the run.
pub(crate) fn knobs(scenario: &Scenario, cores: u32) -> Vec<Knob> {
    let transfer = &scenario.transfer;
    let sockets = scenario.env.all.get(SOCKETS);
    let most = transfer.total.0.clamp(1, CHUNK_MAX);
    let mut all = vec![
        Knob::over(
            "connections",
            transfer.connections,
            [1, 2, 4, 8, 16],
            |n| *n,
            u32::to_string,
            |s, n| s.transfer.connections = n,
        ),
        Knob::over(
            "sockets",
            sockets.and_then(|text| text.parse().ok()).unwrap_or(1),
            [1, 2, 4, 8],
            |n| *n,
            u32::to_string,
            |s, n| {
                s.env.all.insert(SOCKETS.to_owned(), n.to_string());
            },
        ),
        Knob::over(
            "chunk",
            transfer.chunk,
            [128, 256, 512, 1024, 2048]
                .map(|kib| ByteCount(kib << 10))
                .into_iter()
                .filter(|chunk| chunk.0 <= most),
            |bytes| *bytes,
            ByteCount::to_string,
            |s, bytes| s.transfer.chunk = bytes,
        ),
        Knob::over(
            "windows",
            (transfer.send_window, transfer.recv_window),
            [(2, 2), (4, 4), (8, 8), (12, 16), (16, 16)],
            |windows| *windows,
            |(send, recv)| format!("{send}/{recv}"),
            |s, windows| (s.transfer.send_window, s.transfer.recv_window) = windows,
        ),
    ];
    if scenario.progress.policy == Policy::Opportunistic {
        let counts = (0..).map(|power| 1 << power).take_while(|n| *n <= cores);
        all.push(Knob::over(
            "threads",
            scenario.progress.threads,
            counts.map(Threads::Count).chain([Threads::Auto]),
            // First `auto`, because it fits other machines too.
            |threads| match threads {
                Threads::Auto => 0,
                Threads::Count(count) => *count,
            },
            Threads::to_string,
            |s, threads| s.progress.threads = threads,
        ));
    }
    all.push(Knob::over(
        "idle",
        scenario.progress.idle,
        [
            Idle::Sleep(TimeSpan::from_nanos(50_000)),
            Idle::Adaptive,
            Idle::Yield,
            Idle::Spin,
        ],
        // By the CPU time that a thread without work takes.
        |idle| match idle {
            Idle::Sleep(_) => 0,
            Idle::Adaptive => 1,
            Idle::Yield => 2,
            Idle::Spin => 3,
        },
        Idle::to_string,
        |s, idle| s.progress.idle = idle,
    ));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenarios_own_values_stand_among_the_others() {
        let mut scenario = Scenario::default();
        scenario.transfer.connections = 3;
        let knobs = knobs(&scenario, 4);
        let listed: Vec<String> = knobs
            .iter()
            .map(|knob| {
                let texts: Vec<&str> = knob.values.iter().map(|one| one.text.as_str()).collect();
                format!("{} {} [{}]", knob.name, texts.join(" "), texts[knob.own])
            })
            .collect();
        assert_eq!(
            listed,
            [
                "connections 1 2 3 4 8 16 [3]",
                "sockets 1 2 4 8 [1]",
                "chunk 128KiB 256KiB 512KiB 1MiB 2MiB [512KiB]",
                "windows 2/2 4/4 8/8 12/16 16/16 [12/16]",
                "threads auto 1 2 4 [auto]",
                "idle sleep:50us adaptive yield spin [adaptive]",
            ]
        );
    }

    #[test]
    fn every_value_gives_a_scenario_that_is_checked_and_the_own_one_changes_nothing() {
        let scenario = Scenario::default();
        for knob in knobs(&scenario, 8) {
            for value in 0..knob.values.len() {
                let mut changed = scenario.clone();
                knob.apply(value, &mut changed);
                if knob.name != "sockets" {
                    let same = changed == scenario;
                    assert_eq!(same, value == knob.own, "{} {value}", knob.name);
                }
            }
        }
    }
}
