//! Slurm's lines on one step as one finding: which step, and which of its tasks ended where.
//!
//! `slurmstepd` names the step and why it ended, `srun` the node, the task and the signal.
#![forbid(unsafe_code)]

use crate::report::SignatureFinding;

/// Slurm's finding on a task that ended, on a step that ended, and on memory.
const TASK: &str = "srun-exit";
const CANCELLED: &str = "slurm-cancelled";
const MEMORY: &str = "slurm-oom";
/// Words of a line on memory that was short, of any program.
const OF_MEMORY: [&str; 4] = ["oom", "out of memory", "memory limit", "outofmemory"];

/// Adds the step to the finding on its task, and the task to that on its step.
pub(super) fn join(findings: &mut [SignatureFinding]) {
    tell_of_memory(findings);
    let of = |name: &str| findings.iter().position(|one| one.signature == name);
    let Some(task) = of(TASK) else {
        return;
    };
    let Some((_, what)) = findings[task].sample.split_once("srun: error: ") else {
        return;
    };
    let what = what.to_owned();
    if of(MEMORY).is_some() {
        return;
    }
    let step = of(CANCELLED).and_then(|number| {
        let line = &findings[number].sample;
        let is_signal = line.to_ascii_lowercase().contains("due to signal");
        let step = word_after(line, " STEP ").filter(|_| is_signal)?;
        Some((step.to_owned(), word_after(line, " ON ")?.to_owned()))
    });
    let names_memory = |one: &SignatureFinding| {
        let line = one.sample.to_ascii_lowercase();
        OF_MEMORY.iter().any(|words| line.contains(words))
    };
    let Some((step, node)) = step.filter(|_| !findings.iter().any(names_memory)) else {
        return;
    };
    let task = &mut findings[task];
    task.meaning = format!("step {step} on {node} was ended by a signal: {what}");
    task.causes = vec![
        "the step was ended on request: by `scancel`, by the program that started it, or by Slurm"
            .to_owned(),
        "the node or its container was out of memory; no line of this log says so".to_owned(),
    ];
    task.next_step = Some(
        "`sacct -j JOB -o jobid,state,exitcode,maxrss,end` tells who ended the step and its memory; read what started it"
            .to_owned(),
    );
}

/// Names the step whose memory was short, and its task, or the worker of PyTorch that was killed.
fn tell_of_memory(findings: &mut [SignatureFinding]) {
    let task = findings.iter().find(|one| one.signature == TASK);
    let task = task.and_then(|one| Some(one.sample.split_once("srun: error: ")?.1.to_owned()));
    let killed = findings.iter().find_map(|one| {
        let (_, pid) = one.sample.split_once("DataLoader worker (pid ")?;
        let (pid, how) = pid.split_once(')')?;
        let is_killed = how.starts_with(" is killed by signal: Killed");
        is_killed.then(|| format!("DataLoader worker {pid}"))
    });
    let Some(memory) = findings.iter_mut().find(|one| one.signature == MEMORY) else {
        return;
    };
    let Some(step) = word_after(&memory.sample, "StepId=") else {
        return;
    };
    memory.meaning = format!("the kernel killed a task of step {step} to free memory");
    if let Some(what) = task.or(killed) {
        memory.meaning = format!("{}: {what}", memory.meaning);
    }
}

/// The step and the node in Slurm's line on a step that it ended.
pub(super) fn named(line: &str) -> Option<(&str, &str)> {
    Some((word_after(line, " STEP ")?, word_after(line, " ON ")?))
}

/// The word behind a text, without a dot at its end.
fn word_after<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    let (_, behind) = line.split_once(before)?;
    let word = behind.split_whitespace().next()?;
    Some(word.trim_end_matches('.')).filter(|word| !word.is_empty())
}
