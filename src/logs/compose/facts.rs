//! What an engineer needs of a quoted line: GPU, rank, device, address, source and size, named in the first sentence.
//!
//! The lines beside it that the same thread logged name more of them, and the log's settings name the value of a
//! variable that a cause speaks of.
#![forbid(unsafe_code)]

use crate::loggers::regex;
use crate::seen::SeenLines;
use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Facts that are named of one finding, of one kind, and bytes of each.
const FACTS_MAX: usize = 7;
const OF_KIND_MAX: usize = 2;
const FACT_BYTES: usize = 80;

/// The header of NCCL with the thread and the GPU.
static HEADER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?:^|\s|[:>])(?P<thread>[\w.-]+:\d+:\d+) \[(?P<gpu>\d+)\] "));
/// The first word of a line of UCX or of a kernel with a process.
static THREAD: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\[?(?:[\d.]+\] \[)?(?P<thread>[\w.-]+:\d+(?: *:\d+){0,2})\]? "));
/// The process that a launcher writes before a line, with its colors.
static LAUNCHED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:(?:\x1b|\^\[)\[[\d;]*m)*(?P<thread>\([A-Za-z][^()]* pid=\d+[^()]*\))(?:(?:\x1b|\^\[)\[[\d;]*m)*(?P<rest>\s*$)?",
    )
});
/// The thread in a line of glog, whose source is that of the logger.
static GLOG: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[EWFI]\d{4,8} [\d:.]+ +(?P<thread>\d+) \S+:\d+\] "));
/// The source before a line without any other header: `rdma_endpoint.cpp:472] `.
static OF_SOURCE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?P<thread>[a-z]\w+\.(?:cpp|cc|c)):\d+\] "));
/// What is a fact wherever it stands.
static FACTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"\b[Rr]ank \d+\b(?: of \d+)?|\brank ?= ?\d+|\blocal_rank ?[=:] ?\d+|/task:\d+\b|\breplica \d+\b|\bWorker PID: \d+",
        r"\bGPU ?\d{1,3}\b|\bdev(?:ice)? \d{1,2}\b|\bphyid: ?\d+",
        r"\b(?:mlx[45]_\w+|bnxt_re\w*|irdma\w+|rdmap\w+|hns_\d+|efa_\d+)(?::\d+)?",
        r"\b(?:eth\d+|en[pos]\d\w*|ib[ps]?\d\w*|bond\d+)(?::(?:\d{1,3}\.){3}\d{1,3})?(?:<\d+>)?",
        r"\b(?:\d{1,3}\.){3}\d{1,3}(?:(?::|<)\d+>?(?:@\w+)?)?|\b(?:[0-9a-f]*:){2,}[0-9a-f]*<\d{2,5}>|\b[\w.-]+<\d{2,5}>|\bPeer EFA addr: [^\s)]+|\b(?:fe80|fd\w\w):[0-9a-f:]+",
        r"\b(?:r?lid|dlid|rqpn|remote_qp)[ =](?:0x)?[0-9a-f]+\b|\bOpType=\w+",
        r"\bNCCL_(?:[A-CE-Z][A-Z_]+|D[A-DF-Z][A-Z_]+) ?(?:=|set by environment to|set to) ?\S+",
        r"\bsize \d{4,}\b|\bsegment size \d+\b|</?[\w.-]+_\d+>|\bNCCL version \d[\w.+]*",
        r"\b[\w./-]*\w\.(?:cc|cpp|cu|h|c):\d+",
    ]
    .map(regex)
    .into()
});
/// What only the line of the error itself says of it: its words, its number, what it is about and how often it was tried.
/// Where a part is a value of its own, a sentence that has the value has the fact.
static OF_ERROR: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"\b[Cc]uda (?:failure|error) (?:\d+ )?'(?P<value>[^']{3,60})'".to_owned(),
        format!(r"(?i-u:\b(?P<value>{})\b)(?: ?[\[(]\d+[\])])?", crate::reasons::words_of_system()),
        r"\breturned (?P<value>\d+)\b|\b(?:RC|rc|ret(?:code)?|errno|vendor err|vend)[:= ]+-?(?P<value2>(?:0x)?[0-9a-f]+)\b|\bUnknown error (?P<value3>-?\d+)".to_owned(),
        r"\bNCCL error(?: in)?: (?:[^,]+, )?(?P<value>(?:invalid|internal|unhandled|remote) [a-z ]{4,40}?)(?:, NCCL version| - | \(run with|$)".to_owned(),
        r"\b(?P<value>nccl(?:Comm|Group|All|Reduce|Broadcast|Send|Recv)\w*|[Hh]ccl[A-Z]\w+)(?:\([^)]*\))? (?:failed|fail\b|returned)|\bFatal error in (?P<value2>P?MPI_\w+)|\bsrun: error: \S+: (?P<value3>tasks? [\d,\[\]-]+):".to_owned(),
        r"\(error (?P<value>\d{1,3})\)|\bon CUDA API call to (?P<value2>cu\w+)".to_owned(),
        r"\b\w+\(\) failed: (?P<value>[A-Z][a-z]+(?: [A-Za-z]+){0,5})".to_owned(),
        r"\bport (?P<value>\d{2,5})\b|\boccurred in (?P<value2>MPI_\w+)".to_owned(),
        r"\bError: (?:(?P<value>\d+)\b|(?P<value2>[A-Z][a-z]+(?: [A-Za-z]+){1,8})\.)".to_owned(),
        r"\bafter (?P<value>\d+) (?:attempts|retries)\b|\bretry count \((?P<value2>\d+)\)|\bfamily (?P<value3>\d+)\b".to_owned(),
        r"\bpid='?(?P<value>\d+)'?, name=[^,\s]+|\baddress \(?(?P<value2>0x[0-9a-f]+|nil)\b|\bwqe\[\d+\]: (?P<value3>\w+)".to_owned(),
        r#"(?:^|[\s'"`=(\[])(?P<value>/(?:[\w.@+%-]+/)+[\w.@+%-]*\w)(?:['"`)\],;]|:? |:?$)"#.to_owned(),
    ]
    .map(|words| regex(&words))
    .into()
});
static SOURCE: LazyLock<Regex> = LazyLock::new(|| regex(r"\w\.(?:cc|cpp|cu|h|c):\d+$"));
static PROGRAM: LazyLock<Regex> = LazyLock::new(|| regex(r"^/.*/python[\d.]*$"));
/// What a shell says of a process that was killed.
static KILLED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b(?P<pid>\d+) Killed +(?P<what>\S+(?: \S+){0,2})"));

