//! Two numbers of a line that tell more beside each other: ranks that came and ranks that were expected.
#![forbid(unsafe_code)]

use super::Reason;
use regex::bytes::{Captures, Regex};
use std::sync::LazyLock;

/// How programs write both numbers.
static COUNTS: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    let regex = |words: &str| Regex::new(&format!("(?i-u){words}")).expect("a sound regex");
    [
        regex(concat!(
            r"worker_count\W{1,3}(?P<came>\d+).{0,40}world_size\W{1,3}(?P<all>\d+)",
            r"|\b(?P<came2>\d+) ?/ ?(?P<all2>\d+) (?:clients?|workers?|ranks?|nodes?|processes|peers?|members?|agents?)\b.{0,24}\b(?:join|arriv|connect|ready|register|came|start|check)",
            r"|\b(?P<came3>\d+) (?:out )?of (?:the )?(?P<all3>\d+) (?:\w+ )?(?:clients?|workers?|ranks?|nodes?|processes|peers?|members?|agents?|tasks?|participants?)\b.{0,24}\b(?:join|arriv|connect|ready|register|came|start|check)",
        )),
        regex(concat!(
            r"world_size\W{1,3}(?P<all>\d+).{0,40}(?:worker_count|arrived|joined|num_workers)\W{1,3}(?P<came>\d+)",
            r"|\b(?:expected|expecting|waiting for|want(?:ed)?|needs?)\W{1,3}(?P<all2>\d+) (?:\w+ )?(?:clients?|workers?|ranks?|nodes?|processes|peers?|members?|agents?|tasks?|participants?)\b.{0,24}\b(?:got|have|only|joined|arrived|came|found|but)\W{1,3}(?:only )?(?P<came2>\d+)\b",
        )),
    ]
});

/// How programs write which ranks did not come.
static NAMES: LazyLock<Regex> = LazyLock::new(|| {
    // Horovod's `[missing ranks: 3]` has a signature of its own.
    let ranks = r"\[?(?:ranks? )?(?P<ranks>\d+(?:, ?\d+)*)";
    let ranks2 = r"\[?(?P<ranks2>\d+(?:, ?\d+)*)\]?";
    let words = format!(
        r"(?i-u)(?:^|[^\[])missing[_ ]ranks?\W{{1,3}}{ranks}|ranks? {ranks2} (?:(?:have|has|did) not|never|haven't|hasn't|didn't) (?:yet )?(?:join|arriv|connect|regist|come|check|start|reach|respond)"
    );
    Regex::new(&words).expect("a sound regex")
});

/// How programs write a value that they measured, and its limit.
static LIMITS: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"(?i-u)expected .{1,60}to be at (?:least|most) (?P<limit>\d[\d.]*)\W.{0,24}\b(?:found|got|was|is) (?P<found>\d[\d.]*\d|\d)";
    Regex::new(words).expect("a sound regex")
});

/// What PyTorch says of a GPU whose memory was not enough: what was asked for, and what there is.
static MEMORY: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    let size = r"(?P<size>\d+(?:\.\d+)? [KMGT]i?B)";
    let regex = |words: String| Regex::new(&format!("(?-u){words}")).expect("a sound regex");
    [
        regex(format!(r"[Tt]ried to allocate {size}")),
        regex(format!(
            r"total capacity of {size}|[(;,] (?P<size2>\d+(?:\.\d+)? [KMGT]i?B) total capacity"
        )),
        regex(format!(
            r"of which {size} is free|[(;,] (?P<size2>\d+(?:\.\d+)? [KMGT]i?B) free"
        )),
        regex(format!(
            r"this process has {size} memory in use|Of the allocated memory (?P<size3>\d+(?:\.\d+)? [KMGT]i?B) is allocated by|[(;,] (?P<size2>\d+(?:\.\d+)? [KMGT]i?B) (?:reserved in total|already allocated)"
        )),
    ]
});

