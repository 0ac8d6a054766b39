//! Launchers of many agents, with stand-ins for srun, mpirun and kubectl that start them on this machine.
//! `tests/lab/launchers.rs` has the real ones.

use crate::tcpxctl::{Process, Running, Tool};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

/// A task for every node but a3-9, with the secret on its stdin.
const SRUN: &str = r#"#!/bin/sh
echo "$@" >> srun.argv
for word; do case $word in --nodelist=*) nodes=$(echo "${word#*=}" | tr , ' ') ;; esac; done
while :; do case $1 in --) shift; break ;; -*) shift ;; *) break ;; esac; done
read -r secret
echo "$secret" > srun.secret
for node in $nodes; do
    [ "$node" = a3-9 ] || echo "$secret" | SLURMD_NODENAME=$node SLURM_STEP_ID=0 "$@" &
done
wait
"#;
/// A process for every application context.
const MPIRUN: &str = r#"#!/bin/sh
echo "$@" >> mpirun.argv
while [ $# -gt 0 ]; do
    [ "$1" != --host ] || sh -c 'eval "$TCPXCTL_CALL_LINE"' tcpxctl "$2" &
    shift
done
wait
"#;
const KUBECTL: &str = r#"#!/bin/sh
echo "$@" >> kubectl.argv
case "$*" in
    *"get pods"*) echo pod/p-1; echo pod/p-0; exit ;;
    *"exec --stdin p-"*) ;;
    *) echo "error: unknown" >&2; exit 1 ;;
esac
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"#;

/// A mesh with these flags, and with the stand-ins before the real programs.
fn mesh(flags: &[&str]) -> Tool {
    let tool = Tool::shipped("mesh-quick.toml", &SMALL);
    for (name, text) in [("srun", SRUN), ("mpirun", MPIRUN), ("kubectl", KUBECTL)] {
        tool.write_program(name, text);
    }
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", tool.folder().display());
    flags
        .iter()
        .fold(tool, |tool, flag| tool.arg(flag))
        .env("PATH", &path)
}

const SMALL: [&str; 4] = [
    "transfer.total=256KiB",
    "transfer.iterations=2",
    "plugin.name=builtin",
    "topology.nics=[\"lo\"]",
];

fn in_slurm(nodes: &str, flags: &[&str]) -> Tool {
    mesh(flags)
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_JOB_NODELIST", nodes)
}

#[test]
fn the_nodes_of_a_slurm_allocation_call_in_with_a_secret_that_no_command_line_has() {
    let tool = in_slurm("a3-[0-2]", &["--launcher-options=--partition=all"]);
    let folder = tool.folder().to_owned();
    let kept = tool.ends_with(0);
    kept.says(&[
        "Launcher : srun, 3 nodes of Slurm job 7 (a3-[0-2])",
        "Mesh of 3 nodes",
    ]);
    let [said, secret] = ["srun.argv", "srun.secret"]
        .map(|file| std::fs::read_to_string(folder.join(file)).unwrap());
    assert_eq!(secret.trim().len(), 64, "{secret}");
    assert!(!said.contains(secret.trim()), "{said}");
    assert_eq!(said.lines().count(), 1, "one step for all nodes: {said}");
    for option in [
        "--overlap",
        "--nodes=3",
        "--nodelist=a3-0,a3-1,a3-2",
        "--partition=all",
    ] {
        assert!(said.contains(option), "{option}: {said}");
    }
    let flags = [
        "--nodes",
        "2",
        "--remote-bin",
        env!("CARGO_BIN_EXE_tcpxctl"),
    ];
    in_slurm("a3-[0-2]", &flags)
        .ends_with(0)
        .says(&["srun, 2 nodes of Slurm job 7"]);
}

