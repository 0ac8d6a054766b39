//! How many threads drive the channels of a worker, and which channels each has.
//!
//! A plugin such as TCPX moves bytes inside `test`, so a channel moves only while a thread drives
//! it, and every thread needs a core. A plugin with threads of its own needs cores for those: how
//! many they keep busy is measured during warm-up.
//!
//! On one or two CPUs that drive both ends of the run, a CPU has the threads of both ends of a
//! channel: what one end wrote is still in the CPU's cache when the other one reads it.
#![forbid(unsafe_code)]

use super::load::Ready;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use tcpx_engine::transfer::{Channel, ChannelShare, Wait};
use tcpx_node::{Root, nic_cpus};
use tcpx_words::progress::{Policy, Threads};
use tcpx_words::units::counted;

/// What decides the number of driving threads.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Situation {
    /// `progress.policy`
    pub(super) policy: Policy,
    /// `progress.threads`
    pub(super) wanted: Threads,
    /// Why one thread must drive everything, if it must.
    pub(super) alone: Option<&'static str>,
    /// Channels of this worker.
    pub(super) channels: usize,
    /// CPUs that this process may use, by its affinity and its cgroup.
    pub(super) cpus: usize,
    /// CPUs that it may use by its affinity alone.
    pub(super) affine: usize,
    /// Workers of the run on this machine, this one included.
    pub(super) workers: usize,
    /// Whether the run has two workers, both on this machine, on the same CPUs.
    pub(super) both_ends: bool,
    /// CPUs that the plugin's own threads kept busy during warm-up; `None` before it.
    pub(super) plugin: Option<f64>,
}

impl Situation {
    /// Whether a CPU is to have the threads of both ends of a channel. A cgroup that grants less
    /// than its CPUs leaves the choice of the CPU to the kernel.
    fn shares_cpus(&self) -> bool {
        let few = self.cpus <= FEW_CPUS && self.cpus == self.affine;
        few && self.both_ends && self.channels >= self.cpus && self.moves_in_test()
    }

    /// Whether the plugin's own threads were not seen to be busy, so it moves bytes in `test`.
    fn moves_in_test(&self) -> bool {
        self.plugin.is_none_or(|load| busy_cpus(load) == 0)
    }
}

/// A number of threads, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) threads: usize,
    pub(super) why: String,
    /// Whether each thread keeps to one CPU, which is that of its channels' other ends too.
    pub(super) by_cpu: bool,
}

impl Chosen {
    /// What the dealing of the channels depends on.
    pub(super) fn dealing(&self) -> (usize, bool) {
        (self.threads, self.by_cpu)
    }
}

/// Chooses the number of driving threads: at least 1, at most one per channel.
pub(super) fn choose(situation: &Situation) -> Chosen {
    let Situation {
        channels,
        cpus,
        workers,
        ..
    } = *situation;
    let fixed = |threads: usize, why: &str| Chosen {
        threads: threads.clamp(1, channels.max(1)),
        why: why.to_owned(),
        by_cpu: false,
    };
    if let Some(why) = situation.alone {
        return fixed(1, why);
    }
    match (situation.policy, situation.wanted) {
        (Policy::WindowFullOnly, _) => return fixed(1, "policy window-full-only"),
        (Policy::DedicatedThread, _) => return fixed(channels, "policy dedicated-thread"),
        (Policy::Opportunistic, Threads::Count(count)) => {
            return fixed(count as usize, "progress.threads");
        }
        (Policy::Opportunistic, Threads::Auto) => {}
    }
    let mut why = format!("{}, {}", counted(channels, "channel"), counted(cpus, "CPU"));
    if workers > 1 {
        why += &format!(" for {workers} workers");
    }
    let mut share = cpus / workers.max(1);
    if let Some(plugin) = situation.plugin {
        let busy = busy_cpus(plugin);
        if busy > 0 {
            why += &format!(", {busy} of them busy with the plugin's threads");
            share = share.saturating_sub(busy);
        }
    }
    // Of two CPUs, the kernel's and the coordinator's work take as much as a second thread gains,
    // unless the ends of a channel then share a cache.
    let by_cpu = situation.shares_cpus();
    if by_cpu {
        why += ", one CPU for both ends of a channel";
        share = cpus;
    } else if cpus <= FEW_CPUS {
        share = 1;
    }
    let turns = channels.div_ceil(share.clamp(1, channels.max(1)));
    // As many threads as give each the same number of channels: one more would only wait.
    Chosen {
        threads: channels.div_ceil(turns.max(1)).max(1),
        why,
        by_cpu,
    }
}

