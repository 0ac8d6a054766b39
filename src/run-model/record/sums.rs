//! Rates of several transfers that measured at the same time, by NIC, GPU and node.
//!
//! Only the interval counts in which every transfer measured: outside it, some had the network for
//! themselves. The transfers of one pair share their barriers, so the bytes of a part are divided
//! by the time in which the last of its transfers moved its own; pairs are added.
#![forbid(unsafe_code)]

use super::model::TransferRecord;
use crate::ids::{NodeId, PairId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tcpx_words::side::Side;

/// Rates over the interval in which all transfers measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    /// Start and end of the interval, milliseconds since the command started.
    pub measured_ms: (f64, f64),
    /// Number of transfers that were added.
    pub transfers: usize,
    /// Rate of all of them.
    pub gb_per_s: f64,
    /// The nodes that sent or received.
    pub nodes: Vec<NodeSum>,
}

/// Rates of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeSum {
    /// The node.
    pub node: NodeId,
    /// Of the whole node.
    pub rates: PartRates,
    /// By GPU, if the lanes are GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuSum>,
    /// By interface.
    pub nics: Vec<NicSum>,
}

/// What a part sends and receives, 10^9 bytes per second; `None` if it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PartRates {
    /// Sent.
    pub send_gb_per_s: Option<f64>,
    /// Received.
    pub recv_gb_per_s: Option<f64>,
}

/// Rates of one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuSum {
    /// CUDA's number.
    pub gpu: u32,
    /// By the GPU's own time.
    pub rates: PartRates,
}

/// Rates of one interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicSum {
    /// Its name.
    pub nic: String,
    /// Of the connections that used it.
    pub rates: PartRates,
}

impl PartRates {
    fn add(&mut self, side: Side, gb_per_s: f64) {
        let rate = match side {
            Side::Send => &mut self.send_gb_per_s,
            Side::Recv => &mut self.recv_gb_per_s,
        };
        *rate = Some(rate.unwrap_or(0.0) + gb_per_s);
    }

    /// The faster of the two directions; a NIC's limit is one of each direction.
    pub fn faster(&self) -> Option<f64> {
        let both = [self.send_gb_per_s, self.recv_gb_per_s];
        both.into_iter().flatten().reduce(f64::max)
    }
}

/// What the rates of a pair's transfers are added up for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    All,
    Node(NodeId, Side),
    Gpu(NodeId, u32, Side),
    Nic(NodeId, String, Side),
}

impl Sums {
    /// The sums of these transfers; `None` if no transfer measured, or not all of those that did
    /// measured at one time.
    pub fn of<'a>(transfers: impl IntoIterator<Item = &'a TransferRecord>) -> Option<Self> {
        let has_measured = |one: &&TransferRecord| one.iterations > 0 && one.bytes > 0;
        let measured: Vec<&TransferRecord> = transfers.into_iter().filter(has_measured).collect();
        let times: Option<Vec<(f64, f64)>> = measured.iter().map(|one| one.measured_ms).collect();
        let times = times?;
        let from = times.iter().map(|time| time.0).reduce(f64::max)?;
        let to = times.iter().map(|time| time.1).reduce(f64::min)?;
        if from >= to {
            return None;
        }
        let mut pairs: BTreeMap<PairId, Vec<&TransferRecord>> = BTreeMap::new();
        for transfer in &measured {
            pairs.entry(transfer.pair).or_default().push(*transfer);
        }
        let mut rates: BTreeMap<Part, f64> = BTreeMap::new();
        for transfers in pairs.values() {
            for (part, rate) in pair_rates(transfers, (from, to)) {
                *rates.entry(part).or_default() += rate;
            }
        }
        let mut sums = Self {
            measured_ms: (from, to),
            transfers: measured.len(),
            ..Self::default()
        };
        rates
            .into_iter()
            .for_each(|(part, rate)| sums.add(part, rate));
        Some(sums)
    }

    fn add(&mut self, part: Part, rate: f64) {
        match part {
            Part::All => self.gb_per_s = rate,
            Part::Node(node, side) => self.node(node).rates.add(side, rate),
            Part::Gpu(node, gpu, side) => {
                let gpus = &mut self.node(node).gpus;
                let place = gpus.iter().position(|one| one.gpu == gpu);
                let place = place.unwrap_or_else(|| {
                    let rates = PartRates::default();
                    gpus.push(GpuSum { gpu, rates });
                    gpus.len() - 1
                });
                gpus[place].rates.add(side, rate);
            }
            Part::Nic(node, nic, side) => {
                let nics = &mut self.node(node).nics;
                let place = nics.iter().position(|one| one.nic == nic);
                let place = place.unwrap_or_else(|| {
                    let rates = PartRates::default();
                    nics.push(NicSum { nic, rates });
                    nics.len() - 1
                });
                nics[place].rates.add(side, rate);
            }
        }
    }

    fn node(&mut self, node: NodeId) -> &mut NodeSum {
        let place = self.nodes.iter().position(|one| one.node == node);
        let place = place.unwrap_or_else(|| {
            self.nodes.push(NodeSum {
                node,
                rates: PartRates::default(),
                gpus: Vec::new(),
                nics: Vec::new(),
            });
            self.nodes.len() - 1
        });
        &mut self.nodes[place]
    }

    /// Whether this tells more than the transfers by themselves.
    pub fn is_more_than_one(&self) -> bool {
        self.transfers > 1 || self.nodes.iter().any(|node| node.nics.len() > 1)
    }
}