const TOO_LARGE: Reason = Reason {
    words: "",
    cause: "one request of {tried} is larger than what is free, {free} of {total}: a single tensor or buffer is too large beside what the process holds, {mine}",
    next: "find what is allocated in the traceback: shard it (ZeRO-3, FSDP, tensor parallel), offload it, or take a GPU with more memory",
};
const OF_OTHERS: Reason = Reason {
    words: "",
    cause: "other processes hold the memory: of {total} this process has {mine}, and {free} are free",
    next: "`nvidia-smi` lists the processes on this GPU: several ranks on one GPU (CUDA_VISIBLE_DEVICES, LOCAL_RANK), or an earlier run that did not end",
};
const OF_OWN: Reason = Reason {
    words: "",
    cause: "this process holds {mine} of {total} itself, so {tried} more do not fit: {free} are free",
    next: "lower the batch size or the sequence length, shard or offload more; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where much is reserved and unallocated",
};
const OF_UNNAMED: Reason = Reason {
    words: "",
    cause: "{tried} were asked for where {free} of {total} are free: the line does not say what holds the rest",
    next: "list the processes on this device; lower the batch size or the sequence length, shard or offload more",
};

const OF_NAMED: Reason = Reason {
    words: "",
    cause: "process {process} has {other} of {total}, and {free} are free, where {tried} were asked for",
    next: "`ps -fp {process}` on the node of the line, outside of containers: several ranks on one GPU (CUDA_VISIBLE_DEVICES, LOCAL_RANK), another program, or an earlier run that did not end",
};

/// The process that a line names beside the one that asked.
static PROCESS: LazyLock<Regex> = LazyLock::new(|| {
    let words =
        r"(?-u)\bProcess (?P<process>\d+) has (?P<other>\d+(?:\.\d+)? [KMGT]i?B) memory in use";
    Regex::new(words).expect("a sound regex")
});

const LIMITED: Reason = Reason {
    words: "",
    cause: "{tried} more exceed what PyTorch may take in this process, {allowed} (the process holds {mine}, including CUDA's own memory): a limit of the program, as {free} are free",
    next: "raise the limit (torch.cuda.set_per_process_memory_fraction, or the framework's setting for the share of memory), or lower the batch size or the sequence length",
};
const IN_PIECES: Reason = Reason {
    words: "",
    cause: "this process holds {mine} of {total} itself; {free} are free, but no block of {tried} could be allocated",
    next: "lower the batch size or the sequence length, shard or offload more; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where much is reserved and unallocated",
};

/// Where advice goes on with the allocator of PyTorch for GPUs of NVIDIA and AMD.
const ALLOCATOR: &str = "; PYTORCH_CUDA_ALLOC_CONF=";

/// The most that this process may take.
static ALLOWED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)[.;,] (?P<size>\d+(?:\.\d+)? [KMGT]i?B) allowed\b").expect("a sound regex")
});

/// The sizes in such a line: tried, total, free and the process's own.
fn memory(line: &[u8]) -> Option<[(String, f64); 4]> {
    memchr::memmem::find(line, b"ried to allocate")?;
    let size = |regex: &Regex| {
        let found = regex.captures(line)?;
        let names = ["size", "size2", "size3"];
        let text = names.iter().find_map(|name| found.name(name))?;
        let text = String::from_utf8_lossy(text.as_bytes()).into_owned();
        let (number, unit) = text.split_once(' ')?;
        let scale = match unit.as_bytes().first()? {
            b'K' => 1.0 / 1024.0,
            b'M' => 1.0,
            b'G' => 1024.0,
            _ => 1024.0 * 1024.0,
        };
        let mib = number.parse::<f64>().ok()? * scale;
        Some((text, mib))
    };
    let [tried, total, free, mine] = &*MEMORY;
    let mine = size(mine).unwrap_or_default();
    Some([size(tried)?, size(total)?, size(free)?, mine])
}

/// What the sizes tell of who holds the memory.
fn of_memory(line: &[u8]) -> Option<&'static Reason> {
    let [tried, total, free, mine] = memory(line)?.map(|(_, mib)| mib);
    if mine == 0.0 {
        let is_named = PROCESS.is_match(line);
        return Some(if is_named { &OF_NAMED } else { &OF_UNNAMED });
    }
    if tried <= free && ALLOWED.is_match(line) {
        return Some(&LIMITED);
    }
    let others = total - free - mine;
    if tried > free && free * 4.0 >= total {
        return Some(&TOO_LARGE);
    }
    if others * 4.0 >= total {
        return Some(&OF_OTHERS);
    }
    let of_own = if tried > free { &OF_OWN } else { &IN_PIECES };
    (mine * 2.0 >= total).then_some(of_own)
}

