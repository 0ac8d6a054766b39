//! The examples at the end of each subcommand's `--help`.
#![forbid(unsafe_code)]

use clap::Command;

const EXAMPLES: [(&str, &[(&str, &str)]); 26] = [
    (
        "baseline",
        &[
            (
                "tcpxctl baseline save last-month reports/20261020T101500Z-4conn",
                "keep a result under a name",
            ),
            (
                "tcpxctl baseline list",
                "all baselines, and the shipped profiles with their sources",
            ),
        ],
    ),
    (
        "bundle",
        &[
            ("tcpxctl bundle", "the newest run under reports/, redacted"),
            (
                "tcpxctl bundle RUN --out run.tar.gz",
                "this run, to that file",
            ),
            (
                "tcpxctl bundle --verify run.tar.gz",
                "check its checksums, and search it for names",
            ),
        ],
    ),
    (
        "compare",
        &[
            (
                "tcpxctl compare reports/A reports/B",
                "is B better, worse, or within the noise?",
            ),
            (
                "tcpxctl compare google-150gbps reports/B --tolerance 10",
                "compare with a shipped profile",
            ),
            (
                "tcpxctl compare reports/A iperf3.json --format html --out c.html",
                "compare with another tool, with plots",
            ),
        ],
    ),
    (
        "completions",
        &[(
            "tcpxctl completions bash > ~/.local/share/bash-completion/completions/tcpxctl",
            "completion in every new shell",
        )],
    ),
    (
        "diagnose",
        &[
            ("tcpxctl diagnose --explain", "list every condition"),
            (
                "tcpxctl diagnose --explain window-never-consumed",
                "what it means and what to do",
            ),
        ],
    ),
    (
        "discover",
        &[
            ("tcpxctl discover", "this node, with the plugin's devices"),
            (
                "tcpxctl discover --peer 10.0.0.226 --json",
                "another node, as one JSON document",
            ),
        ],
    ),
    (
        "doctor",
        &[
            ("tcpxctl doctor", "is this node ready for TCPX?"),
            (
                "tcpxctl doctor --peer 10.0.0.226",
                "both nodes, and every rail between them",
            ),
            (
                "eval \"$(tcpxctl doctor --fix-env)\"",
                "correct the environment of this shell",
            ),
        ],
    ),
    (
        "gpu",
        &[(
            "tcpxctl gpu --chunk 512KiB --batch 16",
            "each unpack policy against a plain copy",
        )],
    ),
    (
        "handshake",
        &[(
            "tcpxctl handshake --peer 10.0.0.226 --repeat 10",
            "the time of each step of connecting",
        )],
    ),
    (
        "history",
        &[
            (
                "tcpxctl history --scenario 4conn --last 20",
                "its rate over time",
            ),
            (
                "tcpxctl history --outcome stalled --json",
                "every run that stalled",
            ),
            (
                "tcpxctl history rates --scenario mesh --format csv",
                "every pair, rail and direction, for DuckDB or pandas",
            ),
            (
                "tcpxctl history rates nccl-*.log --format html",
                "a matrix of other tools' results",
            ),
            (
                "tcpxctl history slower --since 2026-11",
                "which rail got slower",
            ),
            (
                "tcpxctl history prune --keep 50 --keep-failed --dry-run",
                "what would be removed",
            ),
        ],
    ),
    (
        "logs",
        &[
            ("tcpxctl logs node0.log node1.log", "summarize both"),
            ("kubectl logs trainer-0 | tcpxctl logs -", "from a pipe"),
            ("tcpxctl logs run.tar.gz", "the logs in a bundle"),
            (
                "tcpxctl logs --fail-on error logs/",
                "exit code 1 on an error or worse, for CI",
            ),
        ],
    ),
    (
        "man",
        &[(
            "tcpxctl man --out ~/.local/share/man/man1",
            "then: man tcpxctl-run",
        )],
    ),
    (
        "mr",
        &[(
            "tcpxctl mr --peer 10.0.0.226",
            "which memory the plugin accepts and refuses",
        )],
    ),
    (
        "report",
        &[
            (
                "tcpxctl report",
                "the newest run, as report.html in its folder",
            ),
            (
                "tcpxctl report RUN --short --lang zh",
                "sixty lines for an e-mail, in Chinese",
            ),
            (
                "tcpxctl report RUN --for google --out mail/",
                "every format, with the questions for Google first",
            ),
            (
                "tcpxctl report run.tar.gz --format junit --out junit.xml",
                "JUnit XML of a bundle, for CI",
            ),
            (
                "tcpxctl report --collect --peer 10.0.0.226",
                "the doctor checks of both nodes, without a run",
            ),
        ],
    ),
    (
        "run",
        &[
            (
                "tcpxctl run scenarios/4conn.toml",
                "both ends on this machine",
            ),
            (
                "tcpxctl run scenarios/4conn.toml --peer 10.0.0.226 --live",
                "two nodes, with the live view",
            ),
            (
                "tcpxctl run scenarios/4conn.toml --set transfer.connections=8 --dry-run",
                "every key with its value and origin",
            ),
            (
                "tcpxctl run mesh-quick --hosts a3-[0-15] --allow-missing 1",
                "many nodes over ssh, without one that cannot be reached",
            ),
            (
                "salloc -N 16 tcpxctl run mesh-quick --expect min_gb_per_s=10 --within 3m",
                "the nodes of a Slurm job, as a gate",
            ),
            (
                "tcpxctl run kv-cache --peer HOST --set traffic.model=llama-3.1-70b",
                "how long do requests wait for their KV cache?",
            ),
            (
                "tcpxctl run --like-nixlbench '--op_type READ --check_consistency' --peer HOST",
                "what nixlbench would run, and its table",
            ),
            (
                "tcpxctl run scenarios/4conn.toml --peer HOST --report-on-fail",
                "unless it passes, pack a bundle for Google",
            ),
        ],
    ),
    (
        "selftest",
        &[(
            "tcpxctl selftest --plugin /usr/local/tcpx/lib64/libnccl-net-tcpx.so",
            "run every row of the conformance suite",
        )],
    ),
    (
        "serve",
        &[
            (
                "tcpxctl serve --secret-file secret",
                "then, elsewhere: tcpxctl run ... --join HOST:PORT --secret-file secret",
            ),
            (
                "tcpxctl serve --call HOST:18501 --secret-file secret",
                "on many nodes; on HOST: tcpxctl run mesh --launcher join --nodes N --secret-file secret",
            ),
        ],
    ),
    (
        "tap",
        &[
            (
                "tcpxctl tap -- ./my_program --its-flags",
                "then: tcpxctl watch",
            ),
            (
                "tcpxctl tap --on-stall bundle -- ./my_program",
                "a bundle in reports/ while it stands still",
            ),
        ],
    ),
    (
        "adopt",
        &[(
            "tcpxctl adopt a3-0.tcpxrec a3-1.tcpxrec logs/",
            "then: tcpxctl report, tcpxctl bundle",
        )],
    ),
    (
        "topic",
        &[
            ("tcpxctl topic", "list the pages"),
            (
                "tcpxctl topic own-signatures",
                "how to add your own log signatures",
            ),
        ],
    ),
    (
        "trace",
        &[
            (
                "tcpxctl trace RUN --out run.json",
                "then open it at https://ui.perfetto.dev",
            ),
            (
                "tcpxctl trace run.tar.gz --format csv",
                "every event of a bundle, one per row",
            ),
        ],
    ),
    (
        "tune",
        &[
            (
                "tcpxctl tune scenarios/4conn.toml --peer 10.0.0.226 --budget 20m",
                "connections, sockets, chunk, windows, threads and idle for this path",
            ),
            (
                "tcpxctl tune scenarios/4conn.toml --knobs connections,chunk",
                "only these two",
            ),
        ],
    ),
    (
        "watch",
        &[
            (
                "tcpxctl watch",
                "every process of this machine with a recorder",
            ),
            (
                "tcpxctl watch --replay run.tar.gz --speed 2",
                "replay a run at twice its speed",
            ),
            (
                "tcpxctl watch RUN --once --out frame.svg",
                "save one frame as an image",
            ),
        ],
    ),
    (
        "export",
        &[
            (
                "tcpxctl export --listen 0.0.0.0:9469",
                "serve the node's counters to Prometheus",
            ),
            ("tcpxctl export --once", "print them"),
        ],
    ),
    (
        "rehearse",
        &[("tcpxctl rehearse", "inject every known failure")],
    ),
    (
        "shrink",
        &[(
            "tcpxctl shrink scenarios/failing.toml",
            "the smallest scenario that still fails",
        )],
    ),
];

