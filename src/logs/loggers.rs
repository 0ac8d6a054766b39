//! What programs log in forms of their own: glog, klog, JSON, PyTorch, XLA, Ray, vLLM, TensorRT-LLM,
//! Slurm, Open MPI, DOCA, NVSHMEM, and the exceptions of Python, Java, Go and Rust.
//!
//! An error is a finding even without a signature. A *notice* is a warning of a program that logs
//! warnings in healthy jobs too, so it is told and is no finding.
//!
//! Not here: NCCL's and the plugins' own lines, which have a header (`shape`).
#![forbid(unsafe_code)]

use super::any_of::AnyOf;
use super::shape::{PREFIX_MAX, begins_as_nccl, site, speaker};
use super::word::{find, has};
use memchr::memmem::Finder;
use memchr::{memchr, memchr2_iter, memrchr};
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Levels of lines of programs' own loggers.
pub(super) const WORDS: [&[u8]; 4] = [b"ERROR", b"FATAL", b"CRITICAL", b"Fatal:"];
static WORDS_IN: LazyLock<[Finder; 4]> = LazyLock::new(|| WORDS.map(Finder::new));
/// The same in lower case, as Slurm, shells, compilers and argparse write it behind their name.
pub(super) const LOWER_WORD: &[u8] = b"error: ";
/// The same of DOCA.
pub(super) const SHORT_WORD: &[u8] = b"[ERR]";
/// What precedes the line of a source in C, C++ or CUDA.
pub(super) const SOURCES: [&[u8]; 3] = [b".cc:", b".cpp:", b".cu:"];
static SOURCES_IN: LazyLock<[Finder; 3]> = LazyLock::new(|| SOURCES.map(Finder::new));
/// The place of a source in Go, the level of TensorRT-LLM and of logrus, and a panic.
pub(super) const OTHER_FORMS: [&[u8]; 4] = [b".go:", b"[E] ", b"ERRO[", b"panic"];
/// Who speaks in a chat with a model.
const ROLES: [&[u8]; 6] = [b"assistant", b"user", b"human", b"bot", b"chatbot", b"ai"];
/// The front of a line that is searched for a form whose level is not at the start.
const FORM_MAX: usize = 4096;
/// The level of a line of JSON or of logfmt.
static FIELDS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i)(?:"(?:level|levelname|severity|lvl)" ?: ?"|\blevel=)(?:error|fatal|critical|panic|emergency)\b"#,
    )
});
/// The message of such a line.
static MESSAGE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?:"(?:msg|message|textPayload|log)" ?: ?|\bmsg=)"((?:[^"\\]|\\.)+)"#)
});
/// A line that a program ends with: the exception of a traceback, or a panic.
static EXCEPTION: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?:^|[\])>:|] ?|\s{2,})((?:\w+\.)*(?:[A-Z]\w*(?:Error|Exception)\s*$|(?:[A-Z]\w*)?Exception: .+))",
        r"|((?:^|\] )panic: .+|Error response from daemon: .+|thread '.*' panicked at .+|Exception in thread .+|(?:^|: )ERRO\[\d+\] .+|\] \[E\] .+)",
    ))
});

/// Words of which each such line has one.
static EXCEPTION_WORDS: LazyLock<AnyOf> =
    LazyLock::new(|| AnyOf::new(&["Error", "Exception", "panic", "ERRO[", "] [E] "]));

/// A regex over bytes.
pub(super) fn regex(text: &str) -> Regex {
    Regex::new(&format!("(?-u){text}")).expect("a sound regex")
}

/// Words of which one is in a line that a program prints with its place in the source when a
/// call failed.
static FAILURES: LazyLock<AnyOf> = LazyLock::new(|| {
    AnyOf::new(&[
        "failed",
        "non-zero status",
        "NULL value",
        "nable to",
        "rror",
    ])
});

/// The start of a line with a level of its own, which says whether it is an error: a launcher logs
/// all that its programs write to stderr as errors.
static WRAPPED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^[^a-z]{0,8}(?:[\w$.]{0,80}: )?\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S* \[?(?:INFO|DEBUG)\b|^(?:[\w-]{1,40}: )?\s*\[(?:INFO|DEBUG|WARN(?:ING)?)\]",
    )
});

