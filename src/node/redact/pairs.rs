//! The values of secret names, however name and value are laid out: `KEY=VALUE`,
//! `"key": "value"`, `key: value`, `--key value`, a header, a row of a table in Markdown or
//! HTML, an element of XML, `name: KEY` with `value: VALUE`, and columns.
//!
//! A layout that is not certain ends with the line. The value of a certain one may have lines.
#![forbid(unsafe_code)]

use super::ahead::Ahead;
use super::keys::{self, NAME_BYTES_MAX, Weak};
use super::lines::Line;
use super::literals::Literals;
use super::rows::BARS;
use super::signs::{length, quote, separator, space};
use super::{
    SECRET, commands, foreign, nested, ordinary, printed, secret_formats, sentences, shell, tables,
    telling,
};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use std::cell::Cell;
use std::ops::Range;
use std::sync::LazyLock;

/// Something that every secret name contains, in lower case.
const STEMS: [&str; 29] = [
    "code",
    "assertion",
    "assword",
    "bearer",
    "salt",
    "psw",
    "login",
    "token",
    "pass",
    "pwd",
    "secret",
    "key",
    "cred",
    "cookie",
    "auth",
    "connection",
    "webhook",
    "jwt",
    "otp",
    "kubeconfig",
    "pat",
    "sig",
    "dsn",
    "pin",
    "pw",
    "psk",
    "community",
    "mnemonic",
    "seed",
];
/// Longest value of several lines.
pub(super) const VALUE_BYTES_MAX: usize = 16 << 10;
/// Most bytes behind a name that are searched for a sign; a value in a column is further away.
const NEAR_BYTES_MAX: usize = 256;
/// Values that are found before the first ones are compared, of which many may be the same.
const FOUND_MIN: usize = 1 << 16;
/// Fewest bytes of a password behind a user and a slash.
const SLASH_BYTES_MIN: usize = 6;
/// Most spaces between a name, its separator and its value.
const SPACES_MAX: usize = 64;
/// Most tags that close elements at the end of a line, and the longest name of one.
const TAGS_MAX: usize = 4;
const TAG_BYTES_MAX: usize = 10;
/// Most words before the name in a prompt for a password.
const PROMPT_WORDS_MAX: usize = 3;
/// Longest type of a variable.
const TYPE_BYTES_MAX: usize = 32;
/// Commands of shells and files that stand before a variable and its value.
const SETTERS: [&str; 6] = [
    "setenv ",
    "ENV ",
    "set -gx ",
    "set -x ",
    "set -Ux ",
    "set -Ugx ",
];
/// Words of HTTP authentication that a credential follows.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "digest", "negotiate", "apikey"];
/// Names of headers whose value is the rest of the line.
const HEADERS: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
];

static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let mut builder = AhoCorasickBuilder::new();
    let stems = STEMS.iter().chain(&keys::FOREIGN);
    builder.ascii_case_insensitive(true).build(stems).ok()
});

/// The value of a secret name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) at: Range<usize>,
    /// Whether it cannot be a word of a sentence, such as `an` in `invalid token: an end`.
    pub(super) is_certain: bool,
    /// Whether only its line tells that it may be one.
    pub(super) is_of_line: bool,
}

impl Value {
    fn certain(at: Range<usize>) -> Self {
        Self {
            at,
            is_certain: true,
            is_of_line: false,
        }
    }

    fn likely(at: Range<usize>) -> Self {
        Self {
            is_certain: false,
            ..Self::certain(at)
        }
    }

    fn of_line(at: Range<usize>) -> Self {
        Self {
            is_of_line: true,
            ..Self::likely(at)
        }
    }
}