const LIMIT: Reason = Reason {
    words: "",
    cause: "{found} was measured, and the program's own limit is {limit}",
    next: "look at what makes the value: the slowest rank of the last steps, or a limit that was set for another machine",
};
const FEWER: Reason = Reason {
    words: "",
    cause: "{missing} of {all} ranks did not come: they did not start, failed before, or look for another address",
    next: "count the processes that run on each node; read the log of the ranks that did not come, up to its end",
};
const MORE: Reason = Reason {
    words: "",
    cause: "{came} ranks came, and the job has {all}: workers were restarted in the same store, or two jobs use one address and port",
    next: "read the first failure before the restart; end the processes of earlier jobs, and give each job a port of its own",
};
const NAMED: Reason = Reason {
    words: "",
    cause: "rank {ranks} did not come to this call: it ended, hangs or takes another branch, if it started at all",
    next: "read the log of rank {ranks}, up to its end; `py-spy dump` shows where a process waits",
};

/// All reasons of this file.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Reason> {
    [
        &FEWER,
        &MORE,
        &NAMED,
        &LIMIT,
        &TOO_LARGE,
        &OF_OTHERS,
        &OF_OWN,
        &OF_UNNAMED,
    ]
    .into_iter()
}

/// What the numbers of a line tell; nothing if as many ranks came as were expected.
pub(super) fn of(line: &[u8]) -> Option<&'static Reason> {
    if NAMES.is_match(line) {
        return Some(&NAMED);
    }
    if LIMITS.is_match(line) {
        return Some(&LIMIT);
    }
    if let Some(reason) = of_memory(line) {
        return Some(reason);
    }
    let (came, all) = counts(line)?;
    match came.cmp(&all) {
        std::cmp::Ordering::Less => Some(&FEWER),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(&MORE),
    }
}

/// A text of a reason with the numbers of the line.
pub(super) fn fill(text: &str, line: &[u8]) -> String {
    let is_of_pytorch = [&b"CUDA out of"[..], b"HIP out of"]
        .iter()
        .any(|words| memchr::memmem::find(line, words).is_some());
    let text = match text.split_once(ALLOCATOR) {
        Some((advice, _)) if !is_of_pytorch => advice,
        _ => text,
    };
    if !text.contains('{') {
        return text.to_owned();
    }
    if let Some(sizes) = memory(line) {
        let names = ["{tried}", "{total}", "{free}", "{mine}"];
        let mut text = text.to_owned();
        for (name, (size, _)) in names.iter().zip(sizes) {
            text = text.replace(name, &size);
        }
        if let Some(found) = PROCESS.captures(line) {
            let value = |name: &str| String::from_utf8_lossy(&found[name]).into_owned();
            text = text.replace("{process}", &value("process"));
            text = text.replace("{other}", &value("other"));
        }
        let allowed = ALLOWED.captures(line).and_then(|found| found.name("size"));
        let allowed = allowed.map(|size| String::from_utf8_lossy(size.as_bytes()));
        return text.replace("{allowed}", &allowed.unwrap_or_default());
    }
    let ranks = NAMES.captures(line).and_then(|found| {
        let ranks = found.name("ranks").or(found.name("ranks2"))?;
        Some(String::from_utf8_lossy(ranks.as_bytes()).into_owned())
    });
    if let Some(found) = LIMITS.captures(line) {
        let value = |name: &str| {
            let value = found.name(name).map_or(&b""[..], |one| one.as_bytes());
            let value = String::from_utf8_lossy(value).into_owned();
            value.trim_end_matches('.').to_owned()
        };
        return text
            .replace("{found}", &value("found"))
            .replace("{limit}", &value("limit"));
    }
    let (came, all) = counts(line).unwrap_or_default();
    text.replace("{ranks}", &ranks.unwrap_or_default())
        .replace("{missing}", &all.saturating_sub(came).to_string())
        .replace("{came}", &came.to_string())
        .replace("{all}", &all.to_string())
}