/// Words of an error that the program got over in another way, or of a client that tries again: the one of Weights
/// and Biases, whose job goes on meanwhile. What ends a job is an exception of its own.
static FALLBACK: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\bgoing to \S+ instead|\bfall(?:s|ing)? back to\b|\busing \S+(?: \S+)? instead\b|^Error while calling W&B API\b",
    )
});

/// A process, a time and a place in a source with nothing behind them: `HCCL(71,python3):2026-11-20-08:14:04.113 [a.cc:7]`.
static ONLY_PLACE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\s*\w{1,16}\(\d+(?:,[\w.-]+)?\):[\d:.-]+ *\[[\w./-]+:\d+\]\s*$"));

/// The message of an error that a program logged, unless it says how it went on.
///
/// Lines of a traceback, which some loggers repeat the word before, have none.
pub(super) fn logged_error(line: &[u8]) -> Option<&[u8]> {
    Logged::of(line).error
}

fn error_of_any(line: &[u8]) -> Option<&[u8]> {
    let front = &line[..line.len().min(PREFIX_MAX)];
    let message = glog(line, ERRORS)
        .or_else(|| ray_error(line, front))
        .or_else(|| error_word(line, front))
        .or_else(|| xla_error(line, front))
        .or_else(|| lower_word(line, front))
        .or_else(|| short_word(line, front))
        .or_else(|| failed_in_source(line, front))
        .or_else(|| old_nccl_warning(line, front))
        .or_else(|| fields(line))
        .or_else(|| exception(line))?;
    let is_traceback = message.starts_with(b"  ") || has!(message, b"Traceback (most");
    let has_text = message.iter().any(u8::is_ascii_alphabetic) && !ONLY_PLACE.is_match(message);
    // A regex for NCCL's header would be too large for a lazy DFA.
    let is_wrapped = || begins_as_nccl(message) || WRAPPED.is_match(message);
    (has_text && !is_traceback && !is_wrapped()).then_some(message)
}

/// What a program logged in a form of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Logged<'a> {
    /// As [`logged_error`] has it.
    pub(super) error: Option<&'a [u8]>,
    /// The message of a warning of PyTorch's C++ or of a daemon, in glog's form, or of an error that
    /// the program got over.
    pub(super) notice: Option<&'a [u8]>,
}

impl<'a> Logged<'a> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        let any = error_of_any(line);
        let goes_on = any.is_some_and(|message| FALLBACK.is_match(message));
        Self {
            error: any.filter(|_| !goes_on),
            notice: logged_warning(line).or(any.filter(|_| goes_on)),
        }
    }
}

fn logged_warning(line: &[u8]) -> Option<&[u8]> {
    let front = &line[..line.len().min(PREFIX_MAX)];
    let message = glog(line, [b'W'; 2])?;
    let is_source = SOURCES_IN.iter().any(|source| source.find(front).is_some());
    let has_text = message.iter().any(u8::is_ascii_alphabetic);
    (is_source && has_text).then_some(message)
}

/// Levels of glog: of an error, and of one that ends the process.
const ERRORS: [u8; 2] = [b'E', b'F'];

/// The message of a line of glog of one of two levels, as PyTorch writes it, after
/// `E1120 08:14:04.531042 140301 File.cpp:616] [Rank 3] `.
fn glog(line: &[u8], levels: [u8; 2]) -> Option<&[u8]> {
    let front = &line[..line.len().min(PREFIX_MAX)];
    let is_header = |at: &usize| {
        let digits = front[at + 1..].iter();
        // PyTorch omits the leading zero of the month; glog may be told to write the year.
        let date = digits.take_while(|byte| byte.is_ascii_digit()).count();
        matches!(date, 3 | 4 | 8)
            && front.get(at + 1 + date) == Some(&b' ')
            && (*at == 0 || matches!(front[at - 1], b'[' | b' ' | b':'))
    };
    let header = memchr2_iter(levels[0], levels[1], front).find(is_header)?;
    let end = header + find!(&front[header..], b"] ")?;
    site(&front[header..end])?;
    let mut message = &line[end + 2..];
    while message.starts_with(b"[") {
        let close = memchr(b']', &message[..message.len().min(PREFIX_MAX)])?;
        if find!(&message[..close], b"Rank ").is_none() {
            break;
        }
        message = message[close + 1..].trim_ascii_start();
    }
    Some(message)
}

/// Whether a line is one of glog at the level of an error, or of one that ends the process.
pub(super) fn is_glog_error(line: &[u8]) -> bool {
    glog(line, ERRORS).is_some()
}

