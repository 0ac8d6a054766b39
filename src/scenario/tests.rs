//! Files, flags and variables that people get wrong, and what they are told.

use super::*;
use std::path::{Path, PathBuf};

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// What is said about a scenario with this text and these `--set` flags.
fn said(text: &str, sets: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bad.toml");
    std::fs::write(&path, text).expect("a file");
    let mut inputs = Inputs { scenario: Some(path), ..Inputs::default() };
    sets.iter().for_each(|set| inputs.set(*set));
    let said = match resolve(&inputs) {
        Ok(points) => format!("fine: {} points", points.len()),
        Err(error) => error.render(false),
    };
    said.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn bad_scenarios_are_refused_with_place_and_reason() {
    let table = [
        "",
        "# only a remark\n",
        "[transfer]\nconnections = 4\n",
        "name = \"x\"\n[transfer]\nconections = 4\n",
        "name = \"x\"\nconnections = 4\n",
        "name = \"x\"\ncolour = 4\n",
        "name = \"x\"\n[transfer]\nconnections = 0\n",
        "name = \"x\"\n[transfer]\nconnections = 100000\n",
        "name = \"x\"\n[transfer]\nconnections = -1\n",
        "name = \"x\"\n[transfer]\nconnections = \"four\"\n",
        "name = \"x\"\n[transfer]\nconnections = [1, 2, \"x\"]\n",
        "name = \"x\"\n[transfer]\nconnections = []\n",
        "name = \"x\"\n[transfer]\nrecv_window = 17\n",
        "name = \"x\"\n[transfer]\nsend_window = 0\n",
        "name = \"x\"\n[transfer]\nchunk = 0\n",
        "name = \"x\"\n[transfer]\nchunk = -5\n",
        "name = \"x\"\n[transfer]\nchunk = \"2GiB\"\n",
        "name = \"x\"\n[transfer]\nchunk = \"half a MiB\"\n",
        "name = \"x\"\n[transfer]\nchunk = true\n",
        "name = \"x\"\n[transfer]\ntotal = 99999999999999999999\n",
        "name = \"x\"\n[transfer]\ntotal = \"18446744073709551615KiB\"\n",
        "name = \"x\"\n[transfer]\ntotal = \"2TiB\"\n",
        "name = \"x\"\n[transfer]\ntotal = \"1000003B\"\n",
        "name = \"x\"\n[transfer]\nverify = \"yes\"\n",
        "name = \"x\"\n[transfer]\nverify = true\nunpack = \"none\"\nmemory = \"device\"\n",
        "name = \"x\"\n[transfer]\ndirection = \"forwards\"\n",
        "name = \"x\"\n[progress]\npolicy = \"spin\"\n",
        "name = \"x\"\n[progress]\nidle = \"sleep:10\"\n",
        "name = \"x\"\n[progress]\nidle = \"sleep:10s\"\n",
        "name = \"x\"\n[limits]\nstall_after = 3\n",
        "name = \"x\"\n[limits]\nstall_after = \"0s\"\n",
        "name = \"x\"\n[limits]\ntotal = \"99h\"\n",
        "name = \"x\"\n[topology]\ngpus = { stand_in = 8 }\n",
        "name = \"x\"\n[topology]\ngpus = [0, 0]\n",
        "name = \"x\"\n[topology]\nnics = [\"eth1/..\"]\n",
        "name = \"x\"\n[topology]\nmap = { zero = \"eth1\" }\n",
        "name = \"x\"\n[plugin]\nname = \"soft\"\npath = \"/x.so\"\n",
        "name = \"x\"\n[plugin]\npth = \"/x.so\"\n",
        "name = \"x\"\n[plugin]\nname = \"/x.so\"\n",
        "name = \"x\"\nplugin = \"soft\"\n",
        "name = \"x\"\n[env]\n\"NCCL X\" = 1\n",
        "name = \"x\"\n[env]\nNCCL_X = 1.5\n",
        "name = \"x\"\n[env]\nsend = \"x\"\n",
        "name = \"x\"\n[env.node.\"10.0.1.25\"]\nA = \"a\\u0000b\"\n",
        "name = \"x\"\n[bindings]\nsend = \"3-1\"\n",
        "name = \"x\"\n[bindings.nic]\neth1 = 3\n",
        "name = \"x\"\n[fault]\nkind = \"never-consumed\"\n",
        "name = \"x\"\n[fault]\nby = \"me\"\n",
        "name = \"x\"\n[fault]\nby = \"plugin\"\nside = \"recv\"\n",
        "name = \"x\"\n[fault]\nby = \"plugin\"\nside = \"recv\"\nspec = \"x\"\nkind = \"y\"\n",
        "name = \"x\"\n[fault]\nby = \"driver\"\nside = \"recv\"\nkind = \"never-consumd\"\n",
        "name = \"x\"\n[fault]\nby = \"driver\"\nside = \"send\"\nkind = \"never-consumed\"\n",
        "name = \"x\"\n[fault]\nby = \"driver\"\nside = \"recv\"\nkind = \"never-consumed\"\nchannel = 4\n",
        "name = \"x\"\n[fault]\nby = \"driver\"\nsid = \"recv\"\n",
        "name = \"x\"\n[expect]\noutcome = \"usage\"\n",
        "name = \"x\"\n[expect]\nmin_gb_per_s = nan\n",
        "name = \"x\"\n[expect]\nmax_wrong_bytes = -1\n",
        "name = \"x\"\n[[transfer]]\nchunk = 1\n",
        "name = \"x\"\ntransfer = 3\n",
        "name = [\"x\"]\n",
        "name = 3\n",
        "name = \"\"\n",
        "name = \"a\\u001b[31mb\"\n",
        "name = \"x\"\nname = \"y\"\n",
        "name = \"x\"\n[transfer\n",
        "name = \"x\"\nrequires = [\"gpu\", \"cpu\"]\n",
        "\u{1}\u{1b}[31mjunk\u{202e}\n",
        "name = \"x\"\n[transfer]\nconnections = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\nrecv_window = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\nsend_window = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n",
    ];
    let said: Vec<String> = table.iter().map(|text| format!("--- {text:?}\n{}\n", said(text, &[]))).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn every_shipped_scenario_is_sound() {
    let files = std::fs::read_dir(shipped()).expect("scenarios/").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    for path in &files {
        let points = resolve(&Inputs { scenario: Some(path.clone()), ..Inputs::default() });
        let points = points.unwrap_or_else(|error| panic!("{}", error.render(false)));
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        assert!(points.iter().all(|point| Some(point.scenario.name.as_str()) == stem), "{}", path.display());
    }
    assert!(!files.is_empty());
}
