//! Questions for Google that the evidence of a run could not answer.
//!
//! A question is asked only if facts of this run raise it, and those facts stand beside it.
//! Nothing is asked that the plugin's source code answers.
#![forbid(unsafe_code)]

use super::story::{Question, Story};
use tcpx_words::error::Outcome;
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
            waiting(story, |window| {
                window.in_flight() > 0 && window.done < window.posted && window.tests_not_done > 0
            })
        },
    },
    QuestionRule {
        id: "silent-sender",
        english: "The receiver has requests posted and no header arrives while the sender shows them done. Can a send complete locally before its data has left the host, and where would that be visible?",
        chinese: "接收端已 post 请求但收不到头部，而发送端显示已完成。发送请求是否可能在数据离开主机之前就在本地完成？在哪里可以观察到？",
        because: silent_sender,
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
            story
                .settings
                .iter()
                .filter(|one| one.differs && !one.environment.is_empty())
                .map(row)
                .collect()
        },
    },
    QuestionRule {
        id: "return-code",
        english: "A call returned a code that the plugin did not explain. What does it mean here, and is the comm still usable?",
        chinese: "某次调用返回了错误码，但插件没有给出说明。该错误码在此处是什么含义？该 comm 是否还可以继续使用？",
        because: |story| {
            let failed = |window: &super::story::ChannelWindow| {
                let (call, code) = window.last_error.clone()?;
                Some(format!(
                    "{} of {}: {call} returned {code}",
                    window.channel(),
                    window.worker.name
                ))
            };
            story.windows.iter().filter_map(failed).take(8).collect()
        },
    },
    QuestionRule {
        id: "unknown-warning",
        english: "What do these WARN lines mean, and what should be done about them?",
        chinese: "下列 WARN 日志是什么含义？应当如何处理？",
        because: |story| {
            story
                .unknown_lines
                .iter()
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
            Some(Outcome::PluginDied) => story
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
            let far = |one: &&tcpx_run_model::finding::Finding| {
                one.condition.contains("far")
                    || one.condition.contains("numa")
                    || one.condition.contains("nearest")
            };
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

/// The counters of the first few matching channels of a run that stalled.
fn waiting(story: &Story, is_meant: fn(&super::story::ChannelWindow) -> bool) -> Vec<String> {
    if !story.is(Outcome::Stalled) {
        return Vec::new();
    }
    let shown = |window: &super::story::ChannelWindow| {
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
    };
    story
        .windows
        .iter()
        .filter(|window| is_meant(window))
        .take(8)
        .map(shown)
        .collect()
}

fn silent_sender(story: &Story) -> Vec<String> {
    let receives = |window: &super::story::ChannelWindow| {
        window.side == Side::Recv && window.done < window.posted
    };
    let sent = |receiver: &super::story::ChannelWindow| {
        story.windows.iter().any(|window| {
            window.side == Side::Send
                && window.worker.pair == receiver.worker.pair
                && window.index == receiver.index
                && window.posted > receiver.done
                && window.done == window.posted
        })
    };
    let all = waiting(story, receives);
    if story
        .windows
        .iter()
        .filter(|window| receives(window))
        .any(sent)
    {
        all
    } else {
        Vec::new()
    }
}

/// Google's guidance for one data NIC of an A3-high: 150 Gb/s.
const GUIDANCE_GB_PER_S: f64 = 18.75;

fn slow(story: &Story) -> Vec<String> {
    if !super::is_of_tcpx(story) || !story.is(Outcome::Passed) {
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
