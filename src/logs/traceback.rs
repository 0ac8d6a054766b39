//! The frames of a traceback of Python beside its last line.
//!
//! The last line of a traceback is the class of an exception and a word or two: `KeyError: 'input_ids'`. What was
//! wrong is in the frames: the same class is bad data in a dataset, and a checkpoint of another model in
//! `load_weights`. Only what tells is kept of them, innermost first.
#![forbid(unsafe_code)]

use super::seen::{Around, cut};
use super::word::{after, has};
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Bytes of the lines that are searched for frames, and lines between an exception and its nearest frame.
pub(super) const WITHIN: usize = 16 << 10;
const GAP_MAX: usize = 6;
/// Lines of a frame's source that Python 3.13 writes below it, with marks below each, at most.
pub(super) const SOURCE_MAX: usize = 24;
/// Bytes above a line of Ray in which it lists the actor.
const ACTOR_WITHIN: usize = 1024;
/// Frames that are kept: the innermost, the innermost of the program's own code, and that of its script.
const FRAMES_MAX: usize = INNER_MAX + 2;
const INNER_MAX: usize = 6;
/// Bytes of each part of one.
const PART_BYTES: usize = 120;
/// Bytes before a division by zero that are searched for a count that was printed.
pub(super) const COUNTS_WITHIN: usize = 32 << 10;

/// What a line of a program's own counts looks like if one is 0.
static COUNT_OF_ZERO: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"(?i)\b(?:(?:total )?(?:number|num|count) of [\w/ ]{1,30}|num_\w+|(?:steps?|batches|samples|iterations|examples|records)(?: ?(?:/|per) ?\w+)?|(?:dataset|dataloader)(?: size| length)?|len\([\w.]+\))\s?[:=]?\s?0(?:[,;)\]\s]|$)",
    )
});

/// The last line of a traceback.
static LAST_LINE: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"^(?:\[\w+\]: ?)?(?:\w+\.)*(?P<class>[A-Z]\w*(?:Error|Exception|Interrupt|Exit))(?:: *(?P<message>.*?))?\s*$",
    )
});

/// A class of an exception that is torn within its own name, or within that of the exception it wraps.
static TORN_CLASS: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"^(?:\w+\.)*[A-Z]\w*(?:\(\w*|[a-z]E(?:r|rr|rro|x|xc|xce|xcep|xcept|xcepti|xceptio)?)$",
    )
});

/// What a line says before the traceback that it begins.
static SAID_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"(?:^|[\]\s])(?P<said>[A-Z]\w+(?: [\w'.-]+){1,8}): Traceback \(most recent call last\)",
    )
});

/// A call with which a driver asks something of all its workers.
static ASKS: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r#"\b_?(?:run_workers|collective_rpc|execute_method)\(\s*["'](?P<asked>[A-Za-z_]\w*)["']"#,
    )
});

/// A line of an exception that only passes on the one below it.
static PASSES_ON: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"^(?:\[\w+\]: ?)?(?P<what>(?:\w+\.)+[A-Z]\w*: \S.{0,80}?) (?:raised|failed with|threw):\s*$",
    )
});

/// Lines of a message that are searched for the error with which it ends.
const MESSAGE_LINES: usize = 12;
static REST: LazyLock<Regex> = LazyLock::new(|| {
    // The last form is that of a status of absl, as XLA writes it.
    super::loggers::regex(
        r#"^[A-Z]\w+(?:Error|Exception)(?:\(["'].{4,}["'],?\)|: \S.*)$|^(?:INTERNAL|UNKNOWN|ABORTED|UNAVAILABLE|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED|NOT_FOUND): \S.*$"#,
    )
});

/// A worker in the line that opens a traceback, as SGLang and others write it.
static WORKER: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"^\[(?:[-\d]+[ T][\d:.,]+ )?(?P<worker>(?:[DTPE]P\d+ ?){1,4})\]|\(pid=(?P<pid>\d+), ip=(?P<ip>[\d.]+)",
    )
});

/// A worker of Ray, in the line of an exception that passes on another one.
static PASSED_BY: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(r"\bray::(?P<name>\w[\w.]*)\S* \(pid=(?P<pid>\d+), ip=(?P<ip>[\d.]+)")
});

/// A path, and words of a line that tells what was done with it.
static PATH: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(r#"(?:^|[\s'"`=(\[])(?P<path>/(?:[\w.@+%-]+/)+[\w.@+%-]*\w)"#)
});
static DONE: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"(?i)\b(?:sav|writ|creat|load|read|remov|renam|delet|mov)(?:e|es|ed|ing|ten)\b|\bwrote\b",
    )
});

/// What PyTorch writes of a process of `torch.multiprocessing.spawn`.
static SPAWNED: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(r"^-- Process (?P<number>\d+) terminated with the following error:")
});

/// A function that checks the result of a call, and one that is named like the call.
static CHECK: LazyLock<Regex> = LazyLock::new(|| super::loggers::regex(r"(?i-u:check)"));
static CALL: LazyLock<Regex> =
    LazyLock::new(|| super::loggers::regex(r"^(?:nccl|hccl|rccl|cu|cuda|hip|nvshmem)[A-Z]\w+$"));

/// A call of CUDA or of a library for collectives in a line of code.
static CALLS: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"(?:^|[^A-Za-z0-9])(?P<call>(?:nccl|hccl|rccl|cu|cuda|hip|nvshmem)[A-Z]\w+)\(",
    )
});

/// The first such call in a line of code.
pub(super) fn call_in(line: &[u8]) -> Option<String> {
    let found = CALLS.captures(line)?;
    Some(super::compose::shown(&found["call"]))
}

/// Whether a line begins with the marks that Python writes below a frame: another rank's line cut a traceback off.
pub(super) fn cuts(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let marks = line.iter().take_while(|byte| **byte == b'^').count();
    marks >= MARKS_MIN && marks < line.len()
}

/// Least marks of such a line.
const MARKS_MIN: usize = 4;
/// How the place of the innermost frame begins, and what that is in a traceback which was cut off.
const RAISED_AT: &str = "raised at ";
const CUT_AT: &str = "it cuts off a stack of Python at ";

