//! A short report for the body of an e-mail: at most sixty lines, in English or Chinese.
#![forbid(unsafe_code)]

use super::Story;
use super::columns::programs as programs_table;
use super::html::{dump, plugins};
use super::markdown::{code, inline};
use super::spread::together;
use super::story::NodeDifference;
use super::verdict::verdict;
use super::words::Language;

/// Rows of results in logs: both ends of eight GPUs.
const PROGRAMS_MAX: usize = 16;
const LINES_MAX: usize = 60;
/// Differences with their values; of the others, the names.
const DIFFERENCES_MAX: usize = 4;
/// Maximum number of characters of a quoted text.
const QUOTE_MAX: usize = 220;

/// The report as Markdown of at most sixty lines.
pub(crate) fn short(story: &Story, language: Language) -> String {
    let mut lines = headline(story, language);
    results(&mut lines, story, language);
    programs(&mut lines, story);
    mesh(&mut lines, story);
    findings(&mut lines, story, language);
    windows(&mut lines, story, language);
    log(&mut lines, story, language);
    differences(&mut lines, story, language);
    questions(&mut lines, story, language);
    missing(&mut lines, story, language);
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX - 1);
        let rest = language.pick(
            "…truncated here; see the full report.",
            "……以下省略，完整内容见报告。",
        );
        lines.push(rest.to_owned());
    }
    lines.join("\n") + "\n"
}

/// Outcome, run, plugin and command line.
fn headline(story: &Story, language: Language) -> Vec<String> {
    let say = |english, chinese| language.pick(english, chinese);
    let verdict = verdict(story, language);
    let mut lines = vec![
        format!(
            "**{}** {} — {}",
            verdict.word,
            inline(language.title(story)),
            inline(&verdict.sentence)
        ),
        String::new(),
        format!(
            "* {}: `{}`, {}",
            say("run", "运行"),
            code(&story.id),
            story.started.as_deref().unwrap_or("-")
        ),
        format!(
            "* {}: {}",
            say("plugin", "插件"),
            inline(&plugins(story, language))
        ),
    ];
    if let Some(command) = &story.command {
        lines.push(format!(
            "* {}: `{}`",
            say("command", "命令"),
            cut(&code(command))
        ));
    }
    let setting = |key: &str| {
        let found = story.transfer.iter().find(|(name, _)| name == key);
        found.map_or("-", |(_, value)| value.as_str())
    };
    if let Some((_, kv)) = story.kv_each().next() {
        lines.push(format!(
            "* {}: {} {}, chunk {}, {}, {}",
            say("transfer", "传输"),
            setting("transfer.connections"),
            say("connections", "条连接"),
            setting("transfer.chunk"),
            inline(&kv.requests_of),
            inline(&kv.arrival)
        ));
    } else if !story.transfer.is_empty() {
        lines.push(format!(
            "* {}: {} {}, chunk {}, total {}, {}",
            say("transfer", "传输"),
            setting("transfer.connections"),
            say("connections", "条连接"),
            setting("transfer.chunk"),
            setting("transfer.total"),
            setting("progress.policy")
        ));
    }
    lines
}

/// One line for each direction that was measured.
fn results(lines: &mut Vec<String>, story: &Story, language: Language) {
    let say = |english, chinese| language.pick(english, chinese);
    for one in story
        .transfers
        .iter()
        .filter(|one| one.record.iterations > 0)
        .take(8)
    {
        let transfer = &one.record;
        let first = transfer
            .first_iteration_seconds
            .map_or("-".to_owned(), |first| format!("{:.1} ms", first * 1e3));
        lines.push(format!(
            "* {}: {} {:.3} GB/s ({} {}), {} {first}, {} {}",
            inline(&one.direction),
            say("median", "中位数"),
            transfer.median_gb_per_s,
            transfer.iterations,
            say("iterations", "次迭代"),
            say("first iteration", "首次迭代"),
            transfer.wrong_bytes,
            say("bytes wrong", "字节错误")
        ));
        let kv = transfer.kv.as_deref();
        if let Some((kv, us)) = kv.and_then(|kv| Some((kv, kv.times.requests.us?))) {
            lines.push(format!(
                "  * {}: {} {}, p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, goodput {:.3} GB/s",
                inline(&kv.what),
                kv.times.requests.count,
                say("requests", "个请求"),
                us.p50 / 1e3,
                us.p99 / 1e3,
                us.p999 / 1e3,
                kv.goodput_gb_per_s
            ));
        }
    }
}

/// The results of programs that drive the plugin themselves.
fn programs(lines: &mut Vec<String>, story: &Story) {
    let Some(table) = programs_table(story.harness_results()) else {
        return;
    };
    lines.push(String::new());
    lines.push(format!("| {} |", table.heads.join(" | ")));
    lines.push(format!("|{}", "---|".repeat(table.heads.len())));
    for row in table.rows.iter().take(PROGRAMS_MAX) {
        let cells: Vec<String> = row.iter().map(|cell| inline(cell)).collect();
        lines.push(format!("| {} |", cells.join(" | ")));
    }
}

/// The parts of a mesh that explain most.
fn mesh(lines: &mut Vec<String>, story: &Story) {
    let findings = story.mesh.iter().flat_map(|mesh| &mesh.findings);
    for one in findings.take(8) {
        lines.push(format!("* {}: {}", one.standing, inline(&one.sentence)));
    }
}

