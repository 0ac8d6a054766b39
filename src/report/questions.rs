//! Questions for Google that the evidence of a run could not answer.
//!
//! A question is asked only if facts of this run raise it, and those facts stand beside it. What
//! it presumes is tested against both ends: it is not asked if one of them refutes it, or if a
//! finding names a cause outside the plugin. Nothing is asked of the software plugin or about a
//! fault that was injected, and nothing that the plugin's source code answers.
#![forbid(unsafe_code)]

use super::story::{ChannelWindow, Question, Story};
use tcpx_run_model::finding::{Finding, Severity, Subject};
use tcpx_words::error::Outcome;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::side::Side;

struct QuestionRule {
    id: &'static str,
    english: &'static str,
    chinese: &'static str,
    because: fn(&Story) -> Vec<String>,
}

/// Every question, most urgent first.
const ALL: [QuestionRule; 9] = [
    QuestionRule {
        id: "stalled-progress",
        english: "Both ends keep calling test and neither sees a request change state. Which condition inside the plugin keeps a posted request from advancing, and which TRACE lines would show it?",
        chinese: "两端都在持续调用 test，但没有任何请求的状态发生变化。插件内部的哪个条件会阻止已 post 的请求继续推进？哪些 TRACE 日志可以看出这一点？",
        because: |story| {
            let is_driven = |window: &ChannelWindow| {
                window.done < window.posted && window.tests_not_done > 0 && window.in_call.is_none()
            };
            stalled_channels(story, |send, recv| is_driven(send) && is_driven(recv))
        },
    },
    QuestionRule {
        id: "silent-sender",
        english: "The sender shows sends from GPU memory done, so their zero-copy completions were read, and the receiver sees no header for them. Can these completions come before the peer's kernel has the data, and where would that be visible?",
        chinese: "发送端显示 GPU 内存的发送请求已完成（即已读到零拷贝完成通知），但接收端没有收到对应的头部。这些完成通知是否可能早于对端内核收到数据？在哪里可以观察到？",
        because: |story| {
            // A send from host memory is done once its kernel has the bytes.
            if !is_in_gpu_memory(story) {
                return Vec::new();
            }
            stalled_channels(story, |send, recv| {
                recv.done < recv.posted && send.done == send.posted && send.done > recv.done
            })
        },
    },
    QuestionRule {
        id: "build-differences",
        english: "The plugin files of the nodes differ. Are these builds meant to talk to each other, and with which receive-datapath-manager releases?",
        chinese: "各节点上的插件文件不同。这两个版本是否可以互通？分别需要哪个版本的 receive-datapath-manager？",
        because: |story| {
            let of_plugin = |one: &&super::story::NodeDifference| {
                one.what.starts_with("plugin, ") && one.what != "plugin, path"
            };
            story
                .differences
                .iter()
                .filter(of_plugin)
                .map(|one| format!("{}: {}", one.what, distinct(one.words())))
                .collect()
        },
    },
    QuestionRule {
        id: "settings-not-taken",
        english: "Some settings in the environment differ from the values that the plugin reports. Which of them does this build read, and when?",
        chinese: "部分环境变量的取值与插件报告的实际值不一致。该版本会读取其中哪些变量？在什么时候读取？",
        because: |story| {
            let row = |one: &super::story::PluginSetting| {
                format!(
                    "{}: environment {:?}, effective {:?}",
                    one.key, one.environment, one.effective
                )
            };
            // If one end has the value of an environment, the build reads the variable.
            let is_taken = |one: &super::story::PluginSetting| {
                let mut given = one.environment.values();
                given.any(|given| one.effective.values().any(|taken| taken == given))
            };
            story
                .settings
                .iter()
                .filter(|one| one.differs && !one.environment.is_empty() && !is_taken(one))
                .map(row)
                .collect()
        },
    },
    QuestionRule {
        id: "return-code",
        english: "A call returned a code that the plugin did not explain. What does it mean here, and is the comm still usable?",
        chinese: "某次调用返回了错误码，但插件没有给出说明。该错误码在此处是什么含义？该 comm 是否还可以继续使用？",
        because: |story| {
            let failed = |window: &ChannelWindow| {
                let (call, code) = window.last_error.clone()?;
                Some(format!(
                    "{} of {}: {call} returned {code}",
                    window.channel(),
                    window.worker.name
                ))
            };
            let unexplained = |window: &&ChannelWindow| !has_warned(story, &window.worker);
            if !is_open(story) {
                return Vec::new();
            }
            let windows = story.windows.iter().filter(unexplained);
            windows.filter_map(failed).take(8).collect()
        },
    },
    QuestionRule {
        id: "unknown-warning",
        english: "What do these WARN lines mean, and what should be done about them?",
        chinese: "下列 WARN 日志是什么含义？应当如何处理？",
        because: |story| {
            let of_google = |line: &&super::story::LogExcerpt| {
                names_tcpx(&line.text) || runs_google_plugin(story, &line.worker)
            };
            story
                .unknown_lines
                .iter()
                .filter(of_google)
                .take(5)
                .map(|line| format!("{} (x{}, {})", line.text, line.count, line.worker.name))
                .collect()
        },
    },
    QuestionRule {
        id: "plugin-exit",
        english: "The plugin ended the process. Is the condition that it logged recoverable, and could the plugin return an error to the caller instead of exiting?",
        chinese: "插件直接结束了进程。日志中给出的条件是否可以恢复？能否改为向调用者返回错误而不是退出？",
        because: |story| match story.outcome {
            Some(Outcome::PluginDied) if is_open(story) => story
                .workers()
                .flat_map(|(_, worker)| {
                    worker
                        .last_words
                        .iter()
                        .map(move |words| format!("{}: {words}", worker.name))
                })
                .collect(),
            _ => Vec::new(),
        },
    },
    QuestionRule {
        id: "rate-below-guidance",
        english: "The rate per NIC is below the guidance for this machine type. Which counters of the plugin, the manager or gVNIC show whether the NIC, flow steering or polling is the bottleneck?",
        chinese: "每张网卡的速率低于该机型的指导值。插件、manager 或 gVNIC 的哪些计数器可以说明瓶颈在网卡、流引导还是轮询？",
        because: slow,
    },
    QuestionRule {
        id: "far-nic",
        english: "A GPU was used with a NIC under a different PCI root. Is that supported, and how do flow steering and header split behave there?",
        chinese: "有 GPU 使用了位于其他 PCI root 下的网卡。这种组合是否受支持？此时流引导和 header split 会如何工作？",
        because: |story| {
            let far = |one: &&Finding| one.condition == "nic-far-from-gpu";
            story
                .findings
                .iter()
                .filter(far)
                .flat_map(|one| one.because.clone())
                .collect()
        },
    },
];