/// What Ray lists of an actor above the line on its end.
static ACTOR: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"(?m)^(?:(?:\([^)\n]*\) )?\s+class_name: (?P<class>\w+)\n(?:.*\n){0,3}?)?(?:\([^)\n]*\) )?\s+pid: (?P<pid>\d+)\n(?:.*\n){0,4}?(?:\([^)\n]*\) )?\s+ip: (?P<ip>[\d.]+)\s*\z",
    )
});

/// What Megatron says before it writes a checkpoint; nothing else is in its line.
static WRITES: LazyLock<Regex> = LazyLock::new(|| {
    super::loggers::regex(
        r"(?m)^(?:\d+:)? *(?P<said>saving checkpoint at iteration +\d+) to \S+(?: in \w+ format)?$",
    )
});

/// Part of the program in which an exception was raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Data,
    /// A dataset's own cache.
    Cache,
    /// An object that another rank sent.
    Object,
    Checkpoint,
    Environment,
    Configuration,
}

/// What is kept of a traceback.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Traceback {
    frames: Vec<Frame>,
    /// A count that the program printed as 0, before it divided by zero.
    zero: Option<Vec<u8>>,
    /// What the program last said of a checkpoint that it writes, where a frame is of that.
    writes: Option<Vec<u8>>,
    /// The exception that passes this one on, in the line above it.
    outer: Option<Vec<u8>>,
    /// Who raised it, in the line that opens the traceback: `[TP0] Scheduler hit an exception: Traceback ...`.
    worker: Option<Vec<u8>>,
    /// The error that a message of several lines ends with, where its first line names none.
    rest: Option<Vec<u8>>,
    /// What the log says before that was done with the path in the message.
    path: Option<Vec<u8>>,
    /// Whether the program says beside it that it got over it.
    pub is_got_over: bool,
    /// Whether Python ignored it.
    pub is_ignored: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Frame {
    path: Vec<u8>,
    line: Vec<u8>,
    function: Vec<u8>,
    code: Vec<u8>,
}

