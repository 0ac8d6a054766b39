//! The list of rows, as a list. What rows find is in `tests/contract.rs`, since
//! each needs a process of its own.

use super::rows;
use std::collections::BTreeSet;

#[test]
fn rows_have_names_of_their_own_and_promises_in_words() {
    let mut seen = BTreeSet::new();
    for row in rows() {
        assert!(seen.insert(row.id), "{} twice", row.id);
        assert!(
            row.id.chars().all(|letter| letter.is_ascii_lowercase()
                || letter.is_ascii_digit()
                || letter == '-')
        );
        assert!(
            row.promise.contains(' ') && !row.promise.ends_with('.'),
            "{}: {}",
            row.id,
            row.promise
        );
    }
}

#[test]
fn what_crashes_google_is_asked_of_its_family_only() {
    assert!(rows().all(|row| row.never_on_google.is_none() || row.tcpx_only));
}

#[test]
fn an_unknown_row_is_no_row() {
    let plugin = crate::plugin::Plugin::builtin();
    assert!(super::run_row(&*plugin.net, &[], None, "no-such-row").is_none());
}
