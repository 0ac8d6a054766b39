//! Finds a plugin's limits by trying. A limit is a failure only if the plugin promises more.
//! Sizes that would take too long are not tried, and the result says so.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::calls::Raw;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Shortfall, Subject, owe, poll};
use crate::gpu::{DeviceMemory, HostMemory};
use crate::plugin::Comm;
use std::time::{Duration, Instant};
use tcpx_abi::result::SUCCESS;
use tcpx_words::units::ByteCount;

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "limit-message",
        "longest message, up to 1 GiB or a few seconds",
        message,
    ),
    ContractCheck::any(
        "limit-registration",
        "largest registration, from 0 bytes to 1 GiB",
        registration,
    ),
    ContractCheck::any(
        "limit-connections",
        "most connections at once, up to 64",
        connections,
    ),
];

/// Longest time spent on ever longer messages.
const BUDGET: Duration = Duration::from_secs(8);
const LONGEST: usize = 1 << 30;

fn bytes(count: usize) -> String {
    ByteCount(count as u64).to_string()
}

fn message(subject: &Subject<'_>) -> Checked {
    let promised = subject.device()?.max_p2p_bytes;
    let started = Instant::now();
    let (mut len, mut done) = (4 << 20, 0);
    while len <= LONGEST {
        let before = started.elapsed();
        let moved = Pair::on_host(subject, 1, len).and_then(|mut pair| {
            exchange(&mut pair, &[len], 1)?;
            pair.close()
        });
        if let Err(shortfall) = moved {
            // TCPX guarantees 4 MiB only; 1 GiB is NCCL's assumption about a v7 plugin.
            let owed = len as u64 <= promised && !subject.family().has_tcpx_semantics();
            return match shortfall {
                Shortfall::Broken(why) if !owed => {
                    Ok(format!("{}; {}: {why}", bytes(done), bytes(len)))
                }
                Shortfall::Broken(why) => Err(Shortfall::Broken(format!("{}: {why}", bytes(len)))),
                other => Err(other),
            };
        }
        done = len;
        if started.elapsed() + 4 * (started.elapsed() - before) > BUDGET && len < LONGEST {
            return Ok(format!(
                "{}; longer messages would take too long on this machine",
                bytes(done)
            ));
        }
        len *= 4;
    }
    Ok(format!("{}, all verified", bytes(done)))
}

fn registration(subject: &Subject<'_>) -> Checked {
    let region = HostMemory::host().allocate(LONGEST)?;
    let pair = Pair::connect(subject)?;
    let mut refused = Vec::new();
    let mut most = 0;
    for comm in [Comm::Send(pair.sender()?), Comm::Recv(pair.receiver()?)] {
        for len in [0, 1, 4095, 4096, 1 << 20, 64 << 20, 256 << 20, LONGEST] {
            let answer =
                Raw::of(subject.net).register_part(Some(comm), &region, len, tcpx_abi::PTR_HOST)?;
            match answer.code {
                SUCCESS => most = most.max(len),
                code => refused.push(format!("{} is rc {code}", bytes(len))),
            }
        }
    }
    pair.close()?;
    refused.dedup();
    owe(most > 0, || {
        format!("every size is refused: {}", refused.join(", "))
    })?;
    let but = if refused.is_empty() {
        String::new()
    } else {
        format!("; {}", refused.join(", "))
    };
    Ok(format!("{}{but}", bytes(most)))
}

fn connections(subject: &Subject<'_>) -> Checked {
    const MOST: usize = 64;
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    let mut stopped = String::new();
    let mut opened = StepTimes::default();
    while pairs.len() < MOST {
        match opened.time(|| Pair::on_host(subject, 1, 4096)) {
            Ok(pair) => {
                pairs.push(pair);
                let each = opened.words("connection");
                (subject.note)(format!("{} of {MOST} connections, {each}", pairs.len()));
            }
            Err(Shortfall::Broken(why)) => {
                stopped = format!("; the next one: {why}");
                break;
            }
            Err(other) => return Err(other),
        }
    }
    owe(!pairs.is_empty(), || format!("no connection{stopped}"))?;
    let count = pairs.len();
    for pair in &mut pairs {
        pair.receive(0, 4096)?;
        pair.send(0, 4096)?;
    }
    poll("a message over each connection", 2 * PATIENCE, || {
        for pair in &mut pairs {
            pair.drive()?;
        }
        Ok(pairs
            .iter()
            .all(|pair| pair.sends.is_empty() && pair.receives.is_empty())
            .then_some(()))
    })?;
    let mut closed = StepTimes::default();
    for mut pair in pairs {
        pair.verify(0, 4096)?;
        pair.hand_back()?;
        for close in [Pair::close_sender, Pair::close_receiver] {
            closed.time(|| close(&mut pair))?;
            let (done, each) = (closed.took.len(), closed.words("close"));
            (subject.note)(format!(
                "{count} connections, {done} of {} comms closed, {each}",
                2 * count
            ));
        }
        pair.close()?;
    }
    Ok(format!("{count} at once, a message over each{stopped}"))
}

/// The times of a step that a row repeats.
#[derive(Default)]
struct StepTimes {
    took: Vec<Duration>,
}

impl StepTimes {
    fn time<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = step();
        self.took.push(started.elapsed());
        done
    }

    /// `300.0 ms per close (median)`.
    fn words(&self, step: &str) -> String {
        let mut took = self.took.clone();
        took.sort_unstable();
        let median = took.get(took.len() / 2).copied().unwrap_or_default();
        format!("{:.1} ms per {step} (median)", median.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_step_is_the_median_of_those_measured() {
        let took = [900, 300, 1].map(Duration::from_millis).to_vec();
        assert_eq!(
            StepTimes { took }.words("close"),
            "300.0 ms per close (median)"
        );
    }
}
