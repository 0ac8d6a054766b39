//! The frames of native code below a crash, as Open MPI, glibc, UCX and PyTorch write them.
//!
//! Frames without a name tell nothing, and neither do those that handle the signal. Of the rest two tell most: where
//! the crash was, and the call of MPI, NCCL or CUDA that led there.
#![forbid(unsafe_code)]

use super::loggers::regex;
use regex::bytes::Regex;
use std::sync::LazyLock;

static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:^|[\s\]])(?P<library>[\w./+-]*\w)\((?P<function>[A-Za-z]\w+)\+0x[0-9a-f]+\)|^frame #\d+: (?P<function2>[\w:]{3,80})\b.* in (?P<library2>\S+\.so[\w.]*)\)|^ *\d+ +0x[0-9a-f]{8,} (?P<function3>[A-Za-z][\w:]{2,80})\(.*\)  (?P<source>\S+):\d+$",
    )
});
/// What UCX writes for the source of a function that it does not find.
const NO_SOURCE: &str = "???";
/// Functions that handle a signal or end a process, and those in which every program and thread begins.
static OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"sigreturn|sigaction|^(?:gsignal|raise|abort|killpg|clone3?|start_thread)$|^ucs_|backtrace|signal|^__libc_|^c10::Error|^opal_|std::|terminate",
    )
});
/// Calls of a library's interface.
static INTERFACE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:P?MPI_|nccl[A-Z]|cu(?:da)?[A-Z])"));

/// Whether a line is a frame with a name.
pub(super) fn is_frame(line: &[u8]) -> bool {
    memchr::memmem::find(line, b"0x").is_some() && FRAME.is_match(line)
}

/// Where native code crashed, and the call that led there: `NBC_Progress (libmpi.so.40)`.
pub(super) fn told<'a>(lines: impl Iterator<Item = &'a Vec<u8>>) -> Vec<String> {
    let frames: Vec<(String, String)> = lines.filter_map(|line| frame(line)).collect();
    let is_interface = |(function, _): &&(String, String)| INTERFACE.is_match(function.as_bytes());
    let inner = frames.first();
    let interface = frames.iter().find(is_interface);
    let told = inner
        .into_iter()
        .chain(interface.filter(|one| Some(*one) != inner));
    told.map(|(function, library)| match library.as_str() {
        NO_SOURCE => function.clone(),
        library => format!("{function} ({library})"),
    })
    .collect()
}

/// The function and the library of a frame, unless it is of a signal.
fn frame(line: &[u8]) -> Option<(String, String)> {
    let found = FRAME.captures(line)?;
    let part = |names: [&str; 3]| {
        let found = names.iter().find_map(|name| found.name(name))?;
        Some(super::compose::shown(found.as_bytes()))
    };
    let function = part(["function", "function2", "function3"])?;
    let library = part(["library", "library2", "source"])?;
    let library = library.rsplit('/').next()?.to_owned();
    (!OTHERS.is_match(function.as_bytes())).then_some((function, library))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_told_by_its_innermost_function_and_the_call_that_led_there() {
        let check = |lines: &[&str], expected: &[&str]| {
            let lines: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
            assert_eq!(told(lines.iter()), expected, "{lines:?}");
        };
        check(
            &[
                "[node-a:71] [ 0] linux-vdso.so.1(__kernel_rt_sigreturn+0x0)[0x400027ce07dc]",
                "[node-a:71] [ 1] /opt/lib/libmpi.so.40(+0x19f1c8)[0x400029b0f1c8]",
                "[node-a:71] [ 2] /opt/lib/libmpi.so.40(NBC_Progress+0x164)[0x400029a97bd4]",
                "[node-a:71] [ 3] /opt/lib/libmpi.so.40(MPI_Wait+0x64)[0x400029a3df24]",
            ],
            &["NBC_Progress (libmpi.so.40)", "MPI_Wait (libmpi.so.40)"],
        );
        check(
            &[
                " 0 /usr/lib/libucs.so.0(ucs_handle_error+0x2e4) [0x7f]",
                "frame #1: ncclCommInitRank + 0x12 (0x7f in /opt/libnccl.so.2)",
            ],
            &["ncclCommInitRank (libnccl.so.2)"],
        );
        check(
            &[
                "==== backtrace (tid: 135760) ====",
                " 0 0x0000000000069d80 solver_step()  ???:0",
                " 1 0x0000000000069d80 PMPI_Comm_size()  /build/ompi/mpi/c/pcomm_size.c:63",
            ],
            &["solver_step", "PMPI_Comm_size (pcomm_size.c)"],
        );
        check(&["the library a.so (b) is loaded"], &[]);
    }
}