/// The distinct values, joined with `and`.
fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen.join(" and ")
}

/// The questions that the facts of a run raise.
pub(super) fn questions_for(story: &Story) -> Vec<Question> {
    let mut questions = Vec::new();
    if !is_of_google(story) || is_injected(story) {
        return questions;
    }
    for ask in &ALL {
        let because = (ask.because)(story);
        if !because.is_empty() {
            questions.push(Question {
                id: ask.id.to_owned(),
                english: ask.english.to_owned(),
                chinese: ask.chinese.to_owned(),
                because,
            });
        }
    }
    questions
}

/// Whether the run used a plugin of Google, and no other; or, where no plugin is recorded, has
/// lines of TCPX.
fn is_of_google(story: &Story) -> bool {
    let of_workers = story.plugins().map(|plugin| plugin.family);
    let labels = story.processes.iter().map(|one| one.plugin.as_str());
    let named = labels.filter(|label| !label.is_empty());
    let of_processes = named.map(PluginFamily::of_label);
    let families: Vec<PluginFamily> = of_workers.chain(of_processes).collect();
    if families.is_empty() {
        let of_log = story.log.iter().map(|found| &found.excerpt);
        let mut lines = of_log.chain(&story.unknown_lines);
        return lines.any(|line| names_tcpx(&line.text));
    }
    families.into_iter().all(is_google)
}

fn is_google(family: PluginFamily) -> bool {
    matches!(family, PluginFamily::Tcpx | PluginFamily::Tcpxo)
}