/// The values of all secret names in a text, in order. They may overlap.
pub(super) fn values(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let Some(finder) = &*FINDER else {
        // The stems are constants, so a finder was built.
        return found;
    };
    let mut from = 0;
    let mut lines = Lines::default();
    let mut line = Line::default();
    // What a weak name shares with the next one, a strong one has to look at.
    let (ends, weak_ends) = (Ends::default(), Ends::default());
    let mut most = FOUND_MIN;
    for stem in finder.find_iter(text) {
        if stem.start() < from {
            continue;
        }
        // Names in one row share its cells.
        if found.len() > most {
            sort(&mut found);
            most = FOUND_MIN.max(2 * found.len());
        }
        let name = name_around(text, stem.start());
        from = name.end;
        let before = &text[..name.start];
        let word = &text[name.clone()];
        let is_secret = match before.ends_with(['?', '&']) || before.ends_with("&amp;") {
            true => keys::is_secret_in_url(word),
            false => {
                keys::is_secret(word)
                    || is_key_of_two_words(before, word)
                    || is_grant(word, &text[name.end..])
            }
        };
        if is_of_language(before, word) || is_kind(before, word) {
            continue;
        }
        let number = sentences::number_behind(text, name.clone());
        found.extend(number.map(Value::likely));
        if is_secret {
            line.go_to(text, name.start);
            lines.name(text, &name, &line);
            secret(layout(text, name, line, &ends), &mut found);
        } else if let Some(weak) = keys::weak(word).filter(|weak| stands_alone(before, *weak)) {
            line.go_to(text, name.start);
            weak_name(layout(text, name, line, &weak_ends), weak, &mut found);
        }
    }
    let mut line = Line::default();
    let foreign_ends = Ends::default();
    foreign::names(text, |name| {
        line.go_to(text, name.start);
        lines.name(text, &name, &line);
        found.extend(sentences::number_behind(text, name.clone()).map(Value::likely));
        secret(layout(text, name, line, &foreign_ends), &mut found);
    });
    schemes(text, &mut found);
    let mut places = Vec::new();
    commands::places(text, &mut places);
    found.extend(places.into_iter().map(Value::certain));
    printed::secrets(text, &mut lines.places);
    shell::places(text, &mut lines.places);
    secret_formats::places(text, &mut lines.places);
    nested::places(text, &mut lines.places);
    found.extend(lines.places.into_iter().map(Value::of_line));
    found.retain(|value| !keys::is_absent(&text[value.at.clone()]));
    sort(&mut found);
    found
}

/// A value that is the rest of a line, without the tags that close its element behind it.
fn without_closing_tags(value: &str) -> &str {
    let mut value = value;
    for _ in 0..TAGS_MAX {
        let tag = value.trim_end().strip_suffix('>');
        let begin = tag.and_then(|inner| inner.rfind("</").map(|at| (at, &inner[at + 2..])));
        match begin {
            Some((at, name)) if is_tag_name(name) => value = &value[..at],
            _ => break,
        }
    }
    value
}

fn is_tag_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric();
    (1..=TAG_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_of_name)
}

/// Puts values in order, each once.
fn sort(found: &mut Vec<Value>) {
    found.sort_by_key(|value| {
        let Value {
            at,
            is_certain,
            is_of_line,
        } = value;
        (at.start, at.end, *is_certain, *is_of_line)
    });
    found.dedup();
}

/// Words on lines, and in columns of tables, that tell of a secret.
#[derive(Default)]
struct Lines {
    places: Vec<Range<usize>>,
    /// Where the last such line ended.
    end: usize,
}

impl Lines {
    fn name(&mut self, text: &str, name: &Range<usize>, line: &Line) {
        tables::column(text, name, &(line.row..line.row_end), &mut self.places);
        let tells = telling::is_strong(&text[..name.start], &text[name.clone()])
            || telling::is_printed(&text[line.row..name.start]);
        if name.start >= self.end && tells {
            self.end = telling::around(text, name, self.end, &mut self.places);
        }
    }
}

