//! Trees from an untrusted source: every read must end, stay inside the tree, and report
//! what it could not read.

use super::*;
use crate::Root;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, mknodat};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Content of a file outside the tree, which must never appear.
const SECRET: &str = "SECRET-OF-ANOTHER-FOLDER";

fn folder(path: &Path) {
    fs::create_dir_all(path).unwrap();
}

fn examined(root: &Path) -> (DoctorFacts, Examination) {
    let facts = DoctorFacts::read(&Root::captured(root).unwrap(), scope(Depth::All));
    let found = examine(&Catalogue::embedded().unwrap(), &facts, TCPX);
    (facts, found)
}

/// Every file of the A3-high fixture.
fn read_paths() -> Vec<String> {
    let lines = fixture::A3_HIGH
        .lines()
        .filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| Some(line.split_once(" = ")?.0.to_owned()))
        .collect()
}

#[test]
fn links_out_of_the_tree_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), SECRET).unwrap();
    let inside = tempfile::tempdir().unwrap();
    let up = "../".repeat(40);
    for (index, path) in read_paths().iter().enumerate() {
        let path = inside.path().join(path);
        folder(path.parent().unwrap());
        let target = outside.path().join("secret");
        // Absolute links, and relative links with `..`.
        let target = if index % 2 == 0 {
            target
        } else {
            Path::new(&up).join(target.strip_prefix("/").unwrap())
        };
        let _ = symlink(target, path);
    }
    // A folder that is a link out of the tree is not entered, either.
    fs::remove_dir_all(inside.path().join("proc/self")).unwrap();
    folder(&outside.path().join("self/ns"));
    symlink(SECRET, outside.path().join("self/ns/net")).unwrap();
    symlink(outside.path().join("self"), inside.path().join("proc/self")).unwrap();
    let (facts, found) = examined(inside.path());
    let all = serde_json::to_string(&facts).unwrap() + &explained(&found);
    assert!(!all.contains(SECRET), "{all}");
    assert!(
        found
            .rows
            .iter()
            .any(|row| row.value.contains("leads out of the captured tree")),
        "{}",
        explained(&found)
    );
}

#[test]
fn pipes_devices_sockets_loops_and_endless_files_are_skipped() {
    let tree = tempfile::tempdir().unwrap();
    let here = |path: &str| {
        let path = tree.path().join(path);
        folder(path.parent().unwrap());
        path
    };
    // Opening it would wait for ever; reading it, too.
    mknodat(CWD, here("proc/meminfo"), FileType::Fifo, 0o600.into(), 0).unwrap();
    let _ = mknodat(
        CWD,
        here("proc/interrupts"),
        FileType::CharacterDevice,
        0o600.into(),
        rustix::fs::makedev(1, 5),
    );
    let _listener = std::os::unix::net::UnixListener::bind(here("proc/cpuinfo")).unwrap();
    symlink("limits", here("proc/self/limits")).unwrap();
    symlink("../net", here("sys/class/net")).unwrap();
    // Sparse, and larger than memory.
    for path in [
        "proc/net/tcp",
        "asked/plugins.json",
        "proc/self/mountinfo",
        "etc/os-release",
    ] {
        File::create(here(path)).unwrap().set_len(64 << 30).unwrap();
    }
    fs::write(here("asked/environment.json"), "[".repeat(200_000)).unwrap();
    fs::write(
        here("asked/addresses.json"),
        format!("[{}]", "{},".repeat(100_000)),
    )
    .unwrap();
    let (_, found) = examined(tree.path());
    assert!(
        found.count(CheckVerdict::Unknown) > 20,
        "{}",
        explained(&found)
    );
    for (id, why) in [
        ("memory-available", "neither a file nor a folder"),
        ("plugin-found", "larger than"),
    ] {
        let row = found.rows.iter().find(|row| row.id == id).unwrap();
        assert!(
            row.verdict == CheckVerdict::Unknown && row.value.contains(why),
            "{row:#?}"
        );
    }
}

