//! The rows about a library's tables: each table is loaded and initialised in a separate worker, and
//! all tables must report the same devices.
#![forbid(unsafe_code)]

use super::{Bench, Row, words};
use std::time::{Duration, Instant};
use tcpx_abi::SYMBOL_PREFIX;
use tcpx_coord::{Calls, Loaded, TaskError};
use tcpx_engine::contract::ContractVerdict;
use tcpx_engine::plugin::Device;
use tcpx_run_model::phase::Phase;
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::error::Outcome;

pub(super) const LISTED: (&str, &str) = (
    "table-vN",
    "every exported table loads, initialises and reports its number of devices",
);
pub(super) const LISTED_AGREE: (&str, &str) = (
    AGREE,
    "every table reports the same properties of each device",
);
pub(super) const AGREE: &str = "versions-agree";

/// The id of a version's row.
pub(super) fn id(version: AbiVersion) -> String {
    format!("table-{version}")
}

/// Whether a table that could not be used is at fault: a call does not return, ends its process or
/// returns an error. One that finds no devices works, and has nothing to work with here.
pub(super) fn is_at_fault(problem: &TaskError) -> bool {
    let is_lost = matches!(problem.outcome, Outcome::Interrupted | Outcome::PeerLost);
    problem.phase == Some(Phase::Initialising) && !is_lost && !has_no_devices(problem)
}

/// Whether the library itself hangs while it is loaded, so that no table of it can be tried.
pub(super) fn hangs_in_loading(problem: &TaskError) -> bool {
    hangs(problem) && problem.phase != Some(Phase::Initialising)
}

fn hangs(problem: &TaskError) -> bool {
    problem.calls == Calls::Hang
}

fn has_no_devices(problem: &TaskError) -> bool {
    problem.phase == Some(Phase::Initialising)
        && problem.outcome == Outcome::NotRun
        && !hangs(problem)
        && !is_call_refused(problem)
}

/// The row of a table that could not be used.
pub(super) fn failed(version: AbiVersion, problem: &TaskError, took: Duration) -> Row {
    let result = words::verdict_of_error(problem);
    Row::new(id(version), LISTED.1, result, took.as_secs_f64())
}

struct Table {
    version: AbiVersion,
    found: Result<Loaded, TaskError>,
    seconds: f64,
    /// Whether it did not finish in less than the time that a table has.
    is_cut: bool,
}

/// Part of its time in which the newest table, which is known to hang, is tried again: that tells
/// which version it is.
const AGAIN: u32 = 4;

/// Every table that the library exports, newest first.
pub(super) struct Tables {
    all: Vec<Table>,
    /// Whether the library lacks a version. If so, the library itself can be loaded.
    some_absent: bool,
}

impl Tables {
    /// `chosen` is what came of the newest table that the library exports. If it hangs, the others
    /// have the time of one table together, so that the suite ends.
    pub(super) fn load_all(bench: &Bench<'_>, chosen: &Result<Loaded, TaskError>) -> Self {
        let mut tables = Self {
            all: Vec::new(),
            some_absent: false,
        };
        let hang = chosen.as_ref().err().filter(|problem| hangs(problem));
        let until = Instant::now() + bench.patience;
        for &version in AbiVersion::ALL {
            let started = Instant::now();
            let is_chosen = hang.is_some() && tables.all.is_empty();
            let patience = match hang {
                Some(_) if is_chosen => bench.patience / AGAIN,
                Some(_) => until.saturating_duration_since(started),
                None => bench.patience,
            };
            if patience.is_zero() {
                break;
            }
            let mut found = bench.load_within(Some(version), patience);
            let is_late = found.as_ref().is_err_and(hangs);
            if let Some(hang) = hang.filter(|_| is_late && is_chosen) {
                found = Err(hang.clone());
            }
            if found
                .as_ref()
                .is_err_and(|problem| problem.outcome == Outcome::Usage)
            {
                tables.some_absent = true;
                continue;
            }
            let is_last = found
                .as_ref()
                .is_err_and(|problem| problem.outcome == Outcome::Interrupted);
            tables.all.push(Table {
                version,
                found,
                seconds: started.elapsed().as_secs_f64(),
                is_cut: is_late && !is_chosen && patience < bench.patience,
            });
            if is_last {
                break;
            }
        }
        tables
    }

    fn loaded(&self) -> impl Iterator<Item = &Loaded> {
        self.all
            .iter()
            .filter_map(|table| table.found.as_ref().ok())
    }

    /// Whether no table is usable, and that is not the fault of a table: the library does not load,
    /// or finds no devices here. Then one error stands for all rows, however many versions the
    /// library exports. A call that does not return, or returns an error, is the fault of its
    /// table. `chosen` is the error of the table to be used.
    pub(super) fn are_out_of_reach(&self, chosen: &TaskError) -> bool {
        self.loaded().next().is_none() && (has_no_devices(chosen) || self.do_not_load())
    }

    /// Whether every version fails with the same words before its table is called.
    fn do_not_load(&self) -> bool {
        let mut words = self.all.iter().map(|table| match &table.found {
            Err(error) if error.phase != Some(Phase::Initialising) => Some(&error.message),
            _ => None,
        });
        let first = words.next().flatten();
        self.all.is_empty()
            || !self.some_absent && first.is_some() && words.all(|other| other == first)
    }

    /// The newest usable table.
    pub(super) fn newest(&self) -> Option<Loaded> {
        self.loaded().next().cloned()
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.all.iter().map(Table::row).collect();
        if rows
            .last()
            .is_some_and(|last| last.verdict == ContractVerdict::Interrupted)
        {
            return rows;
        }
        rows.extend(self.unknown());
        rows.push(self.agree());
        rows
    }