impl Traceback {
    /// The frames above a line, or those below it if there are none: some programs log the exception first, and an
    /// exception of a worker is quoted below.
    pub(super) fn of(text: &[u8], around: Around<'_>) -> Self {
        let has = |words: &[u8]| memchr::memmem::find(text, words).is_some();
        let above = around.block.get(..around.start).unwrap_or_default();
        let below = around.block.get(around.end + 1..).unwrap_or_default();
        let mut frames = if has(b"Error: Caught ") || is_torn(text) {
            Vec::new()
        } else {
            frames_above(above, writer(text))
        };
        if frames.is_empty() && !is_torn(text) {
            frames = frames_below(text, below);
        }
        // What a launcher raises when a process has ended is not where that process was.
        if frames.first().is_some_and(Frame::is_of_launcher) {
            frames.clear();
        }
        let zero = has(b"ZeroDivisionError").then(|| {
            let within = &above[above.len().saturating_sub(COUNTS_WITHIN)..];
            let count = COUNT_OF_ZERO.find_iter(within).last()?;
            Some(cut(count.as_bytes().trim_ascii(), PART_BYTES))
        });
        let is_writing = frames.iter().any(|frame| frame.doing() == Some(WRITING));
        let writes = is_writing.then(|| {
            let within = &above[above.len().saturating_sub(COUNTS_WITHIN)..];
            let said = WRITES.captures_iter(within).last()?;
            Some(cut(&said["said"], PART_BYTES))
        });
        Self {
            frames,
            zero: zero.flatten(),
            writes: writes.flatten(),
            outer: outer(above).or_else(|| passed_on(below)),
            worker: worker(above).or_else(|| passed_by(text, below)),
            rest: rest(text, below).or_else(|| more(text, below)),
            path: path_before(text, above),
            is_got_over: super::got_over::is_got_over(around),
            is_ignored: super::got_over::is_ignored(around),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let of = |frame: &Frame| {
            let parts = [&frame.path, &frame.line, &frame.function, &frame.code];
            size_of::<Frame>() + parts.iter().map(|part| part.len()).sum::<usize>()
        };
        let frames = self.frames.iter().map(of);
        let parts = [&self.outer, &self.worker, &self.rest, &self.path];
        let others = [&self.zero, &self.writes].into_iter().chain(parts);
        let others = others.flatten();
        frames.sum::<usize>() + others.map(Vec::len).sum::<usize>()
    }

    pub(super) fn has_frames(&self) -> bool {
        !self.frames.is_empty()
    }

    /// The error with which the message ends.
    pub(super) fn rest(&self) -> Option<String> {
        self.rest.as_deref().map(super::compose::shown)
    }

    /// The part of the program that the innermost frame with a known name is in.
    pub(super) fn place(&self) -> Option<Place> {
        self.frames.iter().find_map(Frame::place)
    }

    /// Whether the code raised it with words of its own, and not a call within it.
    pub(super) fn is_raised_by_hand(&self) -> bool {
        let inner = self.frames.first();
        inner.is_some_and(|inner| inner.code.starts_with(b"raise "))
    }

    /// Whether the log says before that something was written to the path in the message.
    pub(super) fn was_written(&self) -> bool {
        let has = |text: &[u8], word: &[u8]| memchr::memmem::find(text, word).is_some();
        let words: [&[u8]; 3] = [b"saved to", b"written to", b"created"];
        let said = self.path.as_deref().map(<[u8]>::to_ascii_lowercase);
        said.is_some_and(|said| words.iter().any(|word| has(&said, word)))
    }

    /// A count that was printed as 0.
    pub(super) fn zero(&self) -> Option<String> {
        self.zero.as_deref().map(super::compose::shown)
    }

    /// Where the exception was raised, where the program's own code was, and where its script.
    pub(super) fn places(&self) -> Vec<String> {
        let outer = self.outer.iter();
        let outer = outer.map(|word| WITHIN_OTHER.replace("{word}", &super::compose::shown(word)));
        let mut texts: Vec<String> = outer.collect();
        let said = |part: &Option<Vec<u8>>, text: &str| {
            let part = part.as_deref().map(super::compose::shown)?;
            Some(text.replace("{word}", &part))
        };
        texts.extend(said(&self.worker, OF_WORKER));
        let Some(inner) = self.frames.first() else {
            return texts;
        };
        // Ray raises the exception of a worker again where its driver waits for the result.
        let waits = self.frames.iter().find(|frame| frame.waits_for_ray());
        let inner = waits.filter(|_| inner.raises_again()).unwrap_or(inner);
        let code = super::compose::shown(&inner.code);
        let is_of_driver =
            inner.waits_for_ray() || self.worker.is_some() && code.contains("await ");
        let text = match code.is_empty() || code.starts_with("raise ") {
            _ if is_of_driver => WAITED,
            true => RAISED,
            false => RAISED_BY,
        };
        texts.push(text.replace("{word}", &inner.at()).replace("{code}", &code));
        let checks = CHECK.is_match(&inner.function);
        let call = self.frames.iter().find(|one| CALL.is_match(&one.function));
        if let Some(call) = call.filter(|_| checks) {
            let call = super::compose::shown(&call.function);
            texts.push(OF_CALL.replace("{word}", &call));
        }
        let is_raised = code.is_empty() || code.starts_with("raise ");
        let calls = |one: &&Frame| one.path != inner.path && !Frame::has_in(&one.code, &["(*args"]);
        let caller = self.frames.iter().find(calls);
        let caller = caller.filter(|one| is_raised && !inner.is_own() && !one.is_own());
        if let Some(caller) = caller.filter(|one| !one.code.is_empty()) {
            let code = super::compose::shown(&caller.code);
            let text = OF_LIBRARY.replace("{word}", &caller.at());
            texts.push(text.replace("{code}", &code));
        }
        if let Some(doing) = self.frames.iter().find_map(Frame::doing) {
            texts.push(doing.to_owned());
        }
        if let Some(writes) = &self.writes {
            texts.push(SAID.replace("{word}", &super::compose::shown(writes)));
        }
        texts.extend(said(&self.path, SAID));
        let own = self.frames.iter().find(|frame| frame.is_own());
        let own = own.filter(|own| *own != inner);
        if let Some(own) = own {
            let code = super::compose::shown(&own.code);
            let text = if code.is_empty() { SCRIPT } else { CALLED };
            texts.push(text.replace("{word}", &own.at()).replace("{code}", &code));
        }
        let script = self.frames.last().map(|frame| &frame.path);
        let script = self.frames.iter().find(|frame| Some(&frame.path) == script);
        let told = own.unwrap_or(inner);
        if let Some(script) = script.filter(|one| one.is_own() && one.path != told.path) {
            texts.push(SCRIPT.replace("{word}", &script.at()));
        }
        texts
    }

    /// The same where the line cuts the traceback off, which is of another process.
    pub(super) fn places_cut(&self) -> Vec<String> {
        let places = self.places().into_iter();
        let told = places.map(|text| match text.strip_prefix(RAISED_AT) {
            Some(place) => format!("{CUT_AT}{place}"),
            None => text,
        });
        told.collect()
    }

    /// The place of the innermost frame, where it is in a file of this name.
    pub(super) fn raised_in(&self, file: &str) -> Option<String> {
        let inner = self.frames.first()?;
        inner.path.ends_with(file.as_bytes()).then(|| inner.at())
    }

    /// The innermost frame that is not in an installed package: its place and its code.
    pub(super) fn own(&self) -> Option<(String, String)> {
        // The driver's own code only waited for the worker that raised it.
        if self.frames.first().is_some_and(Frame::raises_again) {
            return None;
        }
        let own = self.frames.iter().find(|frame| frame.is_own())?;
        let shown = super::compose::shown;
        let place = format!("{}:{}", shown(&own.path), shown(&own.line));
        Some((place, shown(&own.code)))
    }
}

/// Where an exception was raised, in the first sentence of a finding.
const RAISED: &str = "raised at {word}";
const RAISED_BY: &str = "raised at {word} by `{code}`";
const WAITED: &str = "the driver waited for it at {word} by `{code}`";
const OF_LIBRARY: &str = "that was called at {word} by `{code}`";
const OF_CALL: &str = "the call was {word}";
const CALLED: &str = "the program's own code calls it at {word}: `{code}`";
const SCRIPT: &str = "it was called from {word}";
const OF_WORKER: &str = "it is of {word}";
const WITHIN_OTHER: &str = "it is passed on as {word}";
const WRITING: &str = "a checkpoint was being written";
/// What the program said before.
const SAID: &str = "before it the log says `{word}`";
/// What the program did, by words in the names of its functions.
const DOINGS: [(&[&str], &str); 4] = [
    (
        &[
            "save_checkpoint",
            "save_model",
            "save_state",
            "save_pretrained",
        ],
        WRITING,
    ),
    (
        &[
            "load_checkpoint",
            "load_weights",
            "load_state_dict",
            "from_pretrained",
        ],
        "a model or a checkpoint was being read",
    ),
    (
        &["_worker_loop", "__getitem__", "_next_data"],
        "data were being read",
    ),
    (&["backward"], "gradients were being computed"),
];

impl Frame {
    /// Its place, behind the folder of installed packages, and its function.
    fn at(&self) -> String {
        let shown = super::compose::shown;
        place(
            &shown(&self.path),
            &shown(&self.line),
            &shown(&self.function),
        )
    }

    /// Whether a launcher of ranks raised it.
    fn is_of_launcher(&self) -> bool {
        let of = [
            "torch/distributed/launcher/",
            r"torch\distributed\launcher\",
        ];
        Self::has_in(&self.path, &of)
    }

    /// Whether Ray raises the exception of a worker again here.
    fn raises_again(&self) -> bool {
        Self::has_in(&self.code, &["as_instanceof_cause"])
    }

    fn waits_for_ray(&self) -> bool {
        Self::has_in(&self.code, &["ray.get("])
    }

