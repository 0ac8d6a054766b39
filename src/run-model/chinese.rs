//! Chinese for the sentences of findings, verdicts and next steps.
//!
//! Records hold English sentences, also those of other versions and programs. [`chinese`] finds a
//! sentence by its text among the templates of `chinese.toml`, and of `chinese-logs.toml` for
//! lines of logs, and fills the values in. The crates
//! that write the sentences test that each has a translation, so one that is new or changed is
//! noticed. A sentence without a translation stays English.
#![forbid(unsafe_code)]

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Most sentences that stand in or behind each other.
const DEPTH_MAX: usize = 8;
/// A longer text is not a sentence of a report.
const BYTES_MAX: usize = 4096;

/// `chinese.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    conditions: BTreeMap<String, String>,
    fixes: BTreeMap<String, String>,
    facts: BTreeMap<String, String>,
    phases: BTreeMap<String, String>,
    reasons: BTreeMap<String, String>,
}

/// `chinese-logs.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfLogs {
    sentences: BTreeMap<String, String>,
    harness: BTreeMap<String, String>,
}

struct Chinese {
    conditions: BTreeMap<String, String>,
    phases: BTreeMap<String, String>,
    /// Those with the most text first, because they are the most specific.
    templates: Vec<Template>,
}

static CHINESE: LazyLock<Chinese> = LazyLock::new(|| {
    // A test reads the files; without them, everything stays English.
    let catalogue = toml::from_str(include_str!("chinese.toml")).ok();
    let of_logs = toml::from_str(include_str!("chinese-logs.toml")).ok();
    let of_logs = of_logs.map_or_else(BTreeMap::new, |logs: OfLogs| {
        logs.sentences.into_iter().chain(logs.harness).collect()
    });
    catalogue.map_or_else(Chinese::none, |catalogue| Chinese::new(catalogue, &of_logs))
});

impl Chinese {
    fn none() -> Self {
        Self {
            conditions: BTreeMap::new(),
            phases: BTreeMap::new(),
            templates: Vec::new(),
        }
    }

    fn new(catalogue: Catalogue, of_logs: &BTreeMap<String, String>) -> Self {
        let sentences = catalogue
            .fixes
            .iter()
            .chain(&catalogue.facts)
            .chain(of_logs);
        let sentences = sentences.chain(&catalogue.phases).chain(&catalogue.reasons);
        let mut templates: Vec<Template> = sentences
            .map(|(english, chinese)| Template::new(english, chinese))
            .collect();
        templates.sort_by_key(|template| std::cmp::Reverse(template.weight()));
        Self {
            conditions: catalogue.conditions,
            phases: catalogue.phases,
            templates,
        }
    }

    fn translate(&self, english: &str, depth: usize) -> Option<String> {
        if depth == DEPTH_MAX || english.len() > BYTES_MAX {
            return None;
        }
        self.sentence(english, depth)
            .or_else(|| self.parts(english, depth))
    }

    /// One sentence of the catalogue.
    fn sentence(&self, english: &str, depth: usize) -> Option<String> {
        self.templates.iter().find_map(|template| {
            let values = template.values(english, self)?;
            let or_same = |value: &str| {
                let translated = self.translate(value, depth + 1);
                translated.unwrap_or_else(|| value.to_owned())
            };
            Some(template.fill(values.into_iter().map(or_same)))
        })
    }

    /// Sentences with semicolons between them. A sentence may have semicolons of its own, so the
    /// longest is tried first.
    fn parts(&self, english: &str, depth: usize) -> Option<String> {
        let in_two = |(end, _)| (&english[..end], &english[end + 2..]);
        let ends = english.rmatch_indices("; ").map(in_two);
        let known = ends
            .into_iter()
            .find_map(|(first, rest)| Some((self.sentence(first, depth + 1)?, rest)));
        let Some((first, rest)) = known else {
            // A message of a plugin may stand before a sentence of the catalogue.
            let (first, rest) = english.split_once("; ")?;
            return Some(format!("{first}；{}", self.translate(rest, depth + 1)?));
        };
        let rest = self
            .translate(rest, depth + 1)
            .unwrap_or_else(|| rest.to_owned());
        Some(format!("{first}；{rest}"))
    }
}

