//! The frames of native code below a crash, as Open MPI, glibc, UCX and PyTorch write them.
//!
//! Frames without a name tell nothing, and neither do those that handle the signal. Of the rest two tell most: where
//! the crash was, and the call of MPI, NCCL or CUDA that led there.
#![forbid(unsafe_code)]

use super::loggers::regex;
use regex::bytes::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:^|[\s\]])(?P<library>[\w./+-]*\w)\((?P<function>[A-Za-z]\w+)\+0x[0-9a-f]+\)|^frame #\d+: (?P<function2>[\w:]{3,80})\b.* in (?P<library2>\S+\.so[\w.]*)\)|^ *\d+ +0x[0-9a-f]{8,} (?P<function3>[A-Za-z][\w:]{2,80})\(.*\)  (?P<source>\S+):\d+$|^ *\d+ +0x[0-9a-f]{8,} (?P<function5>[A-Za-z][\w:]{2,80})\(.*\) \+ \d+$|^- (?P<function4>[A-Za-z][\w:]{2,80})(?:<[\w, ]*>)?\(\)(?: in (?P<source2>\S+):\d+)?$|^[>\s]*File .(?:<unknown>|(?P<source3>[^\x22]+\.(?:cc?|cpp|cxx|cuh?|h|hpp|S))).,? line (?P<line>\d+), in (?P<function6>[A-Za-z_][\w:~]{2,80})",
    )
});
/// What stands behind the source in a frame with `File`.
const OF_FILE: &[u8] = b"\", line ";
/// What UCX writes for the source of a function that it does not find.
const NO_SOURCE: &str = "???";
/// Functions that handle a signal or end a process, and those in which every program and thread begins.
static OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"sigreturn|sigaction|native_thread_routine|^(?:_*gsignal|(?:__GI_)?(?:raise|abort)|killpg|_*(?:GI_+)?pthread_kill\w*|_*clone3?|start_thread)$|^ucs_|backtrace|signal|^__libc_|^c10::Error|^opal_(?:[^h]|h[^w])|std::|terminate|[tT]hrow",
    )
});
/// Calls of a library's interface.
static INTERFACE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^(?:P?MPI_|ompi_mpi_(?:init|finalize|abort)$|nccl[A-Z]|cu(?:da)?[A-Z])")
});

/// A frame that has no more than its library, and libraries of the system, which the handling of a signal passes.
static NAMELESS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:^|[\s\]/])(?P<library>(?:lib|mca_)[\w+-]+\.so[\w.]*)(?:\(\+0x[0-9a-f]+\)|\s*\[0x[0-9a-f]+\])",
    )
});
/// Modules of Open MPI that move data.
const MOVES: [&str; 2] = ["mca_btl_", "mca_mtl_"];
/// A frame of Open MPI whose address is in the next line, as in a mail, and what is before each of its frames.
static WRAPPED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?P<prefix>\[[A-Za-z][\w.-]*:\d+\] )\[ ?\d+\] [^\[\]]+$"));
/// Lines of one frame at most.
const WRAPPED_MAX: usize = 3;
const OF_SYSTEM: [&str; 6] = [
    "libc.",
    "libpthread.",
    "libm.",
    "libdl.",
    "libgcc_s.",
    // UCX handles signals there.
    "libucs.",
];

pub(super) const CUDA_DRIVER: &str = "CUDA's driver";
const CUDA_RUNTIME: &str = "the CUDA runtime";
const OF_CUDA: [&str; 2] = [CUDA_DRIVER, CUDA_RUNTIME];
/// Whose functions begin so, where a frame has no library.
const LIBRARIES: [(&str, &str); 22] = [
    ("cuda", CUDA_RUNTIME),
    ("cu", CUDA_DRIVER),
    ("nvml", "NVML"),
    ("hip", "HIP"),
    ("hsa_", "ROCm"),
    ("rocr::", "ROCm"),
    ("uct_", "UCX"),
    ("ucp_", "UCX"),
    ("ucm_", "UCX"),
    ("ibv_", "libibverbs"),
    ("rdma_", "librdmacm"),
    ("mlx5_", "mlx5"),
    ("fi_", "libfabric"),
    ("ofi_", "libfabric"),
    ("nccl", "NCCL"),
    ("nixl", "NIXL"),
    ("nvshmem", "NVSHMEM"),
    ("c10", "PyTorch"),
    ("at::", "PyTorch"),
    ("torch::", "PyTorch"),
    ("gloo::", "Gloo"),
    ("xla::", "XLA"),
];
/// Functions in which a thread begins.
static BEGINS_THREAD: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b_*(?:clone3?|start_thread|execute_native_thread_routine)\b"));