/// Whether a token is one of a language: `the pad token is …`.
fn is_of_language(before: &str, word: &str) -> bool {
    let is_token = word.eq_ignore_ascii_case("token") || word.eq_ignore_ascii_case("tokens");
    let last = || {
        before
            .trim_end_matches([' ', '-'])
            .rsplit(|letter: char| !letter.is_alphanumeric())
            .next()
    };
    is_token && before.ends_with([' ', '-']) && last().is_some_and(keys::is_before_token)
}

/// Whether `Secret` is the kind of an object of Kubernetes.
fn is_kind(before: &str, word: &str) -> bool {
    let before = before.trim_end_matches(|letter: char| " :\"'\\".contains(letter));
    word == "Secret" && before.ends_with("kind")
}

/// The values of a name that always stands for a secret.
fn secret(layout: Layout<'_>, found: &mut Vec<Value>) {
    let (text, name) = (layout.text, layout.name.clone());
    let count = found.len();
    layout.values(found);
    let word = &text[name.clone()];
    found.extend(sentences::dump_behind(text, name.end).map(Value::likely));
    if found.len() == count && word != SECRET {
        let told = sentences::behind(text, name, true, &layout.ends.told);
        found.extend(told.map(Value::likely));
    }
    let values = found.split_off(count);
    let pairs = values
        .iter()
        .filter_map(|value| behind_slash(text, value.at.end));
    found.extend(pairs.map(Value::likely));
    let is_other = |value: &Value| keys::is_other(word, &text[value.at.clone()]);
    found.extend(values.into_iter().filter(|value| !is_other(value)));
}

/// Whether this is a whole cell of a row behind another one, whose row is about that one.
fn is_later_cell(text: &str, start: usize, end: usize) -> bool {
    let (before, behind) = (text[..start].trim_end_matches(' '), &text[end..]);
    if before.ends_with("</td><td>") {
        return behind.starts_with("</td>");
    }
    let row = before
        .strip_suffix(BARS)
        .and_then(|before| before.rsplit('\n').next())
        .unwrap_or_default();
    let is_of_cell = |letter: char| letter != ' ' && !BARS.contains(&letter);
    row.contains(is_of_cell) && behind.trim_start_matches(' ').starts_with(BARS)
}

/// The values of a name that may stand for a secret, which what they look like decides.
fn weak_name(layout: Layout<'_>, weak: Weak, found: &mut Vec<Value>) {
    let (text, end) = (layout.text, layout.name.end);
    // The result of a test, before its name.
    let is_result = &text[layout.name.clone()] == "PASS"
        && (text[end..].starts_with(": ") || is_later_cell(text, layout.name.start, end));
    let weak = if is_result { Weak::Alone } else { weak };
    let count = found.len();
    layout.values(found);
    for mut value in found.split_off(count) {
        // Of the rest of a line, the first word.
        let start = value.at.start;
        let space = &layout.ends.space;
        let next = space.find(text, start, |rest| rest.find(char::is_whitespace));
        let first = &text[start..next.min(value.at.end)];
        value.at.end = start + first.trim_end_matches([',', ';', ')']).len();
        let written = &text[value.at.clone()];
        // The next string of a list, and the first word of a sentence.
        let between = text.get(end..value.at.start).unwrap_or_default();
        let near = &between[..between.floor_char_boundary(NEAR_BYTES_MAX)];
        let is_list = !near.contains(['=', ':', '\u{ff1a}', '\u{ff1d}']) && near.contains(',');
        let is_sentence = between.ends_with(": ")
            && text[value.at.end..].starts_with(' ')
            && text[value.at.end..]
                .trim_start()
                .starts_with(|letter: char| letter.is_lowercase());
        let weak = match weak {
            Weak::Pass | Weak::Pin if is_list || is_sentence => Weak::Alone,
            other => other,
        };
        if matches!(weak, Weak::Login | Weak::Pass) {
            found.extend(behind_slash(text, value.at.end).map(Value::likely));
        }
        if !weak.is_secret(written) {
            continue;
        }
        if let (Weak::Login, Some(password)) = (weak, keys::login(written)) {
            value.at.start = value.at.end - password.len();
        }
        found.push(value);
    }
    if found.len() == count {
        let told = match weak {
            Weak::Login => sentences::login_behind(text, end),
            Weak::Pass | Weak::Alone | Weak::Key | Weak::Pin => {
                let before = &text[layout.line.begin..layout.name.start];
                let is_strong = weak == Weak::Pin || sentences::is_behind_user(before);
                sentences::behind(text, layout.name.clone(), is_strong, &layout.ends.told)
            }
            Weak::Part => None,
        };
        found.extend(told.map(Value::likely));
    }
}