/// The sentence in Chinese, if the catalogue has it.
pub fn chinese(english: &str) -> Option<String> {
    CHINESE.translate(english, 0)
}

/// What a condition means, in Chinese.
pub fn meaning_in_chinese(condition: &str) -> Option<&'static str> {
    CHINESE.conditions.get(condition).map(String::as_str)
}

/// What a value of a template may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    /// Any without a semicolon.
    Clause,
    Word,
    Number,
    Phase,
    Condition,
}

impl Kind {
    fn takes(self, value: &str, catalogue: &Chinese) -> bool {
        match self {
            Self::Any => !value.is_empty(),
            Self::Clause => !value.is_empty() && !value.contains("; "),
            Self::Word => !value.is_empty() && !value.contains(' '),
            Self::Number => {
                !value.is_empty()
                    && value
                        .bytes()
                        .all(|byte| byte.is_ascii_digit() || b".-".contains(&byte))
            }
            Self::Phase => catalogue.phases.contains_key(value),
            Self::Condition => catalogue.conditions.contains_key(value),
        }
    }
}

/// A sentence with places for values.
struct Template {
    /// The text before the first value.
    first: String,
    /// Each value with the text after it.
    values: Vec<(Kind, String)>,
    chinese: String,
}

impl Template {
    fn new(english: &str, chinese: &str) -> Self {
        let mut parts = english.split('{');
        let first = parts.next().unwrap_or_default().to_owned();
        let value = |part: &str| {
            let (name, after) = part.split_once('}').unwrap_or(("", part));
            let kind = match name {
                "word" => Kind::Word,
                "n" => Kind::Number,
                "phase" => Kind::Phase,
                "condition" => Kind::Condition,
                "text" => Kind::Clause,
                _ => Kind::Any,
            };
            (kind, after.to_owned())
        };
        Self {
            first,
            values: parts.map(value).collect(),
            chinese: chinese.to_owned(),
        }
    }

    /// The length of the text without the values.
    fn weight(&self) -> usize {
        let after = self.values.iter().map(|(_, after)| after.len());
        self.first.len() + after.sum::<usize>()
    }

    /// The values of a sentence that has the form of this template.
    fn values<'a>(&self, sentence: &'a str, catalogue: &Chinese) -> Option<Vec<&'a str>> {
        let mut rest = sentence.strip_prefix(self.first.as_str())?;
        let mut values = Vec::with_capacity(self.values.len());
        for (number, (kind, after)) in self.values.iter().enumerate() {
            let size = if number + 1 == self.values.len() {
                rest.strip_suffix(after.as_str())?.len()
            } else {
                rest.find(after.as_str())?
            };
            let value = &rest[..size];
            if !kind.takes(value, catalogue) {
                return None;
            }
            values.push(value);
            rest = &rest[size + after.len()..];
        }
        rest.is_empty().then_some(values)
    }

    fn fill(&self, values: impl Iterator<Item = String>) -> String {
        let values: Vec<String> = values.collect();
        let mut parts = self.chinese.split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (number, after) = part.split_once('}').unwrap_or(("", part));
            let value = number
                .parse()
                .ok()
                .and_then(|number: usize| values.get(number));
            // Blanks stand beside English words only.
            for piece in [value.map_or("", String::as_str), after] {
                if ends_chinese(text.trim_end()) && starts_chinese(piece) {
                    text.truncate(text.trim_end().len());
                }
                let rest = piece.trim_start();
                match ends_chinese(&text) && starts_chinese(rest) {
                    true => text.push_str(rest),
                    false => text.push_str(piece),
                }
            }
        }
        text
    }
}

fn is_chinese(letter: char) -> bool {
    matches!(letter, '\u{3000}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}')
}

fn starts_chinese(text: &str) -> bool {
    text.starts_with(is_chinese)
}

