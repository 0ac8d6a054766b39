//! Meshes by real Slurm and real Open MPI, over the nodes of a lab.
//!
//! They run where the packages are installed (slurmctld, slurmd, slurm-client, munge; openmpi-bin) and print
//! what is missing elsewhere.

use crate::lab::Lab;
use crate::tcpxctl::{Process, Tool};

/// Enough nodes for several pairs at once.
const NODES: usize = 8;

const SMALL: [&str; 5] = [
    "transfer.total=1MiB",
    "transfer.iterations=2",
    "transfer.connections=1",
    "plugin.name=builtin",
    "limits.total=50s",
];

/// Whether a program is installed; prints that it is not.
fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .chain(["/usr/sbin".into()])
        .any(|folder| folder.join(program).exists());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// `tcpxctl run mesh-quick` on node0, started by these words.
fn mesh(lab: &Lab, words: &[&str], flags: &[&str]) -> Tool {
    let tool = lab.tool_by("node0", words, &[&["run", "mesh-quick"], flags].concat());
    tool.set(&SMALL)
}

#[test]
fn a_slurm_job_is_a_mesh_without_ssh() {
    if !has("slurmctld") || !has("slurmd") || !has("munged") {
        return;
    }
    let Some(lab) = Lab::of(NODES) else { return };
    lab.done(&["slurm"]);
    // No node lets any other in.
    for node in lab.nodes() {
        lab.exec(&node, &["rm", "/root/.ssh/authorized_keys"]);
    }
    let salloc = ["salloc", "--quiet", "-N8"];
    let before = daemons(&lab);
    let ended = mesh(&lab, &salloc, &[]).ends_with(0);
    ended.says(&["Launcher : srun, 8 nodes of Slurm job", "Mesh of 8 nodes"]);
    // A scheduler that kills a node midway: its pairs fail, the others go on.
    let long = [
        "transfer.iterations=1000000",
        "limits.total=20s",
        "mesh.pattern=ring",
    ];
    let mut running = mesh(&lab, &salloc, &[]).set(&long).start();
    running.until("workers on the node", |_| {
        lab.ps("node3")
            .iter()
            .any(|process| process.role == "worker")
    });
    let of_step = |process: &Process| process.role == "agent";
    lab.ps("node3")
        .iter()
        .filter(|process| of_step(process))
        .for_each(Process::kill);
    let ended = running.ended();
    assert_eq!(ended.status.code(), Some(5), "{ended}");
    ended.says(&["node3", "Failed"]);
    // A job that is cancelled is one finding, with the scheduler's words, and no node is accused.
    let mut running = mesh(&lab, &salloc, &[]).set(&long).start();
    running.until("workers on the node", |_| {
        lab.ps("node3")
            .iter()
            .any(|process| process.role == "worker")
    });
    lab.exec("node0", &["sh", "-c", "scancel $(squeue --noheader --steps --format=%i | grep -v -e batch -e interactive -e extern)"]);
    let ended = running.ended();
    assert_eq!(ended.status.code(), Some(5), "{ended}");
    ended.says(&[
        "agents-ended",
        "the launcher said: slurmstepd-node",
        "CANCELLED AT",
    ]);
    for other in ["control-lost", "premature-close"] {
        assert!(!ended.to_string().contains(other), "{other}: {ended}");
    }
    assert_eq!(daemons(&lab), before, "something is left");
}

/// The processes of each node that are there when nothing runs: the daemons of Slurm.
fn daemons(lab: &Lab) -> Vec<Vec<String>> {
    let role = |process: &Process| process.role.clone();
    let of_node = |node: &String| lab.ps(node).iter().map(role).collect();
    lab.nodes().iter().map(of_node).collect()
}

#[test]
fn hosts_are_a_mesh_by_mpirun() {
    if !has("mpirun") {
        return;
    }
    let Some(lab) = Lab::of(NODES) else { return };
    let root = [
        "env",
        "OMPI_ALLOW_RUN_AS_ROOT=1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    ];
    let options = "--launcher-options=--mca oob_tcp_if_include eth0";
    let flags = ["--launcher", "mpirun", "--hosts", "node[0-7]", options];
    let ended = mesh(&lab, &root, &flags).ends_with(0);
    ended.says(&["Launcher : mpirun, 8 nodes of --hosts", "Mesh of 8 nodes"]);
    lab.is_left_clean();
}