#[test]
fn more_entries_than_any_machine_has_are_bounded() {
    let tree = tempfile::tempdir().unwrap();
    for index in 0..6000 {
        folder(&tree.path().join(format!("sys/class/net/eth{index}")));
        folder(
            &tree
                .path()
                .join(format!("sys/devices/system/node/node{index}")),
        );
    }
    let line =
        |index: u32| format!("{index}: 1 PCI-MSI x-edge gve-ntfy-blk{index}@pci:0000:06:00.0\n");
    folder(&tree.path().join("proc"));
    fs::write(
        tree.path().join("proc/interrupts"),
        (0..100_000).map(line).collect::<String>(),
    )
    .unwrap();
    let (facts, found) = examined(tree.path());
    assert!(facts.node.nics.known().unwrap().len() <= 4096 && facts.drivers.len() <= 64);
    assert!(
        found
            .rows
            .iter()
            .all(|row| row.value.chars().count() < 8000)
    );
}

#[test]
fn control_characters_of_a_tree_are_removed() {
    let escape = "\u{1b}]0;title\u{7}\u{1b}[2Jeth1";
    let tree = fixture::tree(&format!(
        "proc/sys/kernel/hostname = {escape}
proc/sys/kernel/osrelease = {escape}
asked/environment.json = {{\"NCCL_NSOCKS_PER_THREAD\":\"\\u001b[2J\",\"NCCL_\\u001b[2J\":\"1\"}}
asked/kernel-log.json = [\"NVRM: Xid \\u001b[2J\"]
asked/plugins.json = [{{\"path\":\"\\u001b[2J\",\"named_by\":\"x\",\"real_path\":\"/\\u009b2J\",\"sha256\":\"\",\"tables\":[],\"missing\":[]}}]",
    ));
    let facts = facts(&tree);
    let found = examine(&Catalogue::embedded().unwrap(), &facts, TCPX);
    for row in &found.rows {
        let all = format!(
            "{}{}{}",
            row.value,
            row.expected,
            row.next_step.as_deref().unwrap_or_default()
        );
        assert!(!all.chars().any(char::is_control), "{row:#?}");
    }
    let json = serde_json::to_string(&facts).unwrap();
    assert!(
        !json.contains("\\u001b") && !json.contains('\u{9b}'),
        "{json}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 32, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_files_are_examined(
        junk in prop::collection::vec(prop_oneof!["[ -~\\t\u{1b}é]{0,60}", "[\\[{\"0-9a-z:,}\\]]{0,40}", "-?[0-9]{0,20}"], 64),
        every in 1usize..9,
    ) {
        let mut junk = junk.iter().cycle();
        // The long lists of interrupts add files and no new way of going wrong.
        let lines = fixture::A3_HIGH.lines().filter(|line| !line.starts_with("proc/irq/"));
        let spoilt = lines.enumerate().map(|(index, line)| match line.split_once(" = ") {
            Some((path, _)) if index % every == 0 => format!("{path} = {}", junk.next().map_or("", String::as_str)),
            _ => line.to_owned(),
        });
        let facts = facts(&fixture::tree(&spoilt.collect::<Vec<_>>().join("\n")));
        let found = examine(&Catalogue::embedded().unwrap(), &facts, TCPX);
        prop_assert!(found.rows.iter().all(|row| !row.value.chars().any(char::is_control)));
        let again = DoctorFacts::from_json(&serde_json::to_string(&facts).unwrap()).unwrap();
        prop_assert_eq!(examine(&Catalogue::embedded().unwrap(), &again, TCPX), found);
    }

    #[test]
    fn arbitrary_facts_are_rejected_or_examined(edits in prop::collection::vec((any::<prop::sample::Index>(), "[a-z0-9\\[\\]{}\",:]{0,6}"), 1..6)) {
        let good = serde_json::to_string(&facts(&fixture::tree("proc/net/route = x"))).unwrap();
        let mut text = good;
        for (at, with) in edits {
            let at = at.index(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
                text.replace_range(at..=at, &with);
            }
        }
        if let Ok(facts) = DoctorFacts::from_json(&text) {
            examine(&Catalogue::embedded().unwrap(), &facts, TCPX);
        }
    }
}