/// What follows `2026-11-20 08:14:04.531042: E external/xla/file.cc:97] ` or `[E file.cpp:97] `.
fn xla_error<'a>(line: &'a [u8], front: &[u8]) -> Option<&'a [u8]> {
    let end = find!(front, b"] ")?;
    let start = memrchr(b' ', &front[..end])?;
    site(&front[start..end])?;
    let level = front[..start]
        .strip_suffix(b"E")
        .or(front[..start].strip_suffix(b"F"))?;
    let is_level = level.is_empty() || level.ends_with(b": ") || level.ends_with(b"[");
    is_level.then_some(&line[end + 2..])
}

/// What follows `srun: error: `, `error: ` or `Error: `. A figure behind it is a measured error.
fn lower_word<'a>(line: &'a [u8], front: &[u8]) -> Option<&'a [u8]> {
    let at = find!(front, LOWER_WORD).or_else(|| find!(front, b"Error: "))?;
    let before = front[..at].strip_suffix(b"fatal ").unwrap_or(&front[..at]);
    if is_of_chat(before) {
        return None;
    }
    let message = line[at + LOWER_WORD.len()..].trim_ascii_start();
    // Slurm's daemons write a time in brackets before the word.
    let is_of_time = |byte: &u8| byte.is_ascii_digit() || b"-:.,+TZ ".contains(byte);
    let is_timed = before.strip_suffix(b"] ").is_some_and(|before| {
        let time = memrchr(b'[', before).map(|at| &before[at + 1..]);
        time.is_some_and(|time| time.contains(&b'-') && time.iter().all(is_of_time))
    });
    // A dash is that of a figure, or of an option or an arrow.
    let is_text = match message {
        [b'-', next, ..] => next.is_ascii_alphabetic() || *next == b'-',
        [first, ..] => !matches!(first, b'0'..=b'9' | b'-' | b'.' | b'+'),
        [] => false,
    };
    (is_text && (before.is_empty() || before.ends_with(b": ") || is_timed)).then_some(message)
}

/// Whether a text ends with who speaks in a chat: what a model or a user says is no error of the program.
fn is_of_chat(before: &[u8]) -> bool {
    let who = before.trim_ascii_end().strip_suffix(b":");
    let who = who.and_then(|text| text.rsplit(|byte| b" >|\t".contains(byte)).next());
    who.is_some_and(|who| ROLES.iter().any(|role| who.eq_ignore_ascii_case(role)))
}

/// The message of a line of JSON or of logfmt whose level is one of an error.
fn fields(line: &[u8]) -> Option<&[u8]> {
    let front = &line[..line.len().min(FORM_MAX)];
    FIELDS.find(front)?;
    let message = MESSAGE.captures(front).and_then(|found| found.get(1));
    Some(message.map_or(line, |message| message.as_bytes()))
}

/// An exception or a panic from its name on.
fn exception(line: &[u8]) -> Option<&[u8]> {
    if !EXCEPTION_WORDS.is_in(line) {
        return None;
    }
    let found = EXCEPTION.captures(&line[..line.len().min(FORM_MAX)])?;
    let found = found.get(1).or(found.get(2))?;
    Some(found.as_bytes().trim_ascii())
}

/// What follows `[ERR]` and the place behind it.
fn short_word<'a>(line: &'a [u8], front: &[u8]) -> Option<&'a [u8]> {
    let rest = &line[find!(front, SHORT_WORD)? + SHORT_WORD.len()..];
    let place = rest
        .strip_prefix(b"[")
        .and_then(|place| Some(&place[memchr(b']', place)? + 1..]));
    Some(place.unwrap_or(rest).trim_ascii_start())
}

/// What follows `/src/transport.cpp:connect:418: ` if it says that something failed.
fn failed_in_source<'a>(line: &'a [u8], front: &[u8]) -> Option<&'a [u8]> {
    let behind = |source: &Finder| Some(source.find(front)? + source.needle().len());
    let places = SOURCES_IN.iter().filter_map(behind);
    let after = places.min()?;
    let path = memrchr(b' ', &front[..after]).map_or(0, |blank| blank + 1);
    // The prefix of a launcher ends with `:` or `>:`.
    let path = memrchr(b':', &front[path..after - 1]).map_or(path, |colon| path + colon + 1);
    let mut rest = &line[after..];
    if !rest.first()?.is_ascii_digit() {
        rest = &rest[memchr(b':', &rest[..rest.len().min(PREFIX_MAX)])? + 1..];
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let message = rest[digits..].strip_prefix(b": ").filter(|_| digits > 0)?;
    (front[path..].starts_with(b"/") && FAILURES.is_in(message)).then_some(message)
}

