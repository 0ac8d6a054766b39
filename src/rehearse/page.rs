//! Writes `docs/failures.md`, the catalogue of conditions as a page.
//!
//! Part of the tests only: the program has `tcpxctl diagnose --explain`.

use tcpx_diagnose::{CatalogueEntry, Condition};

const HEAD: &str = "# Failures\n\n\
    The conditions that `tcpxctl diagnose` finds in a transfer over TCPX: symptom, meaning, causes, fix, and how to reproduce\n\
    each. This page is generated from `probes/conditions`; after a change there run\n\
    `UPDATE_DOCS=1 cargo test -p tcpxctl --lib page`.\n\n\
    `tcpxctl diagnose` names the condition of a run, a process or a recorder; `tcpxctl rehearse NAME` reproduces one.\n\n";

fn page() -> String {
    let conditions = Condition::ALL.iter().map(|one| one.entry());
    let row = |one: &CatalogueEntry| {
        format!(
            "| [`{0}`](#{0}) | {1} | {2} |\n",
            one.name,
            one.severity,
            cell(one.symptom)
        )
    };
    let rows: String = conditions.clone().map(row).collect();
    let sections: String = conditions.map(section).collect();
    format!("{HEAD}| condition | severity | symptom |\n|---|---|---|\n{rows}{sections}")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn section(one: &CatalogueEntry) -> String {
    let causes: String = one
        .causes
        .iter()
        .map(|cause| format!("  - {cause}\n"))
        .collect();
    let how = if one.simulated {
        " (judged from evidence; nothing is run)"
    } else {
        ""
    };
    format!(
        "\n## {name}\n\n* **Symptom:** {symptom}\n* **Meaning:** {meaning}\n* **Detected by:** {detected}\n* **Causes**, the likeliest \
         first:\n{causes}* **Fix:** {fix}\n* **Reproduce:** `tcpxctl rehearse {name}`{how}; {reproduce}\n* **Reference:** {reference}\n",
        name = one.name,
        symptom = one.symptom,
        meaning = one.meaning,
        detected = one.detected,
        fix = one.fix,
        reproduce = one.reproduce,
        reference = one.reference,
    )
}

#[test]
fn the_failures_page_is_in_step_with_the_catalogue() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/failures.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page()).expect("docs is writable");
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == page(),
        "run `UPDATE_DOCS=1 cargo test -p tcpxctl --lib page` and read the diff"
    );
}
