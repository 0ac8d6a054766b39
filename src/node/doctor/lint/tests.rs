//! The linter over published, mistaken and arbitrary environments.

use super::*;
use proptest::prelude::*;
use std::process::Command;

fn machine() -> Machine {
    let nic = |node: u32, irqs: &str| NicPlace {
        node: Some(node),
        irq_cpus: Some(irqs.parse().unwrap()),
        has_address: Some(true),
    };
    let nics = [
        ("eth0", 0, "1-16"),
        ("eth1", 0, "17-32"),
        ("eth2", 0, "33-48"),
        ("eth3", 1, "52-67"),
        ("eth4", 1, "68-83"),
    ];
    Machine {
        online: Some("0-207".parse().unwrap()),
        nodes: [
            (0, "0-51,104-155".parse().unwrap()),
            (1, "52-103,156-207".parse().unwrap()),
        ]
        .into(),
        nics: Some(
            nics.iter()
                .map(|(name, node, irqs)| ((*name).to_owned(), nic(*node, irqs)))
                .collect(),
        ),
        default_interface: Some("eth0".to_owned()),
        rails: ["eth1", "eth2", "eth3", "eth4"].map(str::to_owned).into(),
        gpus: 8,
        manager_answers: Some(true),
        chunk: None,
    }
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn applied(before: &Environment, lines: &[String]) -> Environment {
    let mut after = before.clone();
    for line in lines {
        match line.strip_prefix("unset ") {
            Some(name) => drop(after.remove(name)),
            None => {
                let (name, word) = line
                    .strip_prefix("export ")
                    .unwrap()
                    .split_once('=')
                    .unwrap();
                let text = word
                    .strip_prefix('\'')
                    .and_then(|word| word.strip_suffix('\''))
                    .unwrap_or(word);
                after.insert(name.to_owned(), text.replace(r"'\''", "'"));
            }
        }
    }
    after
}

#[test]
fn every_kind_has_a_check_and_every_check_has_a_kind() {
    let checks = super::super::Catalogue::embedded().unwrap();
    let read: Vec<String> = checks
        .checks()
        .filter_map(|(_, check)| {
            check
                .reads
                .to_string()
                .strip_prefix("lint.")
                .map(str::to_owned)
        })
        .collect();
    let mut kinds: Vec<String> = LintKind::ALL.iter().map(|kind| kind.name()).collect();
    let mut read = read;
    kinds.sort_unstable();
    read.sort_unstable();
    assert_eq!(kinds, read);
}

#[test]
fn a_mistake_names_the_variable_and_its_value() {
    let table = VariableTable::embedded().unwrap();
    let check = |pairs: &[(&str, &str)], kind: LintKind, text: &str| {
        let found = lint(&table, &environment(pairs), &machine());
        let texts: Vec<&str> = found
            .lints
            .iter()
            .filter(|lint| lint.kind == kind)
            .map(|lint| lint.text.as_str())
            .collect();
        assert_eq!(texts, [text], "{:?}", found.lints);
    };
    check(
        &[("NCCL_NSOCKS_PER_THREAD", "4")],
        LintKind::UnknownName,
        "NCCL_NSOCKS_PER_THREAD=4 is read by neither the plugin nor NCCL; did you mean NCCL_NSOCKS_PERTHREAD?",
    );
    check(
        &[("NCCL_GPUDIRECTTCPX_DEBUG_LEVEL", "TRACE")],
        LintKind::ReadByNobody,
        "NCCL_GPUDIRECTTCPX_DEBUG_LEVEL=TRACE: nothing reads it; set NCCL_DEBUG instead",
    );
    check(
        &[("NCCL_FASTRAK_IFNAME", "eth1")],
        LintKind::OtherProduct,
        "NCCL_FASTRAK_IFNAME=eth1 is for GPUDirect-TCPXO (A3-mega); TCPX does not read it",
    );
    check(
        &[("NCCL_DYNAMIC_CHUNK_SIZE", "512K")],
        LintKind::NotANumber,
        "NCCL_DYNAMIC_CHUNK_SIZE=512K is read as 512",
    );
    check(
        &[],
        LintKind::TaskChunk,
        "NCCL_DYNAMIC_CHUNK_SIZE is not set; the plugin uses 0",
    );
    check(
        &[
            ("NCCL_NSOCKS_PERTHREAD", "8"),
            ("NCCL_SOCKET_NTHREADS", "2"),
        ],
        LintKind::Sockets,
        "NCCL_NSOCKS_PERTHREAD 8 x NCCL_SOCKET_NTHREADS 2 is 16; the plugin cuts it to 4 per thread",
    );
    check(
        &[("NCCL_GPUDIRECTTCPX_TX_BINDINGS", "eth3:60-73,8-15")],
        LintKind::BindingsFar,
        "NCCL_GPUDIRECTTCPX_TX_BINDINGS: eth3 is bound to CPUs 8-15, but its NUMA node 1 has 52-103,156-207",
    );
    check(
        &[("NCCL_GPUDIRECTTCPX_TX_BINDINGS", "eth1:17-32")],
        LintKind::BindingsOnIrqs,
        "NCCL_GPUDIRECTTCPX_TX_BINDINGS: 16 of 16 CPUs of eth1 serve its interrupts (17-32)",
    );
}

#[test]
fn a_kind_without_its_facts_is_open_and_not_clean() {
    let table = VariableTable::embedded().unwrap();
    let bindings = environment(&[
        ("NCCL_GPUDIRECTTCPX_TX_BINDINGS", "eth1:8-21"),
        ("NCCL_GPUDIRECTTCPX_CTRL_DEV", "eth0"),
    ]);
    let found = lint(&table, &bindings, &Machine::default()).by_kind();
    for kind in [
        "bindings-offline",
        "bindings-far",
        "bindings-on-irqs",
        "interfaces",
        "control",
        "prefix-unset",
    ] {
        assert!(found[kind].why().is_some(), "{kind}: {:?}", found[kind]);
    }
    assert_eq!(found.len(), LintKind::ALL.len());
}

#[test]
fn the_published_environment_is_clean() {
    let table = VariableTable::embedded().unwrap();
    let published: Environment = table
        .variables
        .values()
        .filter_map(|variable| Some((variable.name.clone(), variable.recommended.clone()?)))
        .collect();
    let found = lint(&table, &published, &machine());
    assert!(
        found.lints.is_empty() && found.open.is_empty(),
        "{found:#?}"
    );
    assert_eq!(
        exports(&table, &published, &machine()),
        Vec::<String>::new()
    );
}

#[test]
fn an_empty_environment_gets_the_variables_that_the_plugin_needs() {
    let lines = exports(
        &VariableTable::embedded().unwrap(),
        &Environment::new(),
        &Machine {
            manager_answers: Some(false),
            ..machine()
        },
    );
    assert_eq!(
        lines,
        [
            "export NCCL_DYNAMIC_CHUNK_SIZE=524288",
            "export NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0",
            "export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=500000",
            "export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME==eth1,eth2,eth3,eth4",
            "export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=/run/tcpx",
        ]
    );
}

#[test]
fn a_value_with_shell_syntax_is_quoted() {
    for value in [
        "$(touch /tmp/x)",
        "`id`",
        "a'b",
        "a b;c",
        "\\",
        "\"",
        "*",
        "!!",
        "é",
    ] {
        // The fix moves the value, unchanged, to the name that was meant.
        let lines = exports(
            &VariableTable::embedded().unwrap(),
            &environment(&[("UCCL_TCPX_PLUGIN_PAHT", value)]),
            &machine(),
        );
        let script = format!("{}\nprintf %s \"$UCCL_TCPX_PLUGIN_PATH\"", lines.join("\n"));
        let said = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), value, "{script}");
    }
}

