//! The report as Markdown, for an issue or an e-mail.
#![forbid(unsafe_code)]

use super::Story;
use super::columns::{self, ResultRow, TablePlace};
use super::html::{NO_COMMAND, both, dump, place, plugins, started};
use super::spread::{ByNode, NodeTable};
use super::story::{StoryNode, StoryProcess};
use super::verdict::verdict;
use super::words::Language;
use std::fmt::Write;
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::record::SlowDirection;
use tcpx_run_model::results::PluginRecord;

/// Maximum rows of one table, because issue trackers limit the size of a comment.
const ROWS_MAX: usize = 64;

/// The full report. `for_google` puts the questions first.
pub(crate) fn markdown(story: &Story, for_google: bool, language: Language) -> String {
    let verdict = verdict(story, language);
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "# {}: {}\n\n{}\n",
        verdict.word,
        inline(language.title(story)),
        inline(&verdict.sentence)
    );
    if let Some(step) = &story.next_step {
        let next = language.pick("Next", "下一步");
        let _ = writeln!(text, "{next}: {}\n", inline(&language.sentence(step)));
    }
    for unmet in &story.unmet {
        let _ = writeln!(text, "* Gate not met: {}", inline(unmet));
    }
    let _ = writeln!(
        text,
        "{} `{}`{}{}{}{}tcpxctl {}{}{}{}",
        language.pick("Run", "运行"),
        code(&story.id),
        started(story, language, language.pick("unknown", "未知时间")),
        language.pick(", over ", "，经由 "),
        inline(&plugins(story, language)),
        language.pick(". ", "。"),
        story.tcpxctl_version,
        language.pick(", ", "，"),
        match story.redacted {
            true => language.pick("redacted", "已隐去名称和地址"),
            false => language.pick("**not redacted**", "**未隐去名称和地址**"),
        },
        language.pick(".", "。")
    );
    if for_google {
        questions(&mut text, story, language);
    }
    ran(&mut text, story, language);
    findings(&mut text, story, language);
    mesh(&mut text, story, language);
    standstill(&mut text, story, language);
    results(&mut text, story, language);
    nodes(&mut text, story, language);
    log(&mut text, story, language);
    missing(&mut text, story, language);
    if !for_google {
        questions(&mut text, story, language);
    }
    text
}

/// Escapes text so that nothing in it is Markdown markup.
pub(super) fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.replace('\n', " ").chars() {
        if matches!(
            letter,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '|' | '#' | '~' | '!'
        ) {
            safe.push('\\');
        }
        safe.push(letter);
    }
    // An underscore inside a word is not markup, and a backslash there is hard to read.
    safe.replace("\\_", "_")
        .replace("\\#", "#")
        .replace("\\!", "!")
}

