//! A capture of this machine gives the same results as this machine.

use super::*;
use crate::Root;
use crate::redact::{Outlet, Redactor};
use flate2::read::GzDecoder;
use std::fs::File;
use std::path::Path;

const NAME: &str = "some-host-of-ours";

fn captured_tree(
    outlet: &mut Outlet,
    environment: &BTreeMap<String, String>,
) -> (DoctorFacts, DoctorFacts, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let (archive, tree) = (
        folder.path().join("node.tar.gz"),
        folder.path().join("tree"),
    );
    let scope = Scope {
        environment,
        ..scope(Depth::All)
    };
    let captured = capture(scope, outlet).unwrap();
    assert!(captured.entries > 50, "{captured:?}");
    std::fs::write(&archive, captured.archive.bytes()).unwrap();
    tar::Archive::new(GzDecoder::new(File::open(&archive).unwrap()))
        .unpack(&tree)
        .unwrap();
    let mut bytes = Vec::new();
    std::io::copy(
        &mut GzDecoder::new(File::open(&archive).unwrap()),
        &mut bytes,
    )
    .unwrap();
    only_files_folders_and_relative_links(&archive);
    let again = DoctorFacts::read(&Root::captured(&tree).unwrap(), scope);
    (captured.facts, again, bytes)
}

/// The archive holds only files, folders and links that stay below its own folder.
fn only_files_folders_and_relative_links(archive: &Path) {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(archive).unwrap()));
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let kind = entry.header().entry_type();
        assert!(
            kind.is_file() || kind.is_dir() || kind.is_symlink(),
            "{kind:?}"
        );
        let path = entry.path().unwrap().into_owned();
        assert!(
            path.is_relative() && !path.to_string_lossy().contains(".."),
            "{path:?}"
        );
        if let Some(target) = entry.link_name().unwrap() {
            assert!(
                target.is_relative() || target.to_string_lossy().contains(':'),
                "{path:?} -> {target:?}"
            );
        }
    }
}

#[test]
fn an_unredacted_capture_gives_the_same_rows() {
    let (facts, again, _) = captured_tree(&mut Outlet::unredacted(), &BTreeMap::new());
    let catalogue = Catalogue::embedded().unwrap();
    for subject in [
        TCPX,
        Subject {
            tcpx: false,
            chunk: Some(524_288),
        },
    ] {
        assert_eq!(
            examine(&catalogue, &again, subject),
            examine(&catalogue, &facts, subject)
        );
    }
}

#[test]
fn a_redacted_capture_gives_the_same_verdicts_and_no_names() {
    let environment: BTreeMap<String, String> = [
        ("UCCL_HOME", "/home/somebody/uccl"),
        ("NCCL_COMM_ID", "10.0.1.25:4000"),
        ("NCCL_HOSTID", NAME),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let host = Root::live()
        .line("/proc/sys/kernel/hostname")
        .known()
        .cloned()
        .unwrap_or_default();
    let redactor = Redactor::new([host.as_str(), NAME], ["somebody"]);
    let mut outlet = Outlet::redacting(redactor);
    let (facts, again, bytes) = captured_tree(&mut outlet, &environment);
    let verdicts = |facts: &DoctorFacts| {
        let found = examine(&Catalogue::embedded().unwrap(), facts, TCPX);
        found
            .rows
            .iter()
            .map(|row| (row.id.clone(), row.verdict))
            .collect::<Vec<_>>()
    };
    assert_eq!(verdicts(&again), verdicts(&facts));
    let text = String::from_utf8_lossy(&bytes);
    let addresses = crate::addresses::addresses().unwrap();
    let own = addresses
        .iter()
        .map(|held| held.address)
        .filter(|one| !one.is_loopback())
        .map(|one| one.to_string());
    for name in own.chain([NAME.to_owned(), "somebody".to_owned()]) {
        assert!(!text.contains(&name), "{name} is in the archive");
    }
}