fn names_tcpx(line: &str) -> bool {
    line.to_ascii_lowercase().contains("tcpx")
}

/// Whether a process has a plugin of Google. Files of logs have none.
fn runs_google_plugin(story: &Story, subject: &Subject) -> bool {
    let has = |worker: &super::story::StoryWorker| {
        let plugin = worker.plugin.as_ref();
        worker.name == subject.name && plugin.is_some_and(|plugin| is_google(plugin.family))
    };
    let is_process = |process: &super::story::StoryProcess| {
        process.worker.name == subject.name && is_google(PluginFamily::of_label(&process.plugin))
    };
    story.workers().any(|(_, worker)| has(worker)) || story.processes.iter().any(is_process)
}

/// Whether the scenario injected a fault.
fn is_injected(story: &Story) -> bool {
    let toml = story.scenario_toml.as_deref();
    let table = toml.and_then(|text| text.parse::<toml::Table>().ok());
    table.is_some_and(|table| table.contains_key("fault"))
        || story
            .workers()
            .any(|(_, worker)| worker.env.contains_key("TCPXSOFT_FAULT"))
}

/// Findings that leave open what the plugin did.
const OPEN: [&str; 12] = [
    "call-refused",
    "connect-never-completes",
    "flow-steering-refused",
    "hang-inside-call",
    "no-cmsg",
    "nothing-arrives",
    "one-channel-starved",
    "payload-wrong",
    "plugin-crash",
    "plugin-exit",
    "stalled",
    "tx-completions-missing",
];

/// Whether no finding names a cause outside the plugin, at either end.
fn is_open(story: &Story) -> bool {
    let errors = story
        .findings
        .iter()
        .filter(|one| one.severity == Severity::Error);
    errors
        .into_iter()
        .all(|one| OPEN.contains(&one.condition.as_str()))
}

/// Whether a process logged a warning or something worse, which is the plugin's explanation.
fn has_warned(story: &Story, worker: &Subject) -> bool {
    let known = story.log.iter().filter(|found| found.severity.is_finding());
    let known = known.map(|found| &found.excerpt);
    known
        .chain(&story.unknown_lines)
        .any(|line| line.worker.name == worker.name)
}

fn is_in_gpu_memory(story: &Story) -> bool {
    let mut lanes = story.pairs.iter().flat_map(|pair| &pair.lanes);
    let mut settings = story.transfer.iter();
    lanes.any(|lane| lane.gpus().is_some())
        && !settings.any(|(key, value)| key == "transfer.memory" && value == "host")
}

/// The counters at both ends of the first few matching channels of a run that stalled for no
/// known reason. A channel with one end recorded does not match.
fn stalled_channels(
    story: &Story,
    is_meant: impl Fn(&ChannelWindow, &ChannelWindow) -> bool,
) -> Vec<String> {
    if !story.stood_still() || !is_open(story) {
        return Vec::new();
    }
    let sends = story
        .windows
        .iter()
        .filter(|window| window.side == Side::Send);
    let ends = sends.filter_map(|send| Some((send, other_end(story, send)?)));
    let meant = ends.filter(|(send, recv)| is_meant(send, recv)).take(4);
    meant
        .flat_map(|(send, recv)| [counters(send), counters(recv)])
        .collect()
}

/// The receiving end of a channel: by its pair and index, or by its addresses.
fn other_end<'a>(story: &'a Story, send: &ChannelWindow) -> Option<&'a ChannelWindow> {
    let is_pair = |recv: &ChannelWindow| {
        send.worker.pair.is_some()
            && send.worker.pair == recv.worker.pair
            && send.index == recv.index
    };
    // Either end may know one address only, as in `diagnose`.
    let meet = |from: &ChannelWindow, to: &ChannelWindow| {
        let peer = from.addresses.as_ref().and_then(|ends| ends.1.as_ref());
        let local = to.addresses.as_ref().and_then(|ends| ends.0.as_ref());
        peer.is_some() && peer == local
    };
    let is_other = |recv: &ChannelWindow| is_pair(recv) || meet(send, recv) || meet(recv, send);
    let mut windows = story.windows.iter();
    windows.find(|recv| recv.side == Side::Recv && is_other(recv))
}

