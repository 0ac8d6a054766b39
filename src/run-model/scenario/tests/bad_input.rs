//! What people get wrong, and what they are told.

use super::super::*;
use super::{outcome, said, written};
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::error::{NextStep, Outcome};

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
        "name = \"x\"\nenv.send.TCPXCTL_ABI = \"v9\"\n",
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
    let said: Vec<String> = table
        .iter()
        .map(|text| format!("--- {text:?}\n{}\n", said(text, &[])))
        .collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_wrong_flag_is_named_and_pointed_into() {
    let table: [&[&str]; 16] = [
        &["transfer.conections=8"],
        &["connections=8"],
        &["transfer.connections=0"],
        &["transfer.connections=eight"],
        &["transfer.connections"],
        &["=8"],
        &["transfer..x=8"],
        &["a=1\nb=2"],
        &["transfer.connections=[1, 2, 0]"],
        &["transfer=8"],
        &["plugin.path="],
        &["transfer.chunk=  8MB", "transfer.recv_window=  17"],
        &[
            "fault.by=driver",
            "fault.side=both",
            "fault.kind=not-polling",
            "fault.channel=99",
        ],
        &["fault.by=plugin"],
        &[
            "env.NCCL_X=[1,2,3]",
            "transfer.verify=false",
            "name=8conn",
            "limits.total=2m",
        ],
        &["transfer.connections=4 # four"],
    ];
    let said = table
        .iter()
        .map(|sets| format!("--- {sets:?}\n{}\n", said("name = \"x\"\n", sets)));
    insta::assert_snapshot!(said.collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_is_no_scenario_file_is_refused_with_a_next_step() {
    let (folder, mut inputs) = written(b"");
    let file = folder.path().join("bad.toml");
    let mut said = Vec::new();
    let mut check = |inputs: &Inputs| said.push(outcome(&folder, inputs));
    for name in ["", "bda.toml", "bad", "elsewhere/x.toml"] {
        inputs.scenario = Some(folder.path().join(name));
        check(&inputs);
    }
    inputs.scenario = Some(file.clone());
    std::fs::write(&file, b"name = \"x\"\n\x7fELF\x02\xff\xfe\x00").expect("a file");
    check(&inputs);
    std::fs::write(&file, "name = \"x\"\n".repeat(1_000_000)).expect("a file");
    check(&inputs);
    insta::assert_snapshot!(said.join("\n\n"));
}

#[test]
fn every_error_is_the_request_s_fault() {
    let (_folder, inputs) = written(b"name = \"x\"\n[transfer]\nchunks = 1\n");
    let error = resolve(&inputs).expect_err("unknown key");
    assert_eq!(error.outcome(), Outcome::Usage);
    assert_eq!(error.next_step().as_deref(), Some("did you mean `chunk`?"));
    let one_line = error.to_string();
    assert!(
        one_line.ends_with("bad.toml:3:1: unknown key `chunks` in [transfer]"),
        "{one_line}"
    );
}

#[test]
fn a_long_line_is_shown_in_part_and_counted_in_full() {
    let text = format!(
        "name = \"x\"\ntransfer = {{ {} connections = 0, chunk = 1 }}\n",
        "warmup = 1,".to_owned() + &" ".repeat(300)
    );
    insta::assert_snapshot!(said(&text, &[]));
}

/// Not a snapshot, as the versions change.
#[test]
fn a_version_of_the_table_that_is_not_known_is_refused_with_those_that_are() {
    for (given, words) in [
        ("\"v99\"", "`plugin.abi` cannot be \"v99\""),
        ("9", "`plugin.abi` cannot be 9"),
    ] {
        let said = said(&format!("name = \"x\"\nplugin.abi = {given}\n"), &[]);
        assert!(said.contains(words), "{said}");
        assert!(
            said.contains(&format!("expected {}", AbiVersion::RANGE)),
            "{said}"
        );
    }
}

#[test]
fn kv_traffic_that_cannot_be_is_refused_with_the_key_and_what_is_possible() {
    let refused = |keys: &str| {
        let said = said(&format!("name = \"x\"\n[traffic]\n{keys}\n"), &[]);
        let lines = said
            .lines()
            .filter(|line| line.contains("error") || line.contains('^'));
        let lines: Vec<&str> = lines.map(str::trim).collect();
        format!("{keys}\n  {}\n", lines.join("\n  "))
    };
    let all = [
        "kind = \"bulk\"",
        "model = \"llama-9\"",
        "layers = 0",
        "kv_heads = 0",
        "head_size = 0",
        "planes = 3",
        "dtype = \"bf17\"",
        "tp = 0",
        "tp = 3",
        "page_tokens = 0",
        "page_tokens = 65536\nkv_heads = 4096",
        "page = 0",
        "page = \"2GiB\"",
        "page = 4096\ndtype = \"fp8\"",
        "tokens = 0",
        "tokens = \"512x7, many\"",
        "op = \"send\"",
        "batch = 0",
        "batch = 4097",
        "batch = 4096\nconcurrency = 256\ndepth = 4",
        "batch = 4096\npage = 4096\nconcurrency = 256\ndepth = 4",
        "depth = 0",
        "requests = 0",
        "requests = 100000\ntokens = 4194304",
        "concurrency = 0",
        "concurrency = 257",
        "concurrency = 256\ndepth = 5",
        "arrival = \"poisson\"",
        "arrival = \"poisson\"\nrate = 0",
        "arrival = \"poisson\"\nrate = -3.5",
        "arrival = \"poisson\"\nrate = nan",
        "rate = 5",
        "arrival = \"bursts\"",
        "cache = \"4KiB\"",
        "seed = -1",
        "pages = 3",
        "[transfer]\nchunk = 1024",
        "[transfer]\nconnections = 257",
        "[transfer]\ndirection = \"ping-pong\"",
        "page = 1000\n[transfer]\nmemory = \"device\"",
        "[topology]\ngpus = { stand_ins = 2 }",
        "[progress]\npolicy = \"dedicated-thread\"",
        "[fault]\nby = \"driver\"\nside = \"recv\"\nkind = \"never-consumed\"",
    ];
    let all: String = all.iter().map(|keys| refused(keys)).collect();
    insta::assert_snapshot!(all);
}

#[test]
fn a_table_in_the_place_of_a_value_is_called_one() {
    let text = said("name = \"x\"\ntopology.nics.local = [\"eth0\"]\n", &[]);
    assert!(text.contains("`topology.nics` cannot be a table"), "{text}");
}
