//! `tcpxctl rehearse` as a user types it. Every rehearsal
//! is run by `scripts/rehearse --all`; here are the quick ones.

use crate::tcpxctl::Tool;

#[test]
fn a_rehearsal_that_finds_what_it_expects_passes() {
    let ended = Tool::new(&["rehearse", "plugin-exit", "link-down", "--json"]).ends_with(0);
    let document = ended.json();
    assert_eq!(document["schema"], "tcpxctl.rehearse/1");
    let [exit, link] = document["rows"].as_array().unwrap().as_slice() else { panic!("{ended}") };
    for (row, name) in [(exit, "plugin-exit"), (link, "link-down")] {
        assert_eq!((&row["scenario"], &row["expected"], &row["found"]), (&name.into(), &name.into(), &name.into()));
        assert_eq!((&row["passed"], &row["simulated"]), (&true.into(), &(name == "link-down").into()));
    }
    assert!(exit["seconds_to_verdict"].is_number() && link["seconds_to_verdict"].is_null());
}

#[test]
fn a_name_that_is_none_is_refused_with_the_nearest() {
    Tool::new(&["rehearse", "plugin-exitt"]).ends_with(2).says(&["did you mean plugin-exit?"]);
    let list = Tool::new(&["rehearse", "--list", "--json"]).ends_with(0).json();
    assert!(list["scenarios"].as_array().unwrap().len() >= 25);
    let tool = Tool::new(&["rehearse", "plugin-exit", "--reports", "file"]);
    tool.write("file", "");
    tool.ends_with(3).says(&["--reports"]);
}

#[test]
fn what_is_only_evidence_is_not_run() {
    Tool::shipped("repro/link-down.toml", &[]).ends_with(2).says(&["tcpxctl rehearse link-down"]);
}
