//! The report as one HTML file without scripts or external resources. A content security policy
//! makes the browser enforce that.
#![forbid(unsafe_code)]

mod mesh;
mod nodes;
mod rates;
mod results;
mod standstill;

pub(super) use nodes::both;
pub use rates::rates_page;
pub(super) use standstill::dump;

use super::page::{END, HtmlRow, Page, escape, top};
use super::story::{Story, StoryState};
use super::verdict::{Tone, verdict};
use super::words::Language;
use tcpx_run_model::finding::Severity;

/// The full report as one HTML file. `for_google` puts the questions first.
pub(crate) fn html(story: &Story, for_google: bool, language: Language) -> String {
    let mut page = Page {
        language,
        ..Page::default()
    };
    head(&mut page, story, language);
    if for_google {
        questions(&mut page, story, language);
    }
    ran(&mut page, story);
    findings(&mut page, story, language);
    mesh::mesh(&mut page, story);
    standstill::standstill(&mut page, story);
    results::results(&mut page, story);
    nodes::nodes(&mut page, story);
    log(&mut page, story);
    evidence(&mut page, story);
    missing(&mut page, story, language);
    if !for_google {
        questions(&mut page, story, language);
    }
    foot(&mut page, story);
    page.text
}

fn head(page: &mut Page, story: &Story, language: Language) {
    page.raw(&top(&format!("{} {}", language.title(story), story.id)));
    let verdict = verdict(story, language);
    let (tone, sign) = match verdict.tone {
        Tone::Good => ("good", "✓"),
        Tone::Warned => ("warned", "!"),
        Tone::Bad => ("bad", "✗"),
        Tone::Open => ("open", "?"),
    };
    page.raw(&format!(
        "<header class=\"verdict {tone}\"><strong>{sign} {}</strong>\n",
        escape(&verdict.word)
    ));
    page.tag("p", &verdict.sentence);
    if let Some(step) = &story.next_step {
        let (next, step) = (language.pick("Next", "下一步"), language.sentence(step));
        page.tag("p class=\"soft\"", &format!("{next}: {step}"));
    }
    for unmet in &story.unmet {
        page.tag("p class=\"soft\"", &format!("Gate not met: {unmet}"));
    }
    page.raw("</header>\n");
    let plugins = plugins(story, language);
    let over = language.pick(" over ", "，经由 ");
    page.tag("h1", &format!("{}{over}{plugins}", language.title(story)));
    page.tag(
        "p class=\"soft\"",
        &format!(
            "{} {}{}{}{}",
            language.pick("Run", "运行"),
            story.id,
            started(
                story,
                language,
                language.pick("at an unknown time", "未知时间")
            ),
            language.pick(".", "。"),
            state(story, language)
        ),
    );
    page.raw("<nav>");
    if story.mesh.is_some() {
        let name = language.heading("Mesh");
        page.raw(&format!("<a href=\"#mesh\">{name}</a>"));
    }
    for (id, name) in [
        ("ran", "What was run"),
        ("findings", "Findings"),
        ("results", "Results"),
        ("nodes", "Nodes"),
        ("log", "Log"),
        ("missing", "Missing"),
        ("questions", "Questions"),
    ] {
        let name = language.heading(name);
        page.raw(&format!("<a href=\"#{id}\">{name}</a>"));
    }
    page.raw("</nav>\n");
}

/// What is told where no command is known, in both languages.
pub(super) const NO_COMMAND: [&str; 2] = ["The command line was not recorded.", "没有记录命令行。"];

fn state(story: &Story, language: Language) -> &'static str {
    let (english, chinese) = match story.state {
        StoryState::Finished => return "",
        StoryState::Unfinished => (
            " There is no run.json: the run is still going, or was killed.",
            "没有 run.json：运行仍在进行，或已被杀死。",
        ),
        StoryState::Running => (
            " The run is still going; the report shows its state so far.",
            "运行仍在进行；报告显示其目前的状态。",
        ),
        StoryState::Killed => (
            " There is no run.json: the coordinator was killed.",
            "没有 run.json：协调进程已被杀死。",
        ),
        StoryState::Interrupted => (
            " There is no run.json: a second signal ended the coordinator before it wrote it.",
            "没有 run.json：协调进程在写入之前被第二个信号结束。",
        ),
        StoryState::Unwritten => (
            " There is no run.json: it could not be written when the run ended.",
            "没有 run.json：运行结束时无法写入。",
        ),
        StoryState::Adopted => (
            " It is of programs that no run started; recordings and logs are what is known of them.",
            "其程序不是由运行启动的；所知的只有它们的记录和日志。",
        ),
        StoryState::OtherVersion => (
            " This version of tcpxctl cannot read the record's version.",
            "此版本的 tcpxctl 无法读取该记录的版本。",
        ),
        StoryState::Damaged => (
            " The record is damaged; the report shows the readable parts.",
            "记录已损坏；报告显示可读的部分。",
        ),
    };
    language.pick(english, chinese)
}