/// The password of `login: user / VALUE`, at the end of its line.
fn behind_slash(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text[at..].strip_prefix(" / ")?;
    let end = length(rest, ends_word);
    let is_last = rest[end..].is_empty() || rest[end..].starts_with(['\n', '\r']);
    let at = text.len() - rest.len();
    (is_last && end >= SLASH_BYTES_MIN).then_some(at..at + end)
}

/// `API key`, `access key`, `recovery code`.
fn is_key_of_two_words(before: &str, word: &str) -> bool {
    let is_before = match word {
        _ if ["key", "keys"]
            .iter()
            .any(|key| word.eq_ignore_ascii_case(key)) =>
        {
            keys::is_before_key
        }
        "code" | "Code" | "codes" | "Codes" => keys::is_before_code,
        _ => return false,
    };
    let words = before.strip_suffix([' ', '-']);
    let last = words.and_then(|words| {
        words
            .rsplit(|letter: char| !letter.is_alphanumeric())
            .next()
    });
    last.is_some_and(is_before)
}

/// Whether a code is exchanged for a token of OAuth: `code=VALUE&state=x`.
fn is_grant(word: &str, behind: &str) -> bool {
    const BESIDE: [&str; 3] = ["&state=", "&grant_type=", "&client_id="];
    let near = || &behind[..behind.floor_char_boundary(NEAR_BYTES_MAX.min(behind.len()))];
    // The status of an answer is a number.
    let value = behind.strip_prefix('=').unwrap_or_default();
    let is_number = value
        .trim_start_matches(|letter: char| letter.is_ascii_digit())
        .starts_with('&');
    word == "code"
        && !value.is_empty()
        && !is_number
        && BESIDE.iter().any(|part| near().contains(part))
}

/// Whether a name of one word is no part of a longer one, such as `comm key`.
fn stands_alone(before: &str, weak: Weak) -> bool {
    const SETTERS: [&str; 11] = [
        "export", "env", "set", "-e", "with", "and", "the", "using", "Debugger", "your", "Your",
    ];
    let is_behind_word = before.ends_with(' ')
        && before
            .trim_end()
            .ends_with(|letter: char| letter.is_alphanumeric());
    if !matches!(weak, Weak::Alone | Weak::Key | Weak::Pin) || !is_behind_word {
        return true;
    }
    let last = before.trim_end().rsplit(char::is_whitespace).next();
    last.is_some_and(|last| SETTERS.contains(&last))
}

/// As they are written before credentials.
const WRITTEN: [&str; 4] = ["Bearer ", "bearer ", "Basic ", "BEARER "];

