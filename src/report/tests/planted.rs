//! Secrets of twenty kinds, planted in thirty places of a run, are in no output.

use super::fixture::{Names, gather, recorder, stalled, write};
use crate::{
    Language, LogLines, bundle, csv, html, json, junit, markdown, prometheus, redacted, short,
    verify,
};
use flate2::read::MultiGzDecoder;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::path::Path;
use tcpx_node::redact::{Outlet, Redactor};
use tcpx_run_model::record::RunFiles;

/// Secrets that a format shows. Each is planted where nothing names it, too.
const SHAPED: [&str; 12] = [
    "ghp_[A-Za-z0-9]{36}",
    "github_pat_[A-Za-z0-9_]{40}",
    "glpat-[A-Za-z0-9]{20}",
    "AKIA[A-Z0-9]{16}",
    "AIza[A-Za-z0-9_]{35}",
    "ya29\\.[A-Za-z0-9_]{40}",
    "hf_[A-Z][a-z][A-Z0-9]{32}",
    "sk-proj-[0-9][A-Z][A-Za-z0-9]{40}",
    "xoxb-[0-9]{11}-[A-Za-z0-9]{24}",
    "npm_[A-Za-z0-9]{36}",
    "eyJ[A-Za-z0-9]{20}\\.eyJ[A-Za-z0-9]{30}\\.[A-Za-z0-9]{30}",
    "[a-z]{6}[0-9]{2}@[a-z]{8}\\.example",
];
/// Secrets that only a name shows.
const NAMED: [&str; 8] = [
    "[0-9a-f]{40}",
    "[A-Za-z0-9]{8}[0-9][A-Z][a-z]",
    "[a-z]{5}-[A-Z][a-z]{6}-[0-9]{3}",
    "[A-Z][a-z0-9]{5}[!#%^*][a-z0-9]{4}",
    "[0-9a-f]{32}Q7",
    "q[a-z]{11}",
    "[A-Za-z0-9+]{38}[0-9]=",
    "[a-z]{4}/[A-Z]{4}[0-9]{3}\\\\[a-z]{3}",
];

/// A layout of a name (`N`) and its value (`V`) in text.
const LAYOUTS: [&str; 18] = [
    "N=V",
    "export N='V' # set here",
    "docker run -e N=V image",
    "prog --password V --verbose",
    "prog --api-key=V",
    "password: V",
    "- name: N\n  value: V",
    "{\"N\": \"V\"}",
    "{'token': 'V'}",
    "[\"--token\", \"V\"]",
    "| N | - | V |",
    "<tr><td><code>N</code></td><td>V</td></tr>",
    "X-Api-Key: V",
    "Authorization: Bearer V",
    "https://someone:V@registry.example.com/x",
    "the log says V and goes on",
    "cut as V",
    "N    V",
];

fn escaped(secret: &str, escape: impl Fn(u8) -> String) -> String {
    secret.bytes().map(escape).collect()
}

/// Lines that have every secret, and its escaped forms.
fn lines(secrets: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, secret) in secrets {
        for layout in LAYOUTS {
            text += &layout.replace('N', name).replace('V', secret);
            text.push('\n');
        }
        let middle = secret.len() / 2;
        let wrapped = format!("{}\n    {}", &secret[..middle], &secret[middle..]);
        let forms = [
            escaped(secret, |byte| format!("%{byte:02X}")),
            escaped(secret, |byte| format!("&#x{byte:x};")),
            escaped(secret, |byte| format!("\\u{byte:04x}")),
            serde_json::json!(secret).to_string(),
            wrapped,
        ];
        for form in forms {
            text += &format!("seen {form} here\n");
        }
    }
    text
}