/// The rates of one pair's transfers within an interval, by part.
fn pair_rates(transfers: &[&TransferRecord], interval: (f64, f64)) -> Vec<(Part, f64)> {
    let count = transfers
        .iter()
        .map(|one| one.iteration_seconds.len())
        .max();
    let seconds = |transfer: &TransferRecord, at: usize| {
        let own = transfer.iteration_seconds.get(at).copied();
        own.filter(|seconds| seconds.is_finite() && *seconds > 0.0)
            .unwrap_or(0.0)
    };
    // What all transfers of the pair took, iteration by iteration: as they share their barriers,
    // nearly the time between those.
    let longest = |of: &[(&TransferRecord, f64)], at: usize| {
        let all = of.iter().map(|(transfer, _)| seconds(transfer, at));
        all.fold(0.0, f64::max)
    };
    let all: Vec<(&TransferRecord, f64)> = transfers.iter().map(|one| (*one, 1.0)).collect();
    let shared: Vec<f64> = (0..count.unwrap_or(0))
        .map(|at| longest(&all, at))
        .collect();
    let within = shares_within(&shared, of_pair(transfers), interval);
    let rate = |of: &[(&TransferRecord, f64)]| {
        let (mut bytes, mut time) = (0.0, 0.0);
        for (at, within) in within.iter().enumerate() {
            for (transfer, share) in of.iter().filter(|(one, _)| seconds(one, at) > 0.0) {
                let each = transfer.bytes as f64 / f64::from(transfer.iterations);
                bytes += within * share * each;
            }
            time += within * longest(of, at);
        }
        if time > 0.0 { bytes / time / 1e9 } else { 0.0 }
    };
    let mut parts: BTreeMap<Part, Vec<(&TransferRecord, f64)>> = BTreeMap::new();
    for transfer in transfers {
        for (part, share) in parts_of(transfer) {
            parts.entry(part).or_default().push((transfer, share));
        }
    }
    let rates = parts.into_iter().map(|(part, of)| (part, rate(&of)));
    rates.collect()
}

/// From the first start of a pair's transfers to the last end.
fn of_pair(transfers: &[&TransferRecord]) -> (f64, f64) {
    let times = transfers.iter().filter_map(|one| one.measured_ms);
    let span = times.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
    span.unwrap_or_default()
}

/// How much of each iteration lies within the interval, 0 to 1. Iterations follow each other
/// evenly from the start of `span` to its end.
fn shares_within(seconds: &[f64], span: (f64, f64), interval: (f64, f64)) -> Vec<f64> {
    let all: f64 = seconds.iter().sum();
    let scale = if all > 0.0 {
        (span.1 - span.0).max(0.0) / all
    } else {
        0.0
    };
    let mut start = span.0;
    let within = seconds.iter().map(|seconds| {
        let (from, to) = (start, start + seconds * scale);
        start = to;
        let common = to.min(interval.1) - from.max(interval.0);
        if to > from {
            (common / (to - from)).clamp(0.0, 1.0)
        } else {
            0.0
        }
    });
    within.collect()
}