/// What a program says that it does with a checkpoint, or that a rank has done.
static DOES: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\b(?:[Ss]aving|[Ww]riting|[Ll]oading) (?:[\w-]+ ){0,2}checkpoints?\b(?: at iteration +\d+| shards: +\d+%)?|\b(?:Building|Loading) extension module \w+|\bModel loading took [\d.]+ Gi?B|\bCapture cuda graph (?:begin|end)\b|\bGraph capturing finished\b|^[Rr]ank \d+ (?:has )?(?:completed|finished|entered|reached) [\w ]{2,40}",
    )
});
/// A frame of gdb, or of a program's own list of calls: its function and its source.
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^#\d+ +(?:0x[0-9a-f]+ in )?(?P<function>[\w:~]+) ?\(.*\) at (?P<source>\S+:\d+)")
});
/// A frame as Python writes it where the process crashed.
static CRASH_FRAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"^\s*File "(?P<source>[^"]+)", line (?P<line>\d+) in (?P<function>[\w<>]+)"#)
});
/// A field of an error that a program writes as a list: `    Line:       117`. Other values may be private and are left out.
static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\s*(?P<name>File|Line|Error code|Code|Function|Rank|Device|GPU)\s*:\s+(?P<value>-?\d+|[\w./-]+\.(?:cu|cuh|cc|cpp|c|h|hpp|py)|\w+\(\))$",
    )
});
/// Any field of such a list.
static ANY_FIELD: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\s*[A-Z][A-Za-z]*(?: [a-z]+){0,2}\s*:\s+\S"));
/// A member of JSON that holds the report of one rank, as PyTorch's agent writes it, and the node in a line before it.
static MEMBER: LazyLock<Regex> = LazyLock::new(|| regex(r#"^\s*"(?P<rank>\d{1,6})": \{$"#));
static NODE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?:^|\s)(?P<node>(?:worker|master|chief|ps)-\d+) restart \d+ fails: \{$")
});
/// What vLLM logs of a model that it has loaded.
static LOADED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\bModel loading took [\d.]+ Gi?B(?: memory)? and [\d.]+ seconds$|\bGraph capturing finished in \d+ secs?\b[^\w]|\bCapture cuda graph (?:begin|end)\. ",
    )
});