/// The ranks that came and those that were expected.
fn counts(line: &[u8]) -> Option<(u64, u64)> {
    let found = COUNTS.iter().find_map(|counts| counts.captures(line))?;
    if found[0].ends_with(b"already check") {
        // `rank 1 of 8 ranks has already checked in` counts none.
        return None;
    }
    Some((
        number(&found, ["came", "came2", "came3"])?,
        number(&found, ["all", "all2", "all3"])?,
    ))
}

fn number(found: &Captures<'_>, names: [&str; 3]) -> Option<u64> {
    let text = names.iter().find_map(|name| found.name(name))?;
    str::from_utf8(text.as_bytes()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_came_are_compared_with_those_that_were_expected() {
        let check = |line: &str, part: Option<&str>| {
            let cause = of(line.as_bytes()).map(|reason| reason.cause);
            let is_right = match part {
                Some(part) => cause.is_some_and(|cause| cause.starts_with(part)),
                None => cause.is_none(),
            };
            assert!(is_right, "{line}: {cause:?}");
        };
        check(
            "for key: store_based_barrier_key:1 (world_size=4, worker_count=8, timeout=0:30:00)",
            Some("{came}"),
        );
        check(
            "for key: store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)",
            Some("{missing}"),
        );
        check(
            "Waiting in store based barrier to initialize process group for rank: 0, key: a (world_size=4, num_workers_joined=1, timeout=0:30:00)",
            Some("{missing}"),
        );
        check(
            "Timed out after 301 seconds waiting for clients. 3/4 clients joined.",
            Some("{missing}"),
        );
        check("Only 7 of 8 workers have joined", Some("{missing}"));
        check("expected 16 ranks, but got 8", Some("{missing}"));
        check("expected 2 nodes but found 3", Some("{came}"));
        check(
            "(world_size=8, missing_ranks=[3, 5], timeout=0:05:00)",
            Some("rank {ranks}"),
        );
        check("4/4 clients joined", None);
        check("epoch 3/4 done", None);
    }

    #[test]
    fn sizes_tell_who_holds_the_memory_of_a_gpu() {
        let check = |line: &str, part: &str| {
            let cause = fill(of(line.as_bytes()).unwrap().cause, line.as_bytes());
            assert!(cause.contains(part), "{cause}");
        };
        check(
            "Tried to allocate 12.50 GiB (GPU 1; 24.00 GiB total capacity; 12.00 GiB already allocated; 10.00 GiB free; 12.00 GiB reserved in total by PyTorch)",
            "12.50 GiB is larger than what is free, 10.00 GiB of 24.00 GiB",
        );
        check(
            "Tried to allocate 112.00 MiB. GPU 0 has a total capacity of 40.00 GiB of which 119.00 MiB is free. Including non-PyTorch memory, this process has 8.00 GiB memory in use.",
            "of 40.00 GiB this process has 8.00 GiB",
        );
        check(
            "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 77.00 GiB memory in use.",
            "holds 77.00 GiB of 79.00 GiB itself",
        );
    }

    #[test]
    fn the_texts_have_the_numbers_of_the_line() {
        let check = |line: &str, expected: &str| {
            let reason = of(line.as_bytes()).unwrap();
            let filled = fill(reason.cause, line.as_bytes());
            assert!(filled.starts_with(expected), "{line}: {filled}");
        };
        check(
            "(worker_count=7, world_size=8)",
            "1 of 8 ranks did not come",
        );
        check("waiting for clients. 5/8 clients joined.", "3 of 8 ranks");
        check(
            "(world_size=4, worker_count=7)",
            "7 ranks came, and the job has 4",
        );
        check(
            "world_size=8, missing_ranks=[3, 5], timeout",
            "rank 3, 5 did not come",
        );
        check(
            "ranks 1, 6 have not joined the barrier",
            "rank 1, 6 did not come",
        );
        check("Missing ranks: 2", "rank 2 did not come");
    }
}