    fn doing(&self) -> Option<&'static str> {
        let is_of = |(words, _): &&(&[&str], _)| Self::has_in(&self.function, words);
        DOINGS.iter().find(is_of).map(|(_, doing)| *doing)
    }

    /// The frame in a line, without its code.
    fn of(line: &[u8]) -> Option<Self> {
        let rest = after!(line, b"File \"")?;
        let (path, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
        let rest = rest.strip_prefix(b"\", line ")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // Without a comma where Python writes it as it crashes.
        let rest_of = &rest[digits..];
        let function = rest_of
            .strip_prefix(b", in ")
            .or(rest_of.strip_prefix(b" in "));
        let function = function.unwrap_or_default();
        Some(Self {
            path: path[path.len().saturating_sub(PART_BYTES)..].to_vec(),
            line: cut(&rest[..digits], PART_BYTES),
            function: cut(function.trim_ascii(), PART_BYTES),
            code: Vec::new(),
        })
    }

    fn has_in(text: &[u8], words: &[&str]) -> bool {
        let text = text.to_ascii_lowercase();
        let has = |word: &&str| memchr::memmem::find(&text, word.as_bytes()).is_some();
        words.iter().any(has)
    }

    fn place(&self) -> Option<Place> {
        // What is assigned to one is being written.
        let reads = Self::has_in(&self.code, &["params_dict[", "state_dict["])
            && !Self::has_in(&self.code, &["] = "])
            && !Self::has_in(&self.function, &["save"]);
        if Self::has_in(&self.function, &["load_weights", "load_state_dict"]) || reads {
            return Some(Place::Checkpoint);
        }
        if Self::has_in(&self.code, &["os.environ[", "environ["]) {
            return Some(Place::Environment);
        }
        if Self::has_in(&self.function, &["tensor_to_object"]) {
            return Some(Place::Object);
        }
        if Self::has_in(&self.path, &["dataset"]) && Self::has_in(&self.code, &["cache"]) {
            return Some(Place::Cache);
        }
        if Self::has_in(&self.function, &["__getitem__", "collate", "tokenize"])
            || Self::has_in(
                &self.path,
                &["dataset", "dataloader", "data_loader", "data_utils"],
            )
        {
            return Some(Place::Data);
        }
        let configuration = ["cfg[", "config[", "cfg.", "config.", "args["];
        Self::has_in(&self.code, &configuration).then_some(Place::Configuration)
    }

    fn is_own(&self) -> bool {
        // A launcher's script, `/opt/venv/bin/torchrun`, is installed too.
        let installed = [
            "site-packages",
            "dist-packages",
            "/lib/python",
            "/torch/distributed/",
            "/bin/torchrun",
            "/bin/accelerate",
            "/bin/deepspeed",
            "/bin/vllm",
            "/bin/ray",
            "<",
        ];
        !Self::has_in(&self.path, &installed)
    }
}

/// The exception in the line above one that it passes on: `a.BackendCompilerFailed: backend='b' raised:`.
fn outer(above: &[u8]) -> Option<Vec<u8>> {
    let above = above.strip_suffix(b"\n").unwrap_or(above);
    let from = memchr::memrchr(b'\n', above).map_or(0, |at| at + 1);
    let found = PASSES_ON.captures(&above[from..])?;
    Some(cut(&found["what"], PART_BYTES))
}

/// What Python writes between an exception and one that was raised for it.
const RAISED_FOR_IT: [&[u8]; 2] = [
    b"During handling of the above exception",
    b"The above exception was the direct cause",
];

/// Whether a line is between an exception and one that was raised for it.
pub(super) fn joins(line: &[u8]) -> bool {
    let has = |words: &&[u8]| memchr::memmem::find(line, words).is_some();
    RAISED_FOR_IT.iter().any(has)
}

/// Whether a line is the last one of a traceback.
pub(super) fn ends(line: &[u8]) -> bool {
    LAST_LINE.is_match(line)
}

/// The last of the exceptions that were raised while the one above these lines was handled.
fn passed_on(below: &[u8]) -> Option<Vec<u8>> {
    let below = &below[..below.len().min(WITHIN)];
    let lines = below.split(|byte| *byte == b'\n');
    let mut lines = lines.filter(|line| !line.trim_ascii().is_empty());
    let mut last = None;
    while lines.next().is_some_and(joins) {
        let found = lines.find_map(|line| LAST_LINE.captures(line))?;
        let message = found.name("message").map_or(&b""[..], |one| one.as_bytes());
        let whole = [&found["class"], b": ", message].concat();
        last = Some(cut(&whole, PART_BYTES));
    }
    last
}

/// Who a traceback is of, by the line that opens it, or right above an exception without one.
fn worker(above: &[u8]) -> Option<Vec<u8>> {
    let above = &above[above.len().saturating_sub(WITHIN)..];
    let above = above.strip_suffix(b"\n").unwrap_or(above);
    let listed = &above[above.len().saturating_sub(ACTOR_WITHIN)..];
    if let Some(actor) = ACTOR.captures(listed) {
        let process = process(&actor["pid"], &actor["ip"]);
        return Some(match actor.name("class") {
            Some(class) => cut(&[class.as_bytes(), b" ", &process].concat(), PART_BYTES),
            None => process,
        });
    }
    let mut lines = above.rsplit(|byte| *byte == b'\n');
    let opens = |line: &&[u8]| {
        let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
        has(b"Traceback (most recent")
            || has(b" hit an exception")
            || has(b", ip=") && has(b"(pid=")
    };
    let opening = lines.find(opens)?;
    let Some(found) = WORKER.captures(opening) else {
        // PyTorch writes the number of a process that it started above its traceback.
        let number = SPAWNED.captures(lines.next()?)?;
        return Some([b"process ", &number["number"]].concat());
    };
    if let Some(address) = found.name("ip") {
        return Some(process(&found["pid"], address.as_bytes()));
    }
    let worker = found.name("worker")?.as_bytes();
    Some(cut(worker.trim_ascii_end(), PART_BYTES))
}

/// The message of an exception, behind its class.
fn message(text: &[u8]) -> Option<&[u8]> {
    let behind = |word: &[u8]| Some(memchr::memmem::find(text, word)? + word.len());
    let from = behind(b"Error: ").or_else(|| behind(b"Exception: "))?;
    Some(text[from..].trim_ascii())
}

/// The worker of Ray that raised an exception whose message is in the lines below: the last one that is named there
/// before the message.
fn passed_by(text: &[u8], below: &[u8]) -> Option<Vec<u8>> {
    let message = message(text)?;
    let below = &below[..below.len().min(WITHIN)];
    let has_message =
        |line: &&[u8]| !message.is_empty() && line.trim_ascii_end().ends_with(message);
    let mut lines = below.split(|byte| *byte == b'\n');
    let count = lines.position(|line| has_message(&line))?;
    let lines = below.split(|byte| *byte == b'\n').take(count);
    let found = lines.filter_map(|line| PASSED_BY.captures(line)).last()?;
    let process = process(&found["pid"], &found["ip"]);
    Some(cut(&[&found["name"], b" ", &process].concat(), PART_BYTES))
}

/// The path in the message of an exception.
pub(super) fn path_of(text: &[u8]) -> Option<&[u8]> {
    let found = PATH.captures(message(text)?)?;
    Some(found.name("path")?.as_bytes())
}

/// What a line tells of what was done with a path, of which only the name is kept.
pub(super) fn done_with(path: &[u8], line: &[u8]) -> Option<Vec<u8>> {
    let at = memchr::memmem::find(line, path)?;
    let from = memchr::memmem::rfind(&line[..at], b" - ").map_or(0, |dash| dash + 3);
    let before = line[from..at].trim_ascii_start();
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let behind = line[at + path.len()..].trim_ascii_end();
    let tells = DONE.is_match(before) && !is_frame(line);
    tells.then(|| cut(&[before, name, behind].concat(), PART_BYTES))
}

/// The first and the last line before an exception that tell what was done with the path in its message.
fn path_before(text: &[u8], above: &[u8]) -> Option<Vec<u8>> {
    let path = path_of(text)?;
    let within = &above[above.len().saturating_sub(COUNTS_WITHIN)..];
    let lines = within.split(|byte| *byte == b'\n');
    let mut said = lines.filter_map(|line| done_with(path, line));
    let first = said.next()?;
    Some(match said.next_back() {
        Some(last) => [&first[..], b"`, `", &last[..]].concat(),
        None => first,
    })
}

fn process(pid: &[u8], address: &[u8]) -> Vec<u8> {
    cut(&[b"pid ", pid, b" on ", address].concat(), PART_BYTES)
}

/// How the message of an exception begins that is the text of another traceback.
const NESTED: &[u8] = b"Error: Traceback (most recent call last):";

/// The last line of a traceback whose frames begin a text.
fn nested(below: &[u8]) -> Option<Vec<u8>> {
    let below = &below[..below.len().min(WITHIN)];
    let lines = below.split(|byte| *byte == b'\n');
    let mut lines = lines.skip_while(|line| line.starts_with(b" ") || line.is_empty());
    let line = lines.next().filter(|line| LAST_LINE.is_match(line))?;
    Some(cut(line.trim_ascii(), PART_BYTES))
}

/// The error with which the message of an exception ends, if its first line has no more than a place.
fn rest(text: &[u8], below: &[u8]) -> Option<Vec<u8>> {
    if !goes_on(text) {
        return None;
    }
    if text.trim_ascii_end().ends_with(NESTED) {
        return nested(below);
    }
    let mut lines = below.split(|byte| *byte == b'\n').take(MESSAGE_LINES);
    if counts_errors(text) {
        let line = lines.next().filter(|line| line.starts_with(b" "))?;
        return Some(cut(line.trim_ascii(), PART_BYTES));
    }
    let mut lines = lines.take_while(|line| !is_frame(line));
    let line = lines.find(|line| is_rest(line))?;
    Some(cut(line.trim_ascii(), PART_BYTES))
}

/// Lines of one message that are searched for more than its first line says, and that are kept; least and most bytes
/// of a line and of all.
pub(super) const MORE_LINES: usize = 5;
const MORE_KEPT: usize = 2;
const MORE_MIN: usize = 20;
const MORE_BYTES: usize = 300;

/// What stands in front of an exception in its line, if a launcher or a logger writes it in front of each line.
pub(super) fn in_front(text: &[u8]) -> Option<&[u8]> {
    let ends = ["Error: ", "Exception: "].iter();
    let mut ends = ends.filter_map(|word| memchr::memmem::find(text, word.as_bytes()));
    let end = ends.next()?;
    let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._".contains(byte);
    let size = text[..end].iter().rev().take_while(is_of_name).count();
    let prefix = &text[..end - size];
    let is_prefix = matches!(prefix.first(), Some(b'[' | b'(' | b'\x1b'));
    is_prefix.then_some(prefix)
}

/// Whether a line goes on in the message of an exception: it has the same in front, and begins nothing else.
pub(super) fn is_more(exception: &[u8], line: &[u8]) -> bool {
    let text = in_front(exception).and_then(|prefix| line.strip_prefix(prefix));
    let Some(text) = text.map(<[u8]>::trim_ascii) else {
        return false;
    };
    let begins_other = |words: &[u8]| memchr::memmem::find(text, words).is_some();
    let others: [&[u8]; 4] = [
        b"raceback (most",
        b"above exception",
        b"raceBack (most",
        b"Inner Error!",
    ];
    let is_advice = [&b"Set "[..], b"For ", b"You "];
    text.len() >= MORE_MIN
        && !is_advice.iter().any(|word| text.starts_with(word))
        && text.iter().any(u8::is_ascii_digit)
        && !is_frame(text)
        && !LAST_LINE.is_match(text)
        && !others.into_iter().any(begins_other)
        && super::shape::record_at(text, text.len())
            .0
            .level()
            .is_none()
}

/// The lines of the message of an exception below its first, where each has the launcher's or the logger's prefix.
fn more(text: &[u8], below: &[u8]) -> Option<Vec<u8>> {
    let prefix = in_front(text)?;
    let lines = below.split(|byte| *byte == b'\n').take(MORE_LINES);
    let lines = lines.filter(|line| is_more(text, line));
    let lines: Vec<&[u8]> = lines
        .take(MORE_KEPT)
        .map(|line| line[prefix.len()..].trim_ascii())
        .collect();
    (!lines.is_empty()).then(|| cut(&lines.join(&b' '), MORE_BYTES))
}

/// Whether the message of a line goes on in the next: it ends with a colon, or counts errors.
pub(super) fn goes_on(line: &[u8]) -> bool {
    line.trim_ascii_end().ends_with(b":") || counts_errors(line)
}

/// Whether a line says how many errors of a configuration are listed below it: `1 validation error for Args`.
fn counts_errors(line: &[u8]) -> bool {
    memchr::memmem::find(line, b" validation error").is_some()
}

/// Whether a line is an exception as Python writes one within a message: `AttributeError("'NoneType' object ...")`.
pub(super) fn is_rest(line: &[u8]) -> bool {
    REST.is_match(line.trim_ascii())
}

/// Whether a line has a count that a division by zero may come from.
pub(super) fn is_count_of_zero(line: &[u8]) -> bool {
    COUNT_OF_ZERO.is_match(line)
}

/// Whether a line is of the list of an actor, and names its process.
pub(super) fn is_of_actor(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.starts_with(b"pid: ") || line.starts_with(b"ip: ")
}

/// Whether a line is one on a checkpoint that will be written.
pub(super) fn is_before_writing(line: &[u8]) -> bool {
    WRITES.is_match(line)
}

/// Whether a line begins a traceback.
pub(super) fn begins(line: &[u8]) -> bool {
    has!(line, b"Traceback (most recent call last)")
}

/// Whether a line of a writer, behind the first one of its traceback, is within that.
pub(super) fn is_within(line: &[u8], writer: &[u8]) -> bool {
    let behind = behind(line, writer);
    behind.is_empty() || behind.starts_with(b"  ")
}

/// What stands behind the prefix of a writer in its line.
fn behind<'a>(line: &'a [u8], writer: &[u8]) -> &'a [u8] {
    let behind = line.strip_prefix(writer).unwrap_or_default();
    let behind = behind.strip_prefix(b":").unwrap_or(behind);
    behind
        .strip_prefix(b" ")
        .filter(|_| !writer.is_empty())
        .unwrap_or(behind)
}