/// Whether a line is a field of an error that is written as a list.
pub(super) fn is_field(line: &[u8]) -> bool {
    FIELD.is_match(line)
}

/// Whether a line opens the report of one rank or of one node in JSON of PyTorch's agent.
pub(super) fn is_of_json(line: &[u8]) -> bool {
    MEMBER.is_match(line) || NODE.is_match(line)
}

/// Whether a line tells that vLLM has loaded a model.
pub(super) fn is_loaded(line: &[u8]) -> bool {
    LOADED.is_match(line)
}

/// The rank in a sentence.
static RANK: LazyLock<Regex> = LazyLock::new(|| regex(r"^[Rr]ank ?[ =] ?(?P<rank>\d+)"));

/// What the lines of a finding, and those beside them, name that its sentence does not. The processes tell the
/// ranks where they are named by them.
pub(super) fn named(meaning: &str, processes: &[String], lines: &[&SeenLines]) -> Vec<String> {
    let mut found = gpus(lines);
    found.retain(|gpus| !meaning.contains(gpus));
    for seen in lines.iter().take(OF_KIND_MAX) {
        let sample = seen.sample.as_slice();
        of_error(sample, meaning, &mut found);
        of_line(sample, meaning, &mut found);
        let own = speaker(sample);
        add_doing(sample, meaning, &mut found);
        of_fields(seen, meaning, &mut found);
        of_json(seen, meaning, &mut found);
        for line in seen.near_lines() {
            if let Some(killed) = KILLED.captures(line) {
                let [pid, what] = ["pid", "what"].map(|name| &killed[name]);
                let text = |part| super::shown(part);
                add(
                    format!("pid {} ({})", text(pid), text(what)),
                    meaning,
                    &mut found,
                );
            }
            add_doing(line, meaning, &mut found);
            if let Some(frame) = FRAME.captures(line) {
                let [function, source] = ["function", "source"].map(|name| &frame[name]);
                let source = short(&super::shown(source));
                add(
                    format!("{} ({source})", super::shown(function)),
                    meaning,
                    &mut found,
                );
            }
            if let Some(frame) = CRASH_FRAME.captures(line) {
                let [function, source, line] =
                    ["function", "source", "line"].map(|name| super::shown(&frame[name]));
                let place = format!("{function} ({}:{line})", short(&source));
                add(place, meaning, &mut found);
            }
            // The prefix of a line that was torn apart.
            if own.is_none()
                && let Some(process) = torn_prefix(line)
            {
                add(super::shown(process), meaning, &mut found);
            }
            if own.is_some() && speaker(line) == own {
                of_line(line, meaning, &mut found);
            }
        }
        if seen.sample.ends_with(b":") {
            found.extend(listed(seen).filter(|listed| !meaning.contains(listed)));
        }
        // What ends a process of C++ has the stack of its exception below.
        let is_thrown = memchr::memmem::find(&seen.sample, b"what(): ").is_some();
        if is_thrown || crate::seen::crashes(&seen.sample) {
            for frame in crate::native_stack::told(seen.near_lines()) {
                add(frame, meaning, &mut found);
            }
        }
    }
    let is_told = |fact: &String| {
        let told = RANK.captures(fact.as_bytes());
        told.is_some_and(|told| {
            let rank = format!(" rank {}", super::shown(&told["rank"]));
            processes.len() > 1 || processes.iter().any(|name| name.ends_with(&rank))
        })
    };
    found.retain(|fact| !is_told(fact));
    few(found)
}

