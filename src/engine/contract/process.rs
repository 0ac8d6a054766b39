//! What a plugin does to the process that it lives in, which is NCCL's user's: it
//! leaves signals, descriptors and children alone, and prints nothing.
#![forbid(unsafe_code)]

use super::Row;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, Shortfall, Subject, owe};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;

pub(super) const ROWS: &[Row] = &[
    Row::any(
        "process-signals",
        "no signal handler is set, removed or ignored",
        signals,
    ),
    Row::any("process-children", "no process is left behind", children),
    Row::any(
        "process-standard",
        "descriptors 0, 1 and 2 stay what they are",
        standard,
    ),
    Row::any(
        "process-quiet",
        "nothing is written to standard output",
        quiet,
    ),
];

/// The process before the plugin was loaded.
#[derive(Debug)]
pub struct Before {
    signals: [u64; 2],
    children: Vec<String>,
    standard: [Option<String>; 3],
    /// In place of standard output, for the one row that reads it.
    stdout: Option<File>,
}

impl Before {
    /// Looks at the process. For `process-quiet` standard output is turned into a
    /// file first.
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
        .ok_or_else(|| Shortfall::NotOwed("needs a process of its own".into()))
}

/// Some messages, so that whatever a plugin starts late is there.
fn use_it(subject: &Subject<'_>) -> Checked<()> {
    let mut pair = Pair::on_host(subject, 4, 64 << 10)?;
    exchange(&mut pair, &[64 << 10; 16], 4)?;
    pair.close()
}

/// Which signals are ignored and which caught, a bit each from number 1 on.
fn dispositions() -> [u64; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ["SigIgn:", "SigCgt:"].map(|what| {
        let mask = status.lines().find_map(|line| line.strip_prefix(what));
        mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
            .unwrap_or(0)
    })
}

/// Signals that are treated otherwise than before, in words.
fn changes(before: [u64; 2], now: [u64; 2]) -> String {
    let how = |masks: [u64; 2], bit: u32| match (masks[0] >> bit & 1, masks[1] >> bit & 1) {
        (1, _) => "ignored",
        (_, 1) => "caught",
        _ => "left to the system",
    };
    let changed = (0..64).filter(|bit| how(before, *bit) != how(now, *bit));
    let words = changed.map(|bit| {
        format!(
            "signal {} was {} and is {}",
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
    owe(before.signals == now, || changes(before.signals, now))?;
    Ok("as before it was loaded".into())
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
        format!("started process {}, which still is there", now.join(", "))
    })?;
    Ok("none".into())
}

/// What the three point to; a catcher of ours is as good as what it replaced.
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
                "descriptor {number} was {} and is {}",
                words(was),
                words(&is)
            )
        })?;
    }
    Ok("as before it was loaded".into())
}

fn quiet(subject: &Subject<'_>) -> Checked {
    let caught = before(subject)?
        .stdout
        .as_ref()
        .ok_or_else(|| Shortfall::NotOwed("stdout cannot be read here".into()))?;
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
    Ok("init and a transfer wrote nothing there".into())
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn a_signal_that_is_treated_otherwise_is_named() {
        assert_eq!(changes([0x1000, 0x440], [0x1000, 0x440]), "");
        assert_eq!(
            changes([0x1000, 0x440], [0x1000, 0xc40]),
            "signal 12 was left to the system and is caught"
        );
        assert_eq!(
            changes([0x1000, 0], [0, 0]),
            "signal 13 was ignored and is left to the system"
        );
    }
}