/// The start of an exception's class, where the line of a writer is torn within that: `a.RayTaskError(Runtim`.
pub(super) fn torn_exception<'a>(line: &'a [u8], writer: &[u8]) -> Option<&'a [u8]> {
    let name = behind(line, writer);
    TORN_CLASS.is_match(name).then_some(name)
}

/// What a driver asks of its workers, in a line of code: `init_device` in `self._run_workers("init_device")`.
pub(super) fn asked_in(line: &[u8]) -> Option<String> {
    let found = ASKS.captures(line)?;
    Some(super::compose::shown(&found["asked"]))
}

/// What a program's logger writes in front of each line of a traceback that it logs as an error: `ERROR 11-20 08:14:04
/// worker.py:464]`. The first line of the traceback may be torn off.
pub(super) fn logger(line: &[u8]) -> Option<&[u8]> {
    let frame = memchr::memmem::find(line, b"  File \"");
    // What failed may be in the first line: `EngineCore hit an exception: Traceback (most recent call last)`.
    let first = || {
        let at = memchr::memmem::find(line, b" Traceback (most recent call last)")?;
        Some(memchr::memrchr(b']', &line[..at]).map_or(at, |end| end + 1))
    };
    let front = line[..frame.or_else(first)?].trim_ascii_end();
    let is_of_error = memchr::memmem::find(front, b"ERROR").is_some();
    (is_of_error && front.ends_with(b"]")).then_some(front)
}

