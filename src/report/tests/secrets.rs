//! Secrets planted in a run never appear in redacted reports and bundles.

use super::fixture::{Names, gather, recorder, stalled};
use crate::{
    Language, LogLines, bundle, csv, html, json, junit, markdown, prometheus, redacted, short,
    verify,
};
use proptest::prelude::*;
use tcpx_node::redact::{Outlet, Redactor};
use tcpx_run_model::record::RunFiles;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_output_holds_a_planted_secret(
        host in "qz[a-z]{3,8}-[0-9]{1,3}",
        user in "qw[a-z]{4,9}",
        octets in any::<[u8; 3]>(),
        mac in any::<[u8; 5]>(),
        token in "ghp_[A-Za-z0-9]{20,30}",
        folder in "qx[a-z]{3,9}",
    ) {
        let address = format!("11.{}.{}.{}", octets[0], octets[1], octets[2]);
        let mac: Vec<String> = std::iter::once(0x42).chain(mac).map(|byte| format!("{byte:02x}")).collect();
        let names = Names { host, user, address, mac: mac.join(":"), token, folder };
        let run = tempfile::tempdir().expect("a folder");
        stalled(run.path(), &names);
        recorder(run.path(), &names);
        let files = RunFiles::open(run.path()).expect("a run");
        let mut redactor = Redactor::default();
        let story = redacted(gather(&files), &mut redactor);
        let outputs = [
            html(&story, true, Language::English), markdown(&story, true, Language::English), json(&story).expect("JSON"), csv(&story), junit(&story), prometheus(&story),
            short(&story, Language::English), short(&story, Language::Chinese),
        ];
        for secret in [&names.host, &names.user, &names.address, &names.mac, &names.token, &names.folder] {
            for output in &outputs {
                prop_assert!(!output.contains(secret.as_str()), "{secret} in {}", &output[..200]);
            }
        }

        let place = run.path().join("sent.tar.gz");
        let mut packed = Vec::new();
        bundle(&files, &story, LogLines::All, &mut Outlet::redacting(redactor)).write(&mut packed).expect("packed");
        std::fs::write(&place, packed).expect("written");
        let sent = RunFiles::open(&place).expect("a bundle");
        let binary = octets_of(&names.address);
        for name in sent.names() {
            let bytes = sent.read(&name, 1 << 26).expect("read");
            for secret in [&names.host, &names.user, &names.address, &names.mac, &names.token, &names.folder] {
                prop_assert!(memchr::memmem::find(&bytes, secret.as_bytes()).is_none(), "{secret} in {name}");
            }
            prop_assert!(!name.ends_with(".tcpxrec") || memchr::memmem::find(&bytes, &binary).is_none(), "address in {name}");
        }
        let verified = verify(&sent);
        prop_assert!(verified.problems.is_empty() && verified.revealing.is_empty() && verified.redacted, "{verified:?}");
        // The bundle still reads as the same run.
        let again = gather(&sent);
        prop_assert_eq!(&again.outcome, &story.outcome);
        prop_assert_eq!(&again.windows, &story.windows);
        prop_assert_eq!(again.latencies.len(), story.latencies.len());
    }
}

/// The address as a recorder stores it, after its port. With the port, the bytes do not occur
/// by chance.
fn octets_of(address: &str) -> Vec<u8> {
    let address: std::net::Ipv4Addr = address.parse().expect("an address");
    [&4000u16.to_le_bytes()[..], &[0; 4], &address.octets()].concat()
}

/// What a shell session shows that no layout of a secret or of a name tells.
const SESSION: &str = "$ pass show cluster\nquiet-Burning7candle\n$ hostname\nmaple-17\n";