/// `Basic dXNlcjpwYXNz` outside a header.
fn schemes(text: &str, found: &mut Vec<Value>) {
    static FINDER: LazyLock<Literals> = LazyLock::new(|| Literals::new(WRITTEN));
    for (which, at) in FINDER.find(text) {
        let at = at + WRITTEN[which].len();
        let end = at + length(&text[at..], ends_word);
        let credential = &text[at..end];
        // `basic` is also an ordinary word, so a credential is long.
        if credential.len() >= 12
            && (!keys::is_words(credential) || ordinary::is_unknown(credential))
        {
            found.push(Value::certain(at..end));
        }
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

/// The name that the byte at `at` belongs to.
fn name_around(text: &str, at: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes[..at]
        .iter()
        .rev()
        .take(NAME_BYTES_MAX)
        .take_while(|byte| is_of_name(**byte))
        .count();
    let after = bytes[at..]
        .iter()
        .take(NAME_BYTES_MAX)
        .take_while(|byte| is_of_name(**byte))
        .count();
    // A full stop ends a sentence.
    let end = at + text[at..at + after].trim_end_matches('.').len();
    // A colour of a terminal.
    let begin = at - before;
    let colour = match text[..begin].ends_with("\u{1b}[") {
        true => text[begin..at].find('m').map_or(0, |end| end + 1),
        false => 0,
    };
    begin + colour..end
}

/// Ends a value without quotes.
fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'`<>\0\x1b".contains(&byte)
}

pub(super) fn ends_line(byte: u8) -> bool {
    b"\r\n\0".contains(&byte)
}

/// A secret name and the text that it stands in.
pub(super) struct Layout<'a> {
    pub(super) text: &'a str,
    pub(super) name: Range<usize>,
    pub(super) line: Line,
    pub(super) ends: &'a Ends,
}

fn layout<'a>(text: &'a str, name: Range<usize>, line: Line, ends: &'a Ends) -> Layout<'a> {
    Layout {
        text,
        name,
        line,
        ends,
    }
}

/// The ends of what was searched from the last names. A value may be full of names whose values end where it ends.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) line: Ahead,
    /// Of a value without quotes, with the lines on which it goes on.
    value: Ahead,
    header: Ahead,
    query: Ahead,
    list: Ahead,
    pub(super) tag: Ahead,
    space: Ahead,
    told: Ahead,
    /// Of the tag behind a name.
    pub(super) close: Ahead,
    /// Of a row in HTML, and its first cell.
    pub(super) row: Ahead,
    pub(super) cell: Ahead,
    /// Where the last row in HTML was read to. The cells behind it are those of the next name in it.
    pub(super) read: Cell<usize>,
    /// An escaped line end.
    pub(super) escape: Ahead,
}