/// The first of the facts, without parts of others, and those that are sources last.
fn few(mut found: Vec<String>) -> Vec<String> {
    let all = found.clone();
    let is_part = |one: &String| {
        let end = format!("@{one}");
        all.iter().any(|other| other.ends_with(&end))
    };
    found.retain(|one| !is_part(one));
    found.sort_by_key(|fact| SOURCE.is_match(fact.as_bytes()));
    found.truncate(FACTS_MAX);
    found
}

/// What the other fields say where the line is one of several.
fn of_fields(seen: &SeenLines, meaning: &str, found: &mut Vec<String>) {
    if !ANY_FIELD.is_match(&seen.sample) {
        return;
    }
    let (mut file, mut line) = (None, None);
    for field in seen.near_lines().filter_map(|near| FIELD.captures(near)) {
        let [name, value] = ["name", "value"].map(|part| super::shown(&field[part]));
        match name.as_str() {
            "File" => file = Some(short(&value)),
            "Line" => line = Some(value),
            _ => add(format!("{name} {value}"), meaning, found),
        }
    }
    if let Some((file, line)) = file.zip(line) {
        add(format!("{file}:{line}"), meaning, found);
    }
}

/// The rank whose member of JSON a line is in, and the node.
fn of_json(seen: &SeenLines, meaning: &str, found: &mut Vec<String>) {
    if !crate::seen::is_member(&seen.sample) {
        return;
    }
    let rank = seen.near_lines().find_map(|line| MEMBER.captures(line));
    let node = seen.near_lines().find_map(|line| NODE.captures(line));
    let rank = rank.map(|found| format!("rank {}", super::shown(&found["rank"])));
    let node = node.map(|found| super::shown(&found["node"]));
    for fact in rank.into_iter().chain(node) {
        add(fact, meaning, found);
    }
}

/// What a line says that its program does.
fn add_doing(line: &[u8], meaning: &str, found: &mut Vec<String>) {
    if let Some(does) = DOES.find(line) {
        let does = format!("`{}`", super::shown(does.as_bytes()));
        add(does, meaning, found);
    }
}

/// The process in a line that is nothing but the prefix of a launcher.
pub(super) fn torn_prefix(line: &[u8]) -> Option<&[u8]> {
    let found = LAUNCHED.captures(line)?;
    found.name("rest")?;
    Some(found.name("thread")?.as_bytes())
}

/// The GPU in the header of a line of NCCL.
pub(super) fn gpu_of(line: &[u8]) -> Option<u32> {
    let header = HEADER.captures(line)?;
    str::from_utf8(&header["gpu"]).ok()?.parse().ok()
}

/// The GPUs in the headers of the lines of all processes.
fn gpus(lines: &[&SeenLines]) -> Vec<String> {
    let gpus = lines.iter().filter_map(|seen| gpu_of(&seen.sample));
    let gpus: BTreeSet<u32> = gpus.collect();
    let gpus: Vec<String> = gpus.iter().map(u32::to_string).collect();
    if gpus.is_empty() {
        return gpus;
    }
    vec![format!("GPU {}", gpus.join(" and "))]
}

