//! Texts nobody would write: hostile ones, random ones, and round trips.

use super::super::*;
use super::{outcome, written};
use proptest::prelude::*;
use tcpx_words::error::Outcome;
use tcpx_words::progress::Idle;
use tcpx_words::units::{ByteCount, TimeSpan};

/// Texts that are expensive for a careless parser, each just within the bound.
#[test]
fn hostile_texts_are_refused_like_any_other() {
    let size = FILE_BYTES_MAX as usize;
    let fill = |piece: &str| piece.repeat(size / piece.len());
    let numbered = |line: fn(usize) -> String| {
        let mut text = String::from("name = \"x\"\n");
        (0..)
            .map(line)
            .take_while(|line| {
                text.len() + line.len() <= size && {
                    text.push_str(line);
                    true
                }
            })
            .for_each(drop);
        text
    };
    let nested = |depth: usize| {
        let keys = vec!["a"; 78].join(".");
        (0..depth).fold("1".to_owned(), |inner, _| format!("{{ {keys} = {inner} }}"))
    };
    let texts = [
        fill("["),
        fill("a."),
        fill("[[a]]\n"),
        fill("{a="),
        format!("a = {}", &fill("[")[..size - 4]),
        format!("a = {}", &fill("{a=")[..size - 4]),
        format!("{} = 1", &fill("a.")[..size - 5]),
        format!("transfer.chunk = [{}]", &fill("1,")[..size - 20]),
        format!("name = \"{}\"", &fill("x")[..size - 9]),
        format!("name = \"\"\"{}", &fill("\n")[..size - 10]),
        format!("name = \"x\"\ntransfer = {}", nested(78)),
        format!("name = \"x\"\nenv.node.n = {}", nested(78)),
        numbered(|n| format!("env.A{n} = {n}\n")),
        numbered(|n| {
            format!(
                "{}env.A{n} = {n}\n",
                if n == 0 {
                    "transfer.iterations = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
                } else {
                    ""
                }
            )
        }),
        numbered(|n| format!("[env.node.n{n}]\nA = 1\n")),
        numbered(|n| format!("[k{n}]\n")),
        numbered(|n| format!("topology.map.{n} = \"eth1\"\n")),
    ];
    for text in texts {
        let (folder, inputs) = written(text.as_bytes());
        let said = outcome(&folder, &inputs);
        assert!(said.starts_with("error: "), "{:.200}: {said:.300}", text);
        assert!(said.len() < 3000, "{:.200}: {said:.3000}", text);
    }
}

/// Pieces that make a text look enough like a scenario to get far.
fn pieces() -> impl Strategy<Value = String> {
    let keys = keys::keys()
        .into_iter()
        .map(|key| key.replace("env.send", "env.send.A"))
        .collect::<Vec<_>>();
    let values = [
        "1",
        "0",
        "-1",
        "\"x\"",
        "\"512KiB\"",
        "\"3s\"",
        "true",
        "[1, 2]",
        "[]",
        "{}",
        "{ a = 1 }",
        "nan",
        "1979-05-27",
        "[[1]]",
        "\"auto\"",
        "\"recv\"",
        "9223372036854775807",
        "{ stand_ins = 2 }",
        "\"\\u0000\"",
    ];
    let line = (
        prop::sample::select(keys),
        prop::sample::select(values.to_vec()),
    )
        .prop_map(|(key, value)| format!("{key} = {value}\n"));
    let junk = prop_oneof![9 => line, 1 => "(?s).{0,20}", 1 => "\\[{1,2}[a-z.]{1,9}\\]{0,2}\n"];
    prop::collection::vec(junk, 0..6).prop_map(|lines| lines.concat())
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let transfer = (
        1..=1024u32,
        1..=i32::MAX as u64,
        1..=1u64 << 40,
        any::<bool>(),
    )
        .prop_map(|(connections, chunk, total, verify)| Transfer {
            connections,
            chunk: ByteCount(chunk),
            total: ByteCount(total),
            verify,
            ..Transfer::default()
        });
    let expect = (0.000_001..100_000.0, any::<u32>()).prop_map(|(rate, wrong)| Expect {
        min_gb_per_s: Some(GbPerS::from(rate)),
        max_wrong_bytes: Some(wrong.into()),
        outcome: Some(Outcome::Passed),
        ..Expect::default()
    });
    let times = (1..=86_400_000_000_000u64, 1..=100_000_000u64);
    let env = prop::collection::btree_map("[A-Z_][A-Z0-9_]{0,8}", "[^\\p{Cc}]{0,20}", 0..4);
    (transfer, expect, times, env, prop::option::of(1..=64u32)).prop_map(
        |(transfer, expect, (total, sleep), env, nics)| {
            let mut scenario = Scenario {
                transfer,
                expect,
                ..Scenario::default()
            };
            scenario.limits.total = TimeSpan::from_nanos(total);
            scenario.progress.idle = Idle::Sleep(TimeSpan::from_nanos(sleep));
            scenario.topology.nics = nics.map_or(Nics::Auto, Nics::First);
            if !env.is_empty() {
                scenario
                    .env
                    .node
                    .insert("10.0.1.25".to_owned(), env.clone());
            }
            scenario.env.all = env;
            scenario
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_are_a_scenario_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (_folder, inputs) = written(&bytes);
        let _ = resolve(&inputs).map_err(|error| error.render(true));
    }

    #[test]
    fn anything_like_a_scenario_is_one_or_is_refused(text in pieces(), set in ".{0,30}") {
        let (_folder, mut inputs) = written(text.as_bytes());
        let _ = resolve(&inputs).map_err(|error| error.render(false));
        inputs.variable_set = Some(set.clone());
        inputs.set(set);
        let _ = resolve(&inputs).map_err(|error| error.render(false));
    }

    #[test]
    fn any_json_is_a_scenario_or_is_refused(text in ".{0,100}") {
        let _ = Scenario::from_json(&text);
    }

    #[test]
    fn a_scenario_shipped_as_json_is_the_same_scenario(scenario in scenarios()) {
        scenario.check().expect("sound");
        let json = serde_json::to_string(&scenario).expect("serialises");
        let shipped = Scenario::from_json(&json).expect("reads back");
        prop_assert_eq!(shipped.hash(), scenario.hash());
        prop_assert_eq!(shipped.leaves(), scenario.leaves());
        prop_assert_eq!(shipped, scenario);
    }

    #[test]
    fn a_scenario_written_out_key_by_key_is_the_same_scenario(scenario in scenarios()) {
        let mut inputs = Inputs::default();
        scenario.leaves().into_iter().for_each(|(key, value)| inputs.set(format!("{key}={value}")));
        let read = resolve(&inputs).map_err(|error| error.render(false)).expect("sound").remove(0).scenario;
        prop_assert_eq!(read, scenario);
    }
}