/// A run in which the secrets stand in files of every kind.
fn plant(run: &Path, secrets: &[(String, String)]) {
    let all = lines(secrets);
    let token = secrets[0].1.clone();
    let names = Names {
        token,
        ..Names::default()
    };
    stalled(run, &names);
    recorder(run, &names);
    let path = run.join("run.json");
    let text = std::fs::read_to_string(&path).expect("there");
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for (name, secret) in secrets {
        record["nodes"][0]["facts"]["environment"][name] = secret.clone().into();
        record["pairs"][0]["workers"][1]["env"][name] = secret.clone().into();
    }
    let anywhere = secrets.iter().map(|(_, secret)| secret.as_str());
    let anywhere = anywhere.collect::<Vec<_>>().join(" ");
    for key in ["reason", "next_step", "command"] {
        record[key] = format!("run with {anywhere}").into();
    }
    record["findings"][0]["because"][1] = format!("line {anywhere}").into();
    write(run, "run.json", &record.to_string());
    let mut events = std::fs::read_to_string(run.join("events.jsonl")).expect("there");
    let last = events.lines().last().expect("a line").to_owned();
    let mut event: serde_json::Value = serde_json::from_str(&last).expect("JSON");
    for (number, line) in all.lines().enumerate() {
        event["kind"] = serde_json::json!({ "note": line });
        event["text"] = format!("{number} {line}").into();
        events += &format!("{event}\n");
    }
    write(run, "events.jsonl", &events);
    let comments = all.lines().map(|line| format!("# {line}\n"));
    write(
        run,
        "scenario.toml",
        &format!("name = \"x\"\n{}", comments.collect::<String>()),
    );
    write(
        run,
        "nodes/peer/freeze-frame.json",
        &serde_json::json!({ "argv": all }).to_string(),
    );
    write(run, "nodes/peer/environ.txt", &all);
    std::fs::create_dir_all(run.join("logs")).expect("a folder");
    write(run, "logs/rank0.log", &all);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(all.as_bytes()).expect("packed");
    std::fs::write(
        run.join("logs/rank1.log.gz"),
        packed.finish().expect("packed"),
    )
    .expect("written");
    let units: Vec<u8> = all.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(
        run.join("logs/rank2.log"),
        [&[0xff, 0xfe], &units[..]].concat(),
    )
    .expect("written");
    // A recorder whose strings are those lines.
    let path = run.join("nodes/peer/recorder.tcpxrec");
    let mut bytes = std::fs::read(&path).expect("there");
    for line in all.lines() {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(0);
    }
    std::fs::write(&path, bytes).expect("written");
}

fn assert_clean(
    place: &str,
    bytes: &[u8],
    secrets: &[(String, String)],
) -> Result<(), TestCaseError> {
    let mut inner = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(bytes)
            .read_to_end(&mut inner)
            .expect("gzip");
    }
    for bytes in [bytes, &inner] {
        for (name, secret) in secrets {
            let found = memchr::memmem::find(bytes, secret.as_bytes()).map(|at| {
                let from = at.saturating_sub(80);
                String::from_utf8_lossy(&bytes[from..(at + 80).min(bytes.len())]).into_owned()
            });
            prop_assert!(found.is_none(), "{name} {secret} in {place}: {found:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn no_output_holds_a_secret_of_any_kind(
        shaped in SHAPED.map(|shape| shape.prop_map(|secret| secret)).to_vec(),
        named in NAMED.map(|shape| shape.prop_map(|secret| secret)).to_vec(),
    ) {
        let all = named.into_iter().chain(shaped).enumerate();
        let secrets: Vec<(String, String)> =
            all.map(|(number, secret)| (format!("APP{number}_TOKEN"), secret)).collect();
        let run = tempfile::tempdir().expect("a folder");
        plant(run.path(), &secrets);
        let files = RunFiles::open(run.path()).expect("a run");
        let mut redactor = Redactor::default();
        let story = redacted(gather(&files), &mut redactor);
        let mut outlet = Outlet::redacting(redactor);
        let outputs = [
            html(&story, true, Language::English), markdown(&story, true, Language::English), csv(&story), junit(&story),
            prometheus(&story), short(&story, Language::English), json(&story).expect("JSON"),
        ];
        for (number, output) in outputs.into_iter().enumerate() {
            let cleared = outlet.rendered(output);
            assert_clean(&format!("output {number}"), cleared.bytes(), &secrets)?;
        }
        let mut packed = Vec::new();
        bundle(&files, &story, LogLines::All, &mut outlet).write(&mut packed).expect("packed");
        let place = run.path().join("sent.tar.gz");
        std::fs::write(&place, packed).expect("written");
        let sent = RunFiles::open(&place).expect("a bundle");
        for name in sent.names() {
            let bytes = sent.read(&name, 1 << 26).expect("read");
            assert_clean(&name, &bytes, &secrets)?;
        }
        prop_assert!(sent.names().len() >= 12, "{:?}", sent.names());
        let verified = verify(&sent);
        let place = verified.revealing.first().and_then(|told| {
            let (file, rest) = told.split_once(", line ")?;
            let number: usize = rest.split(',').next()?.parse().ok()?;
            let text = String::from_utf8_lossy(&sent.read(file, 1 << 26).ok()?).into_owned();
            let line = text.lines().nth(number - 1)?;
            let byte: usize = rest.split("byte ").nth(1)?.split(':').next()?.parse().ok()?;
            let at = byte - (line.as_ptr() as usize - text.as_ptr() as usize);
            Some(line.get(at.saturating_sub(60)..at + 30).unwrap_or(line).to_owned())
        });
        prop_assert!(verified.problems.is_empty() && verified.revealing.is_empty(), "{place:?} {verified:#?}");
        prop_assert_eq!(gather(&sent).windows, story.windows);
    }
}
