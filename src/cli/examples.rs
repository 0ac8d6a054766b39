//! The examples at the end of every `--help`: what people type, and when.
#![forbid(unsafe_code)]

use clap::Command;

const EXAMPLES: [(&str, &[(&str, &str)]); 22] = [
    (
        "baseline",
        &[
            (
                "tcpxctl baseline save last-month reports/20261020T101500Z-4conn",
                "keep a result under a name",
            ),
            (
                "tcpxctl baseline list",
                "all of them, and the shipped profiles with their sources",
            ),
        ],
    ),
    (
        "bundle",
        &[
            ("tcpxctl bundle", "the newest run under reports/, redacted"),
            (
                "tcpxctl bundle RUN --out run.tar.gz",
                "this one, to that file",
            ),
            (
                "tcpxctl bundle --verify run.tar.gz",
                "is it whole, and does it tell no names?",
            ),
        ],
    ),
    (
        "compare",
        &[
            (
                "tcpxctl compare reports/A reports/B",
                "is B better, worse, or is it noise?",
            ),
            (
                "tcpxctl compare google-150gbps reports/B --tolerance 10",
                "held against a shipped profile",
            ),
            (
                "tcpxctl compare reports/A iperf3.json --format html --out c.html",
                "beside another tool, with plots",
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
            (
                "tcpxctl diagnose --explain",
                "every condition there is a name for",
            ),
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
                "another one, as one document",
            ),
        ],
    ),
    (
        "doctor",
        &[
            ("tcpxctl doctor", "is this node fit for TCPX?"),
            (
                "tcpxctl doctor --peer 10.0.0.226",
                "both, and every rail between them",
            ),
            (
                "eval \"$(tcpxctl doctor --fix-env)\"",
                "the environment made right",
            ),
        ],
    ),
    (
        "gpu",
        &[(
            "tcpxctl gpu --chunk 512KiB --batch 16",
            "what unpacking costs beside one plain copy",
        )],
    ),
    (
        "handshake",
        &[(
            "tcpxctl handshake --peer 10.0.0.226 --repeat 10",
            "where the time of connecting goes",
        )],
    ),
    (
        "history",
        &[
            (
                "tcpxctl history --scenario 4conn --last 20",
                "where its rate stands",
            ),
            (
                "tcpxctl history --outcome stalled --json",
                "every run that stood still",
            ),
            (
                "tcpxctl history prune --keep 50 --keep-failed --dry-run",
                "what could go",
            ),
        ],
    ),
    (
        "logs",
        &[
            (
                "tcpxctl logs node0.log node1.log",
                "what both say, together",
            ),
            ("kubectl logs trainer-0 | tcpxctl logs -", "from a pipe"),
            ("tcpxctl logs run.tar.gz", "what a bundle holds, in place"),
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
            "which memory registers, and what is refused",
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
                "every format, the questions first",
            ),
            (
                "tcpxctl report run.tar.gz --format junit --out junit.xml",
                "of a bundle, for a CI",
            ),
            (
                "tcpxctl report --collect --peer 10.0.0.226",
                "no run: what both nodes are now",
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
                "two nodes, seen as it goes",
            ),
            (
                "tcpxctl run scenarios/4conn.toml --set transfer.connections=8 --dry-run",
                "what would run, and why",
            ),
            (
                "tcpxctl run scenarios/4conn.toml --peer HOST --report-on-fail",
                "unless it passes, pack what Google asks for",
            ),
        ],
    ),
    (
        "selftest",
        &[(
            "tcpxctl selftest --plugin /usr/local/tcpx/lib64/libnccl-net-tcpx.so",
            "does it keep what it owes?",
        )],
    ),
    (
        "serve",
        &[(
            "tcpxctl serve --secret-file secret",
            "then, elsewhere: tcpxctl run ... --join HOST:PORT --secret-file secret",
        )],
    ),
    (
        "tap",
        &[(
            "tcpxctl tap -- ./my_program --its-flags",
            "then: tcpxctl watch",
        )],
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
                "every event of a bundle, as rows",
            ),
        ],
    ),
    (
        "watch",
        &[
            (
                "tcpxctl watch",
                "every process of this machine that has a recorder",
            ),
            (
                "tcpxctl watch --replay run.tar.gz --speed 2",
                "a run again, twice as fast",
            ),
            (
                "tcpxctl watch RUN --once --out frame.svg",
                "one frame, to be shown",
            ),
        ],
    ),
    (
        "rehearse",
        &[("tcpxctl rehearse", "is every known failure still found?")],
    ),
    (
        "shrink",
        &[(
            "tcpxctl shrink scenarios/failing.toml",
            "the smallest scenario that still fails",
        )],
    ),
];

/// Puts each command's examples behind its flags.
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
            below.after_help(format!("Examples:\n{}{said}", lines(examples).trim_end()))
        })
    })
}

fn lines(examples: &[(&str, &str)]) -> String {
    examples
        .iter()
        .map(|(command, what)| format!("  {command}\n      {what}\n"))
        .collect()
}