/// Subcommands that print and write names, addresses and values as they are.
const PLAIN: [&str; 6] = ["diagnose", "history", "logs", "run", "trace", "watch"];
const IS_PLAIN: &str =
    "Output is not redacted. To send it, read a bundle, which is: tcpxctl bundle";
/// Subcommands that print the names and addresses of nodes.
const OF_NODES: [&str; 2] = ["discover", "doctor"];
const IS_OF_NODES: &str = "Output is not redacted: of the values of variables, only secrets that are recognised are ***. To send it, \
     use a capture, which is redacted: tcpxctl doctor --capture FILE";

/// Adds each subcommand's examples after its flags.
pub(super) fn with_examples(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, (name, examples)| {
        if command.find_subcommand(name).is_none() {
            return command;
        }
        command.mut_subcommand(*name, |below| {
            let said = below
                .get_after_help()
                .map(|said| format!("\n\n{said}"))
                .unwrap_or_default();
            let plain = match name {
                name if PLAIN.contains(name) => format!("\n\n{IS_PLAIN}"),
                name if OF_NODES.contains(name) => format!("\n\n{IS_OF_NODES}"),
                _ => String::new(),
            };
            let examples = lines(examples);
            below.after_help(format!("Examples:\n{}{said}{plain}", examples.trim_end()))
        })
    })
}

fn lines(examples: &[(&str, &str)]) -> String {
    examples
        .iter()
        .map(|(command, what)| format!("  {command}\n      {what}\n"))
        .collect()
}
