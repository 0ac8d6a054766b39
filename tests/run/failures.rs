//! Failures of every subcommand under `--json`: stdout has one document, whose exit code is that
//! of the process.

use crate::tcpxctl::{Ended, SMALL, Tool};
use std::collections::BTreeSet;
use std::net::TcpListener;

/// The failures of one subcommand.
struct Failing {
    /// The subcommand as typed, such as `history prune`.
    command: &'static str,
    /// Arguments that clap refuses.
    usage: &'static [&'static str],
    /// Arguments, and the expected document.
    others: &'static [(&'static [&'static str], Document)],
}

/// The expected document on stdout, and the exit code.
enum Document {
    /// `tcpxctl.error/1`
    Error(i32),
    /// The command's result document, which has the reason.
    Result(&'static str, i32),
}
use Document::{Error, Result};

/// A port that nothing listens on.
const CLOSED_PORT: &str = "127.0.0.1:1";
const MISSING_PLUGIN: &str = "/no/such/plugin.so";

const ALL: &[Failing] = &[
    Failing {
        command: "adopt",
        usage: &[],
        others: &[
            (&["no-such-file"], Error(2)),
            (&["small.toml", "--reports", "/proc/x"], Error(3)),
        ],
    },
    Failing {
        command: "baseline list",
        usage: &["extra"],
        // It lists what can be read.
        others: &[],
    },
    Failing {
        command: "baseline save",
        usage: &["only-a-name"],
        others: &[
            (&["name", "no-such-result"], Error(2)),
            (&["a/b", "google-150gbps"], Error(2)),
        ],
    },
    Failing {
        command: "baseline show",
        usage: &[],
        others: &[(&["no-such-baseline"], Error(2)), (&["a/b"], Error(2))],
    },
    Failing {
        command: "bundle",
        usage: &["--verify"],
        others: &[
            (&["no-such-run"], Error(2)),
            (&["--reports", "no-such-folder"], Error(2)),
            (&["--verify", "small.toml"], Error(2)),
        ],
    },
    Failing {
        command: "compare",
        usage: &["only-one"],
        others: &[
            (&["no-such-result", "google-150gbps"], Error(2)),
            (&["small.toml", "google-150gbps"], Error(2)),
        ],
    },
    Failing {
        command: "completions",
        usage: &["no-such-shell"],
        // It writes to stdout from memory.
        others: &[],
    },
    Failing {
        command: "diagnose",
        usage: &["--explain", "a", "--evidence"],
        others: &[
            (&["no-such-run"], Error(2)),
            (&["--explain", "no-such-condition"], Error(2)),
            (&["--peer", CLOSED_PORT], Error(5)),
        ],
    },
    Failing {
        command: "discover",
        usage: &["--timeout", "0"],
        others: &[
            (&["--plugin", "no such plugin"], Error(2)),
            (&["--plugin", MISSING_PLUGIN], Result("discover", 3)),
            (&["--peer", CLOSED_PORT], Error(5)),
        ],
    },
    Failing {
        command: "doctor",
        usage: &["--no-redact"],
        others: &[
            (&["--sysroot", "no-such-folder"], Error(2)),
            (&["--peer-facts", "small.toml"], Error(2)),
            (&["--plugin", MISSING_PLUGIN], Error(3)),
            (&["--capture", "no/such/node.tar.gz"], Error(3)),
            (&["--peer", CLOSED_PORT], Error(5)),
        ],
    },
    Failing {
        command: "gpu",
        usage: &["--chunk", "0"],
        // On a machine with GPUs there is no hundredth.
        others: &[
            (&["--gpu", "99"], Error(3)),
            (&["--gpu", "ffff:ff:1f.7"], Error(3)),
        ],
    },
    Failing {
        command: "export",
        usage: &["--listen", "x"],
        others: &[(&["--listen", "TAKEN"], Error(3))],
    },
    Failing {
        command: "handshake",
        usage: &["-n", "0"],
        others: &[
            (&["--set", "transfer.chunk=0"], Error(2)),
            (&["--rsh", "ssh"], Error(2)),
            (&["--plugin", MISSING_PLUGIN], Result("handshake", 3)),
            (&["--peer", CLOSED_PORT], Result("handshake", 5)),
        ],
    },
    Failing {
        command: "history",
        usage: &["--last", "x"],
        others: &[
            (&["--reports", "no-such-folder"], Error(2)),
            (&["--reports", "small.toml"], Error(3)),
        ],
    },
    Failing {
        command: "history prune",
        usage: &[],
        others: &[
            (&["--keep", "1", "--reports", "no-such-folder"], Error(2)),
            (&["--keep", "1", "--reports", "small.toml"], Error(3)),
        ],
    },
    Failing {
        command: "history rates",
        usage: &["--last", "x"],
        others: &[
            (&["--reports", "no-such-folder"], Error(2)),
            (&["--reports", "small.toml"], Error(3)),
        ],
    },
    Failing {
        command: "history slower",
        usage: &["--since"],
        others: &[
            (&["--reports", "no-such-folder"], Error(2)),
            (&["--reports", "small.toml"], Error(3)),
        ],
    },
    Failing {
        command: "logs",
        usage: &[],
        others: &[
            (&["no-such.log"], Result("logs", 3)),
            (&["--check", "no-such-folder"], Error(3)),
            (&["--signatures", "no-such-folder", "small.toml"], Error(2)),
        ],
    },
    Failing {
        command: "man",
        usage: &["extra"],
        others: &[
            (&["--out", "no/such/folder"], Error(3)),
            (&["--out", "small.toml"], Error(3)),
        ],
    },
    Failing {
        command: "mr",
        usage: &["extra"],
        others: &[
            (&["--set", "x"], Error(2)),
            (&["--plugin", MISSING_PLUGIN], Result("mr", 3)),
            (&["--peer", CLOSED_PORT], Result("mr", 5)),
        ],
    },
    Failing {
        command: "rehearse",
        usage: &["--plugin", "tcpx"],
        others: &[
            (&["no-such-condition"], Error(2)),
            (&["link-down", "--reports", "small.toml/x"], Error(3)),
        ],
    },
    Failing {
        command: "report",
        usage: &["--format", "pdf"],
        others: &[
            (&["no-such-run"], Error(2)),
            (&["--reports", "no-such-folder"], Error(2)),
            (&["--peer", CLOSED_PORT], Error(2)),
            (&["--collect", "--peer", CLOSED_PORT], Error(5)),
        ],
    },
    Failing {
        command: "run",
        usage: &[],
        others: &[
            (&["no-such.toml"], Error(2)),
            (&["small.toml", "--set", "transfer.chnk=1"], Error(2)),
            (&["small.toml", "--reports", "small.toml/x"], Error(3)),
            (
                &["small.toml", "--plugin", MISSING_PLUGIN],
                Result("run", 3),
            ),
            (&["small.toml", "--peer", CLOSED_PORT], Result("run", 5)),
        ],
    },
    Failing {
        command: "selftest",
        usage: &["--timeout", "0"],
        others: &[
            (&["no-such-row"], Error(2)),
            (&["--endpoint", "no such module"], Error(2)),
            (
                &["--endpoint", "x", "--python", "/no/such/python"],
                Error(3),
            ),
            (&["--plugin", MISSING_PLUGIN], Error(3)),
            (&["--plugin", "builtin", "--junit", "no/such.xml"], Error(3)),
            (&["--peer", CLOSED_PORT], Error(5)),
        ],
    },
    Failing {
        command: "serve",
        usage: &["--secret-file", "s", "--listen", "x"],
        others: &[
            (&["--secret-file", "no/such/secret"], Error(2)),
            (&["--secret-file", "secret", "--listen", "TAKEN"], Error(3)),
        ],
    },
    Failing {
        command: "shrink",
        usage: &["small.toml", "--runs", "0"],
        others: &[
            (&["no-such.toml"], Error(2)),
            (&["small.toml"], Error(2)),
            (
                &["small.toml", "--finding", "x", "--reports", "small.toml/x"],
                Error(3),
            ),
        ],
    },
    Failing {
        command: "tap",
        usage: &[],
        others: &[
            (&["--plugin", "builtin", "--", "true"], Error(2)),
            (&["--plugin", MISSING_PLUGIN, "--", "true"], Error(3)),
            (&["--plugin", "soft", "--", "/no/such/program"], Error(3)),
        ],
    },
    Failing {
        command: "topic",
        usage: &["a", "b"],
        others: &[(&["no-such-topic"], Error(2))],
    },
    Failing {
        command: "trace",
        usage: &["a", "--format", "pdf"],
        others: &[
            (&["no-such-run"], Error(2)),
            (&["small.toml", "--out", "trace.json"], Error(3)),
        ],
    },
    Failing {
        command: "tune",
        usage: &[],
        others: &[
            (&["no-such.toml"], Error(2)),
            (&["small.toml", "--knobs", "speed"], Error(2)),
            (&["small.toml", "--budget", "soon"], Error(2)),
            (&["small.toml", "--reports", "small.toml/x"], Error(3)),
            (&["small.toml", "--plugin", MISSING_PLUGIN], Error(1)),
            (&["small.toml", "--peer", CLOSED_PORT], Error(1)),
        ],
    },
    Failing {
        command: "watch",
        usage: &["--speed", "2"],
        others: &[
            (&["no-such-run"], Error(2)),
            (&["--replay", "no-such-run"], Error(3)),
            (&["--peer", CLOSED_PORT], Error(5)),
        ],
    },
];

/// The command in a folder with a scenario, with `--json` at the end of its own arguments.
fn failing(command: &str, arguments: &[&str]) -> Ended {
    // A taken port stays taken until the command has ended.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let mut words: Vec<&str> = command.split(' ').collect();
    words.push("--json");
    words.extend(arguments.iter().map(|word| match *word {
        "TAKEN" => taken.as_str(),
        word => word,
    }));
    let tool = Tool::new(&words);
    tool.write("small.toml", SMALL);
    tool.ended()
}

/// The difference between this ending and the expected document; `None` if they agree.
fn mistake(ended: &Ended, document: &Document) -> Option<String> {
    let (schema, code) = match document {
        Error(code) => ("tcpxctl.error/".to_owned(), *code),
        Result(name, code) => (format!("tcpxctl.{name}/"), *code),
    };
    if ended.status.code() != Some(code) {
        return Some(format!("the exit code is not {code}"));
    }
    let Ok(json) = serde_json::from_str::<serde_json::Value>(&ended.out) else {
        return Some("stdout is not one JSON document".to_owned());
    };
    crate::tcpxctl::schema::check(&json);
    if !json["schema"]
        .as_str()
        .is_some_and(|found| found.starts_with(&schema))
    {
        return Some(format!("the document is {}, not {schema}", json["schema"]));
    }
    if ended
        .err
        .lines()
        .any(|line| line.trim_start().starts_with('{'))
    {
        return Some("stderr has JSON".to_owned());
    }
    if let Error(code) = document {
        let message = json["message"].as_str().unwrap_or_default();
        if json["exit_code"] != *code || message.is_empty() || message.contains('\n') {
            return Some(format!("exit code or message of {json}"));
        }
        if ended.err.is_empty() {
            return Some("stderr is silent".to_owned());
        }
    }
    None
}

/// Runs the command, and adds a difference from the expected document to `mistakes`.
fn check(command: &str, arguments: &[&str], document: &Document, mistakes: &mut Vec<String>) {
    let ended = failing(command, arguments);
    if let Some(mistake) = mistake(&ended, document) {
        mistakes.push(format!(
            "tcpxctl {command} {arguments:?}: {mistake}\n{ended}"
        ));
    }
}

/// Collects every subcommand that can be run, with the names of its parents.
fn typed(command: &clap::Command, above: &str, all: &mut BTreeSet<String>) {
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        let name = format!("{above} {}", below.get_name()).trim().to_owned();
        if !below.is_subcommand_required_set() {
            all.insert(name.clone());
        }
        typed(below, &name, all);
    }
}

