//! A JUnit XML file in the shape that CI systems agree on: one suite, its cases, and
//! counts that are theirs.
#![forbid(unsafe_code)]

use super::html::escape;
use std::collections::HashMap;
use std::fmt::Write;

/// One suite.
#[derive(Debug, Default)]
pub struct Suite {
    /// What was looked at.
    pub name: String,
    /// Of every case.
    pub classname: String,
    /// Of all; the cases' sum without it.
    pub seconds: Option<f64>,
    /// When it began.
    pub started: Option<jiff::Timestamp>,
    /// Where.
    pub host: Option<String>,
    /// In order.
    pub cases: Vec<Case>,
    /// What there is to say of all of them.
    pub said: Option<String>,
}

/// One case.
#[derive(Debug)]
pub struct Case {
    /// A second one of that name gets a number: readers keep one of a name.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// How it ended.
    pub ended: Ended,
}

/// How a case ended, and in which words.
#[derive(Debug)]
pub enum Ended {
    /// It holds; with what was seen.
    Passed(Option<String>),
    /// It was not tried, and why.
    Skipped(String),
    /// It does not hold.
    Failure(String),
    /// It could not be said whether it holds.
    Error(String),
}

impl Suite {
    /// The whole file.
    pub fn render(&self) -> String {
        let count =
            |is: fn(&Ended) -> bool| self.cases.iter().filter(|case| is(&case.ended)).count();
        let skipped = count(|ended| matches!(ended, Ended::Skipped(_)));
        let sums = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
            self.cases.len(),
            count(|ended| matches!(ended, Ended::Failure(_))),
            count(|ended| matches!(ended, Ended::Error(_))),
        );
        let time = time(
            self.seconds
                .unwrap_or_else(|| self.cases.iter().map(|case| case.seconds).sum()),
        );
        let started = self
            .started
            .map(|at| at.strftime("%Y-%m-%dT%H:%M:%S").to_string());
        let about = attribute("timestamp", started.as_deref())
            + &attribute("hostname", self.host.as_deref());
        let name = named(&self.name);
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "<testsuites name=\"tcpxctl\" {sums} time=\"{time}\">");
        let _ = writeln!(
            text,
            "  <testsuite name=\"{name}\" {sums} skipped=\"{skipped}\" time=\"{time}\"{about}>"
        );
        let mut known = HashMap::new();
        for case in &self.cases {
            let number = known
                .entry(&case.name)
                .and_modify(|number| *number += 1)
                .or_insert(1);
            self.case(case, *number, &mut text);
        }
        let said = self
            .said
            .iter()
            .map(|said| format!("    <system-out>{}</system-out>\n", escape(said)));
        text + &said.collect::<String>() + "  </testsuite>\n</testsuites>\n"
    }

    fn case(&self, case: &Case, number: u32, text: &mut String) {
        let (class, mut name, time) = (
            named(&self.classname),
            named(&case.name),
            time(case.seconds),
        );
        if number > 1 {
            let _ = write!(name, " ({number})");
        }
        let head = format!("    <testcase classname=\"{class}\" name=\"{name}\" time=\"{time}\"");
        let bad = |tag: &str, why: &str| {
            let why = reason(why);
            format!(
                ">\n      <{tag} type=\"{name}\" message=\"{why}\">{why}</{tag}>\n    </testcase>"
            )
        };
        let rest = match &case.ended {
            Ended::Passed(None) => "/>".to_owned(),
            Ended::Passed(Some(said)) => {
                format!("><system-out>{}</system-out></testcase>", escape(said))
            }
            Ended::Skipped(why) => format!("><skipped message=\"{}\"/></testcase>", reason(why)),
            Ended::Failure(why) => bad("failure", why),
            Ended::Error(why) => bad("error", why),
        };
        let _ = writeln!(text, "{head}{rest}");
    }
}

/// Text that must not be empty.
fn words(text: &str, otherwise: &str) -> String {
    let safe = escape(text.trim());
    if safe.is_empty() {
        otherwise.to_owned()
    } else {
        safe
    }
}

fn named(name: &str) -> String {
    words(name, "unknown")
}

fn reason(why: &str) -> String {
    words(why, "no reason recorded")
}

/// Left out where there is nothing to say.
fn attribute(name: &str, value: Option<&str>) -> String {
    let value = value
        .map(|value| escape(value.trim()))
        .filter(|value| !value.is_empty());
    value
        .map(|value| format!(" {name}=\"{value}\""))
        .unwrap_or_default()
}

/// Seconds; what a record claims may be none.
fn time(seconds: f64) -> String {
    format!(
        "{:.3}",
        if seconds.is_finite() {
            seconds.max(0.0)
        } else {
            0.0
        }
    )
}