/// The library whose functions have such names.
fn library_of(function: &str) -> Option<&'static str> {
    let is_of = |(prefix, _): &&(&str, &str)| {
        let rest = function.strip_prefix(prefix);
        // `cu` begins other words too.
        rest.is_some_and(|rest| {
            *prefix != "cu" || rest.starts_with(|letter: char| letter.is_ascii_uppercase())
        })
    };
    LIBRARIES.iter().find(is_of).map(|(_, library)| *library)
}

/// The library in which the innermost of the told frames was, in a sentence that names them.
pub(super) fn innermost(meaning: &str) -> Option<&str> {
    let mut parts = meaning
        .match_indices(" (")
        .map(|(at, _)| &meaning[at + 2..]);
    parts.find_map(|part| {
        let (library, _) = part.split_once(')')?;
        let is_known = LIBRARIES.iter().any(|(_, known)| *known == library);
        (is_known || library.contains(".so") && !library.contains(' ')).then_some(library)
    })
}

/// The function with which a thread began, above those of the system.
fn thread_function<'a>(lines: impl Iterator<Item = &'a Vec<u8>>) -> Option<(String, String)> {
    let mut last = None;
    for line in lines {
        let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
        let may_be_frame = has(b"0x") || has(OF_FILE);
        if may_be_frame && BEGINS_THREAD.is_match(line) {
            return last;
        }
        // The function of a frame that is not understood may be that of the thread.
        match frame(line) {
            None if !may_be_frame => {}
            read => last = read,
        }
    }
    None
}

/// Functions of one transport of UCX or of NCCL: `uct_tcp_ep_am_bcopy`, `shmSendConnect`.
static TRANSPORT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^uct_(?:tcp|rc|dc|ud|srd|cma|knem|mm|sysv|posix|cuda|gdr|rocm)_|^(?:p2p|shm|net|collNet|nvls)(?:Send|Recv)[A-Z]|^nccl(?:Ib|Net|Socket)[A-Z]",
    )
});

/// Lines of a stack, with those that go on in the next line whole: they are wrapped where a blank is, or behind `/`.
pub(super) fn whole_frames(text: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let (mut whole, mut open) = (Vec::<Cow<'_, [u8]>>::new(), None::<(Vec<u8>, usize)>);
    for line in text.split(|byte| *byte == b'\n') {
        let last = whole.last_mut();
        if let Some(((prefix, lines), last)) = open.take().zip(last)
            && !line.starts_with(&prefix)
        {
            let joined = [last.trim_ascii_end(), line.trim_ascii()].concat();
            let goes_on = lines < WRAPPED_MAX && WRAPPED.is_match(&joined);
            open = goes_on.then_some((prefix, lines + 1));
            *last = Cow::Owned(joined);
            continue;
        }
        let found = WRAPPED.captures(line);
        open = found.map(|found| (found["prefix"].to_vec(), 2));
        whole.push(Cow::Borrowed(line));
    }
    whole
}

/// Whether a line is a frame that goes on in the next line.
pub(super) fn is_wrapped(line: &[u8]) -> bool {
    WRAPPED.is_match(line)
}

/// Whether a line is a frame with a name.
pub(super) fn is_frame(line: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    let may_be = line.starts_with(b"- ") || has(b"0x") || has(OF_FILE);
    is_wrapped(line) || may_be && (FRAME.is_match(line) || NAMELESS.is_match(line))
}

/// Where native code crashed, the transport that it was in, and the call that led there: `NBC_Progress
/// (libmpi.so.40)`.
pub(super) fn told<'a>(lines: impl Iterator<Item = &'a Vec<u8>> + Clone) -> Vec<String> {
    let thread = thread_function(lines.clone());
    let frames: Vec<(String, String)> = lines
        .filter_map(|line| frame(line).or_else(|| nameless(line)))
        .collect();
    let frames = without_nameless(frames);
    let first = |names: &Regex| {
        frames
            .iter()
            .find(|(function, _)| names.is_match(function.as_bytes()))
    };
    let mut told: Vec<&(String, String)> = frames.first().into_iter().collect();
    // Below a call of CUDA, the place in NCCL that made it tells more.
    let is_of_cuda = told.first().is_some_and(|(function, _)| {
        library_of(function).is_some_and(|library| OF_CUDA.contains(&library))
    });
    let of_nccl = || {
        let mut frames = frames.iter();
        frames.find(|(function, _)| function.starts_with("nccl"))
    };
    let caller = is_of_cuda.then(of_nccl).flatten();
    let module = frames.iter().find(|(function, _)| moves(function));
    let others = [caller, module, first(&TRANSPORT), first(&INTERFACE)];
    for other in others.into_iter().flatten() {
        if !told.iter().any(|(function, _)| *function == other.0) {
            told.push(other);
        }
    }
    let has = |other: &(String, String)| told.iter().any(|(function, _)| *function == other.0);
    let thread = thread.filter(|one| !has(one));
    let thread = thread.map(|one| format!("the thread of {}", named(&one)));
    told.into_iter().map(named).chain(thread).collect()
}