#[test]
fn every_subcommand_has_failures_in_this_file() {
    let mut expected = BTreeSet::new();
    typed(&tcpxctl::cli::command(), "", &mut expected);
    let known: BTreeSet<String> = ALL.iter().map(|one| one.command.to_owned()).collect();
    assert_eq!(known, expected);
}

#[test]
fn a_usage_error_is_one_document() {
    let mut mistakes = Vec::new();
    for one in ALL {
        check(one.command, &["--no-such-flag"], &Error(2), &mut mistakes);
        check(one.command, one.usage, &Error(2), &mut mistakes);
    }
    check("no-such-command", &[], &Error(2), &mut mistakes);
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    for line in ["--json", "--json no-such-command"] {
        let ended = Tool::new(&line.split(' ').collect::<Vec<_>>()).ended();
        assert_eq!(mistake(&ended, &Error(2)), None, "{ended}");
    }
}

#[test]
fn every_failure_of_every_subcommand_is_one_document() {
    let mut mistakes = Vec::new();
    for one in ALL {
        for (arguments, document) in one.others {
            check(one.command, arguments, document, &mut mistakes);
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn without_json_a_failure_leaves_stdout_empty() {
    for command in [
        "run no-such.toml",
        "trace no-such",
        "serve",
        "selftest no-such-row",
    ] {
        let ended = Tool::new(&command.split(' ').collect::<Vec<_>>()).ends_with(2);
        assert!(
            ended.out.is_empty() && ended.err.contains("error"),
            "{ended}"
        );
    }
}