fn findings(lines: &mut Vec<String>, story: &Story, language: Language) {
    let mut section = Vec::new();
    for finding in story.findings.iter().take(4) {
        // With only one pair, the facts below the condition name the end.
        let place = match finding.place() {
            Some(place) if story.pairs.len() > 1 => format!(", {}", inline(place)),
            _ => String::new(),
        };
        section.push(format!(
            "* **{}** ({}, {:.2}{place}){}",
            inline(&finding.condition),
            language.severity(finding.severity),
            finding.confidence,
            language.meaning(finding)
        ));
        for fact in finding.because.iter().take(2) {
            section.push(format!("  * {}", cut(&inline(&language.sentence(fact)))));
        }
        if let Some(step) = &finding.next_step {
            let next = language.pick("next", "下一步");
            // Half a step is none.
            section.push(format!("  * {next}: {}", inline(&language.sentence(step))));
        }
    }
    add_section(lines, language.pick("Findings", "诊断结论"), section);
}

fn windows(lines: &mut Vec<String>, story: &Story, language: Language) {
    if !story.stood_still() {
        return;
    }
    let mut section = Vec::new();
    let waiting = story.windows.iter().filter(|window| window.in_flight() > 0);
    for window in waiting.take(6) {
        let age = window
            .head_age_ms
            .map_or("-".to_owned(), |age| format!("{age} ms"));
        section.push(format!(
            "* {} {}: `{}`, posted {}, done {}, consumed {}, {} {age}",
            inline(&window.worker.name),
            window.channel(),
            dump(window),
            window.posted,
            window.done,
            window.consumed,
            language.pick("head", "队首")
        ));
    }
    let title = language.pick("Channels with requests in flight", "非空窗口");
    add_section(lines, title, section);
}

fn log(lines: &mut Vec<String>, story: &Story, language: Language) {
    let mut section = Vec::new();
    for found in story.log.iter().take(4) {
        section.push(format!(
            "* {} (x{}, {}): `{}`",
            inline(&found.signature),
            found.count,
            inline(&found.excerpt.worker.name),
            cut(&code(&found.excerpt.text))
        ));
    }
    add_section(lines, language.pick("Log", "日志"), section);
}

fn differences(lines: &mut Vec<String>, story: &Story, language: Language) {
    let mut section = Vec::new();
    for one in story.differences.iter().take(DIFFERENCES_MAX) {
        section.push(format!(
            "* {}: {}",
            inline(&one.what),
            differing(story, one)
        ));
    }
    let more = story.differences.iter().skip(DIFFERENCES_MAX);
    let more: Vec<String> = more.map(|one| code(&one.what)).collect();
    if !more.is_empty() {
        let (names, more) = (cut(&more.join(", ")), more.len());
        section.push(match language {
            Language::English => format!("* {more} more: {names}"),
            Language::Chinese => format!("* 另有 {more} 项：{names}"),
        });
    }
    let chinese = match story.nodes.len() {
        0..=2 => "两节点差异",
        _ => "各节点差异",
    };
    let title = language.pick("Differences between the nodes", chinese);
    add_section(lines, title, section);
}

fn questions(lines: &mut Vec<String>, story: &Story, language: Language) {
    let mut section = Vec::new();
    for question in story.questions.iter().take(5) {
        let text = language.pick(&question.english, &question.chinese);
        section.push(format!("* {}", inline(text)));
        if let Some(fact) = question.because.first() {
            section.push(format!("  * {}", cut(&inline(fact))));
        }
    }
    let title = language.pick("Questions for Google", "向 Google 提出的问题");
    add_section(lines, title, section);
}

fn missing(lines: &mut Vec<String>, story: &Story, language: Language) {
    let mut section = Vec::new();
    for one in story.missing.iter().take(4) {
        let (what, why) = (language.sentence(&one.what), language.sentence(&one.why));
        section.push(format!("* {}: {}", inline(&what), cut(&inline(&why))));
    }
    add_section(lines, language.pick("Missing", "缺失的信息"), section);
}

/// The values of a difference: of both nodes, or grouped by value if there are more nodes.
fn differing(story: &Story, one: &NodeDifference) -> String {
    if one.values.len() == 2 {
        return one
            .words()
            .map(|value| cut(&inline(value)))
            .collect::<Vec<_>>()
            .join(" / ");
    }
    let names = story.nodes.iter().map(|node| node.name.as_str());
    cut(&inline(&together(names.zip(one.words()), one.values.len())))
}

/// Adds the lines of a section under its title, or nothing if there are no lines.
fn add_section(lines: &mut Vec<String>, title: &str, section: Vec<String>) {
    if !section.is_empty() {
        lines.extend([String::new(), format!("**{title}**"), String::new()]);
        lines.extend(section);
    }
}

/// A text, or its first parts that are whole: a part ends with `;`, `.` or their Chinese forms, or else a word.
fn cut(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(QUOTE_MAX) else {
        return text.to_owned();
    };
    let text = &text[..end];
    let ends = |letter: &str| text.rfind(letter).map(|at| at + letter.len());
    let part = ["; ", ". ", "；", "。"]
        .iter()
        .filter_map(|one| ends(one))
        .max();
    let word = text.rfind(' ').filter(|at| *at > end / 2);
    let end = part.filter(|at| *at > end / 4).or(word).unwrap_or(end);
    format!("{}…", text[..end].trim_end())
}