/// The lines below one that ends with a colon, which are what it announces.
fn listed(seen: &SeenLines) -> Option<String> {
    let lines = seen
        .near_lines()
        .take_while(|line| line.first() == Some(&b'/'));
    let lines: Vec<String> = lines.map(|line| super::shown(line)).collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// NICs in NCCL's line on those that it uses, and the interface and address of its bootstrap.
static NICS: LazyLock<Regex> = LazyLock::new(|| regex(r"\[\d+\](?P<nic>[\w.-]+(?::\d+)?)/"));
static BOOTSTRAP: LazyLock<Regex> =
    LazyLock::new(|| regex(r"OOB (?P<nic>\S+?)(?:<\d+>)?$|OOB (?P<nic2>\S+?)<"));

/// The NICs of a process's line on its networks, if they are few, or the interface of its sockets.
pub(super) fn nics(line: &[u8], is_of_socket: bool) -> Option<String> {
    if is_of_socket {
        let found = BOOTSTRAP.captures(line)?;
        let nic = found.name("nic").or(found.name("nic2"))?;
        return Some(format!("bootstrap over {}", super::shown(nic.as_bytes())));
    }
    let nics = NICS
        .captures_iter(line)
        .map(|one| super::shown(&one["nic"]));
    let nics: Vec<String> = nics.collect();
    (1..=OF_KIND_MAX)
        .contains(&nics.len())
        .then(|| nics.join(" and "))
}

static SOCKETS: LazyLock<Regex> = LazyLock::new(|| regex(r"(?:Using | )\[\d+\](?P<nic>[^\s<]+)"));

/// The interfaces of a process's line on its sockets, of which the first is that of its bootstrap too.
pub(super) fn socket_nic(line: &[u8]) -> Option<String> {
    let nics = SOCKETS.captures_iter(line).take(OF_KIND_MAX);
    let nics: Vec<String> = nics.map(|found| super::shown(&found["nic"])).collect();
    (!nics.is_empty()).then(|| format!("this node uses {}", nics.join(" and ")))
}

/// The value that a command beside the lines gives a variable: `NCCL_SOCKET_IFNAME=eth1 python train.py`.
pub(super) fn assigned(variable: &str, lines: &[&SeenLines]) -> Option<String> {
    let mut near = lines.iter().flat_map(|seen| seen.near_lines());
    near.find_map(|line| {
        let line = super::shown(line);
        let mut words = line.split_ascii_whitespace();
        let value = words.find_map(|word| word.strip_prefix(variable)?.strip_prefix('='))?;
        let value = value.trim_matches(['"', '\'', ';', ',', '`']);
        (!value.is_empty()).then(|| value.to_owned())
    })
}

/// The same of a line alone.
pub(super) fn of_text(meaning: &str, line: &str) -> Vec<String> {
    let mut found: Vec<String> = HEADER
        .captures(line.as_bytes())
        .map(|header| format!("GPU {}", super::shown(&header["gpu"])))
        .into_iter()
        .filter(|gpu| !meaning.contains(gpu))
        .collect();
    of_line(line.as_bytes(), meaning, &mut found);
    few(found)
}

/// An identifier by which two lines beside each other are about one thing.
static NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"\b[A-Za-z][a-z]+(?:[A-Z]\w*){2,}\b"));
/// A rank, as a line of any program names it.
static ANY_RANK: LazyLock<Regex> = LazyLock::new(|| regex(r"\b[Rr]ank ?[:=]? ?(?P<rank>\d+)\b"));

/// The rank that the line behind another names, where both have an identifier such as `HcclCommInitRootInfo`.
pub(super) fn rank_of_same(meaning: &str, line: &str, after: &str) -> Option<String> {
    if ANY_RANK.is_match(meaning.as_bytes()) {
        return None;
    }
    let rank = ANY_RANK.captures(after.as_bytes())?;
    let mut names = NAME.find_iter(line.as_bytes());
    let is_same = names.any(|name| after.contains(&super::shown(name.as_bytes())));
    is_same.then(|| format!("rank {}", super::shown(&rank["rank"])))
}

/// A sentence with what a line names.
pub(super) fn with(meaning: String, facts: &[String]) -> String {
    if facts.is_empty() {
        return meaning;
    }
    format!("{meaning}; the log names {}", facts.join(", "))
}

/// The thread that logged a line, also where its number alone tells it.
fn speaker(line: &[u8]) -> Option<&[u8]> {
    let of = |regex: &Regex| Some(regex.captures(line)?.name("thread")?.as_bytes());
    let known = of(&OF_SOURCE).or_else(|| thread(line));
    known.or_else(|| of(&GLOG)).or_else(|| of(&LAUNCHED))
}

