//! The variables that a shell script sets, read without running it.
//!
//! A script is what people start their jobs with: `export NAME=VALUE`, `NAME=VALUE program`,
//! `mpirun -x NAME=VALUE`, `docker run -e NAME=VALUE`, or lines of an env file. Quotes, comments,
//! continued lines and `${NAME:-default}` are understood. What only a shell can tell, such as
//! `$(nproc)` and `$1`, is not guessed: the assignment is returned with that reason.
//!
//! Not here: which of the variables matter (`imported`).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    /// Line of the script, from 1.
    pub line: usize,
    pub name: String,
    /// The value, or what it would take to know it.
    pub value: Result<String, String>,
}

/// Every assignment in the order of the script. `variable` reads the environment in which the
/// script would run.
pub(super) fn assignments(
    script: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<Assignment> {
    let mut known: BTreeMap<String, Result<String, String>> = BTreeMap::new();
    let mut all = Vec::new();
    let mut words = Words::new(script);
    while let Some((line, word)) = words.next() {
        let Some((name, raw)) = split(&word) else {
            continue;
        };
        let expanded = expand(&raw, &|name| match known.get(name) {
            Some(value) => Some(value.clone()),
            None => variable(name).map(Ok),
        });
        known.insert(name.to_owned(), expanded.clone());
        all.push(Assignment {
            line,
            name: name.to_owned(),
            value: expanded,
        });
    }
    all
}

/// Name and raw value of a word such as `NAME=VALUE`, `--env=NAME=VALUE` or `"NAME=VALUE"`.
fn split(word: &str) -> Option<(&str, String)> {
    let word = word.strip_prefix("--env=").unwrap_or(word);
    let quote = word.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (name, value) = word[quote.map_or(0, char::len_utf8)..].split_once('=')?;
    // An opening quote in front of the name is in front of the value, too.
    let value = quote.map_or(value.to_owned(), |quote| format!("{quote}{value}"));
    is_name(name).then_some((name, value))
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The words of a script, with their quotes, and the line on which each begins.
struct Words<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl<'a> Words<'a> {
    fn new(script: &'a str) -> Self {
        Self {
            rest: script.chars().peekable(),
            line: 1,
        }
    }

    fn next(&mut self) -> Option<(usize, String)> {
        self.skip_space();
        let (line, mut word) = (self.line, String::new());
        // Brackets that are open, innermost last, as their closing characters; quotes too.
        let mut open: Vec<char> = Vec::new();
        while let Some(&c) = self.rest.peek() {
            let quoted = open.last().copied();
            let ends = c.is_whitespace() || matches!(c, ';' | '&' | '|' | '<' | '>');
            if open.is_empty() && (ends || c == ')') {
                if word.is_empty() {
                    self.take();
                    self.skip_space();
                    continue;
                }
                break;
            }
            self.take();
            match (quoted, c) {
                (Some('\''), '\'') => drop(open.pop()),
                (Some('\''), _) => {}
                (_, '\\') => match self.take() {
                    // A continued line.
                    Some('\n') => continue,
                    Some(escaped) => {
                        word.push(c);
                        word.push(escaped);
                        continue;
                    }
                    None => {}
                },
                (Some(close), c) if c == close => drop(open.pop()),
                (Some('"'), '\'') => {}
                (_, '\'' | '"' | '`') => open.push(c),
                (_, '(') if word.ends_with('$') || quoted == Some(')') => open.push(')'),
                (_, '{') if word.ends_with('$') => open.push('}'),
                _ => {}
            }
            word.push(c);
        }
        (!word.is_empty()).then_some((line, word))
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.next();
        self.line += usize::from(c == Some('\n'));
        c
    }

    fn skip_space(&mut self) {
        while let Some(&c) = self.rest.peek() {
            match c {
                '#' => {
                    while self.rest.peek().is_some_and(|c| *c != '\n') {
                        self.take();
                    }
                }
                '\\' => {
                    let mut ahead = self.rest.clone();
                    ahead.next();
                    if ahead.next() != Some('\n') {
                        return;
                    }
                    self.take();
                    self.take();
                }
                c if c.is_whitespace() => drop(self.take()),
                _ => return,
            }
        }
    }
}

/// The value of a raw word, as a shell expands it.
fn expand(
    raw: &str,
    variable: &dyn Fn(&str) -> Option<Result<String, String>>,
) -> Result<String, String> {
    let (mut value, mut rest) = (String::new(), raw.chars().peekable());
    let (mut single, mut double) = (false, false);
    while let Some(c) = rest.next() {
        match c {
            '\'' if !double => single = !single,
            _ if single => value.push(c),
            '"' => double = !double,
            '\\' => {
                let next = rest.next().unwrap_or('\\');
                // Within double quotes, a backslash escapes these four only.
                if double && !matches!(next, '$' | '`' | '"' | '\\') {
                    value.push('\\');
                }
                value.push(next);
            }
            '`' => return Err("a command computes it".to_owned()),
            '$' => value += &reference(&mut rest, variable)?,
            c => value.push(c),
        }
    }
    Ok(value)
}

/// What follows a `$`.
fn reference(
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    variable: &dyn Fn(&str) -> Option<Result<String, String>>,
) -> Result<String, String> {
    let mut name = String::new();
    match rest.peek() {
        Some('(') => return Err("a command computes it".to_owned()),
        Some('{') => {
            rest.next();
            let (mut depth, mut inner) = (1, String::new());
            for c in rest.by_ref() {
                depth += i32::from(c == '{') - i32::from(c == '}');
                if depth == 0 {
                    break;
                }
                inner.push(c);
            }
            let end = inner
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(inner.len());
            let (name, operator) = inner.split_at(end);
            let found = variable(name);
            if operator.is_empty() {
                return named(name, found);
            }
            let is_set_text = |value: &Result<String, String>| {
                value.as_ref().map_or(true, |text| !text.is_empty())
            };
            let default = [":-", ":=", "-", "="]
                .iter()
                .find_map(|form| operator.strip_prefix(form).map(|text| (*form, text)));
            return match default {
                Some((form, _)) if !form.starts_with(':') && found.is_some() => named(name, found),
                Some((_, _)) if found.as_ref().is_some_and(is_set_text) => named(name, found),
                Some((_, text)) => expand(text, variable),
                None => Err(format!("`${{{inner}}}` is not understood")),
            };
        }
        _ => {}
    }
    while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
        name.push(c);
    }
    named(&name, variable(&name))
}

fn named(name: &str, found: Option<Result<String, String>>) -> Result<String, String> {
    if !is_name(name) {
        return Err("an argument of the script decides it".to_owned());
    }
    found.unwrap_or_else(|| Err(format!("${name} is not set here")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(script: &str) -> String {
        let here = |name: &str| (name == "HOME").then(|| "/root".to_owned());
        let shown = assignments(script, here).into_iter().map(|one| {
            let value = one.value.unwrap_or_else(|why| format!("({why})"));
            format!("{} {}={value}", one.line, one.name)
        });
        shown.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_way_to_set_a_variable_is_read() {
        let check = |script: &str, expected: &str| assert_eq!(said(script), expected, "{script}");
        check("export A=1 B=two # C=3", "1 A=1\n1 B=two");
        check("A='x $y' B=\"q r\" ./program --a=b", "1 A=x $y\n1 B=q r");
        check(
            "mpirun -np 2 \\\n  -x A=1 \\\n  -x B=2 \\\n  prog",
            "2 A=1\n3 B=2",
        );
        check(
            "docker run -e A=1 --env B=2 --env=C=3 -e \"D=4 5\" image",
            "1 A=1\n1 B=2\n1 C=3\n1 D=4 5",
        );
        check("if true; then A=1; fi", "1 A=1");
        check("# A=1\n\nB=2", "3 B=2");
        check("A=a\\ b", "1 A=a b");
        check("A=", "1 A=");
    }

    #[test]
    fn references_are_expanded_and_never_guessed() {
        let check = |script: &str, expected: &str| assert_eq!(said(script), expected, "{script}");
        check("A=1\nB=${A}0 C=\"$A-x\"", "1 A=1\n2 B=10\n2 C=1-x");
        check(
            "A=${N:-8} B=${HOME:-/x} C=${N-9}",
            "1 A=8\n1 B=/root\n1 C=9",
        );
        check("A=${N:-${M:-4}}", "1 A=4");
        check(
            "A=$(nproc) B=`hostname` C=$1 D=$NOPE E=${X#y}",
            "1 A=(a command computes it)\n1 B=(a command computes it)\n1 C=(an argument of the script decides it)\n\
             1 D=($NOPE is not set here)\n1 E=(`${X#y}` is not understood)",
        );
        check(
            "A=$(echo \"b c\" | wc) B=2",
            "1 A=(a command computes it)\n1 B=2",
        );
    }

    proptest! {
        #[test]
        fn any_script_is_read_to_its_end(script in "[A=$(){}'\"`\\\\ \n#;:-]{0,60}") {
            let lines = script.lines().count();
            for one in assignments(&script, |_| None) {
                prop_assert!(one.line >= 1 && one.line <= lines.max(1));
            }
        }
    }
}