    /// Rows of exported versions that this program does not know.
    fn unknown(&self) -> Vec<Row> {
        let exports = self
            .loaded()
            .next()
            .map(|loaded| loaded.exports.as_slice())
            .unwrap_or_default();
        let unknown = exports
            .iter()
            .filter(|symbol| AbiVersion::of_symbol(symbol).is_none());
        unknown
            .filter_map(|symbol| symbol.strip_prefix(SYMBOL_PREFIX))
            .map(|number| {
                let detail = format!(
                    "exported, but not supported: this program supports {}",
                    AbiVersion::RANGE
                );
                Row::new(
                    format!("table-v{number}"),
                    LISTED.1,
                    (ContractVerdict::NotSupported, detail),
                    0.0,
                )
            })
            .collect()
    }

    fn agree(&self) -> Row {
        let mut loaded = self.loaded();
        let result = match loaded.next() {
            None => words::no_table(),
            Some(first) => match loaded.filter_map(|other| differ(first, other)).next() {
                Some(difference) => (ContractVerdict::Fail, difference),
                None => (
                    ContractVerdict::Pass,
                    format!("{} in each", words::devices(first.devices.len())),
                ),
            },
        };
        Row::new(AGREE.into(), LISTED_AGREE.1, result, 0.0)
    }
}

/// What plugins return from init, and say why, where they find no interface or device:
/// `ncclInternalError`.
const NOTHING_HERE: &str = "init returned 3 ";
const SAID: &str = "; it said: ";

/// Whether a call returned an error, by the words of the plugin's error.
fn is_call_refused(error: &TaskError) -> bool {
    let what = error.message.split_once(": ").map(|(_, what)| what);
    if what.is_some_and(|what| what.starts_with(NOTHING_HERE) && what.contains(SAID)) {
        return false;
    }
    let calls = ["init", "devices", "getProperties"];
    let mut calls = calls.iter().map(|call| format!("{call} returned "));
    what.is_some_and(|what| calls.any(|call| what.starts_with(&call)))
}

impl Table {
    fn row(&self) -> Row {
        let result = match &self.found {
            Err(_) if self.is_cut => (ContractVerdict::NotSupported, CUT.to_owned()),
            Err(error) => words::verdict_of_error(error),
            Ok(loaded) => match named_version(&loaded.about.name) {
                Some(other) if other != self.version.number() => (
                    ContractVerdict::Fail,
                    format!(
                        "the table is named {}, but exported as {}",
                        loaded.about.name, self.version
                    ),
                ),
                _ => (
                    ContractVerdict::Pass,
                    format!(
                        "{}, {}",
                        loaded.about.name,
                        words::devices(loaded.devices.len())
                    ),
                ),
            },
        };
        Row::new(id(self.version), LISTED.1, result, self.seconds)
    }
}

/// Detail of a table that had less than the time of `--timeout`.
const CUT: &str =
    "not finished in the time that was left after a newer table hung; --abi tries it alone";

/// The version in a name like `GPUDirectTCPX_v7`.
fn named_version(name: &str) -> Option<u32> {
    let (_, version) = name.rsplit_once("_v")?;
    version.parse().ok()
}

/// The first property that differs between two tables, among those that both versions have.
fn differ(one: &Loaded, other: &Loaded) -> Option<String> {
    let (first, second) = (one.about.abi, other.about.abi);
    if one.devices.len() != other.devices.len() {
        let counts = (one.devices.len(), other.devices.len());
        return Some(format!(
            "v{first} reports {} devices and v{second} reports {}",
            counts.0, counts.1
        ));
    }
    let properties = |device: &Device| {
        [
            ("name", device.name.clone()),
            ("pciPath", device.pci_path.clone().unwrap_or_default()),
            ("guid", device.guid.to_string()),
            ("speed", device.speed_mbps.to_string()),
            ("port", device.port.to_string()),
            ("maxComms", device.max_comms.to_string()),
        ]
    };
    one.devices
        .iter()
        .zip(&other.devices)
        .find_map(|(mine, theirs)| {
            let both = properties(mine).into_iter().zip(properties(theirs));
            let mut different = both.filter(|((_, here), (_, there))| here != there);
            different.next().map(|((property, here), (_, there))| {
                format!(
                    "device {}: {property} is {here} by v{first} and {there} by v{second}",
                    mine.index
                )
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_that_finds_nothing_to_work_with_is_not_at_fault() {
        let is_at_fault_with = |what: &str| {
            let error = TaskError {
                outcome: Outcome::NotRun,
                message: format!("initialising the plugin: {what}"),
                next_step: None,
                phase: Some(Phase::Initialising),
                calls: Calls::default(),
            };
            is_at_fault(&error)
        };
        let none = "init returned 3 (ncclInternalError); it said: no interface found";
        assert!(!is_at_fault_with(none));
        assert!(!is_at_fault_with(
            "plugin X is initialised but has no devices"
        ));
        for what in [
            "init returned 3 (ncclInternalError)",
            "init returned 2 (ncclSystemError); it said: socket failed",
            "devices returned 3 (ncclInternalError); it said: none",
        ] {
            assert!(is_at_fault_with(what), "{what}");
        }
    }

    #[test]
    fn the_version_is_read_from_a_table_name() {
        for (name, version) in [
            ("GPUDirectTCPX_v7", Some(7)),
            ("PlainSoft", None),
            ("IB_very", None),
            ("x_v12", Some(12)),
        ] {
            assert_eq!(named_version(name), version, "{name}");
        }
    }
}