/// The thread that logged a line, with its host.
fn thread(line: &[u8]) -> Option<&[u8]> {
    let found = HEADER.captures(line).or_else(|| THREAD.captures(line))?;
    let thread = found.name("thread")?.as_bytes();
    // Its host and its process.
    let mut colons = memchr::memchr_iter(b':', thread);
    let end = colons.nth(1).unwrap_or(thread.len());
    Some(thread[..end].trim_ascii_end())
}

fn of_line(line: &[u8], meaning: &str, found: &mut Vec<String>) {
    let own = thread(line).unwrap_or_default();
    for kind in FACTS.iter() {
        // A version in a path has the form of an address.
        let is_of_path = |at: usize| {
            let before = line.get(..at).unwrap_or_default();
            before.ends_with(b"/") && !before.ends_with(b"//")
        };
        let facts = kind.find_iter(line);
        let facts =
            facts.filter(|one| !(one.as_bytes()[0].is_ascii_digit() && is_of_path(one.start())));
        let facts = facts.map(|one| one.as_bytes());
        // A source or an address within the header is of who speaks.
        let facts = facts.filter(|one| memchr::memmem::find(own, one).is_none());
        for fact in facts.take(OF_KIND_MAX) {
            // A source counts where NCCL or UCX names it, and not a logger.
            if own.is_empty() && SOURCE.is_match(fact) {
                continue;
            }
            add(short(&super::shown(fact)), meaning, found);
        }
    }
}

/// What only the line of the error says of it.
fn of_error(line: &[u8], meaning: &str, found: &mut Vec<String>) {
    let meaning = meaning.to_ascii_lowercase();
    for kind in OF_ERROR.iter() {
        let Some(one) = kind.captures(line) else {
            continue;
        };
        let values = ["value", "value2", "value3"];
        let value = values.iter().find_map(|name| one.name(name));
        let Some(value) = value.map(|value| super::shown(value.as_bytes())) else {
            continue;
        };
        let is_whole = ["/", "MPI_", "PMPI_", "nccl", "Hccl", "hccl", "cu", "task"];
        let is_result = one[0].starts_with(b"NCCL error");
        let fact = if is_result || is_whole.iter().any(|head| value.starts_with(head)) {
            value.clone()
        } else {
            super::shown(&one[0])
        };
        // The interpreter's path is not what failed.
        let is_known = meaning.contains(&value.to_ascii_lowercase())
            || PROGRAM.is_match(value.as_bytes())
            || found.iter().any(|one| one.contains(&value));
        if !is_known {
            found.push(fact.chars().take(FACT_BYTES).collect());
        }
    }
}

/// The last two parts of a path; other facts whole.
fn short(fact: &str) -> String {
    let is_path = fact.contains('/') && !fact.contains(' ') && !fact.contains("://");
    let mut parts = fact.rsplit('/');
    match (is_path, parts.next(), parts.next()) {
        (true, Some(file), Some(folder)) if !folder.is_empty() => format!("{folder}/{file}"),
        _ => fact.to_owned(),
    }
}

/// Adds a fact that is not told yet. A part of a long one, such as of an address, would be another one.
fn add(fact: String, meaning: &str, found: &mut Vec<String>) {
    let value = fact.strip_prefix("OpType=").unwrap_or(&fact);
    let is_known = meaning.contains(value) || found.iter().any(|one| one.contains(&fact));
    if !is_known && fact.len() <= FACT_BYTES {
        found.push(fact);
    }
}

/// Added to a crash whose innermost frame is at address 0.
const NULL_CALL: &str = "it called a function at address 0: a null pointer, as of a symbol of a library that was not found";