/// Each plugin that was used, with its version, joined with `and`.
pub(super) fn plugins(story: &Story, language: Language) -> String {
    let name = |plugin: &tcpx_run_model::results::PluginRecord| {
        let version = plugin
            .version
            .as_ref()
            .map(|version| format!(", {version}"))
            .unwrap_or_default();
        format!("{} (ncclNet v{}{version})", plugin.name, plugin.abi)
    };
    let of_processes = story.processes.iter().map(|process| process.plugin.clone());
    let names: std::collections::BTreeSet<String> =
        story.plugins().map(name).chain(of_processes).collect();
    let names: Vec<String> = match names.is_empty() {
        true => story.logged_plugins.clone(),
        false => names.into_iter().collect(),
    };
    match names.is_empty() {
        true => language
            .pick("an unrecorded plugin", "没有记录的插件")
            .to_owned(),
        false => names.join(language.pick(" and ", " 和 ")),
    }
}

/// When a run started. Logs alone do not tell when their programs did.
pub(super) fn started(story: &Story, language: Language, unknown: &str) -> String {
    match story.started.as_deref() {
        None if story.state == StoryState::Adopted && story.processes.is_empty() => String::new(),
        when => format!(
            "{}{}",
            language.pick(", started ", "，开始于 "),
            when.unwrap_or(unknown)
        ),
    }
}

/// The processes that no run started.
fn processes(page: &mut Page, story: &Story) {
    let rows: Vec<HtmlRow> = story
        .processes
        .iter()
        .map(|process| HtmlRow {
            cells: process.cells(),
            marked: false,
        })
        .collect();
    page.table("processes", &["process", "role", "plugin", "end"], &rows);
}

fn ran(page: &mut Page, story: &Story) {
    page.section("ran", "What was run");
    match &story.command {
        Some(command) => page.tag("pre", command),
        None if story.processes.is_empty() => {
            page.tag(
                "p class=\"soft\"",
                page.language.pick(NO_COMMAND[0], NO_COMMAND[1]),
            );
        }
        None => processes(page, story),
    }
    page.raw("<dl class=\"keys\">\n");
    for (key, value) in &story.transfer {
        page.raw(&format!(
            "<div><dt>{}</dt><dd>{}</dd></div>\n",
            escape(key),
            escape(value)
        ));
    }
    page.raw("</dl>\n");
    if let Some(toml) = &story.scenario_toml {
        page.folded("Complete scenario, to repeat the run", false, |page| {
            page.tag("pre", toml)
        });
    }
}

fn findings(page: &mut Page, story: &Story, language: Language) {
    page.section("findings", "Findings");
    if story.findings.is_empty() {
        page.tag("p", story.no_findings(language));
    }
    for finding in &story.findings {
        let tone = match finding.severity {
            Severity::Error => "bad",
            Severity::Warning => "warned",
            Severity::Info => "open",
        };
        page.raw(&format!("<div class=\"finding {tone}\">\n"));
        let meaning = language.meaning(finding);
        page.tag("h3", &format!("{}{meaning}", finding.condition));
        page.tag("p class=\"soft\"", &place(finding, language));
        let said = |all: &[String]| -> Vec<String> {
            let sentences = all.iter().map(|one| language.sentence(one).into_owned());
            sentences.collect()
        };
        list(page, "", &said(&finding.because));
        let unseen = language.pick("Cannot see: ", "无法看到：");
        list(page, unseen, &said(&finding.cannot_see));
        if let Some(step) = &finding.next_step {
            let next = language.pick("Next", "下一步");
            page.tag("p", &format!("{next}: {}", language.sentence(step)));
        }
        if let Some(reference) = &finding.reference {
            page.tag("p class=\"soft\"", &format!("See also: {reference}"));
        }
        page.raw("</div>\n");
    }
}