/// With more CPUs, those for the two ends of a channel are two.
const FEW_CPUS: usize = 2;

/// Whole CPUs that a load keeps busy; short work, such as logging, keeps none.
fn busy_cpus(load: f64) -> usize {
    (load + 0.5).floor() as usize
}

/// Bytes in flight from which the sockets hold enough for a short nap.
const MUCH_IN_FLIGHT: usize = 1 << 20;

/// How a driving thread without progress waits. It naps soon if the plugin was seen to move bytes
/// in `test`, and a channel has `in_flight` bytes in its window. On two CPUs the threads wait for
/// each other, which a yield serves best; it comes at once where both ends share the CPU.
pub(super) fn wait(situation: &Situation, chosen: &Chosen, in_flight: usize) -> Wait {
    let is_measured = situation.plugin.is_some();
    if chosen.by_cpu {
        Wait::YieldAtOnce
    } else if is_measured
        && situation.moves_in_test()
        && situation.cpus > FEW_CPUS
        && in_flight >= MUCH_IN_FLIGHT
    {
        Wait::NapSoon
    } else {
        Wait::Usual
    }
}

/// The CPUs near each NIC of the plugin, where that is not all CPUs that this process may use.
pub(super) struct NearCpus {
    allowed: Option<CpuSet>,
    by_nic: BTreeMap<String, Vec<usize>>,
}

impl NearCpus {
    /// Number of CPUs that this process may use by its affinity; 0 if unknown.
    pub(super) fn affine(&self) -> usize {
        self.allowed.as_ref().map_or(0, |set| set.count() as usize)
    }

    /// Reads them once; a run has many channels on few NICs.
    pub(super) fn read(ready: &Ready) -> Self {
        let allowed = sched_getaffinity(None).ok();
        let devices = ready.loaded.devices.iter();
        let by_nic = devices.filter_map(|device| {
            let near = near_cpus(&device.name, allowed.as_ref()?)?;
            Some((device.name.clone(), near))
        });
        Self {
            by_nic: by_nic.collect(),
            allowed,
        }
    }

    /// Calls `make` on the CPUs near a NIC, so that the memory that it touches first is near
    /// them too.
    pub(super) fn on<R>(&self, nic: &str, make: impl FnOnce() -> R) -> R {
        let near = self.by_nic.get(nic).map(|near| cpu_set(near));
        let moved = near.is_some_and(|near| sched_setaffinity(None, &near).is_ok());
        let made = make();
        if let (true, Some(allowed)) = (moved, &self.allowed) {
            let _ = sched_setaffinity(None, allowed);
        }
        made
    }

    /// Deals the channels to `threads` with one CPU each, by number: the other end deals alike.
    pub(super) fn deal_by_cpu(&self, channels: Vec<Channel>, threads: usize) -> Vec<ChannelShare> {
        let allowed = self.allowed.iter().flat_map(cpus_of).collect::<Vec<_>>();
        let mut shares: Vec<ChannelShare> = (0..threads)
            .map(|thread| ChannelShare {
                channels: Vec::new(),
                cpus: allowed.get(thread).map(|cpu| cpu_set(&[*cpu])),
            })
            .collect();
        for channel in channels {
            shares[channel.index() % threads].channels.push(channel);
        }
        shares
    }

    /// Deals the channels to `threads`. Where the CPUs are not equally near to every NIC, a
    /// thread has channels of NICs that share their CPUs, and stays on those.
    pub(super) fn deal(
        &self,
        channels: Vec<Channel>,
        threads: usize,
        ready: &Ready,
    ) -> Vec<ChannelShare> {
        let near_of = |channel: &Channel| self.by_nic.get(&ready.nic_of(channel.index()));
        let near: Vec<Option<&Vec<usize>>> = channels.iter().map(near_of).collect();
        let dealt = dealt(&near, threads);
        let mut shares: Vec<ChannelShare> = (0..threads)
            .map(|_| ChannelShare {
                channels: Vec::new(),
                cpus: None,
            })
            .collect();
        for ((channel, thread), near) in channels.into_iter().zip(dealt.threads).zip(near) {
            let share = &mut shares[thread];
            share.channels.push(channel);
            share.cpus = near.filter(|_| dealt.by_place).map(|near| cpu_set(near));
        }
        shares
    }
}