fn counters(window: &ChannelWindow) -> String {
    format!(
        "{} of {}: posted {}, done {}, consumed {}, quiet for {} ms, {} of {} tests not done",
        window.channel(),
        window.worker.name,
        window.posted,
        window.done,
        window.consumed,
        window.quiet_ms,
        window.tests_not_done,
        window.tests
    )
}

/// Findings that explain a low rate.
const SLOWED: [&str; 5] = [
    "first-iteration-counted",
    "network-loss",
    "nic-far-from-gpu",
    "same-host",
    "slow-because-of-logging",
];

/// Google's guidance for one data NIC of an A3-high: 150 Gb/s.
const GUIDANCE_GB_PER_S: f64 = 18.75;

fn slow(story: &Story) -> Vec<String> {
    let is_slowed = |one: &Finding| SLOWED.contains(&one.condition.as_str());
    let is_meant = super::is_of_tcpx(story) && is_in_gpu_memory(story);
    if !is_meant || !story.is(Outcome::Passed) || story.findings.iter().any(is_slowed) {
        return Vec::new();
    }
    let per_nic = |transfer: &super::story::StoryTransfer| {
        let one = &transfer.record;
        let nics: std::collections::BTreeSet<&str> = one
            .channels
            .iter()
            .map(|channel| channel.dev.as_str())
            .collect();
        let rate = one.median_gb_per_s / nics.len().max(1) as f64;
        (rate > 0.0 && rate < GUIDANCE_GB_PER_S).then(|| {
            format!(
                "{}: {rate:.2} GB/s per NIC over {} NICs, guidance {GUIDANCE_GB_PER_S} GB/s",
                transfer.direction,
                nics.len()
            )
        })
    };
    story.transfers.iter().filter_map(per_nic).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::stalled_story;

    fn asked(story: &Story) -> Vec<String> {
        let questions = questions_for(story).into_iter();
        questions.map(|question| question.id).collect()
    }

    /// The recorded stall, without a finding that explains it, and with these counters of channel 1:
    /// posted, done and tests that were not done, at the sender and the receiver.
    fn unexplained(send: [u64; 3], recv: [u64; 3]) -> Story {
        let mut story = stalled_story();
        story.findings[0].condition = "stalled".to_owned();
        story.unknown_lines.clear();
        for window in &mut story.windows {
            let [posted, done, not_done] = match (window.index, window.side) {
                (1, Side::Send) => send,
                (1, Side::Recv) => recv,
                _ => [16, 16, 0],
            };
            (window.posted, window.done, window.tests_not_done) = (posted, done, not_done);
            window.consumed = done;
        }
        story
    }

    #[test]
    fn the_catalogue_has_the_conditions_that_questions_name() {
        for name in OPEN.into_iter().chain(SLOWED).chain(["nic-far-from-gpu"]) {
            assert!(
                tcpx_diagnose::Condition::from_name(name).is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_stall_is_asked_about_only_if_both_ends_bear_it_out() {
        let both = unexplained([16, 4, 99], [16, 4, 99]);
        assert_eq!(asked(&both), ["stalled-progress"]);
        let because = &questions_for(&both)[0].because;
        assert!(because[0].starts_with("send 1 of ") && because[1].starts_with("recv 1 of "));
        // The sender does not test, or has nothing in flight.
        assert!(asked(&unexplained([16, 4, 0], [16, 4, 99])).is_empty());
        assert!(asked(&unexplained([4, 4, 9], [16, 4, 99])).is_empty());
        let mut inside = both.clone();
        inside
            .windows
            .iter_mut()
            .for_each(|one| one.in_call = Some("test".to_owned()));
        assert!(asked(&inside).is_empty());
        // Of one end alone nothing is known about the other.
        let mut alone = both.clone();
        alone.windows.retain(|window| window.side == Side::Recv);
        assert!(asked(&alone).is_empty());
        // A finding names a cause outside the plugin.
        let mut explained = both;
        explained.findings[0].condition = "recv-sync-differs".to_owned();
        assert!(asked(&explained).is_empty());
    }

    #[test]
    fn ends_of_foreign_programs_meet_at_the_address_that_both_know() {
        let mut story = unexplained([16, 4, 99], [16, 4, 99]);
        let known = "192.0.2.2:52987".to_owned();
        for window in &mut story.windows {
            window.worker.pair = None;
            window.addresses = match (window.index, window.side) {
                (1, Side::Send) => Some((None, Some(known.clone()))),
                (1, Side::Recv) => Some((Some(known.clone()), None)),
                _ => None,
            };
        }
        assert_eq!(asked(&story), ["stalled-progress"]);
        story
            .windows
            .iter_mut()
            .for_each(|one| one.addresses = None);
        assert!(asked(&story).is_empty());
    }

    #[test]
    fn a_send_that_is_done_is_asked_about_in_gpu_memory_only() {
        let mut story = unexplained([16, 16, 9], [16, 4, 99]);
        assert!(asked(&story).is_empty());
        let lanes = story.pairs.iter_mut().flat_map(|pair| &mut pair.lanes);
        lanes.for_each(|lane| *lane = tcpx_run_model::ids::Lane::Gpu(0));
        assert_eq!(asked(&story), ["silent-sender"]);
    }

    #[test]
    fn nothing_is_asked_of_the_software_plugin_or_about_an_injected_fault() {
        let story = unexplained([16, 4, 99], [16, 4, 99]);
        for family in [PluginFamily::TcpxSoft, PluginFamily::Other] {
            let mut other = story.clone();
            let workers = other.pairs.iter_mut().flat_map(|pair| &mut pair.workers);
            let mut plugins = workers.filter_map(|worker| worker.plugin.as_mut());
            plugins.next().expect("a plugin").family = family;
            assert!(asked(&other).is_empty(), "{family}");
        }
        let mut injected = story.clone();
        injected.scenario_toml = Some("[fault]\nby = \"plugin\"\n".to_owned());
        assert!(asked(&injected).is_empty());
        let mut injected = story;
        let mut workers = injected.pairs.iter_mut().flat_map(|pair| &mut pair.workers);
        let env = &mut workers.next().expect("a worker").env;
        env.insert("TCPXSOFT_FAULT".to_owned(), "stop".to_owned());
        assert!(asked(&injected).is_empty());
    }

    #[test]
    fn a_return_code_is_asked_about_unless_that_end_has_warned() {
        let mut story = unexplained([16, 16, 0], [16, 16, 0]);
        story.log.clear();
        let window = story.windows.iter_mut().find(|one| one.side == Side::Recv);
        let window = window.expect("a window");
        window.last_error = Some(("irecv".to_owned(), 3));
        let place = window.worker.clone();
        assert_eq!(asked(&story), ["return-code"]);
        let mut line = stalled_story().unknown_lines.remove(0);
        line.worker = place;
        line.text = "TCPX said why".to_owned();
        story.unknown_lines.push(line);
        assert_eq!(asked(&story), ["unknown-warning"]);
    }

    #[test]
    fn a_setting_that_one_end_takes_is_read_by_the_build() {
        let mut story = unexplained([16, 16, 0], [16, 16, 0]);
        let map = |values: &[(&str, &str)]| {
            let pairs = values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            pairs.collect()
        };
        story.settings = vec![crate::story::PluginSetting {
            key: "NSOCKS".to_owned(),
            effective: map(&[("local", "1"), ("peer", "1")]),
            environment: map(&[("local", "4"), ("peer", "4")]),
            differs: true,
        }];
        assert_eq!(asked(&story), ["settings-not-taken"]);
        story.settings[0].effective = map(&[("local", "4"), ("peer", "1")]);
        assert!(asked(&story).is_empty());
    }

    #[test]
    fn lines_of_other_networks_are_not_asked_about() {
        let mut story = unexplained([16, 16, 0], [16, 16, 0]);
        let mut line = stalled_story().unknown_lines.remove(0);
        line.worker.name = "logs/rank0.log:7".to_owned();
        line.text = "NET/IB : something odd".to_owned();
        story.unknown_lines.push(line);
        assert!(asked(&story).is_empty());
    }
}