/// What follows `node0:71:79 [3] misc/ibvwrap.cu:235 WARN `, the form of NCCL before 2.3.
fn old_nccl_warning<'a>(line: &'a [u8], front: &[u8]) -> Option<&'a [u8]> {
    let at = find!(front, b" WARN ")?;
    let (_, _, end) = speaker(&front[..at])?;
    site(&front[end..at])?;
    Some(&line[at + 6..])
}

/// What follows `[2026-11-20 08:14:04,680 E 71 79] core_worker.cc:97: `, or `C` for a check that ends
/// the process.
fn ray_error<'a>(line: &'a [u8], front: &[u8]) -> Option<&'a [u8]> {
    let of_level = |at: Option<usize>| behind_ray_level(line, front, at?);
    of_level(find!(front, b" E ")).or_else(|| of_level(find!(front, b" C ")))
}

fn behind_ray_level<'a>(line: &'a [u8], front: &[u8], level: usize) -> Option<&'a [u8]> {
    let close = level + memchr(b']', &front[level..])?;
    let is_process = |byte: &u8| byte.is_ascii_digit() || *byte == b' ';
    let end = close + find!(&front[close..], b": ")?;
    // A daemon of Ray puts its name in between: `] (raylet) `.
    let place = front[..end].rsplit(|byte| *byte == b' ').next()?;
    let is_place = end - place.len() > close && site(place).is_some();
    (front[level + 3..close].iter().all(is_process) && is_place).then_some(&line[end + 2..])
}