/// CPUs near a NIC that this process may use; `None` if that is all of them, or unknown.
fn near_cpus(nic: &str, allowed: &CpuSet) -> Option<Vec<usize>> {
    let near = nic_cpus(&Root::live(), nic).known()?.clone();
    let near: Vec<usize> = near
        .iter()
        .map(|cpu| cpu as usize)
        .filter(|cpu| *cpu < CpuSet::MAX_CPU && allowed.is_set(*cpu))
        .collect();
    (!near.is_empty() && near.len() < allowed.count() as usize).then_some(near)
}

fn cpus_of(set: &CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu))
}

fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    set
}

/// The thread of each channel.
#[derive(Debug, PartialEq)]
struct Dealt {
    threads: Vec<usize>,
    /// Whether all channels of a thread are near the same CPUs.
    by_place: bool,
}

/// Deals channels to threads in turn, those of one place to threads of that place. With more places
/// than threads, places are ignored.
fn dealt<P: Ord>(places: &[P], threads: usize) -> Dealt {
    let mut by_place: BTreeMap<&P, Vec<usize>> = BTreeMap::new();
    for (channel, place) in places.iter().enumerate() {
        by_place.entry(place).or_default().push(channel);
    }
    if by_place.len() > threads {
        return Dealt {
            threads: (0..places.len()).map(|channel| channel % threads).collect(),
            by_place: false,
        };
    }
    let groups: Vec<Vec<usize>> = by_place.into_values().collect();
    let mut threads_of = vec![1; groups.len()];
    for _ in groups.len()..threads {
        // One more where a thread has the most channels.
        let most = (0..groups.len()).max_by_key(|at| {
            let (channels, threads) = (groups[*at].len(), threads_of[*at]);
            (channels.div_ceil(threads), channels)
        });
        if let Some(most) = most {
            threads_of[most] += 1;
        }
    }
    let mut thread_of = vec![0; places.len()];
    let mut first = 0;
    for (channels, threads) in groups.iter().zip(threads_of) {
        for (turn, channel) in channels.iter().enumerate() {
            thread_of[*channel] = first + turn % threads;
        }
        first += threads;
    }
    Dealt {
        threads: thread_of,
        by_place: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn auto(channels: usize, cpus: usize, workers: usize) -> Situation {
        Situation {
            policy: Policy::Opportunistic,
            wanted: Threads::Auto,
            alone: None,
            channels,
            cpus,
            affine: cpus,
            workers,
            both_ends: false,
            plugin: None,
        }
    }

    #[test]
    fn every_thread_has_a_cpu_and_the_same_number_of_channels() {
        for (channels, cpus, workers, threads) in [
            (4, 2, 2, 1),
            (4, 2, 1, 1),
            (4, 1, 1, 1),
            (1, 208, 1, 1),
            (8, 32, 2, 8),
            (16, 32, 2, 16),
            (16, 16, 2, 8),
            // Seven would have to wait for the one with two channels.
            (8, 15, 2, 4),
            (4, 4, 2, 2),
            (64, 208, 8, 22),
            (8, 4, 16, 1),
        ] {
            let chosen = choose(&auto(channels, cpus, workers));
            assert_eq!(chosen.threads, threads, "{channels} {cpus} {workers}");
        }
    }

    #[test]
    fn the_choice_says_what_decided_it() {
        let check = |situation: Situation, threads: usize, why: &str| {
            let chosen = choose(&situation);
            assert_eq!((chosen.threads, chosen.why.as_str()), (threads, why));
        };
        let base = auto(8, 32, 2);
        check(base.clone(), 8, "8 channels, 32 CPUs for 2 workers");
        let with_helpers = Situation {
            plugin: Some(11.8),
            ..base.clone()
        };
        check(
            with_helpers,
            4,
            "8 channels, 32 CPUs for 2 workers, 12 of them busy with the plugin's threads",
        );
        let with_idle_helpers = Situation {
            plugin: Some(0.3),
            ..base.clone()
        };
        check(with_idle_helpers, 8, "8 channels, 32 CPUs for 2 workers");
        let overloaded = Situation {
            plugin: Some(40.0),
            ..base.clone()
        };
        assert_eq!(choose(&overloaded).threads, 1);
        let wanted = |count| Situation {
            wanted: Threads::Count(count),
            ..base.clone()
        };
        check(wanted(3), 3, "progress.threads");
        check(wanted(1024), 8, "progress.threads");
        let policy = |policy| Situation {
            policy,
            ..base.clone()
        };
        check(
            policy(Policy::DedicatedThread),
            8,
            "policy dedicated-thread",
        );
        check(policy(Policy::WindowFullOnly), 1, "policy window-full-only");
        let alone = Situation {
            alone: Some("ping-pong"),
            ..wanted(5)
        };
        check(alone, 1, "ping-pong");
    }

    #[test]
    fn both_ends_of_a_channel_share_one_of_few_cpus() {
        let both = |channels, cpus| Situation {
            both_ends: true,
            ..auto(channels, cpus, 2)
        };
        for (channels, cpus, threads, by_cpu) in [
            (2, 2, 2, true),
            (3, 2, 2, true),
            (8, 2, 2, true),
            (4, 1, 1, true),
            // Each end has a CPU.
            (1, 2, 1, false),
            (4, 3, 1, false),
            (16, 16, 8, false),
        ] {
            let chosen = choose(&both(channels, cpus));
            let said = (chosen.threads, chosen.by_cpu);
            assert_eq!(said, (threads, by_cpu), "{channels} {cpus}");
        }
        let why = choose(&both(4, 2)).why;
        assert_eq!(
            why,
            "4 channels, 2 CPUs for 2 workers, one CPU for both ends of a channel"
        );
        for elsewhere in [
            auto(4, 2, 2),
            Situation {
                affine: 16,
                ..both(4, 2)
            },
            Situation {
                plugin: Some(0.9),
                ..both(4, 2)
            },
            Situation {
                wanted: Threads::Count(2),
                ..both(4, 2)
            },
        ] {
            assert!(!choose(&elsewhere).by_cpu, "{elsewhere:?}");
        }
    }

    #[test]
    fn a_thread_waits_as_was_seen_to_pay() {
        let situation = |cpus, plugin| Situation {
            plugin,
            ..auto(4, cpus, 2)
        };
        for (cpus, plugin, in_flight, expected) in [
            (16, Some(0.1), 6 << 20, Wait::NapSoon),
            (3, Some(0.0), 1 << 20, Wait::NapSoon),
            // Each end may have a CPU.
            (2, Some(0.0), 6 << 20, Wait::Usual),
            // Busy threads of the plugin finish requests between two tests.
            (16, Some(1.2), 6 << 20, Wait::Usual),
            // Not measured.
            (16, None, 6 << 20, Wait::Usual),
            // Sixteen messages of 4 KiB.
            (16, Some(0.0), 64 << 10, Wait::Usual),
        ] {
            let situation = situation(cpus, plugin);
            let chosen = choose(&situation);
            assert_eq!(
                wait(&situation, &chosen, in_flight),
                expected,
                "{situation:?} {in_flight}"
            );
        }
        let both_ends = Situation {
            both_ends: true,
            ..situation(2, None)
        };
        let chosen = choose(&both_ends);
        assert_eq!(wait(&both_ends, &chosen, 64 << 10), Wait::YieldAtOnce);
    }

    #[test]
    fn channels_stay_with_the_cpus_near_their_nic() {
        let check = |places: &str, threads: usize, expected: &[usize]| {
            let places: Vec<char> = places.chars().collect();
            assert_eq!(
                dealt(&places, threads).threads,
                expected,
                "{places:?} {threads}"
            );
        };
        check("aaaa", 1, &[0, 0, 0, 0]);
        check("aaaa", 2, &[0, 1, 0, 1]);
        check("abab", 2, &[0, 1, 0, 1]);
        check("abab", 4, &[0, 2, 1, 3]);
        check("aaab", 3, &[0, 1, 0, 2]);
        check("abcd", 2, &[0, 1, 0, 1]);
        check("", 1, &[]);
    }

    proptest! {
        #[test]
        fn no_thread_is_idle_and_none_has_two_more_than_another_of_its_place(
            places in proptest::collection::vec(0u8..4, 1..64),
            threads in 1usize..64,
        ) {
            let threads = threads.min(places.len());
            let dealt = dealt(&places, threads);
            let mut counts = vec![0; threads];
            let mut place_of = vec![None; threads];
            for (thread, place) in dealt.threads.iter().zip(&places) {
                counts[*thread] += 1;
                if dealt.by_place {
                    prop_assert!(place_of[*thread].is_none_or(|known| known == place));
                    place_of[*thread] = Some(place);
                }
            }
            prop_assert!(counts.iter().all(|count| *count > 0), "{:?}", counts);
            for place in 0..4 {
                let of: Vec<i32> = (0..threads)
                    .filter(|thread| place_of[*thread] == Some(&place))
                    .map(|thread| counts[thread])
                    .collect();
                let spread = of.iter().max().copied().unwrap_or(0) - of.iter().min().copied().unwrap_or(0);
                prop_assert!(spread <= 1, "{:?}", counts);
            }
        }
    }
}