/// A place, behind the folder of installed packages, and its function.
pub(super) fn place(path: &str, line: &str, function: &str) -> String {
    let package = ["site-packages/", "dist-packages/", "/lib/python"];
    let path = package
        .iter()
        .find_map(|folder| Some(path.split_once(folder)?.1))
        .unwrap_or(path);
    match function {
        "" | "<module>" => format!("{path}:{line}"),
        function => format!("{path}:{line}({function})"),
    }
}

/// The place and the function of the frame that a line is.
pub(super) fn place_of_frame(line: &[u8]) -> Option<String> {
    Some(Frame::of(line)?.at())
}

/// Whether a line is the first of a frame.
pub(super) fn is_frame(line: &[u8]) -> bool {
    Frame::of(line).is_some()
}

/// What a program says in the line that begins a traceback: `EngineCore hit an exception`.
pub(super) fn said_of(line: &[u8]) -> Option<String> {
    let found = SAID_BEFORE.captures(line)?;
    Some(super::compose::shown(&found["said"]))
}

/// The prefix of a line that tells its process: of processes that write at once, the lines of a traceback are among
/// those of others.
pub(super) fn writer(line: &[u8]) -> &[u8] {
    let start = color(line);
    let end = match line.get(start) {
        Some(b'(') => memchr::memchr(b')', line),
        Some(b'[') => memchr::memchr(b']', line),
        _ => None,
    };
    let Some(end) = end else { return b"" };
    let (prefix, inside) = (&line[..=end], &line[start + 1..end]);
    let names_rank = inside.strip_prefix(b"rank").unwrap_or(inside);
    let is_rank = line[start..].starts_with(b"[rank") && names_rank.iter().all(u8::is_ascii_digit);
    let is_of_mpi = line[end + 1..].starts_with(b"<std");
    if is_rank || is_of_mpi || memchr::memmem::find(inside, b"pid=").is_some() {
        prefix
    } else {
        b""
    }
}

/// Whether a line of Ray wraps the exception of a task, whose frames are below it and whose text is below those.
pub(super) fn begins_of_ray(line: &[u8]) -> bool {
    let wraps = b"ray.exceptions.RayTaskError(";
    line.strip_prefix(wraps)
        .is_some_and(|rest| memchr::memmem::find(rest, b"): ray::").is_some())
}

