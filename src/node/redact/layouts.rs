//! Tables of layouts with random names of several kinds. The second look is tried on the same
//! tables.

use super::Redactor;
use proptest::strategy::{Strategy, ValueTree};
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;

const NAMES: &str = include_str!("../../../probes/node/redact/names.txt");
const NAME_KINDS: [&str; 2] = ["[a-z]{8}", "[a-z]{5}-[a-z]{5}-[0-9]{2}"];

#[test]
fn a_name_is_replaced_in_every_layout() {
    let mut runner = TestRunner::deterministic();
    let mut left = Vec::new();
    for kind in NAME_KINDS {
        let values = string_regex(kind).expect("a kind");
        for layout in NAMES.lines().filter(|line| !line.starts_with('#')) {
            let value = values.new_tree(&mut runner).expect("a value").current();
            let redacted = Redactor::default().redact(&layout.replace("VALUE", &value));
            if redacted.contains(&value) {
                left.push(redacted);
            }
        }
    }
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}