/// Where a process waits, by the functions of its stack: the innermost one of a library that moves data, the call of
/// that library that led there, and the outermost call of any library. Hooks of memory calls tell nothing.
pub(super) fn waits_in(functions: &[String]) -> Vec<String> {
    let library = |function: &str| match () {
        () if function.starts_with("ucm_") => None,
        () if MPI.iter().any(|start| function.starts_with(start)) => Some("MPI"),
        () => library_of(function),
    };
    let known = functions.iter();
    let known: Vec<(&String, &str)> = known
        .filter_map(|function| Some((function, library(function)?)))
        .collect();
    let Some((innermost, of)) = known.first() else {
        return Vec::new();
    };
    let call = known.iter().rfind(|(_, library)| library == of);
    let told = [Some(&(*innermost, *of)), call, known.last()];
    let told = told.into_iter().flatten();
    let mut told: Vec<String> = told
        .map(|(function, library)| format!("{function} ({library})"))
        .collect();
    told.dedup();
    told
}

/// How functions of MPI begin.
const MPI: [&str; 6] = ["MPI_", "PMPI_", "MPIR_", "MPIDI_", "ompi_", "opal_"];

/// A function with its library, as far as the frame or the name tells it.
fn named((function, library): &(String, String)) -> String {
    let library = match library.as_str() {
        NO_SOURCE | "" => library_of(function),
        library => Some(library),
    };
    match library {
        Some(library) => format!("{function} ({library})"),
        None => function.clone(),
    }
}

/// The frames with names, behind the innermost one if that has none and is of another library, or if no frame has one.
fn without_nameless(frames: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut with_name = frames
        .iter()
        .filter(|(function, _)| !function.contains(".so"));
    let named = with_name.next().map(|(_, of)| of.clone());
    let frames = frames.into_iter().enumerate();
    let is_told = |(number, (function, _)): &(usize, (String, String))| {
        !function.contains(".so")
            || moves(function)
            || *number == 0 && named.as_ref() != Some(function)
    };
    frames.filter(is_told).map(|(_, frame)| frame).collect()
}

/// Whether a library is a module that moves data.
fn moves(library: &str) -> bool {
    MOVES.iter().any(|start| library.starts_with(start))
}

/// The library of a frame without a name.
fn nameless(line: &[u8]) -> Option<(String, String)> {
    let library = super::compose::shown(&NAMELESS.captures(line)?["library"]);
    let is_of_system = OF_SYSTEM.iter().any(|name| library.starts_with(name));
    (!is_of_system).then_some((library, String::new()))
}