#[test]
fn a_node_that_does_not_call_in_time_is_missing() {
    // Nothing is hashed, so that two nodes surely call within the time.
    let flags = [
        "--remote-bin",
        env!("CARGO_BIN_EXE_tcpxctl"),
        "--wait",
        "6s",
        "--allow-missing",
        "1",
    ];
    in_slurm("a3-[0-1,9]", &flags)
        .ends_with(0)
        .says(&["Missing : a3-9", "did not call in within 6 s"]);
}

/// An agent whose launcher's process is gone is under no scheduler any more.
#[test]
fn an_agent_whose_starter_is_gone_ends_says_so_and_the_others_go_on() {
    let long = [
        "transfer.iterations=1000000",
        "mesh.pattern=ring",
        "limits.total=15s",
    ];
    let mut run = in_slurm("a3-[0-3]", &[]).set(&long).start();
    run.until_event("measuring");
    let agent = |name: &str| {
        let processes = run.processes();
        let agent = processes.into_iter().find(|process| {
            let words = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            String::from_utf8_lossy(&words).ends_with(&format!("--name\0{name}\0"))
        });
        agent.unwrap_or_else(|| panic!("no agent of {name}"))
    };
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent("a3-2").pid)).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    let starter = Process::read(parent.unwrap().trim().parse().unwrap()).unwrap();
    starter.kill();
    agent("a3-0").signal(rustix::process::Signal::TERM);
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(5), "{ended}");
    ended.says(&[
        "the agent of a3-2 ended: srun, which had started it, is gone",
        "the agent of a3-0 ended: it got SIGTERM",
    ]);
}

#[test]
fn a_launcher_that_fails_is_quoted() {
    let tool = in_slurm("a3-[0-1]", &[]);
    tool.write(
        "srun",
        "#!/bin/sh\necho srun: error: Unable to create step >&2\nexit 1\n",
    );
    tool.ends_with(5)
        .says(&["srun ended before the agent", "Unable to create step"]);
}

#[test]
fn the_hosts_of_a_pbs_job_call_in_by_mpirun() {
    let tool = mesh(&[]).env("PBS_NODEFILE", "hosts");
    tool.write("hosts", "a3-0\na3-0\na3-1\na3-1\n");
    let folder = tool.folder().to_owned();
    let kept = tool.ends_with(0);
    kept.says(&["Launcher : mpirun, 2 nodes of PBS_NODEFILE (hosts)"]);
    let said = std::fs::read_to_string(folder.join("mpirun.argv")).unwrap();
    assert!(
        said.contains("--host a3-0 -n 1") && said.contains(": -x"),
        "{said}"
    );
    let digits = |word: &str| word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit());
    assert!(!said.split_whitespace().any(digits), "{said}");
}

#[test]
fn pods_are_reached_by_exec() {
    let binary = env!("CARGO_BIN_EXE_tcpxctl");
    let options = [
        "--launcher-options",
        "--namespace gpu",
        "--remote-bin",
        binary,
    ];
    let labels = mesh(&[&options[..], &["--pods", "app=tcpxctl"]].concat());
    let folder = labels.folder().to_owned();
    let kept = labels.ends_with(0);
    kept.says(&["Launcher : kubectl, 2 pods"]);
    let said = std::fs::read_to_string(folder.join("kubectl.argv")).unwrap();
    let get =
        "--namespace gpu get pods --selector app=tcpxctl --field-selector status.phase=Running";
    assert!(said.contains(get), "{said}");
    // Without a shell: an image may have none.
    let exec = format!("--namespace gpu exec --stdin p-1 -- {binary} agent");
    assert!(said.contains(&exec), "{said}");
    mesh(&[
        "--launcher",
        "kubectl",
        "--hosts",
        "p-0,q-1",
        "--allow-missing",
        "1",
    ])
    .ends_with(5)
    .says(&["q-1", "error: unknown"]);
}

fn caller(port: u16, name: &str) -> Running {
    let call = format!("127.0.0.1:{port}");
    let tool = Tool::new(&[
        "serve",
        "--once",
        "--secret-file",
        "secret",
        "--call",
        &call,
        "--name",
        name,
    ]);
    private(&tool);
    tool.start()
}