impl super::Compose<'_> {
    /// Tells of a crash where it was by the stack that a debugger shows of it.
    pub(super) fn tell_of_stack(&self, findings: &mut [crate::report::SignatureFinding]) {
        for (file, by_hand) in self.tally.ends.by_hand() {
            let Some(frame) = &by_hand.crash else {
                continue;
            };
            let name = self.files.get(*file as usize);
            let mut findings = findings.iter_mut();
            let crash = findings.find(|one| {
                Some(&one.first.file) == name && one.severity == crate::signature::Severity::Fatal
            });
            let Some(crash) = crash else { continue };
            if !crash.meaning.contains(frame.as_str()) {
                crash.meaning = format!("{}; the debugger's stack shows {frame}", crash.meaning);
            }
            if by_hand.calls_null {
                crash.meaning = format!("{}; {NULL_CALL}", crash.meaning);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_gpu_device_address_source_and_size() {
        let check =
            |line: &str, expected: &[&str]| assert_eq!(of_text("", line), expected, "{line}");
        check(
            "node-a:71:79 [3] transport/shm.cc:48 NCCL WARN Error while creating a (size 9637888)",
            &["GPU 3", "size 9637888", "transport/shm.cc:48"],
        );
        check(
            "node-a:71:79 [0] NCCL WARN connect to 10.0.1.25<4576> over eth2 failed",
            &["GPU 0", "eth2", "10.0.1.25<4576>"],
        );
        check(
            "SEND s-e [rqpn 0xa66 rlid 703]",
            &["rqpn 0xa66", "rlid 703"],
        );
        check("timeout check failed: rank = 6, thread = 0", &["rank = 6"]);
        check(
            "Task /job:jax_worker/replica:0/task:3 heartbeat timeout",
            &["/task:3"],
        );
        check("step 3 of 10", &[]);
    }

    #[test]
    fn the_line_of_an_error_names_its_words_its_number_and_what_it_is_about() {
        let check = |line: &str, meaning: &str, expected: &[&str]| {
            let mut found = Vec::new();
            of_error(line.as_bytes(), meaning, &mut found);
            assert_eq!(found, expected, "{line}");
        };
        check(
            "Call to ibv_create_cq failed with error Cannot allocate memory",
            "the verbs call ibv_create_cq failed",
            &["Cannot allocate memory"],
        );
        check(
            "a segment /dev/shm/nccl-cjY8K5 (size 10617216), error: No space left on device (28)",
            "a segment could not be made",
            &["No space left on device (28)", "/dev/shm/nccl-cjY8K5"],
        );
        check(
            "NET/OFI Request 0x7f completed with error. RC: 103. Error: 4126 (Unresponsive receiver)",
            "",
            &["RC: 103", "Error: 4126"],
        );
        check(
            "NCCL WARN Cuda failure 217 'peer access is not supported'",
            "two GPUs: peer access is not supported",
            &[],
        );
        check(
            "connect to 10.0.1.25<4576> returned Connection refused, exceeded error retry count after 35 attempts",
            "connecting failed: Connection refused",
            &["after 35 attempts"],
        );
        check(
            "NCCL WARN nvmlDeviceGetHandleByPciBusId() failed: Not Found",
            "NVML does not know the GPU",
            &["nvmlDeviceGetHandleByPciBusId() failed: Not Found"],
        );
        check("/opt/a/b/enqueue.cc:66 NCCL WARN a", "", &[]);
    }

    #[test]
    fn the_line_behind_names_the_rank_of_the_same_call() {
        let line = "[ERROR] HCCL(71): [op_base.cc:974] HcclCommInitRootInfo failed.";
        let after = "[error] [hccl_runner.cpp:132] HcclCommInitRootInfo fail, error:2, rank:1";
        assert_eq!(rank_of_same("a", line, after).as_deref(), Some("rank 1"));
        assert_eq!(rank_of_same("a", line, "[error] other, rank:1"), None);
        assert_eq!(rank_of_same("rank 3 failed", line, after), None);
    }

    #[test]
    fn what_is_named_has_chinese() {
        for text in ["the log names GPU 3, eth2", NULL_CALL] {
            assert!(tcpx_run_model::chinese::chinese(text).is_some(), "{text}");
        }
    }
}