/// The function and the library of a frame, unless it is of a signal.
fn frame(line: &[u8]) -> Option<(String, String)> {
    let found = FRAME.captures(line)?;
    let part = |names: &[&str]| {
        let found = names.iter().find_map(|name| found.name(name))?;
        Some(super::compose::shown(found.as_bytes()))
    };
    let function = part(&[
        "function",
        "function2",
        "function3",
        "function4",
        "function5",
        "function6",
    ])?;
    let library = part(&["library", "library2", "source", "source2", "source3"]);
    let library = library.unwrap_or_default();
    let library = library.rsplit('/').next()?;
    let library = match part(&["line"]).filter(|_| !library.is_empty()) {
        Some(line) => format!("{library}:{line}"),
        None => library.to_owned(),
    };
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
        check(
            &[
                " 0 0x000000000003ebf0 __GI___sigaction()  :0",
                " 2 0x000000000008fc91 ucp_get()  ???:0",
                " 3 0x0000000000029b69 uct_tcp_ep_am_bcopy()  ???:0",
                "11 0x000000000003f131 nixlUcxSharedThread::run()  :0",
                "12 0x00000000000df0e6 execute_native_thread_routine()  /build/thread.cc:82",
                "14 0x000000000010f210 __clone3()  :0",
            ],
            &["ucp_get (UCX)", "uct_tcp_ep_am_bcopy (UCX)"],
        );
        check(
            &[
                r#"  File "<unknown>", line 0, in pthread_kill"#,
                r#"  File "<unknown>", line 0, in gsignal"#,
                r#"  File "<unknown>", line 0, in cuEventQuery"#,
                r#"  File "<unknown>", line 0, in uct_cuda_base_iface_event_fd_arm"#,
                r#"  File "<unknown>", line 0, in ucp_worker_arm"#,
                r#"  File "<unknown>", line 0, in nixlUcxSharedThread::run()"#,
                r#"  File "<unknown>", line 0, in __clone"#,
                r#"  File "<unknown>", line 0, in 0xffffffffffffffff"#,
            ],
            &[
                "cuEventQuery (CUDA's driver)",
                "uct_cuda_base_iface_event_fd_arm (UCX)",
                "the thread of nixlUcxSharedThread::run (NIXL)",
            ],
        );
        check(
            &[
                r#">   File "./nptl/pthread_kill.c", line 89, in __GI___pthread_kill"#,
                r#">   File "../sysdeps/posix/raise.c", line 26, in __GI_raise"#,
                r#">   File "./signal/libc_sigaction.c", line 0, in 0x00007a2c31a4532f"#,
                r#">   File "<unknown>", line 0, in cuMemCreate"#,
                r#">   File "misc/cudawrap.cc", line 92, in ncclCuMemHostEnable()"#,
                r#">   File "/build/nccl/src/init.cc", line 1852, in ncclCommInitRank"#,
                r#"  File "train.py", line 7, in main"#,
            ],
            &[
                "cuMemCreate (CUDA's driver)",
                "ncclCuMemHostEnable (cudawrap.cc:92)",
            ],
        );
        check(
            &[
                "Backtrace points to:",
                "- ncclAtomicRefCountDecrement<int>()",
                "- shmSendConnect() in /build/nccl/src/transport/shm.cc:144",
                "- ncclTransportP2pSetup()",
            ],
            &[
                "ncclAtomicRefCountDecrement (NCCL)",
                "shmSendConnect (shm.cc)",
            ],
        );
        check(
            &[
                "[node-a:71] [ 0] /lib64/libpthread.so.0 [0x303be0dd40]",
                "[node-a:71] [ 1] /opt/lib/openmpi/mca_pml_ob1.so [0x2aaaae350d96]",
                "[node-a:71] [ 2] /opt/lib/openmpi/mca_btl_sm.so [0x2aaaaeb7c72a]",
                "[node-a:71] [ 3] /opt/lib/libopen-pal.so.0(opal_progress+0x89) [0x2aaaab42b7d9]",
                "[node-a:71] [ 4] /opt/lib/libmpi.so.0(PMPI_Recv+0x210) [0x2aaaaaf46010]",
                "[node-a:71] [ 5] /opt/bin/solver(step_+0x6c3f) [0x6667ff]",
            ],
            &["mca_pml_ob1.so", "mca_btl_sm.so", "PMPI_Recv (libmpi.so.0)"],
        );
        check(&["the library a.so (b) is loaded", "- a list item"], &[]);
    }

    #[test]
    fn frames_that_go_on_in_the_next_line_are_whole() {
        let text = "[node-a:71] [ 1] /opt/lib/\nopenmpi/mca_pml_ob1.so [0x2a]\n[node-a:71] [ 2] /opt/a.so  \n[0x2b]\n[node-a:71] [ 3] /opt/libmpi.so.0(PMPI_Recv \n+0x210) [0x2c]\n[node-a:71] [ 4] /opt/b.so [0x2d]\n[node-a:71] *** End\nx";
        let whole: Vec<String> = whole_frames(text.as_bytes())
            .iter()
            .map(|line| crate::compose::shown(line))
            .collect();
        let expected = [
            "[node-a:71] [ 1] /opt/lib/openmpi/mca_pml_ob1.so [0x2a]",
            "[node-a:71] [ 2] /opt/a.so[0x2b]",
            "[node-a:71] [ 3] /opt/libmpi.so.0(PMPI_Recv+0x210) [0x2c]",
            "[node-a:71] [ 4] /opt/b.so [0x2d]",
            "[node-a:71] *** End",
            "x",
        ];
        assert_eq!(whole, expected);
    }
}
