//! The languages of reports.
#![forbid(unsafe_code)]

use super::story::{LogFinding, Story, StoryState};
use std::borrow::Cow;
use tcpx_logs::Severity as LogSeverity;
use tcpx_run_model::chinese::{chinese, meaning_in_chinese};
use tcpx_run_model::finding::{Finding, Severity};

/// Language of a report's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Simplified Chinese.
    Chinese,
}

impl Language {
    /// The text in this language.
    pub(super) fn pick<'a>(self, english: &'a str, chinese: &'a str) -> &'a str {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }

    /// A heading of a report.
    pub(crate) fn heading(self, english: &str) -> &str {
        let chinese = match english {
            "What was run" => "运行内容",
            "Findings" => "诊断结论",
            "State when the transfer stopped" => "传输停止时的状态",
            "Channels with requests in flight" => "有未完成请求的通道",
            "Results" => "结果",
            "Mesh" => "网格",
            "Rates together" => "同时传输的速率",
            "KV-cache requests" => "KV 缓存请求",
            "Nodes" => "节点",
            "Differences between the nodes" => "节点之间的差异",
            "Fingerprint" => "环境指纹",
            "Doctor" => "doctor 检查",
            "Log" => "日志",
            "Log of the plugin and the workers" => "插件与 worker 的日志",
            "WARN lines that match no signature" => "没有匹配任何特征的 WARN 行",
            "Files collected from the nodes" => "从节点收集的文件",
            "Missing" | "Missing data" => "缺失的数据",
            "Questions" => "问题",
            "Questions for Google" => "给 Google 的问题",
            _ => return english,
        };
        self.pick(english, chinese)
    }

    /// What a report is about: the scenario, or recordings or logs of programs that no run started.
    pub(super) fn title(self, story: &Story) -> &str {
        match story.state {
            StoryState::Adopted if story.processes.is_empty() => {
                self.pick("adopted logs", "收集的日志")
            }
            StoryState::Adopted => self.pick(&story.scenario, "收集的记录"),
            _ => &story.scenario,
        }
    }

    /// A sentence of a record in this language, or as it is if it has no translation.
    pub(super) fn sentence(self, english: &str) -> Cow<'_, str> {
        let translated = match self {
            Self::English => None,
            Self::Chinese => chinese(english),
        };
        translated.map_or(Cow::Borrowed(english), Cow::Owned)
    }

    /// The word for an outcome or a state, such as `STALLED`, which stays beside a translation.
    pub(super) fn outcome(self, word: &str) -> String {
        let chinese = match (self, word) {
            (Self::Chinese, "PASSED") => "通过",
            (Self::Chinese, "PASSED, RECORD INCOMPLETE") => "通过，记录不完整",
            (Self::Chinese, "FAILED") => "失败",
            (Self::Chinese, "USAGE") => "用法错误",
            (Self::Chinese, "NOT-RUN") => "未能运行",
            (Self::Chinese, "STALLED") => "停滞",
            (Self::Chinese, "PEER-LOST") => "对端丢失",
            (Self::Chinese, "PLUGIN-DIED") => "插件进程终止",
            (Self::Chinese, "INTERRUPTED") => "被中断",
            (Self::Chinese, "EXAMINED") => "仅检查",
            (Self::Chinese, "DAMAGED") => "记录损坏",
            (Self::Chinese, "KILLED") => "被终止",
            (Self::Chinese, "UNWRITTEN") => "未能写入记录",
            (Self::Chinese, "WAITS") => "等待",
            (Self::Chinese, "DOUBTFUL") => "存疑",
            (Self::Chinese, "FINISHED") => "已结束",
            (Self::Chinese, "ADOPTED") => "收集的记录",
            (Self::Chinese, "OTHER VERSION") => "其他版本",
            (Self::Chinese, "RUNNING") => "运行中",
            (Self::Chinese, "UNFINISHED") => "未完成",
            _ => return word.to_owned(),
        };
        format!("{chinese}（{word}）")
    }

    /// What a finding means, behind its name: only in Chinese, because the names are English.
    pub(super) fn meaning(self, finding: &Finding) -> String {
        let meaning = match self {
            Self::English => None,
            Self::Chinese => meaning_in_chinese(&finding.condition),
        };
        meaning.map_or_else(String::new, |meaning| format!("：{meaning}"))
    }

    /// How bad lines of a log are, how many they are and where: `error, 2 lines on rank0.log:8`.
    pub(super) fn lines(self, found: &LogFinding) -> String {
        let (count, place) = (found.count, &found.excerpt.worker.name);
        let severity = match (self, found.severity) {
            (Self::English, severity) => severity.name(),
            (Self::Chinese, LogSeverity::Fatal) => "致命",
            (Self::Chinese, LogSeverity::Error) => "错误",
            (Self::Chinese, LogSeverity::Stall) => "停滞",
            (Self::Chinese, LogSeverity::Warning) => "警告",
            (Self::Chinese, LogSeverity::Info) => "提示",
            (Self::Chinese, LogSeverity::Benign) => "无害",
        };
        match self {
            Self::English => format!("{severity}, {count} lines on {place}"),
            Self::Chinese => format!("{severity}，{place}，{count} 行"),
        }
    }

    /// The time of the first of such lines.
    pub(super) fn first_at(self, found: &LogFinding) -> String {
        let known = found.excerpt.at.clone();
        known.unwrap_or_else(|| self.pick("at an unknown time", "时间未知").to_owned())
    }

    /// The word for the severity of a finding.
    pub(super) fn severity(self, severity: Severity) -> &'static str {
        match (self, severity) {
            (Self::Chinese, Severity::Error) => "错误",
            (Self::Chinese, Severity::Warning) => "警告",
            (Self::Chinese, Severity::Info) => "提示",
            (Self::English, Severity::Error) => "error",
            (Self::English, Severity::Warning) => "warning",
            (Self::English, Severity::Info) => "info",
        }
    }
}