impl Layout<'_> {
    fn values(&self, found: &mut Vec<Value>) {
        let name = &self.text[self.name.clone()];
        let behind = self.name.end;
        let at = self.skip_quotes(behind);
        let is_quoted = at > behind;
        let is_option = name.starts_with('-');
        let is_certain = is_quoted || is_option || keys::is_variable(name);
        let spaced = self.skip_spaces(at);
        let rest = &self.text[spaced..];
        if let Some(separator) = separator(rest) {
            return self.assigned(spaced + separator.len(), separator, is_certain, found);
        }
        if rest.starts_with(BARS) && name != SECRET {
            return self.cells(spaced, found);
        }
        if rest.starts_with("</") {
            self.next_element(spaced, found);
            return self.html_cells(spaced, found);
        }
        // `<entry key="password">VALUE</entry>`.
        if is_quoted && rest.starts_with('>') {
            return self.element(spaced + 1, false, found);
        }
        let before = &self.text[..self.name.start];
        if before.ends_with("</") {
            return;
        }
        if before.ends_with('<') {
            // Attributes may follow the name.
            let tag = length(rest, |byte| b"<>\n".contains(&byte));
            let is_open = rest[tag..].starts_with('>') && !rest[..tag].ends_with('/');
            if is_open {
                self.element(spaced + tag + 1, true, found);
            }
            return;
        }
        if is_quoted {
            return self.next_string(at, found);
        }
        let gap = &self.text[behind..spaced];
        // `--password-stdin` takes no argument.
        if is_option && name.ends_with("stdin") {
            return;
        }
        if is_option && (!gap.is_empty() || rest.starts_with(['\0', '\n'])) {
            let at = self.skip_white(spaced);
            if !self.text[at..].starts_with('-') {
                self.one(at, is_certain, found);
            }
            return;
        }
        if keys::is_variable(name) && SETTERS.iter().any(|setter| before.ends_with(setter)) {
            return self.one(spaced, true, found);
        }
        if self.line.is_configured && !gap.is_empty() {
            return self.one(spaced, true, found);
        }
        let is_column = gap.contains('\t') || gap.len() > 1;
        if rest.starts_with('(') {
            return self.arguments(spaced, found);
        }
        let count = found.len();
        if rest.starts_with(',') {
            self.named_value(spaced + 1, found);
        }
        self.csv_column(found);
        self.value_above(found);
        if found.len() == count && keys::is_variable(name) && (is_column || rest.starts_with(',')) {
            let at = self.skip_spaces(spaced + usize::from(rest.starts_with(',')));
            return self.one(at, true, found);
        }
        if keys::is_variable(name) {
            self.named_value(spaced, found);
        }
    }

    /// What follows `=` or `:`.
    fn assigned(&self, behind: usize, separator: &str, is_certain: bool, found: &mut Vec<Value>) {
        let name = &self.text[self.name.clone()];
        let line = self.line.begin;
        let before = &self.text[line..self.name.start];
        let mut signs = ["- ", "> ", "< ", "* "].iter();
        let indent = signs.find_map(|sign| before.strip_suffix(sign));
        let begins_line = indent.unwrap_or(before).trim_end().is_empty();
        let is_header = HEADERS
            .iter()
            .any(|header| name.eq_ignore_ascii_case(header));
        let is_query = before.ends_with(['?', '&']) || before.ends_with("&amp;");
        let at = self.skip_spaces(behind);
        let rest = &self.text[at..];
        let is_certain = is_certain || is_query || is_header;
        // The string of a prompt ends: `expect "Password:"`.
        // The end of bold in Markdown: `**Token:** VALUE`.
        let stars = length(rest, |byte| byte != b'*');
        if stars == 2 && before.ends_with("**") {
            return self.one(self.skip_spaces(at + stars), is_certain, found);
        }
        if let Some(typed) = behind_type(rest).filter(|_| separator == ":") {
            return self.one(at + typed, true, found);
        }
        if behind == self.name.end + separator.len() && self.line.ends_string(rest) {
            return;
        }
        if separator != "=" && rest.starts_with(['\n', '\r']) {
            let is_quoted = self.skip_quotes(self.name.end) > self.name.end;
            return self.next_line(line, at, is_quoted, found);
        }
        let block = rest.starts_with(['|', '>']) && separator == ":";
        let is_short = rest.len() <= 3 || rest.bytes().take(4).any(ends_line);
        if block && is_short {
            return self.block(line, at, found);
        }
        if rest.starts_with("<<") {
            return self.here_document(at, found);
        }
        if rest.starts_with('(') {
            return self.arguments(at, found);
        }
        if rest.starts_with('[') {
            let end = self.ends.list.find(self.text, at, |rest| rest.find(']'));
            let most = at + as_far_as_a_value(rest).len();
            return self.push(at + 1..end.min(most), true, found);
        }
        let is_prompt = || keys::is_phrase(name) && is_before_prompt(before);
        let is_line = (begins_line || is_prompt()) && separator == ":" && quote(rest).is_none();
        if is_header || is_line {
            // The parts of a digest are in quotes.
            let is_digest = is_header
                && rest
                    .get(..7)
                    .is_some_and(|word| word.eq_ignore_ascii_case("digest "));
            let at = self.skip_scheme(at);
            let ends_header = |byte| ends_line(byte) || b"\"`".contains(&byte);
            let end = match is_digest {
                true => self.line_end(at),
                false => self.end(&self.ends.header, at, ends_header),
            };
            let end = at + without_closing_tags(&self.text[at..end]).len();
            return self.push(at..end, is_certain, found);
        }
        if is_query {
            let ends_query = |byte| ends_word(byte) || b"&#;,)".contains(&byte);
            return self.push(at..self.end(&self.ends.query, at, ends_query), true, found);
        }
        self.one(at, is_certain || separator != ":", found);
    }

    /// One value: in quotes or braces, or up to the next space.
    pub(super) fn one(&self, at: usize, is_certain: bool, found: &mut Vec<Value>) {
        let mut at = at;
        for wrapper in ["Some(", "Ok(", "b", "r", "u", "f", "$"] {
            let behind = self.text[at..].strip_prefix(wrapper);
            at += behind.and_then(quote).map_or(0, |_| wrapper.len());
        }
        let rest = &self.text[at..];
        if let Some(quote) = quote(rest) {
            let from = at + quote.len();
            let end = self.end_of_string(from, quote);
            return self.push(from..end, true, found);
        }
        let at = self.skip_scheme(at);
        let end = self.end_of_word(at);
        // As ODBC writes it; of Python, this is a reference.
        let inner = self.text[at..end].strip_prefix('{');
        let close = inner.and_then(|inner| inner.find('}'));
        if let Some(close) = close.filter(|close| *close > 0) {
            return self.push(at + 1..at + 1 + close, is_certain, found);
        }
        let trimmed = self.text[at..end].trim_end_matches([',', ';', ')', ']', '}']);
        self.push(at..at + trimmed.len(), is_certain, found);
    }

    /// The end of a value without quotes.
    fn end_of_word(&self, at: usize) -> usize {
        let text = self.text;
        if text[at..].bytes().next().is_none_or(ends_word) {
            return at;
        }
        self.ends.value.find(text, at, |rest| {
            let mut end = at + length(rest, ends_word);
            // A line that goes on.
            while text[at..end].ends_with('\\') && text[end..].starts_with('\n') {
                let next = self.skip_spaces(end + 1);
                end = next + length(&text[next..], ends_word);
            }
            Some(end - at)
        })
    }

    /// The first byte at or behind `at` that ends something.
    fn end(&self, ahead: &Ahead, at: usize, ends: impl Fn(u8) -> bool) -> usize {
        ahead.find(self.text, at, |rest| rest.bytes().position(ends))
    }

    pub(super) fn line_end(&self, at: usize) -> usize {
        self.end(&self.ends.line, at, ends_line)
    }

    /// The end of a string that has begun, without the quote; the end of the line if nothing
    /// ends the string.
    pub(super) fn end_of_string(&self, from: usize, quote: &str) -> usize {
        let rest = &self.text[from..];
        let most = as_far_as_a_value(rest);
        let mut at = 0;
        while let Some(next) = most[at..].find(quote) {
            let end = at + next;
            let escapes = rest[..end]
                .bytes()
                .rev()
                .take_while(|byte| *byte == b'\\')
                .count();
            // Of a string in a string, the quotes inside have more escapes.
            let is_end = match quote.starts_with('\\') {
                true => escapes == 0,
                false => escapes % 2 == 0,
            };
            if is_end {
                return from + end;
            }
            at = end + quote.len();
        }
        self.line_end(from)
    }

    pub(super) fn skip_quotes(&self, at: usize) -> usize {
        let mut at = at;
        while let Some(quote) = quote(&self.text[at..]) {
            at += quote.len();
        }
        // Bold in Markdown, and the end of a subscript.
        at + length(&self.text[at..], |byte| !b"*]".contains(&byte))
    }

    /// The credential behind `Bearer ` or `Basic `.
    fn skip_scheme(&self, at: usize) -> usize {
        let rest = &self.text.as_bytes()[at..];
        let is_scheme = |scheme: &&&str| {
            let word = rest.get(..scheme.len());
            let ends = rest.get(scheme.len()).is_none_or(|byte| ends_word(*byte));
            ends && word.is_some_and(|word| word.eq_ignore_ascii_case(scheme.as_bytes()))
        };
        let Some(scheme) = SCHEMES.iter().find(is_scheme) else {
            return at;
        };
        let word = at + scheme.len();
        let next = self.skip_spaces(word);
        let behind = self.text.as_bytes().get(next);
        let is_last = next == word || behind.is_none_or(|byte| ends_word(*byte));
        if is_last { at } else { next }
    }

    pub(super) fn skip_spaces(&self, at: usize) -> usize {
        let mut end = at;
        while end - at < SPACES_MAX {
            match space(&self.text[end..]) {
                0 => break,
                length => end += length,
            }
        }
        end
    }

    pub(super) fn skip_white(&self, at: usize) -> usize {
        let is_white = |byte: u8| byte.is_ascii_whitespace() || byte == 0;
        at + length(&self.text[at..], |byte| !is_white(byte)).min(SPACES_MAX)
    }

    pub(super) fn push(&self, at: Range<usize>, is_certain: bool, found: &mut Vec<Value>) {
        let end = self.text.floor_char_boundary(at.end);
        if at.start < end {
            found.push(Value {
                is_certain,
                ..Value::certain(at.start..end)
            });
        }
    }
}