fn names() -> Vec<String> {
    let table = VariableTable::embedded().unwrap();
    let mut names: Vec<String> = table
        .variables
        .values()
        .map(|variable| variable.name.clone())
        .collect();
    names.extend(
        [
            "NCCL_FASTRAK_IFNAME",
            "CUDA_VISIBLE_DEVICES",
            "NCCL_IB_HCA",
            "NCCL_NSOCKS_PER_THREAD",
        ]
        .map(str::to_owned),
    );
    names
}

fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,12}",
        "-?[0-9]{1,3}[KMkx]?",
        "(eth[0-9]:[0-9]{1,3}-[0-9]{1,3}[,;]){1,4}",
        "[=^]?(eth[0-9],?){0,4}",
        "/[a-z]{0,120}",
        "\\PC{0,24}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_printed_lines_leave_no_mistake_that_has_a_fix(
        chosen in prop::collection::btree_map(prop::sample::select(names()), values(), 0..12),
        answers in prop::option::of(any::<bool>()),
        chunk in prop::option::of(1u64..16 << 20),
    ) {
        let table = VariableTable::embedded().unwrap();
        let machine = Machine { manager_answers: answers, chunk, ..machine() };
        let lines = exports(&table, &chosen, &machine);
        let after = applied(&chosen, &lines);
        let left: Vec<Lint> =
            lint(&table, &after, &machine).lints.into_iter().filter(|lint| !lint.fixes.is_empty()).collect();
        prop_assert!(left.is_empty(), "{:?} still has {:?}", after, left);
        prop_assert_eq!(exports(&table, &after, &machine), Vec::<String>::new(), "{:?}", after);
    }

    #[test]
    fn a_misspelt_name_is_found(
        name in prop::sample::select(names()),
        at in any::<prop::sample::Index>(),
        letter in "[A-Z_]",
    ) {
        let table = VariableTable::embedded().unwrap();
        let mut slipped = name.clone();
        let at = at.index(slipped.len());
        slipped.replace_range(at..=at, &letter);
        let belongs = |name: &str| table.variable(name).is_some() || table.family(name).is_some() || table.is_nccl(name);
        prop_assume!(!belongs(&slipped));
        let found = lint(&table, &environment(&[(&slipped, "1")]), &machine());
        prop_assert!(found.lints.iter().any(|lint| lint.kind == LintKind::UnknownName), "{}", slipped);
    }

    #[test]
    fn any_environment_is_linted(
        any in prop::collection::btree_map("[A-Z_]{1,20}", "\\PC{0,40}", 0..8),
        chosen in prop::collection::btree_map(prop::sample::select(names()), "\\PC{0,60}", 0..8),
    ) {
        let table = VariableTable::embedded().unwrap();
        for machine in [machine(), Machine::default()] {
            for environment in [&any, &chosen] {
                for lint in lint(&table, environment, &machine).lints {
                    prop_assert!(!lint.text.chars().any(char::is_control), "{:?}", lint);
                }
            }
        }
    }
}
