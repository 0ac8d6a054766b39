//! The report on one screen, for the body of an e-mail: at most sixty lines, in
//! English or in Chinese.
#![forbid(unsafe_code)]

use super::Story;
use super::html::{dump, plugins};
use super::markdown::{code, inline};
use super::spread::together;
use super::story::Difference;
use super::verdict::verdict;
use super::words::Language;

/// Lines in all.
const LINES_MAX: usize = 60;
/// Characters of a line that quotes something.
const WIDTH: usize = 220;

/// Markdown of at most sixty lines.
pub fn short(story: &Story, language: Language) -> String {
    let say = |english, chinese| language.pick(english, chinese);
    let verdict = verdict(story, language);
    let mut lines = vec![
        format!(
            "**{}** {} — {}",
            verdict.word,
            inline(&story.scenario),
            inline(&verdict.sentence)
        ),
        String::new(),
        format!(
            "* {}: `{}`, {}",
            say("run", "运行"),
            code(&story.id),
            story.started.as_deref().unwrap_or("-")
        ),
        format!("* {}: {}", say("plugin", "插件"), inline(&plugins(story))),
    ];
    if let Some(command) = &story.command {
        lines.push(format!(
            "* {}: `{}`",
            say("command", "命令"),
            cut(&code(command))
        ));
    }
    let of = |key: &str| {
        story
            .transfer
            .iter()
            .find(|(name, _)| name == key)
            .map_or("-", |(_, value)| value.as_str())
    };
    if !story.transfer.is_empty() {
        lines.push(format!(
            "* {}: {} {}, chunk {}, total {}, {}",
            say("transfer", "传输"),
            of("transfer.connections"),
            say("connections", "条连接"),
            of("transfer.chunk"),
            of("transfer.total"),
            of("progress.policy")
        ));
    }
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
    }
    part(
        &mut lines,
        say("Findings", "诊断结论"),
        story.findings.iter().take(4).flat_map(|finding| {
            // With one pair the facts below say which end it is.
            let place = finding
                .place()
                .filter(|_| story.pairs.len() > 1)
                .map(|place| format!(", {}", inline(place)));
            let mut told = vec![format!(
                "* **{}** ({}, {:.2}{})",
                inline(&finding.condition),
                finding.severity,
                finding.confidence,
                place.unwrap_or_default()
            )];
            told.extend(
                finding
                    .because
                    .iter()
                    .take(2)
                    .map(|one| format!("  * {}", cut(&inline(one)))),
            );
            told.extend(
                finding
                    .next_step
                    .iter()
                    .map(|step| format!("  * {}: {}", say("next", "下一步"), cut(&inline(step)))),
            );
            told
        }),
    );
    let waiting = story
        .windows
        .iter()
        .filter(|window| window.in_flight() > 0 && story.stood_still());
    part(
        &mut lines,
        say("Windows that were not empty", "非空窗口"),
        waiting.take(6).map(|window| {
            let age = window
                .head_age_ms
                .map_or("-".to_owned(), |age| format!("{age} ms"));
            format!(
                "* {} {}: `{}`, posted {}, done {}, consumed {}, {} {age}",
                inline(&window.worker.name),
                window.channel(),
                dump(window),
                window.posted,
                window.done,
                window.consumed,
                say("head", "队首")
            )
        }),
    );
    part(
        &mut lines,
        say("Log", "日志"),
        story.log.iter().take(4).map(|found| {
            format!(
                "* {} (x{}, {}): `{}`",
                inline(&found.signature),
                found.count,
                inline(&found.excerpt.worker.name),
                cut(&code(&found.excerpt.text))
            )
        }),
    );
    part(
        &mut lines,
        if story.nodes.len() > 2 {
            say("Differences between the nodes", "各节点差异")
        } else {
            say("Differences between the nodes", "两节点差异")
        },
        story
            .differences
            .iter()
            .take(4)
            .map(|one| format!("* {}: {}", inline(&one.what), differing(story, one))),
    );
    part(
        &mut lines,
        say("Questions for Google", "向 Google 提出的问题"),
        story.questions.iter().take(5).flat_map(|question| {
            let asked = language.pick(&question.english, &question.chinese);
            let because = question
                .because
                .iter()
                .take(1)
                .map(|one| format!("  * {}", cut(&inline(one))));
            std::iter::once(format!("* {}", inline(asked)))
                .chain(because)
                .collect::<Vec<_>>()
        }),
    );
    part(
        &mut lines,
        say("Missing", "缺失的信息"),
        story
            .missing
            .iter()
            .take(4)
            .map(|one| format!("* {}: {}", inline(&one.what), cut(&inline(&one.why)))),
    );
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX - 1);
        lines.push(
            say(
                "…cut here; the whole report has the rest.",
                "……以下省略，完整内容见报告。",
            )
            .to_owned(),
        );
    }
    lines.join("\n") + "\n"
}

/// The value of each node, or where these are more than two of each group of them.
fn differing(story: &Story, one: &Difference) -> String {
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

fn part(lines: &mut Vec<String>, title: &str, all: impl Iterator<Item = impl Told>) {
    let told: Vec<String> = all.flat_map(Told::lines).collect();
    if !told.is_empty() {
        lines.extend([String::new(), format!("**{title}**"), String::new()]);
        lines.extend(told);
    }
}

/// One line, or several.
trait Told {
    fn lines(self) -> Vec<String>;
}

impl Told for String {
    fn lines(self) -> Vec<String> {
        vec![self]
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