/// Severity, confidence and place of a finding.
pub(super) fn place(finding: &tcpx_run_model::finding::Finding, language: Language) -> String {
    let node = finding
        .place()
        .map(|place| format!(", {place}"))
        .unwrap_or_default();
    let channel = finding
        .channel
        .map(|channel| format!(", {} {channel}", language.pick("channel", "通道")))
        .unwrap_or_default();
    format!(
        "{}, {} {:.2}{node}{channel}",
        language.severity(finding.severity),
        language.pick("confidence", "置信度"),
        finding.confidence
    )
}

fn list(page: &mut Page, before: &str, all: &[String]) {
    if all.is_empty() {
        return;
    }
    page.raw("<ul>\n");
    all.iter()
        .for_each(|one| page.tag("li", &format!("{before}{one}")));
    page.raw("</ul>\n");
}

fn log(page: &mut Page, story: &Story) {
    page.section("log", "Log of the plugin and the workers");
    if story.log.is_empty() && story.unknown_lines.is_empty() {
        page.tag(
            "p",
            "No line matches a signature of a problem, and there is no unknown WARN line.",
        );
    }
    for found in &story.log {
        page.raw("<div class=\"finding warned\">\n");
        page.tag("h3", &found.signature);
        let last = found
            .last_at
            .as_ref()
            .filter(|last| Some(*last) != found.excerpt.at.as_ref())
            .map(|last| format!(" to {last}"))
            .unwrap_or_default();
        let (lines, at) = (page.language.lines(found), page.language.first_at(found));
        page.tag("p class=\"soft\"", &format!("{lines}, {at}{last}"));
        page.tag("p", &page.language.sentence(&found.meaning));
        let in_language = |cause: &String| page.language.sentence(cause).into_owned();
        let causes: Vec<String> = found.causes.iter().map(in_language).collect();
        list(page, "", &causes);
        page.tag("pre", &found.excerpt.text);
        if let Some(step) = &found.next_step {
            let (next, step) = (
                page.language.pick("Next", "下一步"),
                page.language.sentence(step),
            );
            page.tag("p", &format!("{next}: {step}"));
        }
        page.raw("</div>\n");
    }
    if !story.unknown_lines.is_empty() {
        page.heading("WARN lines that match no signature");
        let rows: Vec<HtmlRow> = story
            .unknown_lines
            .iter()
            .map(|line| {
                [
                    line.count.to_string(),
                    line.worker.name.clone(),
                    line.text.clone(),
                ]
                .into()
            })
            .collect();
        page.table("", &["#lines", "node", "first line"], &rows);
    }
}

fn evidence(page: &mut Page, story: &Story) {
    if story.evidence.is_empty() {
        return;
    }
    page.section("evidence", "Files collected from the nodes");
    for file in &story.evidence {
        let cut = if file.cut { ", beginning only" } else { "" };
        page.folded(
            &format!("{} ({} bytes{cut})", file.name, file.bytes),
            false,
            |page| page.tag("pre", &file.text),
        );
    }
}

fn missing(page: &mut Page, story: &Story, language: Language) {
    page.section("missing", "Missing data");
    if story.missing.is_empty() {
        return page.tag("p", &language.sentence("No expected data is missing."));
    }
    let rows: Vec<HtmlRow> = story
        .missing
        .iter()
        .map(|one| {
            [&one.what, &one.why]
                .map(|text| language.sentence(text).into_owned())
                .into()
        })
        .collect();
    let columns = [
        language.pick("missing", "缺失"),
        language.pick("reason", "原因"),
    ];
    page.table("", &columns, &rows);
}

fn questions(page: &mut Page, story: &Story, language: Language) {
    page.section("questions", "Questions for Google");
    if story.questions.is_empty() {
        let none = language.sentence("None: the evidence of this run raises no question.");
        page.tag("p", &none);
    }
    for question in &story.questions {
        page.raw("<div class=\"finding open\">\n");
        page.tag("h3", language.pick(&question.english, &question.chinese));
        list(page, "", &question.because);
        page.raw("</div>\n");
    }
}

fn foot(page: &mut Page, story: &Story) {
    let redacted = match story.redacted {
        true => {
            "Host names, addresses, user names, home directories and tokens are replaced; each always gets the same replacement."
        }
        false => "NOT redacted: contains real names and addresses.",
    };
    page.raw("<footer>\n");
    page.tag(
        "p",
        &format!(
            "tcpxctl {}. {redacted} 1 GB is 10^9 bytes.",
            story.tcpxctl_version
        ),
    );
    page.raw("</footer>\n");
    page.raw(END);
}
