//! The variables that a shell script sets, read without running it.
//!
//! A script is what people start their jobs with: `export NAME=VALUE`, `NAME=VALUE program`,
//! `mpirun -x NAME=VALUE`, `docker run -e NAME=VALUE`, or lines of an env file. Quotes, comments,
//! continued lines and `${NAME:-default}` are understood. What only a shell can tell, such as
//! `$(nproc)` and `$1`, is not guessed: the assignment is returned with that reason.
//! Conditions are not evaluated: what is behind one is marked.
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
    pub value: Value,
    /// Whether the script gets there only on a condition: behind `&&` or `||`, or within `if`, a loop or
    /// `case`.
    pub conditional: bool,
}

/// What a variable becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Known(String),
    /// What it would take to know it.
    Unknown(String),
    /// `unset NAME`.
    Unset,
}

impl From<Result<String, String>> for Value {
    fn from(expanded: Result<String, String>) -> Self {
        expanded.map_or_else(Self::Unknown, Self::Known)
    }
}

/// Every assignment in the order of the script. `variable` reads the environment in which the
/// script would run.
pub(super) fn assignments(
    script: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<Assignment> {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    let (mut all, mut place) = (Vec::new(), Place::default());
    let mut words = Words::new(script);
    while let Some((line, word)) = words.next() {
        let is_command = place.enter(&word, words.before);
        let found = |known: &BTreeMap<String, Value>, name: &str| match known.get(name) {
            Some(Value::Known(value)) => Some(Ok(value.clone())),
            Some(Value::Unknown(why)) => Some(Err(why.clone())),
            Some(Value::Unset) => None,
            None => variable(name).map(Ok),
        };
        let mut set = Vec::new();
        for (name, is_of_empty_too, text) in defaults(&word) {
            let now = found(&known, &name);
            let is_empty = now.as_ref().is_some_and(|now| now.as_deref() == Ok(""));
            if now.is_none() || is_empty && is_of_empty_too {
                let value = expand(&text, &|name| found(&known, name)).into();
                known.insert(name.clone(), Value::clone(&value));
                set.push((name, value));
            }
        }
        if place.unsets {
            if !is_command && is_name(&word) {
                set.push((word, Value::Unset));
            }
        } else if let Some((name, raw)) = split(&word) {
            let value = expand(&raw, &|name| found(&known, name)).into();
            set.push((name.to_owned(), value));
        }
        for (name, value) in set {
            known.insert(name.clone(), value.clone());
            all.push(Assignment {
                line,
                name,
                value,
                conditional: place.is_conditional(),
            });
        }
    }
    all
}

/// Where in a script a word is.
#[derive(Default)]
struct Place {
    /// `if`, loops and `case` that are open.
    depth: usize,
    /// Whether the command is behind `&&` or `||`.
    is_chained: bool,
    /// Whether the word is an argument of `unset`.
    unsets: bool,
    /// Whether the next word is the command: a word such as `then` was before it.
    begins: bool,
    /// Whether the name of a function was read, whose body follows.
    names_function: bool,
    /// The `{` that are open, and whether each is the body of a function: who calls it is not known.
    groups: Vec<bool>,
}

impl Place {
    /// Goes on to a word. Returns whether it is a command, or a word of the shell such as `then`.
    fn enter(&mut self, word: &str, before: Before) -> bool {
        let is_body = self.names_function && word == "{";
        if let Before::Space = before
            && !self.begins
            && !is_body
        {
            // `name ()`.
            self.names_function |= word == "(";
            return false;
        }
        (self.unsets, self.begins) = (false, false);
        match before {
            Before::Space => {}
            Before::Command => self.is_chained = false,
            Before::Condition => self.is_chained = true,
        }
        match word {
            "{" => {
                self.names_function = false;
                self.depth += usize::from(is_body);
                self.groups.push(is_body);
                self.begins = true;
            }
            "}" => {
                let was_body = self.groups.pop().unwrap_or(false);
                self.depth = self.depth.saturating_sub(usize::from(was_body));
            }
            "function" => self.names_function = true,
            _ if word.strip_suffix('(').is_some_and(is_name) => self.names_function = true,
            "if" | "while" | "until" | "for" | "case" | "select" => {
                self.depth += 1;
                self.begins = !matches!(word, "for" | "case" | "select");
            }
            "fi" | "done" | "esac" => self.depth = self.depth.saturating_sub(1),
            "then" | "do" | "else" | "elif" | "!" => self.begins = true,
            "unset" => self.unsets = true,
            _ => {}
        }
        true
    }

    fn is_conditional(&self) -> bool {
        self.depth > 0 || self.is_chained
    }
}

/// `${NAME:=TEXT}` and `${NAME=TEXT}` of a word, which set a variable: name, whether an empty one is set
/// too, and the text.
fn defaults(word: &str) -> Vec<(String, bool, String)> {
    let (mut all, mut from) = (Vec::new(), 0);
    while let Some(at) = word[from..].find("${").map(|at| from + at) {
        from = at + 2;
        let is_literal = word[..at].ends_with('\\') || word.starts_with('\'');
        let Some((inner, _)) = braced(&word[from..]).filter(|_| !is_literal) else {
            continue;
        };
        let end = name_end(inner);
        let (name, operator) = inner.split_at(end);
        let text = operator.strip_prefix(":=").map(|text| (true, text));
        let text = text.or_else(|| Some((false, operator.strip_prefix('=')?)));
        if let Some((is_of_empty_too, text)) = text.filter(|_| is_name(name)) {
            all.push((name.to_owned(), is_of_empty_too, text.to_owned()));
        }
    }
    all
}

/// The text up to the brace that closes it, and the rest.
fn braced(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

/// Where the name ends that a text begins with.
fn name_end(text: &str) -> usize {
    let other = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    other.unwrap_or(text.len())
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
    /// What is before the last word.
    before: Before,
    has_begun: bool,
    /// The ends of the here-documents that begin on the next line, and whether each may be indented by tabs.
    documents: Vec<(String, bool)>,
}

/// What separates a word from the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Space,
    /// The end of a command.
    Command,
    /// `&&` or `||`.
    Condition,
}

impl<'a> Words<'a> {
    fn new(script: &'a str) -> Self {
        Self {
            rest: script.chars().peekable(),
            line: 1,
            before: Before::Command,
            has_begun: false,
            documents: Vec::new(),
        }
    }

    fn next(&mut self) -> Option<(usize, String)> {
        if std::mem::replace(&mut self.has_begun, true) {
            self.before = Before::Space;
        }
        self.skip_space();
        let (mut line, mut word) = (self.line, String::new());
        // Brackets that are open, innermost last, as their closing characters; quotes too.
        let mut open: Vec<char> = Vec::new();
        while let Some(&c) = self.rest.peek() {
            let quoted = open.last().copied();
            let ends = c.is_whitespace() || matches!(c, ';' | '&' | '|' | '<' | '>');
            if open.is_empty() && (ends || c == ')') {
                if word.is_empty() {
                    self.separator();
                    self.skip_space();
                    line = self.line;
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

    /// Takes the end of a command, or a part of a redirection.
    fn separator(&mut self) {
        let taken = self.take();
        let is_twice = self.rest.peek().copied() == taken;
        self.before = match taken {
            Some('&' | '|') if is_twice => {
                self.take();
                Before::Condition
            }
            Some('<') if is_twice => {
                self.take();
                self.here_document();
                self.before
            }
            Some('<' | '>') => self.before,
            _ => Before::Command,
        };
    }

    /// Takes the word that ends the here-document of a `<<`. Behind `<<<` is a text instead.
    fn here_document(&mut self) {
        let is_indented = match self.rest.peek() {
            Some('<') => {
                self.take();
                return;
            }
            Some('-') => self.take().is_some(),
            _ => false,
        };
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let mut end = String::new();
        let ends = |c: &char| c.is_whitespace() || matches!(c, ';' | '&' | '|' | '<' | '>' | ')');
        while let Some(c) = self.rest.next_if(|c| !ends(c)) {
            end.extend(Some(c).filter(|c| !matches!(c, '\'' | '"' | '\\')));
        }
        self.documents.push((end, is_indented));
    }

    /// Takes the here-documents that begin on this line.
    fn skip_documents(&mut self) {
        for (end, is_indented) in std::mem::take(&mut self.documents) {
            while self.rest.peek().is_some() {
                let mut line = String::new();
                while let Some(c) = self.take().filter(|c| *c != '\n') {
                    line.push(c);
                }
                let text = match is_indented {
                    true => line.trim_start_matches('\t'),
                    false => line.as_str(),
                };
                if text == end {
                    break;
                }
            }
        }
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
                '\n' => {
                    self.take();
                    self.skip_documents();
                    // A command may go on in the line behind `&&`.
                    if self.before == Before::Space {
                        self.before = Before::Command;
                    }
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
        Some('(') => {
            rest.next();
            return Err(match rest.peek() {
                Some('(') => "arithmetic is not computed".to_owned(),
                _ => "a command computes it".to_owned(),
            });
        }
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
            let (name, operator) = inner.split_at(name_end(&inner));
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
        Some('\'') => return Err("`$'...'` is not understood".to_owned()),
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
            let value = match one.value {
                Value::Known(value) => value,
                Value::Unknown(why) => format!("({why})"),
                Value::Unset => "unset".to_owned(),
            };
            let condition = if one.conditional { "?" } else { "" };
            format!("{} {}{condition}={value}", one.line, one.name)
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
        check("if true; then A=1; fi; B=2", "1 A?=1\n1 B=2");
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

    #[test]
    fn here_documents_set_nothing_and_functions_set_on_a_condition() {
        let check = |script: &str, expected: &str| assert_eq!(said(script), expected, "{script}");
        check("cat <<EOF >x\nA=1\nEOF\nB=2", "4 B=2");
        check("cat <<-'E' | tee y\nA=1\n\tE\nB=2", "4 B=2");
        check("x <<A; y << B\nC=1\nA\nD=1\nB\nE=2", "6 E=2");
        check("A=1 x <<<B=2\nC=3", "1 A=1\n1 B=2\n2 C=3");
        check("x <<EOF\nA=1", "");
        check("f() {\nA=1\n}\nB=2", "2 A?=1\n4 B=2");
        check("function f {\n{ A=1; }\n}\n{ B=2; }", "2 A?=1\n4 B=2");
        check(
            "function f {\nA=1; }; g () { B=1; }; C=2",
            "2 A?=1\n2 B?=1\n2 C=2",
        );
        check("( A=1; ); B=2", "1 A=1\n1 B=2");
        check("A=$'x\\n'", "1 A=(`$'...'` is not understood)");
    }

    #[test]
    fn conditions_defaults_arithmetic_and_unset_are_told_apart() {
        let check = |script: &str, expected: &str| assert_eq!(said(script), expected, "{script}");
        check("A=$((64*1024))", "1 A=(arithmetic is not computed)");
        check("A=\"$(( 1 << 20 ))\"", "1 A=(arithmetic is not computed)");
        check(
            "[ -n \"$X\" ] && export A=1 B=2\nC=3",
            "1 A?=1\n1 B?=2\n2 C=3",
        );
        check("x ||\n  A=1; B=2", "2 A?=1\n2 B=2");
        check("A=1 ./prog 2>&1 | tee log && B=2", "1 A=1\n1 B?=2");
        check(
            "for i in 1 2; do\nA=$i\ndone\nB=2",
            "2 A?=($i is not set here)\n4 B=2",
        );
        check("case $1 in x) A=1;; esac; B=2", "1 A?=1\n1 B=2");
        check(": ${A:=3}; B=$A", "1 A=3\n1 B=3");
        check(": \"${HOME:=/x}\" ${A=4} '${C:=5}'", "1 A=4");
        check("A=; : ${A=1}; : ${A:=2}", "1 A=\n1 A=2");
        check(
            "A=1\nunset A -v\nB=${A:-9} C=$A",
            "1 A=1\n2 A=unset\n3 B=9\n3 C=($A is not set here)",
        );
        check("echo unset A; if x; then unset B; fi", "1 B?=unset");
    }

    proptest! {
        #[test]
        fn any_script_is_read_to_its_end(script in "[A=$(){}'\"`\\\\ \n#;:<-]{0,60}") {
            let lines = script.lines().count();
            for one in assignments(&script, |_| None) {
                prop_assert!(one.line >= 1 && one.line <= lines.max(1));
            }
        }
    }
}