/// What follows a word such as ERROR, without the time and the place that vLLM writes behind it:
/// `ERROR 11-20 08:14:04 [worker.py:284] `.
fn error_word<'a>(line: &'a [u8], front: &[u8]) -> Option<&'a [u8]> {
    let end = |finder: &Finder| {
        let size = finder.needle().len();
        let is_word = |at: &usize| {
            let before = at.checked_sub(1).map(|before| front[before]);
            let after = front.get(at + size);
            // `|CCL_ERROR|`, and Open MPI's `ORTE_ERROR_LOG: `
            let is_log = front[at + size..].starts_with(b"_LOG: ");
            let is_name = before == Some(b'_') && (after == Some(&b'|') || is_log);
            let begins = before.is_none_or(|byte| b" \t[(|".contains(&byte)) || is_name;
            begins && (is_log || after.is_some_and(|byte| b" :]|".contains(byte)))
        };
        Some(finder.find_iter(front).find(is_word)? + size)
    };
    let rest = &line[WORDS_IN.iter().filter_map(end).min()?..];
    let place = find!(&rest[..rest.len().min(PREFIX_MAX)], b"] ");
    let has_place =
        |end: &usize| find!(&rest[..*end], b".py:").is_some_and(|place| end - place < 16);
    Some(match place.filter(has_place) {
        Some(end) => &rest[end + 2..],
        None => rest
            .strip_prefix(b"]")
            .or(rest.strip_prefix(b":"))
            .or(rest.strip_prefix(b"|"))
            .unwrap_or(rest)
            .trim_ascii_start(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_error_of_glog_has_a_message() {
        let check = |line: &str, error: Option<&str>| {
            let found = glog(line.as_bytes(), [b'E'; 2]).map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), error, "{line}");
        };
        check(
            "[rank7]:[E1120 08:14:04.5 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank 7] work 3",
            Some("work 3"),
        );
        check(
            "E1120 08:14:04.531 70 torch/distributed/api.py:874] work",
            Some("work"),
        );
        check("[E724 08:14:04.5 a.cpp:6] [x] work", Some("[x] work"));
        check("[W1120 08:14:04.5 ProcessGroupNCCL.cpp:616] work", None);
        check("RANGE1120 a.cpp:6] work", None);
        check("[E1120 08:14:04.5 work] a", None);
    }

    #[test]
    fn an_error_of_a_program_s_own_logger_has_a_message() {
        let check = |line: &str, error: Option<&str>| {
            let found = logged_error(line.as_bytes()).map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), error, "{line}");
        };
        check("[ERROR] it did not end", Some("it did not end"));
        check("2026-11-20 08:14:04 - ERROR - it ended", Some("- it ended"));
        check("ERROR: it ended", Some("it ended"));
        check(
            "(Worker pid=7) ERROR 11-20 08:14:04 [worker.py:284] it ended",
            Some("it ended"),
        );
        check(
            "ERROR 11-20 08:14:04 worker.py:28] it ended",
            Some("it ended"),
        );
        check("ERROR 11-20 08:14:04 worker.py:28]   File \"a.py\"", None);
        check(
            "ERROR 11-20 08:14:04 worker.py:28] Traceback (most recent call last):",
            None,
        );
        check(
            "[2026-11-20 08:14:04,680 E 71 79] logging.cc:97: it ended",
            Some("it ended"),
        );
        check(
            "(raylet) [2026-11-20 08:14:04,680 E 71 79] (raylet) monitor.cc:116: it ended",
            Some("it ended"),
        );
        check(
            "[2026-11-20 08:14:04,680 W 71 79] logging.cc:97: it ended",
            None,
        );
        check(
            "[2026-11-20 08:14:04,680 C 71 79] gcs_rpc_client.h:537:  Check failed: it ended",
            Some(" Check failed: it ended"),
        );
        check(
            "2026-11-20 08:14:04 ERROR    [71] [rpc.hpp:978] it ended",
            Some("[71] [rpc.hpp:978] it ended"),
        );
        check("NCCL_ASYNC_ERROR_HANDLING=1", None);
        check("ERRORS: none", None);
        check(
            "26/11/20 08:14:04 ERROR Tracker$Logger: 2026-11-20 08:14:04,645 INFO [0] loss: 0.4",
            None,
        );
        check("ERROR: 0", None);
        check(
            "[node-a:71] [[43015,0],0] ORTE_ERROR_LOG: Timeout in file a.c",
            Some("_LOG: Timeout in file a.c"),
        );
        check(
            "ERROR 11-20 08:14:04 [core.py:387] it hit an exception: Traceback (most recent call last):",
            None,
        );
    }

    #[test]
    fn the_last_line_of_a_program_is_an_error() {
        let check = |line: &str, error: Option<&str>| {
            let found = logged_error(line.as_bytes()).map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), error, "{line}");
        };
        check("Exception: it ended", Some("Exception: it ended"));
        check("[rank0]: AssertionError", Some("AssertionError"));
        check(
            "(Worker pid=7) ray.exceptions.ActorDiedError",
            Some("ray.exceptions.ActorDiedError"),
        );
        check(
            "Exception raised from f at a.cpp:7 (most recent call first):",
            None,
        );
        check(
            "during handling of the above exception, another one came",
            None,
        );
        check("class ValueError(Exception):", None);
        check("panic: it ended", Some("panic: it ended"));
        check(
            "thread 'main' panicked at src/main.rs:7:9:",
            Some("thread 'main' panicked at src/main.rs:7:9:"),
        );
        check(
            "Exception in thread \"main\" java.lang.E: it ended",
            Some("Exception in thread \"main\" java.lang.E: it ended"),
        );
        check("don't panic: it goes on", None);
        check(
            "docker: Error response from daemon: it ended",
            Some("Error response from daemon: it ended"),
        );
        check("Error: it ended", Some("it ended"));
        check("ERRO[0007] it ended", Some("ERRO[0007] it ended"));
        check(
            "[11/20/2026-08:14:04] [TRT-LLM] [E] it ended",
            Some("] [E] it ended"),
        );
    }

    #[test]
    fn an_error_in_fields_has_a_message() {
        let check = |line: &str, error: Option<&str>| {
            let found = logged_error(line.as_bytes()).map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), error, "{line}");
        };
        check(
            r#"{"level":"error","ts":1.5,"msg":"it ended"}"#,
            Some("it ended"),
        );
        check(
            r#"{"message": "it ended", "severity": "ERROR"}"#,
            Some("it ended"),
        );
        check(
            r#"time="2026" level=fatal msg="it ended""#,
            Some("it ended"),
        );
        check(r#"{"level":"info","msg":"no error"}"#, None);
        check(
            "E1120 08:14:04.531042 71 reflector.go:147] it ended",
            Some("it ended"),
        );
    }

    #[test]
    fn errors_of_other_libraries_and_launchers_have_a_message() {
        let check = |line: &str, error: Option<&str>| {
            let found = logged_error(line.as_bytes()).map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), error, "{line}");
        };
        check(
            "2026-11-20 08:14:04.531: E external/xla/a.cc:97] it ended",
            Some("it ended"),
        );
        check("[E socket.cpp:97] [c10d] it ended", Some("[c10d] it ended"));
        check("[W socket.cpp:97] [c10d] it ended", None);
        check("MODE external/xla/a.cc:97] it ended", None);
        check("srun: error: it ended", Some("it ended"));
        check("[1,0]<stderr>:train.py: error: it ended", Some("it ended"));
        check("error: it ended", Some("it ended"));
        check("a.cu:7: fatal error: it ended", Some("it ended"));
        check(
            "[2020-12-30T05:11:27.540] error: it ended",
            Some("it ended"),
        );
        check(
            "2023:11:28-16:35:45:(71) |CCL_ERROR| it ended",
            Some("it ended"),
        );
        check(
            "[node0:71:0:71]    a.c:732  UCX Fatal: it ended",
            Some("it ended"),
        );
        check("CRITICAL: it ended", Some("it ended"));
        check("train error: 0.25", None);
        check("train error: -0.25", None);
        check(
            "train.py: error: --nodes is missing",
            Some("--nodes is missing"),
        );
        check(
            "srun: error: --> a limit is required",
            Some("--> a limit is required"),
        );
        check("srun: error: ----------", None);
        check("val: error: 0.25 of all", None);
        check("with an error: no", None);
        check(
            "[16:06:21:232863][7][DOCA][ERR][a.cpp:97] it ended",
            Some("it ended"),
        );
        check(
            "/src/ibrc/ibrc.cpp:418: non-zero status: 110 it ended",
            Some("non-zero status: 110 it ended"),
        );
        check(
            "[1,0]<stderr>:/src/a.cpp:connect:287: Unable to connect",
            Some("Unable to connect"),
        );
        check("/src/a.cpp:418: connected, no failures", None);
        check("see /src/a.cpp for what failed", None);
        check(
            "node0:71:79 [3] misc/ibvwrap.cu:235 WARN it ended",
            Some("it ended"),
        );
        check("node0:71:79 [3] INFO misc/ibvwrap.cu:235 -> 2", None);
    }

    #[test]
    fn a_warning_of_pytorch_s_c_is_a_notice() {
        let check = |line: &str, notice: Option<&str>| {
            let found = Logged::of(line.as_bytes())
                .notice
                .map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), notice, "{line}");
        };
        check(
            "[rank1]:[W1120 08:14:04.5 TCPStore.cpp:106] [c10d] it ended",
            Some("[c10d] it ended"),
        );
        check(
            "W1120 08:14:04.5 71 client.cpp:450] it ended",
            Some("it ended"),
        );
        // torchrun's banner about OMP_NUM_THREADS is in every log.
        check(
            "W1120 08:14:04.5 71 torch/distributed/run.py:793] it ended",
            None,
        );
        check("W1120 08:14:04.5 71 client.cpp:450] *****", None);
        check("[E1120 08:14:04.5 TCPStore.cpp:106] it ended", None);
        let fallback = "couldn't chdir to `/a': No such file or directory: going to /tmp instead";
        let line = format!("slurmstepd: error: {fallback}");
        check(&line, Some(fallback));
        assert!(logged_error(line.as_bytes()).is_none());
        let client = "Error while calling W&B API: context deadline exceeded (<Response [500]>)";
        let logged = |line: &str| {
            let found = Logged::of(line.as_bytes());
            [found.error, found.notice].map(|one| one.map(<[u8]>::to_vec))
        };
        let line = format!("wandb: ERROR {client}");
        assert_eq!(logged(&line), [None, Some(client.as_bytes().to_vec())]);
        let ended = format!("wandb.errors.CommError: {client}");
        assert_eq!(logged(&ended)[1], None);
    }

    proptest! {
        #[test]
        fn any_line_holds(line in "([ :\\[\\]0-9a-c/E]|node0:1:2 \\[0\\]|error: |\\[ERR\\]|\\.cpp:|\\.cu:| WARN |failed|Exception: |panic: |\"level\":\"error\"|Error){0,30}") {
            for message in [logged_error(line.as_bytes()), Logged::of(line.as_bytes()).notice] {
                prop_assert!(message.is_none_or(|message| message.len() <= line.len()));
            }
        }
    }
}
