//! Checks the list of rows. Running rows is tested in `tests/contract.rs`, because each row
//! needs its own process.

use super::rows;
use std::collections::BTreeSet;

#[test]
fn every_row_has_a_unique_name_and_a_promise() {
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
fn rows_that_crash_google_are_for_the_tcpx_family_only() {
    assert!(rows().all(|row| row.never_on_google.is_none() || row.tcpx_only));
}

#[test]
fn an_unknown_row_name_runs_nothing() {
    let plugin = crate::plugin::Plugin::builtin();
    assert!(super::run_row(&*plugin.net, &[], None, "no-such-row", &|_| {}).is_none());
}