/// The beginning of a text that the longest value fills.
pub(super) fn as_far_as_a_value(text: &str) -> &str {
    &text[..text.floor_char_boundary(VALUE_BYTES_MAX)]
}

/// Whether a few words or the end of a header stand before the name of a password: `Enter`, `INFO - `, `[1,0]<stdout>:`.
fn is_before_prompt(before: &str) -> bool {
    let before = before.trim_end();
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let mut words = before.split_whitespace();
    before.ends_with([')', ']', '>', '-', '|', ':'])
        || words.by_ref().take(PROMPT_WORDS_MAX).all(is_word) && words.next().is_none()
}

/// Where the string begins behind the type of a variable: `string = 'VALUE'`.
fn behind_type(rest: &str) -> Option<usize> {
    let of_type = |byte: u8| byte.is_ascii_alphanumeric() || b"&<>?_".contains(&byte);
    let near = &rest.as_bytes()[..rest.len().min(TYPE_BYTES_MAX)];
    let length = near.iter().take_while(|byte| of_type(**byte)).count();
    let behind = rest[length..].strip_prefix(" = ")?;
    (length > 0 && quote(behind).is_some()).then(|| rest.len() - behind.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_full_of_names_is_passed_over_once() {
        for piece in [
            "password:",
            "auth:",
            "?token=",
            "password+",
            "key=1\\\n",
            "password:| ",
            "token=[",
            "</td>token</td><td>x",
            "Authorization: Bearer ",
            "\u{5bc6}\u{7801}\u{ff1a}",
            "password is ",
        ] {
            // A search to the end of the word or of the line from each name takes minutes.
            let text = piece.repeat(1 << 13);
            let found = values(&text).len();
            assert!(found <= 4 * (1 << 13), "{piece} {found}");
        }
    }

    #[test]
    fn the_cells_of_a_row_in_html_are_read_once_for_all_names_in_it() {
        let row = |cell: &str| cell.repeat(1 << 10) + "<td>kestralbavo</td></tr>";
        for cell in ["<td>key</td>", "<td>password</td>"] {
            // As many cells for each of the names are 256 times as many.
            assert!(values(&row(cell)).len() <= 2 << 10, "{cell}");
        }
        let text = row("<td>key</td><td>password</td>");
        let last = text.find("kestral").unwrap_or_default();
        assert!(values(&text).iter().any(|value| value.at.start == last));
    }

    #[test]
    fn a_long_line_full_of_names_is_searched_once() {
        // A search from each name takes minutes.
        let text = "x token y key z, \"password\": q, ".repeat(1 << 15);
        assert!(values(&text).len() < 1 << 17);
    }
}
