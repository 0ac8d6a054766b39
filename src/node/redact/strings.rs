//! Values in the strings and elements behind a name: of a list, of a call, of an object that names what it is about, and of XML.
#![forbid(unsafe_code)]

use super::keys;
use super::pairs::{Layout, Value, as_far_as_a_value};
use super::signs::{quote, separator};

/// Most arguments of a call.
const ARGUMENTS_MAX: usize = 8;
/// Keys and elements of the value that a key or an element before them names.
const VALUE_KEYS: [&str; 4] = ["value", "default", "val", "content"];
const VALUE_ELEMENTS: [&str; 3] = ["<value>", "<string>", "<data>"];

impl Layout<'_> {
    /// `<password>VALUE</password>`.
    pub(super) fn element(&self, at: usize, is_certain: bool, found: &mut Vec<Value>) {
        const CDATA: &str = "<![CDATA[";
        let white = self.skip_white(at);
        let is_cdata = self.text[white..].starts_with(CDATA);
        let at = if is_cdata { white + CDATA.len() } else { at };
        let rest = &self.text[at..];
        let end = self.ends.tag.find(self.text, at, |rest| rest.find('<'));
        let most = at + as_far_as_a_value(rest).len();
        let end = end.min(most);
        let inner = self.text[at..end].strip_suffix("]]>");
        self.push(
            at..inner.map_or(end, |inner| at + inner.len()),
            is_certain,
            found,
        );
    }

    /// The element behind the one of a name: `<key>Password</key>`, `<string>VALUE</string>`.
    pub(super) fn next_element(&self, at: usize, found: &mut Vec<Value>) {
        let close = self.ends.close.find(self.text, at, |rest| rest.find('>'));
        let next = self.skip_white((close + 1).min(self.text.len()));
        let rest = &self.text[next..];
        if let Some(element) = VALUE_ELEMENTS
            .iter()
            .find(|element| rest.starts_with(**element))
        {
            self.element(next + element.len(), true, found);
        }
    }

    /// The next string of a list, `"--password", "VALUE"`, or the value of
    /// `"name": "KEY", "value": "VALUE"`.
    pub(super) fn next_string(&self, at: usize, found: &mut Vec<Value>) {
        let comma = self.skip_white(at);
        // A part of a form: `name="password"` and an empty line.
        let is_part = self.text[..self.name.start].ends_with("name=\"");
        if is_part && comma > at && self.text[at..comma].matches('\n').count() == 2 {
            return self.one(comma, false, found);
        }
        if !self.text[comma..].starts_with(',') {
            return self.named_value(at, found);
        }
        let next = self.skip_white(comma + 1);
        let Some(quote) = quote(&self.text[next..]) else {
            return;
        };
        let from = next + quote.len();
        let end = self.end_of_string(from, quote);
        let is_value = self.text[from..end].eq_ignore_ascii_case("value");
        match is_value {
            true => self.named_value(next, found),
            false => self.push(from..end, true, found),
        }
    }

    /// `value: VALUE` behind `name: KEY`.
    pub(super) fn named_value(&self, at: usize, found: &mut Vec<Value>) {
        let white = self.skip_white(at);
        // A block: `variable "db_password" {`.
        let open = usize::from(self.text[white..].starts_with('{'));
        let at = self.skip_quotes(self.skip_white(white + open));
        let is_key = |key: &&&str| {
            let word = self.text.as_bytes().get(at..at + key.len());
            word.is_some_and(|word| word.eq_ignore_ascii_case(key.as_bytes()))
        };
        let Some(key) = VALUE_KEYS.iter().find(is_key) else {
            return;
        };
        let at = self.skip_spaces(self.skip_quotes(at + key.len()));
        if let Some(separator) = separator(&self.text[at..]) {
            self.one(self.skip_spaces(at + separator.len()), true, found);
        }
    }

    /// The strings of a call or of a tuple that look chosen: `BasicAuth("bob", "VALUE")`,
    /// `auth=("bob", "VALUE")`.
    pub(super) fn arguments(&self, at: usize, found: &mut Vec<Value>) {
        let mut at = at + 1;
        for _ in 0..ARGUMENTS_MAX {
            at = self.skip_white(at);
            let Some(quote) = quote(&self.text[at..]) else {
                return;
            };
            let from = at + quote.len();
            let end = self.end_of_string(from, quote);
            if keys::looks_secret(&self.text[from..end]) {
                self.push(from..end, true, found);
            }
            if !self.text[end..].starts_with(quote) {
                return;
            }
            at = self.skip_white(end + quote.len());
            if !self.text[at..].starts_with(',') {
                return;
            }
            at += 1;
        }
    }
}