/// Text that is safe between backticks and in a table cell.
pub(super) fn code(text: &str) -> String {
    text.replace('`', "'").replace(['\n', '|'], " ")
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn block(text: &mut String, inside: &str) {
    // The fence must be longer than any run of backticks in the text.
    let longest = inside
        .split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(text, "{fence}\n{}\n{fence}\n", inside.trim_end());
}

fn table(text: &mut String, columns: &[&str], rows: &[Vec<String>]) {
    let _ = writeln!(
        text,
        "| {} |\n|{}",
        columns.join(" | "),
        "---|".repeat(columns.len())
    );
    for row in rows.iter().take(ROWS_MAX) {
        let cells: Vec<String> = row.iter().map(|cell| inline(cell)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    if rows.len() > ROWS_MAX {
        let _ = writeln!(
            text,
            "\n{} more rows are in the HTML and JSON reports.",
            rows.len() - ROWS_MAX
        );
    }
    text.push('\n');
}

fn heading(text: &mut String, language: Language, title: &str) {
    let _ = writeln!(text, "## {}\n", language.heading(title));
}

fn ran(text: &mut String, story: &Story, language: Language) {
    text.push('\n');
    heading(text, language, "What was run");
    match &story.command {
        Some(command) => block(text, command),
        None if story.processes.is_empty() => {
            let none = language.pick(NO_COMMAND[0], NO_COMMAND[1]);
            let _ = writeln!(text, "{none}\n");
        }
        None => {
            let rows: Vec<Vec<String>> = story.processes.iter().map(StoryProcess::cells).collect();
            table(text, &["process", "role", "plugin", "end"], &rows);
        }
    }
    let rows: Vec<Vec<String>> = story
        .transfer
        .iter()
        .map(|(key, value)| vec![key.clone(), value.clone()])
        .collect();
    if !rows.is_empty() {
        table(text, &["key", "value"], &rows);
    }
}

fn findings(text: &mut String, story: &Story, language: Language) {
    heading(text, language, "Findings");
    if story.findings.is_empty() {
        let _ = writeln!(text, "{}\n", story.no_findings(language));
    }
    for finding in &story.findings {
        let _ = writeln!(
            text,
            "### {}{}\n\n{}\n",
            inline(&finding.condition),
            language.meaning(finding),
            inline(&place(finding, language))
        );
        let said = |one: &String| inline(&language.sentence(one));
        finding
            .because
            .iter()
            .for_each(|one| line(text, &format!("* {}", said(one))));
        let unseen = language.pick("cannot see", "无法看到");
        finding
            .cannot_see
            .iter()
            .for_each(|one| line(text, &format!("* {unseen}: {}", said(one))));
        if let Some(step) = &finding.next_step {
            let next = language.pick("Next", "下一步");
            let _ = writeln!(text, "\n{next}: {}", said(step));
        }
        text.push('\n');
    }
}

fn standstill(text: &mut String, story: &Story, language: Language) {
    let waiting = story.windows.iter().filter(|window| window.in_flight() > 0);
    let rows: Vec<Vec<String>> = waiting
        .map(|window| {
            let age = window
                .head_age_ms
                .map_or("-".to_owned(), |age| age.to_string());
            vec![
                window.worker.name.clone(),
                window.channel(),
                window.dev.clone(),
                dump(window),
                window.posted.to_string(),
                window.done.to_string(),
                window.consumed.to_string(),
                age,
                window.quiet_ms.to_string(),
                format!("{} ({} not done)", window.tests, window.tests_not_done),
                window.rc_errors.to_string(),
            ]
        })
        .collect();
    if rows.is_empty() || !story.stood_still() {
        return;
    }
    heading(text, language, "Channels with requests in flight");
    let _ = writeln!(
        text,
        "Window: p posted, d done, u unpacked; oldest first.\n"
    );
    table(
        text,
        &[
            "node",
            "channel",
            "interface",
            "window",
            "posted",
            "done",
            "consumed",
            "head age, ms",
            "quiet, ms",
            "tests",
            "rc errors",
        ],
        &rows,
    );
}

fn results(text: &mut String, story: &Story, language: Language) {
    heading(text, language, "Results");
    if let Some(programs) = columns::programs(story.harness_results()) {
        let _ = writeln!(text, "{}\n", language.sentence(columns::PROGRAMS_NOTE));
        table(text, &programs.heads, &programs.rows);
    } else if story.transfers.is_empty() {
        let _ = writeln!(text, "{}\n", story.no_results(language));
    }
    if story.transfers.is_empty() {
        return;
    }
    let rows: Vec<ResultRow<'_>> = match story.mesh {
        Some(_) => story.slowest_rows(ROWS_MAX),
        None => story.result_rows().collect(),
    };
    let results = columns::results(TablePlace::Report, rows);
    table(text, &results.heads, &results.rows);
    if let Some(kv) = columns::kv(&story.kv_rows()) {
        for (direction, one) in story.kv_each().take(ROWS_MAX) {
            let sentence = columns::kv_sentence(one);
            line(
                text,
                &format!("* {}: {}", inline(direction), inline(&sentence)),
            );
        }
        text.push('\n');
        table(text, &kv.heads, &kv.rows);
    }
    if let Some(sums) = &story.sums {
        let _ = writeln!(
            text,
            "Together: {}\n",
            inline(&columns::sums_sentence(sums))
        );
        let sums = columns::sums(sums, &story.names());
        table(text, &sums.heads, &sums.rows);
    }
    let quantiles: Vec<Vec<String>> = story
        .latencies
        .iter()
        .filter_map(|one| {
            let us = one.quantiles?;
            Some(vec![
                format!("{}, {}", one.worker.name, one.side),
                format!("{:.1}", us.p50),
                format!("{:.1}", us.p99),
                format!("{:.1}", us.p999),
                format!("{:.1}", us.max),
            ])
        })
        .collect();
    if !quantiles.is_empty() {
        table(
            text,
            &["posted to done, µs", "p50", "p99", "p99.9", "max"],
            &quantiles,
        );
    }
}

/// Which parts of a mesh are suspect, and the slowest directions.
fn mesh(text: &mut String, story: &Story, language: Language) {
    let Some(mesh) = &story.mesh else { return };
    heading(text, language, "Mesh");
    if let Some(words) = mesh.nothing_found(&story.findings) {
        line(text, &format!("{words}."));
    }
    for one in mesh.findings.iter().take(ROWS_MAX) {
        let sentence = inline(&one.sentence);
        let confidence = one.confidence * 100.0;
        line(
            text,
            &format!(
                "* {}: {sentence} (confidence {confidence:.1} %)",
                one.standing
            ),
        );
    }
    text.push('\n');
    let names = story.names();
    let rail = |rail: u32| mesh.rails.get(rail as usize).cloned().unwrap_or_default();
    let row = |one: &SlowDirection| {
        let ends = [one.from, one.to].map(|node| names.node(node));
        let (rate, share) = (one.gb_per_s, one.share * 100.0);
        let [rate, share] = [format!("{rate:.3}"), format!("{share:.0} %")];
        vec![ends.join(" to "), rail(one.rail), rate, share]
    };
    let rows: Vec<Vec<String>> = mesh.slowest.iter().map(row).collect();
    if !rows.is_empty() {
        let heads = ["slowest directions", "rail", "GB/s", "of the median"];
        table(text, &heads, &rows);
    }
    for (node, reason) in &mesh.absent {
        line(
            text,
            &format!(
                "* Missing: {}: {}",
                inline(&names.node(*node)),
                inline(reason)
            ),
        );
    }
    for difference in &mesh.differences {
        line(text, &format!("* Differs: {}", inline(difference)));
    }
    for said in &mesh.launcher_said {
        line(text, &format!("* Launcher: {}", inline(said)));
    }
}

fn nodes(text: &mut String, story: &Story, language: Language) {
    heading(text, language, "Nodes");
    let by_node = ByNode::new(story);
    for (id, node) in (0..).zip(&story.nodes) {
        node_line(text, &by_node, NodeId(id), node);
    }
    text.push('\n');
    differences(text, story);
    settings(text, story);
    checks(text, story);
}

/// A node with its role and plugin, and its last words below.
fn node_line(text: &mut String, by_node: &ByNode<'_>, id: NodeId, node: &StoryNode) {
    let role = by_node.together(id, |worker| Some(worker.role?.to_string()));
    let plugin = by_node.together(id, |worker| match &worker.plugin {
        Some(record) => Some(plugin(record)),
        None => Some("no plugin".to_owned()),
    });
    let _ = writeln!(
        text,
        "* **{}** ({}, {}): {}",
        inline(&node.name),
        inline(&role),
        inline(&node.host),
        inline(&plugin)
    );
    for words in by_node.last_words(id) {
        let _ = writeln!(text, "  * {}", inline(&words));
    }
}

fn differences(text: &mut String, story: &Story) {
    if story.nodes.len() < 2 {
        return;
    }
    let mut differ = NodeTable::new(story, "differs");
    for one in &story.differences {
        differ.row(&one.what, one.words());
    }
    if differ.rows.is_empty() {
        return line(text, "No differences between the nodes were found.\n");
    }
    let heads: Vec<String> = differ.heads.iter().map(|head| inline(head)).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    table(text, &heads, &differ.rows);
}

fn settings(text: &mut String, story: &Story) {
    let mut rows = Vec::new();
    for setting in &story.settings {
        let [effective, environment] = both(story, setting);
        rows.push(vec![setting.key.clone(), effective, environment]);
    }
    if !rows.is_empty() {
        let heads = ["setting", "effective, as logged", "environment"];
        table(text, &heads, &rows);
    }
}

fn checks(text: &mut String, story: &Story) {
    if story.checks.is_empty() {
        return;
    }
    let mut open = Vec::new();
    for check in &story.checks {
        if check.verdict != "PASS" {
            open.push(vec![
                check.node.clone(),
                check.verdict.clone(),
                check.id.clone(),
                check.value.clone(),
            ]);
        }
    }
    let passed = story.checks.len() - open.len();
    let _ = writeln!(
        text,
        "Doctor: {passed} checks passed, {} did not.\n",
        open.len()
    );
    if !open.is_empty() {
        table(text, &["node", "verdict", "check", "value"], &open);
    }
}

fn plugin(plugin: &PluginRecord) -> String {
    let version = plugin.version.as_deref().unwrap_or("version not logged");
    format!(
        "{} (ncclNet v{}, {version}), {}, sha256 {}",
        plugin.name, plugin.abi, plugin.path, plugin.sha256
    )
}

fn log(text: &mut String, story: &Story, language: Language) {
    if story.log.is_empty() && story.unknown_lines.is_empty() {
        return;
    }
    heading(text, language, "Log");
    for found in &story.log {
        let (lines, first) = (language.lines(found), language.pick("first", "首次"));
        let at = language.first_at(found);
        let _ = writeln!(
            text,
            "* **{}** ({}, {first} {at}): {}",
            inline(&found.signature),
            inline(&lines),
            inline(&language.sentence(&found.meaning))
        );
        let _ = writeln!(text, "  `{}`", code(&found.excerpt.text));
        if let Some(step) = &found.next_step {
            let next = language.pick("next", "下一步");
            let _ = writeln!(text, "  {next}: {}", inline(&language.sentence(step)));
        }
    }
    for line in &story.unknown_lines {
        let _ = writeln!(
            text,
            "* {} ({} on {}): `{}`",
            language.pick("unknown WARN line", "没有特征的行"),
            line.count,
            inline(&line.worker.name),
            code(&line.text)
        );
    }
    text.push('\n');
}

fn missing(text: &mut String, story: &Story, language: Language) {
    heading(text, language, "Missing");
    if story.missing.is_empty() {
        let _ = writeln!(
            text,
            "{}\n",
            language.sentence("No expected data is missing.")
        );
    }
    story.missing.iter().for_each(|one| {
        let (what, why) = (language.sentence(&one.what), language.sentence(&one.why));
        line(text, &format!("* {}: {}", inline(&what), inline(&why)))
    });
    text.push('\n');
}

fn questions(text: &mut String, story: &Story, language: Language) {
    heading(text, language, "Questions for Google");
    if story.questions.is_empty() {
        let none = language.sentence("None: the evidence of this run raises no question.");
        let _ = writeln!(text, "{none}\n");
    }
    for (number, question) in story.questions.iter().enumerate() {
        let _ = writeln!(
            text,
            "{}. {}",
            number + 1,
            inline(language.pick(&question.english, &question.chinese))
        );
        question
            .because
            .iter()
            .for_each(|one| line(text, &format!("   * {}", inline(one))));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_files_is_never_markup() {
        assert_eq!(
            inline("a|b <script> [x](y) `z` NCCL_DEBUG"),
            "a\\|b \\<script> \\[x\\](y) \\`z\\` NCCL_DEBUG"
        );
        assert_eq!(code("a`b|c\nd"), "a'b c d");
    }
}
