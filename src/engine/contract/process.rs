//! A plugin must not disturb the process that loads it: no change to signal handlers or
//! standard descriptors, no child processes left behind, no output.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, Shortfall, Subject, owe};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "process-signals",
        "the plugin changes no signal disposition, except of faults that had no handler",
        signals,
    ),
    ContractCheck::any(
        "process-children",
        "the plugin leaves no child process behind",
        children,
    ),
    ContractCheck::any(
        "process-standard",
        "descriptors 0, 1 and 2 are unchanged",
        standard,
    ),
    ContractCheck::any(
        "process-quiet",
        "the plugin writes nothing to standard output",
        quiet,
    ),
];

/// State of the process before the plugin was loaded.
#[derive(Debug)]
pub struct Before {
    signals: [u64; 2],
    children: Vec<String>,
    standard: [Option<String>; 3],
    /// The file that replaces standard output, for `process-quiet` only.
    stdout: Option<File>,
}

impl Before {
    /// Records the state of the process. For `process-quiet`, redirects standard output to
    /// a file in memory first.
    pub fn take(row: &str) -> Self {
        let stdout = (row == "process-quiet").then(catch_stdout).flatten();
        Self {
            signals: dispositions(),
            children: descendants(),
            standard: standard_descriptors(),
            stdout,
        }
    }
}

fn catch_stdout() -> Option<File> {
    let caught = rustix::fs::memfd_create("stdout", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    rustix::stdio::dup2_stdout(caught.as_fd()).ok()?;
    Some(File::from(caught))
}

fn before<'a>(subject: &Subject<'a>) -> Checked<&'a Before> {
    subject
        .before
        .ok_or_else(|| Shortfall::NotOwed("needs its own process".into()))
}

/// Moves some messages, so that the plugin has started everything that it starts late.
fn use_it(subject: &Subject<'_>) -> Checked<()> {
    let mut pair = Pair::on_host(subject, 4, 64 << 10)?;
    exchange(&mut pair, &[64 << 10; 16], 4)?;
    pair.close()
}

/// The `SigIgn` and `SigCgt` masks of this process: bit n - 1 is signal n.
fn dispositions() -> [u64; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ["SigIgn:", "SigCgt:"].map(|what| {
        let mask = status.lines().find_map(|line| line.strip_prefix(what));
        mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
            .unwrap_or(0)
    })
}

/// `SIGILL`, `SIGABRT`, `SIGBUS`, `SIGFPE`, `SIGSEGV` and `SIGSYS`. Libraries such as UCX print a backtrace at a fault that
/// would end the process without a word; a program that has no handler loses none.
const FAULTS: [u32; 6] = [4, 6, 7, 8, 11, 31];

/// Faults that were at their default and are caught now.
fn caught_faults(before: [u64; 2], now: [u64; 2]) -> u64 {
    let faults = FAULTS
        .iter()
        .fold(0, |mask, signal| mask | 1 << (signal - 1));
    faults & now[1] & !(before[0] | before[1])
}

/// Describes the signals whose disposition changed; empty if none did.
fn changes(before: [u64; 2], now: [u64; 2]) -> String {
    let how = |masks: [u64; 2], bit: u32| match (masks[0] >> bit & 1, masks[1] >> bit & 1) {
        (1, _) => "ignored",
        (_, 1) => "caught",
        _ => "default",
    };
    let changed = (0..64).filter(|bit| how(before, *bit) != how(now, *bit));
    let words = changed.map(|bit| {
        format!(
            "signal {} was {} and is now {}",
            bit + 1,
            how(before, bit),
            how(now, bit)
        )
    });
    words.collect::<Vec<_>>().join(", ")
}

fn signals(subject: &Subject<'_>) -> Checked {
    let before = before(subject)?;
    use_it(subject)?;
    let now = dispositions();
    let faults = caught_faults(before.signals, now);
    let others = [now[0], now[1] & !faults];
    owe(before.signals == others, || changes(before.signals, others))?;
    Ok(match faults {
        0 => "unchanged since before the plugin was loaded".into(),
        _ => {
            let caught = changes(before.signals, now);
            format!("unchanged, except for faults that the program left to the kernel: {caught}")
        }
    })
}

fn descendants() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let children =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let mut all: Vec<String> = children
        .flat_map(|text| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    all.sort();
    all
}

fn children(subject: &Subject<'_>) -> Checked {
    let before = before(subject)?;
    use_it(subject)?;
    let now = descendants();
    owe(before.children == now, || {
        format!("left process {} running", now.join(", "))
    })?;
    Ok("no child process".into())
}

/// The link targets of descriptors 0 to 2; `None` for a closed one.
fn standard_descriptors() -> [Option<String>; 3] {
    [0, 1, 2].map(|number| {
        let link = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        Some(link.display().to_string())
    })
}

fn standard(subject: &Subject<'_>) -> Checked {
    let before = before(subject)?;
    use_it(subject)?;
    for (number, (was, is)) in before
        .standard
        .iter()
        .zip(standard_descriptors())
        .enumerate()
    {
        let words = |link: &Option<String>| link.clone().unwrap_or_else(|| "closed".into());
        owe(*was == is, || {
            format!(
                "descriptor {number} was {} and is now {}",
                words(was),
                words(&is)
            )
        })?;
    }
    Ok("unchanged since before the plugin was loaded".into())
}

fn quiet(subject: &Subject<'_>) -> Checked {
    let caught = before(subject)?.stdout.as_ref().ok_or_else(|| {
        Shortfall::NotOwed("standard output cannot be captured on this machine".into())
    })?;
    use_it(subject)?;
    let mut file = caught
        .try_clone()
        .map_err(|error| Shortfall::NotOwed(error.to_string()))?;
    let mut printed = Vec::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(4096).read_to_end(&mut printed));
    read.map_err(|error| Shortfall::NotOwed(error.to_string()))?;
    owe(printed.is_empty(), || {
        let text = tcpx_words::units::printable(&String::from_utf8_lossy(
            &printed[..printed.len().min(60)],
        ));
        let binary = printed
            .iter()
            .any(|byte| !matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'));
        format!(
            "{} bytes{} on standard output: {text}",
            printed.len(),
            if binary { ", binary," } else { "" }
        )
    })?;
    Ok("init and a transfer wrote nothing to standard output".into())
}

#[cfg(test)]
mod tests {
    use super::{caught_faults, changes};

    #[test]
    fn a_signal_whose_disposition_changed_is_named() {
        assert_eq!(changes([0x1000, 0x440], [0x1000, 0x440]), "");
        assert_eq!(
            changes([0x1000, 0x440], [0x1000, 0xc40]),
            "signal 12 was default and is now caught"
        );
        assert_eq!(
            changes([0x1000, 0], [0, 0]),
            "signal 13 was ignored and is now default"
        );
    }

    #[test]
    fn only_a_fault_that_had_no_handler_may_get_one() {
        let [ill, usr2, segv] = [4, 12, 11].map(|signal: u32| 1 << (signal - 1));
        assert_eq!(caught_faults([0, segv], [0, ill | usr2 | segv]), ill);
        assert_eq!(caught_faults([ill, 0], [0, ill]), 0, "it was ignored");
        assert_eq!(caught_faults([0, ill], [0, 0]), 0);
    }
}