#[test]
fn a_bundle_has_only_the_lines_of_logs_that_are_known() {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    let logs = run.path().join("logs");
    std::fs::create_dir_all(&logs).expect("made");
    let warning = "node0:71:79 [3] transport/net_ib.cc:77 NCCL WARN a new one";
    let log = format!("{SESSION}{warning}\n");
    std::fs::write(logs.join("a.log"), &log).expect("written");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, log.as_bytes()).expect("packed");
    std::fs::write(logs.join("b.log.gz"), packed.finish().expect("packed")).expect("written");
    let files = RunFiles::open(run.path()).expect("a run");
    let mut sent = Vec::new();
    let mut outlet = Outlet::redacting(Redactor::default());
    let bundled = bundle(&files, &gather(&files), LogLines::Known, &mut outlet)
        .write(&mut sent)
        .expect("packed");
    assert!(
        bundled
            .cut
            .iter()
            .any(|cut| cut.starts_with("8 of 10 lines of 2 logs are left out: ")),
        "{:?}",
        bundled.cut
    );
    let place = run.path().join("sent.tar.gz");
    std::fs::write(&place, sent).expect("written");
    let sent = RunFiles::open(&place).expect("a bundle");
    for name in ["logs/a.log", "logs/b.log"] {
        let text = String::from_utf8(sent.read(name, 1 << 20).expect("there")).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..4], ["[left out]"; 4], "{name}");
        assert!(lines[4].contains("NCCL WARN a new one"), "{name}: {text}");
    }
    for name in sent.names() {
        let bytes = sent.read(&name, 1 << 26).expect("read");
        for word in ["quiet-Burning7candle", "maple-17"] {
            assert!(
                memchr::memmem::find(&bytes, word.as_bytes()).is_none(),
                "{word} in {name}"
            );
        }
    }
}

#[test]
fn checksums_of_files_that_are_named_like_secrets_are_kept() {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    std::fs::create_dir_all(run.path().join("logs")).expect("made");
    for name in ["secret.log", "password.log", "api-key.log"] {
        std::fs::write(run.path().join("logs").join(name), "nothing\n").expect("written");
    }
    let files = RunFiles::open(run.path()).expect("a run");
    let mut packed = Vec::new();
    let mut outlet = Outlet::redacting(Redactor::default());
    bundle(&files, &gather(&files), LogLines::All, &mut outlet)
        .write(&mut packed)
        .expect("packed");
    let place = run.path().join("sent.tar.gz");
    std::fs::write(&place, packed).expect("written");
    let sent = RunFiles::open(&place).expect("a bundle");
    let sums = String::from_utf8(sent.read("SHA256SUMS", 1 << 20).expect("there")).expect("text");
    assert!(sums.contains("logs/secret.log"), "{sums}");
    assert_eq!(verify(&sent).problems, Vec::<String>::new());
}

#[test]
fn verify_names_changed_added_and_missing_files() {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    let files = RunFiles::open(run.path()).expect("a run");
    let story = gather(&files);
    let mut packed = Vec::new();
    let bundled = bundle(&files, &story, LogLines::All, &mut Outlet::unredacted())
        .write(&mut packed)
        .expect("packed");
    assert!(bundled.files.iter().any(|file| file.name == "SUMMARY.md"));
    let place = run.path().join("raw.tar.gz");
    std::fs::write(&place, packed).expect("written");
    let mut sent = RunFiles::open(&place).expect("a bundle");
    let whole = verify(&sent);
    assert!(whole.problems.is_empty() && !whole.redacted, "{whole:?}");
    let told = |kind: &str| whole.revealing.iter().any(|one| one.contains(kind));
    assert!(told("token") || told("secret"), "{whole:?}");
    assert!(!told("address"), "{whole:?}");
    let summary =
        String::from_utf8(sent.read("SUMMARY.md", 1 << 20).expect("there")).expect("text");
    assert!(summary.contains("NOT REDACTED") && summary.contains("gpu-box-7"));
    let RunFiles::Bundle { archive, .. } = &mut sent else {
        panic!("a bundle")
    };
    archive.files.insert("run.json".into(), b"{}".to_vec());
    archive.files.remove("SUMMARY.md");
    archive.files.insert("more".into(), Vec::new());
    let problems = verify(&sent).problems.join("; ");
    assert_eq!(
        problems,
        "more has no checksum; run.json does not match its checksum; SUMMARY.md is missing"
    );
    let RunFiles::Bundle { archive, .. } = &mut sent else {
        panic!("a bundle")
    };
    archive.files.remove("SHA256SUMS");
    let problems = verify(&sent).problems;
    assert!(
        problems.len() == 1 && problems[0].contains("has no SHA256SUMS"),
        "{problems:?}"
    );
}

