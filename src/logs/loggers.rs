//! Errors that programs log in forms of their own: glog, PyTorch, Ray, vLLM, the word ERROR.
//!
//! Not here: NCCL's and the plugins' own lines, which have a header (`shape`).
#![forbid(unsafe_code)]

use super::shape::{PREFIX_MAX, site};
use memchr::memmem::Finder;
use memchr::{memchr, memmem};
use std::sync::LazyLock;

/// The level of a line of a program's own logger.
pub(super) const WORD: &[u8] = b"ERROR";
static WORD_IN: LazyLock<Finder> = LazyLock::new(|| Finder::new(WORD));

/// The message of an error of glog, as PyTorch writes it, after
/// `E1120 08:14:04.531042 140301 File.cpp:616] [Rank 3] `.
pub(super) fn glog_error(line: &[u8]) -> Option<&[u8]> {
    let front = &line[..line.len().min(PREFIX_MAX)];
    let is_header = |at: &usize| {
        let date = front[at + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        // PyTorch omits the leading zero of the month.
        let date = date.count();
        matches!(front[*at], b'E' | b'F')
            && (3..=4).contains(&date)
            && front.get(at + 1 + date) == Some(&b' ')
            && (*at == 0 || matches!(front[at - 1], b'[' | b' ' | b':'))
    };
    let header = (0..front.len()).find(is_header)?;
    let end = header + memmem::find(&front[header..], b"] ")?;
    site(&front[header..end])?;
    let mut message = &line[end + 2..];
    while message.starts_with(b"[") {
        let close = memchr(b']', &message[..message.len().min(PREFIX_MAX)])?;
        if memmem::find(&message[..close], b"Rank ").is_none() {
            break;
        }
        message = message[close + 1..].trim_ascii_start();
    }
    Some(message)
}

/// The message of an error that a program logged: glog's form, Ray's, or the word ERROR.
///
/// Lines of a traceback, which some loggers repeat the word before, have none.
pub(super) fn logged_error(line: &[u8]) -> Option<&[u8]> {
    let front = &line[..line.len().min(PREFIX_MAX)];
    let message = glog_error(line)
        .or_else(|| ray_error(line, front))
        .or_else(|| error_word(line, front))?;
    let is_traceback = message.starts_with(b"  ") || message.starts_with(b"Traceback (");
    let has_text = message.iter().any(u8::is_ascii_alphabetic);
    (has_text && !is_traceback).then_some(message)
}

/// What follows `[2026-11-20 08:14:04,680 E 71 79] core_worker.cc:97: `.
fn ray_error<'a>(line: &'a [u8], front: &[u8]) -> Option<&'a [u8]> {
    let level = memmem::find(front, b" E ")?;
    let close = level + memchr(b']', &front[level..])?;
    let is_process = |byte: &u8| byte.is_ascii_digit() || *byte == b' ';
    let end = close + memmem::find(&front[close..], b": ")?;
    let is_place = site(&front[close..end]).is_some();
    (front[level + 3..close].iter().all(is_process) && is_place).then_some(&line[end + 2..])
}

/// What follows the word ERROR, without the time and the place that vLLM writes behind it:
/// `ERROR 11-20 08:14:04 [worker.py:284] `.
fn error_word<'a>(line: &'a [u8], front: &[u8]) -> Option<&'a [u8]> {
    let is_word = |at: &usize| {
        let before = at.checked_sub(1).map(|before| front[before]);
        before.is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'[' | b'(' | b'|'))
            && matches!(front.get(at + WORD.len()), Some(b' ' | b':' | b']'))
    };
    let at = WORD_IN.find_iter(front).find(is_word)?;
    let rest = &line[at + WORD.len()..];
    let place = memmem::find(&rest[..rest.len().min(PREFIX_MAX)], b"] ");
    let has_place =
        |end: &usize| memmem::find(&rest[..*end], b".py:").is_some_and(|place| end - place < 16);
    Some(match place.filter(has_place) {
        Some(end) => &rest[end + 2..],
        None => rest
            .strip_prefix(b"]")
            .or(rest.strip_prefix(b":"))
            .unwrap_or(rest)
            .strip_prefix(b" ")
            .unwrap_or(rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_glog_has_a_message() {
        let check = |line: &str, error: Option<&str>| {
            let found = glog_error(line.as_bytes()).map(String::from_utf8_lossy);
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
            "[2026-11-20 08:14:04,680 W 71 79] logging.cc:97: it ended",
            None,
        );
        check("NCCL_ASYNC_ERROR_HANDLING=1", None);
        check("ERRORS: none", None);
        check("ERROR: 0", None);
    }
}
