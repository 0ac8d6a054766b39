//! A JUnit XML file in the form that all CI systems read: one suite, its cases, and the
//! counts of the cases.
#![forbid(unsafe_code)]

use super::page::escape;
use std::collections::HashMap;
use std::fmt::Write;

/// A test suite.
#[derive(Debug, Default)]
pub struct JunitSuite {
    /// What the suite tests, such as a scenario or a plugin.
    pub name: String,
    /// `classname` of every case.
    pub classname: String,
    /// Duration of the suite; the sum over its cases if `None`.
    pub seconds: Option<f64>,
    /// Start of the suite.
    pub started: Option<jiff::Timestamp>,
    /// Host that the suite ran on.
    pub host: Option<String>,
    /// The cases, in the order of the file.
    pub cases: Vec<JunitCase>,
    /// Text of the suite's `system-out`.
    pub system_out: Option<String>,
}

/// A test case.
#[derive(Debug)]
pub struct JunitCase {
    /// A repeated name gets a number, because readers keep only one case of each name.
    pub name: String,
    /// Duration of the case.
    pub seconds: f64,
    /// Result of the case.
    pub ended: JunitResult,
}

/// The result of a case, with its text.
#[derive(Debug)]
pub enum JunitResult {
    /// The case passed; the text goes to `system-out`.
    Passed(Option<String>),
    /// The case was not run; the text is the reason.
    Skipped(String),
    /// The case failed; the text is the reason.
    Failure(String),
    /// The case could not be decided; the text is the reason.
    Error(String),
}

impl JunitSuite {
    /// The suite as an XML document.
    pub fn render(&self) -> String {
        let count =
            |is: fn(&JunitResult) -> bool| self.cases.iter().filter(|case| is(&case.ended)).count();
        let skipped = count(|ended| matches!(ended, JunitResult::Skipped(_)));
        let sums = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
            self.cases.len(),
            count(|ended| matches!(ended, JunitResult::Failure(_))),
            count(|ended| matches!(ended, JunitResult::Error(_))),
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
        if let Some(output) = &self.system_out {
            let _ = writeln!(text, "    <system-out>{}</system-out>", escape(output));
        }
        text + "  </testsuite>\n</testsuites>\n"
    }

    fn case(&self, case: &JunitCase, number: u32, text: &mut String) {
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
            JunitResult::Passed(None) => "/>".to_owned(),
            JunitResult::Passed(Some(output)) => {
                format!("><system-out>{}</system-out></testcase>", escape(output))
            }
            JunitResult::Skipped(why) => {
                format!("><skipped message=\"{}\"/></testcase>", reason(why))
            }
            JunitResult::Failure(why) => bad("failure", why),
            JunitResult::Error(why) => bad("error", why),
        };
        let _ = writeln!(text, "{head}{rest}");
    }
}

/// Escaped text, or `otherwise` if the text is blank.
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

/// An XML attribute, or nothing if the value is blank.
fn attribute(name: &str, value: Option<&str>) -> String {
    let value = value
        .map(|value| escape(value.trim()))
        .filter(|value| !value.is_empty());
    value
        .map(|value| format!(" {name}=\"{value}\""))
        .unwrap_or_default()
}

/// Seconds with three decimals; 0 for the NaN or negative number that a damaged record may hold.
fn time(seconds: f64) -> String {
    let seconds = if seconds.is_finite() { seconds } else { 0.0 };
    format!("{:.3}", seconds.max(0.0))
}