#[test]
fn the_value_of_a_secret_variable_is_redacted_everywhere() {
    let run = tempfile::tempdir().expect("a folder");
    stalled(
        run.path(),
        &Names {
            token: "hunter2".into(),
            ..Names::default()
        },
    );
    let story = gather(&RunFiles::open(run.path()).expect("a run"));
    assert!(
        story
            .settings
            .iter()
            .any(|one| one.environment.values().any(|value| value == "hunter2"))
    );
    let story = redacted(story, &mut Redactor::default());
    assert_eq!(
        story
            .settings
            .iter()
            .filter(|one| one.key == "HF_TOKEN")
            .count(),
        1
    );
    for values in story.settings.iter().map(|one| &one.environment) {
        assert!(
            values.values().all(|value| value != "hunter2"),
            "{values:?}"
        );
    }
    let of_token = story
        .differences
        .iter()
        .find(|one| one.what == "HF_TOKEN")
        .expect("it differs");
    assert_eq!(of_token.values, [Some("SECRET".to_owned()), None]);
}

#[test]
fn a_host_named_like_a_keyword_does_not_damage_a_redacted_story() {
    for host in ["recv", "stalled", "finished", "error", "tcpx"] {
        let run = tempfile::tempdir().expect("a folder");
        stalled(
            run.path(),
            &Names {
                host: host.into(),
                ..Names::default()
            },
        );
        let story = gather(&RunFiles::open(run.path()).expect("a run"));
        let redacted = redacted(story.clone(), &mut Redactor::default());
        assert_eq!(
            (redacted.state, redacted.outcome, redacted.windows.len()),
            (story.state, story.outcome, story.windows.len())
        );
    }
}

#[test]
fn a_bundle_has_only_the_words_of_logs_that_are_known() {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    let logs = run.path().join("logs");
    std::fs::create_dir_all(&logs).expect("made");
    let log = "node0:71:79 [3] transport/net_ib.cc:77 NCCL WARN stage vexumoki of kalo-gpu3 has no thing-umbrox-7\n\
        RuntimeError: vexumoki is gone\n";
    std::fs::write(logs.join("a.log"), log).expect("written");
    std::fs::write(
        logs.join("umbrox-vexumoki.log"),
        "RuntimeError: it is gone\n",
    )
    .expect("written");
    let adopted =
        r#"{"files": [{"name": "logs/umbrox-vexumoki.log", "from": "vexumoki/train.log"}]}"#;
    std::fs::write(run.path().join("adopted.json"), adopted).expect("written");
    let files = RunFiles::open(run.path()).expect("a run");
    let sent = |lines| {
        let mut redactor = Redactor::default();
        if lines == LogLines::All {
            redactor.keep_words();
        }
        let (mut sent, mut outlet) = (Vec::new(), Outlet::redacting(redactor));
        let bundled = bundle(&files, &gather(&files), lines, &mut outlet)
            .write(&mut sent)
            .expect("packed");
        assert_eq!(
            bundled
                .cut
                .iter()
                .any(|cut| cut.starts_with("4 words that tcpxctl does not know")),
            lines == LogLines::Known
        );
        let place = run.path().join("sent.tar.gz");
        std::fs::write(&place, sent).expect("written");
        RunFiles::open(&place).expect("a bundle")
    };
    let known = sent(LogLines::Known);
    let text = known.read("logs/a.log", 1 << 20).expect("there");
    let expected = "NCCL WARN stage word0 of word1 has no word2\nRuntimeError: word0 is gone\n";
    assert!(
        text.ends_with(expected.as_bytes()),
        "{}",
        String::from_utf8_lossy(&text)
    );
    for name in known.names() {
        let bytes = known.read(&name, 1 << 26).expect("read");
        let is_in = memchr::memmem::find(&bytes, b"vexumoki").is_some();
        assert!(!is_in && !name.contains("vexumoki"), "{name}");
    }
    let adopted = known.read("adopted.json", 1 << 20).expect("there");
    let adopted: serde_json::Value = serde_json::from_slice(&adopted).expect("JSON");
    let name = adopted["files"][0]["name"].as_str().expect("a name");
    assert!(known.names().iter().any(|one| one == name), "{name}");
    let all = sent(LogLines::All)
        .read("logs/a.log", 1 << 20)
        .expect("there");
    assert!(all.ends_with(b"RuntimeError: vexumoki is gone\n"));
}

