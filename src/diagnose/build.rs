//! Generates `Condition` and the entries of the catalogue from `probes/conditions/*.toml`
//! and `scenarios/repro`.
//!
//! A rule that names a condition that the catalogue lacks does not compile. A condition
//! without a scenario stops the build.

mod catalogue_source;

use catalogue_source::{SourceEntry, parse};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The families, in the order in which documentation and findings name their conditions.
const FAMILIES: [&str; 8] = [
    "progress",
    "slots",
    "connection",
    "endings",
    "network",
    "topology",
    "measurement",
    "comparison",
];

fn main() {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    let conditions = root.join("probes/conditions");
    let scenarios = root.join("scenarios/repro");
    for input in [&conditions, &scenarios] {
        println!("cargo::rerun-if-changed={}", input.display());
    }
    match generate(&conditions, &scenarios) {
        Ok(code) => {
            let out = Path::new(&variable("OUT_DIR")).join("conditions.rs");
            fs::write(&out, code).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
        }
        Err(problem) => println!("cargo::error={}", problem.replace('\n', " ")),
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn generate(conditions: &Path, scenarios: &Path) -> Result<String, String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(conditions).map_err(|error| format!("{conditions:?}: {error}"))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let family = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        if !FAMILIES.contains(&family) {
            return Err(format!("{}: not a family of build.rs", path.display()));
        }
    }
    for family in FAMILIES {
        let path = conditions.join(format!("{family}.toml"));
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        files.push((format!("probes/conditions/{family}.toml"), text));
    }
    let entries = parse(&files)?;

    let mut variants = String::new();
    let mut table = String::new();
    for entry in &entries {
        let variant = variant(&entry.name);
        _ = writeln!(
            variants,
            "#[doc = {:?}] {variant} = {:?},",
            entry.meaning, entry.name
        );
        table.push_str(&table_row(entry, scenarios)?);
    }
    Ok(format!(
        "tcpx_words::word_set! {{\n\
         /// What can be wrong with a transfer: the names of `probes/conditions/*.toml`, in\n\
         /// the order of the catalogue.\n\
         pub enum Condition {{\n{variants}}}\n}}\n\n\
         /// Indexed by `Condition`.\n\
         static ENTRIES: [CatalogueEntry; {}] = [\n{table}];\n",
        entries.len()
    ))
}

fn table_row(entry: &SourceEntry, scenarios: &Path) -> Result<String, String> {
    let name = &entry.name;
    let scenario = scenarios.join(format!("{name}.toml"));
    if !scenario.exists() {
        return Err(format!(
            "the condition `{name}` has no scenarios/repro/{name}.toml"
        ));
    }
    // A test writes the evidence of a new condition, and the crate has to build for that.
    let evidence = scenarios.join(format!("evidence/{name}.json"));
    let evidence = if entry.simulated && evidence.exists() {
        format!("Some(include_str!({evidence:?}))")
    } else {
        "None".to_owned()
    };
    let explains: Vec<String> = entry
        .explains
        .iter()
        .map(|name| format!("Condition::{}", variant(name)))
        .collect();
    Ok(format!(
        "CatalogueEntry {{ name: Condition::{variant}, severity: Severity::{severity:?}, \
         stalls: {stalls}, symptom: {symptom:?}, \
         meaning: {meaning:?}, detected: {detected:?}, causes: &{causes:?}, reproduce: {reproduce:?}, \
         simulated: {simulated}, fix: {fix:?}, recommends: &{recommends:?}, otherwise: {otherwise:?}, reference: {reference:?}, explains: &[{explains}], \
         decided_by: {decided_by:?}, scenario: include_str!({scenario:?}), evidence: {evidence} }},\n",
        variant = variant(name),
        severity = entry.severity,
        stalls = entry.stalls,
        symptom = entry.symptom,
        meaning = entry.meaning,
        detected = entry.detected,
        causes = entry.causes,
        reproduce = entry.reproduce,
        simulated = entry.simulated,
        fix = entry.fix,
        recommends = entry.recommends.iter().collect::<Vec<_>>(),
        otherwise = entry.otherwise,
        reference = entry.reference,
        explains = explains.join(", "),
        decided_by = entry.decided_by,
    ))
}

/// `window-never-consumed` as a variant: `WindowNeverConsumed`.
fn variant(name: &str) -> String {
    let mut variant = String::new();
    for word in name.split('-') {
        let mut characters = word.chars();
        variant.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        variant.push_str(characters.as_str());
    }
    variant
}