fn private(tool: &Tool) {
    let secret: String = (0..32)
        .map(|byte: u8| format!("{:02x}", byte.wrapping_mul(37)))
        .collect();
    tool.write("secret", secret);
    let path = tool.folder().join("secret");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

#[test]
fn a_run_says_that_serve_was_ended_by_its_user() {
    let at = format!("127.0.0.1:{}", free_port());
    let serving = Tool::new(&["serve", "--secret-file", "secret", "--listen", &at]);
    let run = Tool::run(&["transfer.iterations=1000000"]);
    let run = ["--secret-file", "secret", "--join", &at]
        .iter()
        .fold(run, |run, word| run.arg(word));
    private(&serving);
    private(&run);
    let mut serving = serving.start();
    serving.until("it listens", |_| TcpStream::connect(&at).is_ok());
    let mut run = run.start();
    run.until_event("measuring");
    serving.signal(rustix::process::Signal::INT);
    let ended = serving.ended();
    assert_eq!(ended.status.code(), Some(130), "{ended}");
    ended.says(&["was told that serve ends here"]);
    assert!(!ended.said().contains(" left"), "{ended}");
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(5), "{ended}");
    ended.says(&["`tcpxctl serve`, which had started it, was ended"]);
    assert!(!ended.said().contains("control-lost"), "{ended}");
}

#[test]
fn nodes_that_call_in_are_a_mesh_and_those_that_do_not_are_missing() {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    // They may call before the coordinator is there.
    let nodes = ["p-0", "p-1", "p-2"].map(|name| caller(port, name));
    let flags = [
        "--launcher",
        "join",
        "--secret-file",
        "secret",
        "--listen",
        &listen,
    ];
    let tool = mesh(&[&flags[..], &["--nodes", "3"]].concat());
    private(&tool);
    tool.ends_with(0)
        .says(&["join, 3 nodes that call in", "Mesh of 3 nodes"]);
    for node in nodes {
        let ended = node.ended();
        assert_eq!(ended.status.code(), Some(0), "{ended}");
        ended.says(&["took the call", "left"]);
    }
    let lone = caller(port, "p-0");
    let tool = mesh(
        &[
            &flags[..],
            &["--nodes", "3", "--wait", "3s", "--allow-missing", "2"],
        ]
        .concat(),
    );
    private(&tool);
    tool.ends_with(5).says(&[
        "node 2 of 3",
        "did not call in within 3 s",
        "another node is missing",
    ]);
    drop(lone.ended());
}

#[test]
fn launchers_without_nodes_are_refused() {
    let refused = |tool: Tool, words: &[&str]| _ = tool.ends_with(2).says(words);
    refused(
        mesh(&[]),
        &["no nodes are named", "Slurm allocation", "--launcher"],
    );
    refused(
        mesh(&["--launcher", "srun"]),
        &["no Slurm allocation", "salloc"],
    );
    refused(mesh(&["--launcher", "mpirun"]), &["mpirun", "--hosts"]);
    refused(mesh(&["--launcher", "kubectl"]), &["--pods app=tcpxctl"]);
    refused(mesh(&["--launcher", "join"]), &["--nodes N"]);
    refused(
        mesh(&["--launcher", "join", "--nodes", "2"]),
        &["--secret-file"],
    );
    refused(
        in_slurm("a3-[0-1]", &["--nodes", "3"]),
        &["--nodes 3", "only 2"],
    );
    refused(
        in_slurm("a3-[0-1]", &["--launcher", "srun", "--hosts", "a3-0,b"]),
        &["b is no node of Slurm job 7"],
    );
    refused(
        mesh(&["--hosts", "a,b"]).env("OMPI_COMM_WORLD_SIZE", "4"),
        &["one of 4 tasks (OMPI_COMM_WORLD_SIZE)", "once"],
    );
    let pair = Tool::shipped("1conn.toml", &[]).arg("--nodes").arg("2");
    refused(pair, &["[mesh]"]);
}