#[test]
fn what_an_adopted_log_comes_to_has_only_known_words() {
    let run = tempfile::tempdir().expect("a folder");
    let logs = run.path().join("logs");
    std::fs::create_dir_all(&logs).expect("made");
    let log = "[rank0]: Traceback (most recent call last):\n\
        [rank0]:   File \"/srv/app/vexumoki.py\", line 3, in vexumoki_step\n\
        [rank0]:     vexumoki_loss()\n\
        [rank0]: RuntimeError: CUDA out of memory in vexumoki_model.py\n";
    std::fs::write(logs.join("a.log"), log).expect("written");
    let adopted = r#"{"files": [{"name": "logs/a.log", "from": "a.log"}]}"#;
    std::fs::write(run.path().join("adopted.json"), adopted).expect("written");
    std::fs::write(run.path().join("events.jsonl"), "").expect("written");
    let files = RunFiles::open(run.path()).expect("a run");
    let story = gather(&files);
    assert!(
        format!("{:?}", story.reason).contains("vexumoki"),
        "{story:?}"
    );
    let (mut sent, mut outlet) = (Vec::new(), Outlet::redacting(Redactor::default()));
    bundle(&files, &story, LogLines::Known, &mut outlet)
        .write(&mut sent)
        .expect("packed");
    let place = run.path().join("sent.tar.gz");
    std::fs::write(&place, sent).expect("written");
    let sent = RunFiles::open(&place).expect("a bundle");
    for name in sent.names() {
        let bytes = sent.read(&name, 1 << 26).expect("read");
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("vexumoki"), "{name}: {text}");
    }
}

#[test]
fn the_words_of_a_scenario_are_replaced_in_every_file_of_a_bundle() {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    let name = "quixo-zorbl-of-a-name-that-is-cut-in-names-of-files";
    let scenario = format!(
        "name = \"{name}\"\n\n[plugin]\nname = \"/opt/zumbavex/libnccl-net.so\"\n\n\
        [env]\nNCCL_NOTE = \"quixotrain\"\nZUMBAKALO = \"1\"\nNCCL_PROXY = \"http://al:SECRET@prox:1/\"\n"
    );
    std::fs::write(run.path().join("scenario.toml"), scenario).expect("written");
    let record = run.path().join("run.json");
    let mut value: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&record).expect("read")).expect("JSON");
    value["id"] = format!("20261120T101500Z-{name}").into();
    value["scenario"]["name"] = name.into();
    value["pairs"][0]["workers"][0]["env"]["ZUMBAKALO"] = "1".into();
    value["reason"] = format!("/dev/shm/worker-{} is gone", &name[..24]).into();
    value["command"] = "tcpxctl run own.toml --set env.NCCL_NOTE=quixotrain".into();
    std::fs::write(&record, value.to_string()).expect("written");
    let files = RunFiles::open(run.path()).expect("a run");
    let (mut sent, mut outlet) = (Vec::new(), Outlet::redacting(Redactor::default()));
    let story = gather(&files);
    bundle(&files, &story, LogLines::Known, &mut outlet)
        .write(&mut sent)
        .expect("packed");
    let map = outlet.map().expect("it redacts");
    assert!(!map.keys().any(|key| key.contains("quixo")), "{map:?}");
    let place = run.path().join("sent.tar.gz");
    std::fs::write(&place, &sent).expect("written");
    let sent = RunFiles::open(&place).expect("a bundle");
    assert!(!sent.id().contains("quixo"), "{}", sent.id());
    for name in sent.names() {
        let bytes = sent.read(&name, 1 << 26).expect("read");
        let text = String::from_utf8_lossy(&bytes);
        for word in ["quixo", "zumba", "ZUMBA", "//al:", "prox:"] {
            let at = text.find(word).unwrap_or(0);
            let shown = text.floor_char_boundary(at.saturating_sub(60));
            assert!(
                !text.contains(word),
                "{word} in {name}: {}",
                &text[shown..][..80]
            );
        }
    }
    let again = gather(&sent);
    assert_eq!(again.windows.len(), story.windows.len());
    let written = sent.read("scenario.toml", 1 << 20).expect("there");
    let written = String::from_utf8(written).expect("text");
    assert!(
        written.contains(&format!("name = \"{}\"", again.scenario)),
        "{written}"
    );
}