/// The parts that a transfer's bytes went through, each with its share of them.
fn parts_of(transfer: &TransferRecord) -> Vec<(Part, f64)> {
    let mut parts = vec![(Part::All, 1.0)];
    for (node, side) in [(transfer.from, Side::Send), (transfer.to, Side::Recv)] {
        parts.push((Part::Node(node, side), 1.0));
        if let Some([sends, receives]) = transfer.lane.gpus() {
            let gpu = match side {
                Side::Send => sends,
                Side::Recv => receives,
            };
            parts.push((Part::Gpu(node, gpu, side), 1.0));
        }
        let channels = || transfer.channels.iter().filter(move |one| one.side == side);
        let all: f64 = channels().map(|channel| channel.bytes as f64).sum();
        let mut by_nic: BTreeMap<&str, f64> = BTreeMap::new();
        for channel in channels().filter(|channel| !channel.dev.is_empty()) {
            *by_nic.entry(&channel.dev).or_default() += channel.bytes as f64;
        }
        let nic = |(nic, bytes): (&str, f64)| (Part::Nic(node, nic.to_owned(), side), bytes / all);
        if all > 0.0 {
            parts.extend(by_nic.into_iter().map(nic));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lane;
    use serde_json::json;

    /// A transfer of 1 GB per iteration from node 0 to node 1, with its channels' NICs.
    fn transfer(
        pair: u32,
        gpu: u32,
        ms: (f64, f64),
        seconds: &[f64],
        nics: &[&str],
    ) -> TransferRecord {
        let channel = |side: &str| {
            let one = move |(id, nic): (usize, &&str)| {
                json!({
                    "id": id, "dev": nic, "side": side, "posted": 1, "done": 1, "consumed": 1,
                    "bytes": 1000, "in_flight_high_water": 1, "tests": 1, "tests_not_done": 0,
                    "rc_errors": 0, "null_requests": 0, "latency_us": null,
                })
            };
            nics.iter().enumerate().map(one).collect::<Vec<_>>()
        };
        let channels = [channel("send"), channel("recv")].concat();
        let text = json!({
            "pair": pair, "from": 0, "to": 1, "lane": Lane::Gpu(gpu), "measured_ms": ms,
            "bytes": seconds.len() as u64 * 1_000_000_000, "verified_bytes": 0, "wrong_bytes": 0,
            "seconds": seconds.iter().sum::<f64>(), "gb_per_s": 0.0, "median_gb_per_s": 0.0,
            "iterations": seconds.len(), "iteration_seconds": seconds,
            "first_iteration_seconds": null, "round_trip_us": null, "mismatches": [],
            "channels": channels,
        });
        serde_json::from_str(&text.to_string()).expect("a transfer")
    }

    fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("a rate");
        assert!((value - expected).abs() < 1e-9, "{value} {expected}");
    }

    #[test]
    fn lanes_of_one_process_are_added_over_the_time_that_the_slowest_took() {
        // GPU 0 needs half of the time of GPU 1, which both barriers wait for.
        let transfers = [
            transfer(0, 0, (0.0, 2000.0), &[0.5, 0.5], &["eth1", "eth2"]),
            transfer(0, 1, (0.0, 2000.0), &[1.0, 1.0], &["eth2", "eth2"]),
        ];
        let sums = Sums::of(&transfers).expect("sums");
        near(Some(sums.gb_per_s), 2.0);
        let [sender, receiver] = &sums.nodes[..] else {
            panic!("{sums:?}")
        };
        near(sender.rates.send_gb_per_s, 2.0);
        assert_eq!(sender.rates.recv_gb_per_s, None);
        near(sender.gpus[0].rates.send_gb_per_s, 2.0);
        near(sender.gpus[1].rates.send_gb_per_s, 1.0);
        near(receiver.gpus[1].rates.recv_gb_per_s, 1.0);
        // Half of GPU 0's gigabyte, by GPU 0's time; the other half and GPU 1's, by GPU 1's.
        near(sender.nics[0].rates.send_gb_per_s, 1.0);
        near(sender.nics[1].rates.send_gb_per_s, 1.5);
        assert_eq!(sender.nics[1].nic, "eth2");
    }

    #[test]
    fn processes_are_added_over_the_interval_that_all_measured_in() {
        // The first is fast once the second has ended, which does not count.
        let transfers = [
            transfer(0, 0, (0.0, 3000.0), &[1.0, 1.0, 0.5, 0.5], &["eth1"]),
            transfer(1, 1, (500.0, 2000.0), &[0.75, 0.75], &["eth2"]),
        ];
        let sums = Sums::of(&transfers).expect("sums");
        assert_eq!(sums.measured_ms, (500.0, 2000.0));
        near(Some(sums.gb_per_s), 1.0 + 1.0 / 0.75);
        assert_eq!(sums.nodes[0].gpus.len(), 2);
    }

    #[test]
    fn a_gpu_has_the_sum_of_its_lanes_as_the_end_that_it_is() {
        // GPU 0 sends to GPUs 1 and 2, which takes it two seconds.
        let lane = |to, seconds| {
            let mut one = transfer(0, 0, (0.0, 2000.0), &[seconds], &["eth1"]);
            one.lane = Lane::between(0, to);
            one
        };
        let sums = Sums::of(&[lane(1, 1.0), lane(2, 2.0)]).expect("sums");
        let [sender, receiver] = &sums.nodes[..] else {
            panic!("{sums:?}")
        };
        let gpus = |node: &NodeSum| node.gpus.iter().map(|one| one.gpu).collect::<Vec<_>>();
        assert_eq!((gpus(sender), gpus(receiver)), (vec![0], vec![1, 2]));
        near(sender.gpus[0].rates.send_gb_per_s, 1.0);
        near(receiver.gpus[0].rates.recv_gb_per_s, 1.0);
        near(receiver.gpus[1].rates.recv_gb_per_s, 0.5);
    }

    #[test]
    fn without_a_common_interval_there_are_no_sums() {
        let of = |first: (f64, f64), second: (f64, f64)| {
            let transfers = [
                transfer(0, 0, first, &[1.0], &["eth1"]),
                transfer(1, 1, second, &[1.0], &["eth2"]),
            ];
            Sums::of(&transfers).map(|sums| sums.transfers)
        };
        assert_eq!(of((0.0, 1000.0), (1000.0, 2000.0)), None);
        assert_eq!(of((0.0, 1001.0), (1000.0, 2000.0)), Some(2));
        assert_eq!(Sums::of(&[]), None);
        let idle = transfer(0, 0, (0.0, 0.0), &[], &[]);
        assert_eq!(Sums::of(&[idle]), None);
    }
}