/// Whether a text is an exception into whose message another process wrote, and the other one the same exception.
pub(super) fn is_torn_form(torn: &[u8], whole: &[u8]) -> bool {
    let messages = message(torn).zip(message(whole));
    is_torn(torn)
        && !is_torn(whole)
        && messages.is_some_and(|(torn, whole)| !whole.is_empty() && torn.starts_with(whole))
}

/// Whether the message of an exception has the prefix of a process in it: two wrote at once, and the lines around it
/// are of both.
fn is_torn(text: &[u8]) -> bool {
    let message = memchr::memmem::find(text, b"Error: ").map(|at| &text[at..]);
    message.is_some_and(|message| {
        memchr::memmem::find(message, b"m(").is_some_and(|at| {
            let prefix = message[at + 2..].split(|byte| *byte == b')').next();
            prefix.is_some_and(|prefix| memchr::memmem::find(prefix, b" pid=").is_some())
        })
    })
}

/// Bytes of the color with which a line begins, also where a log has lost its escape: `[0;36m`.
fn color(line: &[u8]) -> usize {
    let escape = usize::from(line.starts_with(b"\x1b"));
    let Some(rest) = line[escape..].strip_prefix(b"[") else {
        return 0;
    };
    let is_of_color = |byte: &&u8| byte.is_ascii_digit() || **byte == b';';
    let digits = rest.iter().take_while(is_of_color).count();
    match rest.get(digits) {
        Some(b'm') => escape + digits + 2,
        _ => 0,
    }
}

/// The frames of the traceback of a writer that ends above the end of a text, innermost first.
fn frames_above(text: &[u8], writer: &[u8]) -> Vec<Frame> {
    let text = &text[text.len().saturating_sub(WITHIN)..];
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let (mut frames, mut below): (Vec<Frame>, &[u8]) = (Vec::new(), b"");
    let mut gap = 0;
    let lines = text.rsplit(|byte| *byte == b'\n');
    let is_of_writer = |line: &&[u8]| match writer {
        b"" => self::writer(line).is_empty(),
        writer => line.starts_with(writer),
    };
    let lines = lines.filter(is_of_writer);
    for (number, line) in lines.enumerate() {
        gap += usize::from(!is_source(line));
        if let Some(mut frame) = Frame::of(line) {
            frame.code = code(line, below);
            frames.push(frame);
        } else if memchr::memmem::find(line, b"Traceback (most recent").is_some() {
            break;
        }
        let is_far = frames.is_empty() && (gap > GAP_MAX || number >= SOURCE_MAX);
        if is_far {
            break;
        }
        below = line;
    }
    kept(frames)
}

/// Whether a line, behind the rank that PyTorch writes before it, may be the source of a frame.
pub(super) fn is_source(line: &[u8]) -> bool {
    let end = memchr::memmem::find(line, b"]: ").filter(|_| line.starts_with(b"["));
    let text = end.map_or(line, |end| &line[end + b"]: ".len()..]);
    text.starts_with(b"    ")
}

/// The innermost frames, and behind them the program's own and the script's.
fn kept(mut frames: Vec<Frame>) -> Vec<Frame> {
    if frames.len() <= FRAMES_MAX {
        return frames;
    }
    let script = frames.last().map(|frame| frame.path.clone());
    let outer = frames.split_off(INNER_MAX);
    let is_of_script = |frame: &&Frame| Some(&frame.path) == script.as_ref();
    let own = outer.iter().find(|frame| frame.is_own());
    let of_script = outer.iter().find(is_of_script);
    let others = [own, of_script.filter(|one| Some(*one) != own)];
    frames.extend(others.into_iter().flatten().cloned());
    frames
}

/// The frames of the traceback that begins at the start of the lines below an exception, innermost first; none if it
/// ends with another exception, such as that of a launcher.
fn frames_below(exception: &[u8], below: &[u8]) -> Vec<Frame> {
    let below = &below[..below.len().min(WITHIN)];
    let writer = writer(exception);
    let lines = below.split(|byte| *byte == b'\n');
    let mut lines = lines.filter(|line| line.starts_with(writer)).peekable();
    let (mut frames, mut gap) = (Vec::new(), 0);
    let mut is_innermost_first = false;
    while let Some(line) = lines.next() {
        is_innermost_first |= memchr::memmem::find(line, b"(most recent call first)").is_some();
        // The frames of another thread are behind a blank line.
        if is_innermost_first && !frames.is_empty() && Frame::of(line).is_none() {
            break;
        }
        if let Some(mut frame) = Frame::of(line) {
            frame.code = lines.peek().map_or(Vec::new(), |next| code(line, next));
            frames.push(frame);
            gap = 0;
        } else {
            gap += 1;
        }
        if !frames.is_empty() && gap > 0 && is_of_other(line, exception) {
            return Vec::new();
        }
        let ends = !frames.is_empty() && memchr::memmem::find(line, b"Error").is_some() && gap > 1;
        if ends || gap > GAP_MAX {
            break;
        }
    }
    if !is_innermost_first {
        frames.reverse();
    }
    kept(frames)
}

/// Whether a line is the last one of a traceback of another exception: neither its class nor its message is in the
/// text of this one.
fn is_of_other(line: &[u8], exception: &[u8]) -> bool {
    let Some(found) = LAST_LINE.captures(line) else {
        return false;
    };
    let is_in = |name: &str| {
        let part = found.name(name).map_or(&b""[..], |part| part.as_bytes());
        !part.is_empty() && memchr::memmem::find(exception, part).is_some()
    };
    !is_in("class") && !is_in("message")
}

