//! `tcpxctl selftest --endpoint`: an honest endpoint passes, and one that breaks a promise is
//! found by the row about it. The endpoints are Python, in tests/endpoints.

use crate::tcpxctl::{Ended, Tool};
use serde_json::Value;
use std::path::Path;

fn tool(arguments: &[&str]) -> Tool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/endpoints");
    // So little memory that the row of more than 4 GiB is skipped on every machine.
    let limited = ["-c", "ulimit -v 8000000; exec \"$@\"", "sh"];
    Tool::new(&[&["selftest", "--endpoint"], arguments].concat())
        .through("sh", &limited)
        .env("PYTHONPATH", &folder.display().to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1")
}

fn has_python() -> bool {
    let found = std::process::Command::new("python3")
        .arg("--version")
        .output();
    if found.is_err() {
        println!("skipped: no python3");
    }
    found.is_ok()
}

/// Name and row of every class of doubles.py.
fn doubles() -> Vec<(String, String)> {
    let text = include_str!("../endpoints/doubles.py");
    let classes = text.split("\nclass ").skip(1);
    let found = classes.map(|class| {
        let name = class.split('(').next().unwrap();
        let row = class.split("row = \"").nth(1).unwrap().split('"').next();
        (name.to_owned(), row.unwrap().to_owned())
    });
    found.collect()
}

fn verdicts(ended: &Ended) -> Vec<(String, String, String)> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = ended.json()["rows"].as_array().unwrap().clone();
    rows.iter()
        .map(|row| (text(row, "id"), text(row, "verdict"), text(row, "detail")))
        .collect()
}

fn bad(ended: &Ended) -> Vec<String> {
    let rows = verdicts(ended).into_iter();
    let bad = rows.filter(|(_, verdict, _)| verdict == "FAIL" || verdict == "CRASHED");
    bad.map(|(id, ..)| id).collect()
}

/// The rows, as `--list` names them.
fn rows() -> Vec<String> {
    let listed = tool(&["any", "--list", "--json"]).ends_with(0);
    let rows = listed.json()["rows"].as_array().unwrap().clone();
    let name = |row: &Value| row["id"].as_str().unwrap().to_owned();
    rows.iter().map(name).collect()
}

/// Calls `check` for each item, two at a time, and returns what it complains about. Each row has
/// two interpreters and a time limit.
fn complaints<T: Sync>(items: &[T], check: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let check = &check;
    std::thread::scope(|scope| {
        let started: Vec<_> = items
            .chunks(items.len().div_ceil(2))
            .map(|some| scope.spawn(move || some.iter().filter_map(check).collect::<Vec<_>>()))
            .collect();
        let joined = started.into_iter().map(|one| one.join().unwrap());
        joined.flatten().collect()
    })
}

#[test]
fn an_honest_endpoint_passes() {
    if !has_python() {
        return;
    }
    let rows = rows();
    assert_eq!(rows.len(), 20);
    let mistakes = complaints(&rows, |row| {
        let ended = tool(&["honest", "--json", "--timeout", "50", row]).ends_with(0);
        let found = verdicts(&ended);
        let (_, verdict, detail) = found.iter().find(|(id, ..)| id == row).unwrap();
        let is_skipped = row == "over-4-gb" && detail.contains("of memory are available");
        (verdict != "PASS" && !is_skipped).then(|| format!("{row}: {ended}"))
    });
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn rows_of_an_endpoint_are_written_as_junit() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.xml");
    tool(&["honest", "size-zero", "--junit", file.to_str().unwrap()]).ends_with(0);
    let junit = std::fs::read_to_string(&file).unwrap();
    assert!(
        junit.contains("name=\"honest\" tests=\"1\" failures=\"0\""),
        "{junit}"
    );
}

#[test]
fn each_double_is_caught_by_its_row() {
    if !has_python() {
        return;
    }
    let mistakes = complaints(&doubles(), |(name, row)| {
        let endpoint = format!("doubles:{name}");
        let ended = tool(&[&endpoint, "--json", "--timeout", "24", row]).ends_with(1);
        let found = bad(&ended);
        (found != [row.as_str()]).then(|| format!("{name}: {ended}"))
    });
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Each double against rows that are not its own: other ones in every run, few of them, because all of them take minutes.
#[test]
fn each_double_is_caught_by_no_other_row() {
    if !has_python() {
        return;
    }
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    println!("seed {seed}, ENDPOINT_ROWS for more rows of each double");
    let mut random = fastrand::Rng::with_seed(seed);
    let count = std::env::var("ENDPOINT_ROWS").map_or(1, |text| text.parse().unwrap());
    let mut rows = rows();
    let mut pairs = Vec::new();
    for (name, own) in doubles() {
        random.shuffle(&mut rows);
        // A filter is a part of a row's name, and here that of one row only.
        let others = rows.iter().filter(|row| !own.contains(row.as_str()));
        pairs.extend(others.take(count).map(|row| (name.clone(), row.clone())));
    }
    let mistakes = complaints(&pairs, |(name, row)| {
        let endpoint = format!("doubles:{name}");
        // As long as for an honest one, which it is in these rows.
        let ended = tool(&[&endpoint, "--json", "--timeout", "50", row]).ended();
        let found = bad(&ended);
        (!found.is_empty()).then(|| format!("{name} in {row}: {ended}"))
    });
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn an_endpoint_that_cannot_be_made_is_one_error() {
    if !has_python() {
        return;
    }
    for (endpoint, words) in [
        (
            "no_such_module",
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("honest:NoSuchClass", "has no attribute 'NoSuchClass'"),
        ("json", "has no attribute 'Endpoint'"),
    ] {
        let ended = tool(&[endpoint]).ends_with(3);
        assert!(
            ended.err.contains(words) && ended.err.contains("--python"),
            "{ended}"
        );
    }
}

#[test]
fn the_rows_of_endpoints_are_listed() {
    let ended = tool(&["any", "--list", "done"]).ends_with(0);
    assert!(
        ended.out.contains("read-done") && ended.out.contains("write-done"),
        "{ended}"
    );
    assert!(!ended.out.contains("table-"), "{ended}");
}

#[test]
fn the_other_node_of_an_endpoint_is_reached_by_a_command() {
    let ended = tool(&["honest", "--peer", "10.0.0.226"]).ends_with(2);
    assert!(ended.err.contains("add --rsh ssh"), "{ended}");
    if !has_python() {
        return;
    }
    // A "node" that is this machine: the row compares without shared memory.
    let rsh = [
        "--peer",
        "127.0.0.1",
        "--rsh",
        "sh -c 'shift 2; exec \"$@\"' node {} --",
    ];
    let ended = tool(
        &[
            &["honest", "--json", "--timeout", "50", "write-done"],
            &rsh[..],
        ]
        .concat(),
    )
    .ends_with(0);
    assert!(
        verdicts(&ended)[0]
            .2
            .contains("as the other node read them"),
        "{ended}"
    );
}