fn ends_chinese(text: &str) -> bool {
    text.ends_with(is_chinese)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(english: &str, expected: Option<&str>) {
        assert_eq!(chinese(english).as_deref(), expected, "{english}");
    }

    #[test]
    fn clauses_on_ranks_that_wait_are_translated_one_by_one() {
        check(
            "ranks 0, 1 wait in it; rank 2 waits in ALLREDUCE number 880; waited for 600 s",
            Some("rank 0, 1 在其中等待；rank 2 在 ALLREDUCE number 880 中等待；等待了 600 秒"),
        );
    }

    #[test]
    fn what_is_known_in_part_and_ends_that_never_connect_are_told() {
        check(
            "pid 7 recv 0: posted 8, done 0, consumed 0, quiet for at least 5.7 s, tested at most 69 times/s",
            Some(
                "pid 7 recv 0：已 post 8，已完成 0，已 consume 0，静默至少 5.7 秒，每秒最多 test 69 次",
            ),
        );
        check(
            "after 3.0 s, 2 of 2 connects and 0 of 0 accepts were still not ready (rc 0, no comm)",
            Some(
                "3.0 秒后，2 个 connect 中有 2 个、0 个 accept 中有 0 个仍未就绪（rc 0，没有 comm）",
            ),
        );
    }

    #[test]
    fn the_file_is_read_and_each_value_has_its_place() {
        let catalogue: Catalogue = toml::from_str(include_str!("chinese.toml")).expect("TOML");
        assert!(catalogue.conditions.values().all(|text| !text.is_ascii()));
        let logs: OfLogs = toml::from_str(include_str!("chinese-logs.toml")).expect("TOML");
        for (english, chinese) in [
            &catalogue.fixes,
            &catalogue.facts,
            &catalogue.phases,
            &catalogue.reasons,
            &logs.sentences,
        ]
        .into_iter()
        .flatten()
        {
            let template = Template::new(english, chinese);
            assert!(!chinese.is_ascii(), "{chinese}");
            for number in 0..template.values.len() {
                let place = format!("{{{number}}}");
                assert_eq!(chinese.matches(&place).count(), 1, "{place} in {chinese}");
            }
            assert_eq!(
                chinese.matches('{').count(),
                template.values.len(),
                "{chinese}"
            );
            let between = template.values.iter().rev().skip(1);
            assert!(
                between.into_iter().all(|(_, after)| !after.is_empty()),
                "two values touch: {english}"
            );
        }
    }

    #[test]
    fn no_blank_is_between_chinese_words() {
        check(
            "the log ends in accept of channel 3",
            Some("日志在通道 3 的 accept 中结束"),
        );
    }

    #[test]
    fn a_sentence_is_found_with_its_values() {
        check(
            "peer recv 1 on eth1: posted 116, done 116, consumed 100, quiet for 3.8 s, tested 0 times/s",
            Some(
                "peer recv 1 on eth1：已 post 116，已完成 116，已 consume 100，静默 3.8 秒，每秒 test 0 次",
            ),
        );
        check(
            "peer: its process called exit(1) while connecting",
            Some("peer：其进程在“建立连接”阶段调用了 exit(1)"),
        );
        check("no such sentence", None);
        check("", None);
    }

    #[test]
    fn a_reason_of_several_sentences_is_translated_in_parts() {
        check(
            "stalled, first seen by peer (recv channel 2: 16 in flight, quiet for 3050 ms; recv channel 0: 3 in flight); \
             window-never-consumed at peer: all 16 receives in flight are done, and none is handed back",
            Some(
                "停滞，首先由 peer 发现（recv 通道 2：16 个在途，静默 3050 ms；recv 通道 0：3 个在途）；\
                 peer 处的 window-never-consumed：全部 16 个在途接收都已完成，但没有一个被交还",
            ),
        );
        check(
            "local, connecting: it said no; its last WARN: x",
            Some("local，建立连接：it said no；最后的 WARN：x"),
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_translated_or_not(text in "([a-z:;,. (){}]| at | while |stalled, first seen by ){0,60}") {
            let _ = chinese(&text);
        }
    }
}