/// The code of a frame: the line below it, behind the same prefix.
fn code(frame: &[u8], below: &[u8]) -> Vec<u8> {
    let prefix = memchr::memmem::find(frame, b"File \"").unwrap_or_default();
    let prefix = &frame[..prefix].trim_ascii_end();
    let code = below.strip_prefix(*prefix).unwrap_or(below);
    // Of ranks that write at once, marks of one may be below the frame of another.
    let has_text = code.iter().any(u8::is_ascii_alphabetic);
    if !has_text || Frame::of(code).is_some() {
        return Vec::new();
    }
    cut(code.trim_ascii(), PART_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str, line: &str) -> Traceback {
        let start = text.find(line).unwrap();
        let around = Around {
            block: text.as_bytes(),
            start,
            end: start + line.len(),
        };
        Traceback::of(line.as_bytes(), around)
    }

    #[test]
    fn frames_tell_in_which_part_an_exception_was_raised() {
        let check = |frame: &str, code: &str, expected: Option<Place>| {
            let line = "KeyError: 'a'";
            let text = format!(
                "Traceback (most recent call last):\n  File \"{frame}\n    {code}\n{line}\n"
            );
            assert_eq!(of(&text, line).place(), expected, "{text}");
            let ahead = format!("{line}\n{}", text.trim_end_matches(&format!("{line}\n")));
            assert_eq!(of(&ahead, line).place(), expected, "{ahead}");
        };
        check(
            "/w/train.py\", line 3, in __getitem__",
            "x[1]",
            Some(Place::Data),
        );
        check(
            "/w/datasets/build.py\", line 3, in get",
            "x[1]",
            Some(Place::Data),
        );
        check(
            "/w/qwen.py\", line 3, in load_weights",
            "p = d[n]",
            Some(Place::Checkpoint),
        );
        check(
            "/w/a.py\", line 3, in f",
            "os.environ[\"A\"]",
            Some(Place::Environment),
        );
        check(
            "/w/a.py\", line 3, in f",
            "cfg[\"a\"]",
            Some(Place::Configuration),
        );
        check("/w/a.py\", line 3, in f", "x[1]", None);
        check(
            "/w/datasets.py\", line 3, in __init__",
            "labels, shapes = zip(*cache.values())",
            Some(Place::Cache),
        );
        check(
            "/e/site-packages/torch/distributed/distributed_c10d.py\", line 3, in _tensor_to_object",
            "return _unpickler(io.BytesIO(buf)).load()",
            Some(Place::Object),
        );
    }

    #[test]
    fn the_innermost_place_of_the_programs_own_code_is_told() {
        let text = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/train.py\", line 7, in main\n[rank1]:     model(x)\n[rank1]:   File \"/e/site-packages/torch/nn.py\", line 9, in forward\n[rank1]:     return f(x)\n[rank1]: ValueError: a\n";
        let own = of(text, "[rank1]: ValueError: a").own();
        assert_eq!(
            own,
            Some(("/w/train.py:7".to_owned(), "model(x)".to_owned()))
        );
    }

    #[test]
    fn the_frames_of_a_crash_begin_with_the_innermost() {
        let line = "node-a UCX  ERROR a";
        let text = format!(
            "{line}\nFatal Python error: Segmentation fault\n\nCurrent thread 0x71 (most recent call first):\n  File \"/e/site-packages/nixl/api.py\", line 832 in add_agent\n  File \"/w/conn.py\", line 611 in add_peer\n\nThread 0x72 (most recent call first):\n  File \"/w/other.py\", line 1 in wait\n"
        );
        let expected = [
            "raised at nixl/api.py:832(add_agent)",
            "it was called from /w/conn.py:611(add_peer)",
        ];
        assert_eq!(of(&text, line).places(), expected);
    }

    #[test]
    fn the_worker_and_the_error_behind_a_place_are_told() {
        let line = "triton.compiler.errors.CompilationError: at 142:16:";
        let text = format!(
            "[2026-11-20 08:14:04 DP1 TP0] Scheduler hit an exception: Traceback (most recent call last):\n{line}\n    a = tl.load(\n    ^\nAttributeError(\"'NoneType' object has no attribute 'type'\")\n"
        );
        let traceback = of(&text, line);
        let rest = "AttributeError(\"'NoneType' object has no attribute 'type'\")";
        assert_eq!(traceback.rest().as_deref(), Some(rest));
        assert_eq!(traceback.places(), ["it is of DP1 TP0"]);
    }

    #[test]
    fn the_exception_that_passes_another_on_is_told() {
        let line = "[rank0]: RuntimeError: not all inputs are used";
        let text = format!(
            "[rank0]:     raise RuntimeError(\n[rank0]: torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n{line}\n"
        );
        let expected =
            "it is passed on as torch._dynamo.exc.BackendCompilerFailed: backend='inductor'";
        assert_eq!(of(&text, line).places(), [expected]);
    }

    #[test]
    fn a_count_of_zero_is_found_before_a_division_by_it() {
        let line = "ZeroDivisionError: integer division or modulo by zero";
        let check = |text: &str, expected: Option<&str>| {
            let zero = of(&format!("{text}\n{line}\n"), line).zero();
            assert_eq!(zero.as_deref(), expected, "{text}");
        };
        check(
            "Number of steps/epoch 0, number of epochs 6",
            Some("Number of steps/epoch 0,"),
        );
        check("num_batches = 0", Some("num_batches = 0"));
        check("number of epochs 6, loss 0.1", None);
        check("steps: 10", None);
    }

    #[test]
    fn a_traceback_below_that_ends_with_another_exception_is_not_of_the_line() {
        let check = |last: &str, count: usize| {
            let line = "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.yaml'";
            let text = format!(
                "^^^ ^^^\n{line}\nTraceback (most recent call last):\n  File \"/opt/bin/torchrun\", line 8, in <module>\n    sys.exit(main())\n{last}\n"
            );
            assert_eq!(of(&text, line).places().len(), count, "{text}");
        };
        check(
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            0,
        );
        check("FileNotFoundError: [Errno 2] No such file", 1);
        check("app.OtherError: No such file or directory", 1);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(File \"|\", line 1|, in f|\n|Error|Traceback \\(most recent|a| ){0,40}", at in 0usize..60) {
            let start = at.min(text.len());
            let around = Around { block: text.as_bytes(), start, end: text.len() };
            let traceback = Traceback::of(b"ZeroDivisionError", around);
            prop_assert!(traceback.frames.len() <= FRAMES_MAX);
        }
    }
}