#[test]
fn the_name_of_a_scenario_of_ordinary_words_is_in_no_file_of_a_bundle() {
    for name in [
        "train-data-7",
        "large-model",
        "network-group",
        "data_train",
        "google",
        "harbor",
    ] {
        let run = tempfile::tempdir().expect("a folder");
        stalled(run.path(), &Names::default());
        let scenario = format!("name = \"{name}\"\n\n[env]\nJOB_NAME = \"{name}\"\n");
        std::fs::write(run.path().join("scenario.toml"), scenario).expect("written");
        let record = run.path().join("run.json");
        let mut value: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&record).expect("read")).expect("JSON");
        value["id"] = format!("20261120T101500Z-{name}").into();
        value["scenario"]["name"] = name.into();
        value["reason"] = format!("reports/20261120T101500Z-{name} is full").into();
        value["command"] = format!("tcpxctl run {name}.toml --peer node1").into();
        std::fs::write(&record, value.to_string()).expect("written");
        let files = RunFiles::open(run.path()).expect("a run");
        let (mut sent, mut outlet) = (Vec::new(), Outlet::redacting(Redactor::default()));
        let story = gather(&files);
        let bundled = bundle(&files, &story, LogLines::Known, &mut outlet)
            .write(&mut sent)
            .expect("packed");
        assert!(!bundled.name.contains(name), "{}", bundled.name);
        let place = run.path().join("sent.tar.gz");
        std::fs::write(&place, &sent).expect("written");
        let sent = RunFiles::open(&place).expect("a bundle");
        for file in sent.names() {
            let bytes = sent.read(&file, 1 << 26).expect("read");
            let text = String::from_utf8_lossy(&bytes);
            let line = text.lines().find(|line| line.contains(name));
            assert_eq!(line, None, "{name} in {file}");
        }
        let (again, verified) = (gather(&sent), verify(&sent));
        assert!(verified.revealing.is_empty(), "{verified:#?}");
        assert_eq!(again.windows.len(), story.windows.len());
        assert_eq!(
            format!("{:?}", again.outcome),
            format!("{:?}", story.outcome)
        );
        assert!(again.scenario.starts_with("word"), "{}", again.scenario);
    }
}

#[test]
fn a_bundle_whose_proxy_had_a_user_has_no_doubt_and_keeps_the_variable() {
    for lines in [LogLines::Known, LogLines::All] {
        let run = tempfile::tempdir().expect("a folder");
        stalled(run.path(), &Names::default());
        let url = "https://bob:p4ssW0rdZ9q@proxy.corp:8080/x";
        let scenario = format!("name = \"4conn\"\n\n[env]\nNCCL_PROXY_URL = \"{url}\"\n");
        std::fs::write(run.path().join("scenario.toml"), scenario).expect("written");
        let record = run.path().join("run.json");
        let mut value: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&record).expect("read")).expect("JSON");
        for worker in value["pairs"][0]["workers"]
            .as_array_mut()
            .expect("workers")
        {
            worker["env"]["NCCL_PROXY_URL"] = url.into();
        }
        value["command"] = format!("tcpxctl run 4conn.toml --set env.NCCL_PROXY_URL={url}").into();
        std::fs::write(&record, value.to_string()).expect("written");
        let files = RunFiles::open(run.path()).expect("a run");
        let (mut sent, mut outlet) = (Vec::new(), Outlet::redacting(Redactor::default()));
        bundle(&files, &gather(&files), lines, &mut outlet)
            .write(&mut sent)
            .expect("packed");
        let place = run.path().join("sent.tar.gz");
        std::fs::write(&place, &sent).expect("written");
        let sent = RunFiles::open(&place).expect("a bundle");
        let verified = verify(&sent);
        assert!(verified.revealing.is_empty(), "{verified:#?}");
        let report = sent.read("report.md", 1 << 26).expect("there");
        let report = String::from_utf8_lossy(&report);
        assert!(report.contains("NCCL_PROXY_URL"), "{report}");
    }
}
