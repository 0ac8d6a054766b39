//! Numbers and names of errors in the words of their libraries: `errno 113`, `rc: -22`, `CUDA error 802`,
//! `cudaErrorSystemNotReady`, `IBV_WC_RETRY_EXC_ERR`. Many programs log nothing else of an error.
#![forbid(unsafe_code)]

use regex::bytes::Regex;
use std::sync::LazyLock;

/// Numbers of the system's errors on Linux.
const OF_SYSTEM: [(u32, &str); 34] = [
    (1, "operation not permitted"),
    (2, "no such file or directory"),
    (3, "no such process"),
    (5, "input/output error"),
    (9, "bad file descriptor"),
    (11, "resource temporarily unavailable"),
    (12, "cannot allocate memory"),
    (13, "permission denied"),
    (14, "bad address"),
    (16, "device or resource busy"),
    (19, "no such device"),
    (24, "too many open files"),
    (28, "no space left on device"),
    (30, "read-only file system"),
    (32, "broken pipe"),
    (38, "function not implemented"),
    (90, "message too long"),
    (93, "protocol not supported"),
    (97, "address family not supported"),
    (98, "address already in use"),
    (99, "cannot assign requested address"),
    (100, "network is down"),
    (101, "network is unreachable"),
    (103, "software caused connection abort"),
    (104, "connection reset by peer"),
    (105, "no buffer space available"),
    (107, "transport endpoint is not connected"),
    (110, "connection timed out"),
    (111, "connection refused"),
    (112, "network is down"),
    (113, "no route to host"),
    (116, "stale file handle"),
    (122, "disk quota exceeded"),
    (125, "operation canceled"),
];

/// The words of the system's errors as alternatives of a pattern.
pub(crate) fn words_of_system() -> String {
    let words = OF_SYSTEM.iter().map(|(_, words)| regex::escape(words));
    words.collect::<Vec<String>>().join("|")
}

/// Numbers of CUDA's errors.
const OF_CUDA: [(u32, &str); 28] = [
    (2, "out of memory"),
    (3, "cuda error: initialization error"),
    (35, "driver version is insufficient"),
    (46, "devices are busy or unavailable"),
    (98, "invalid device function"),
    (100, "no cuda-capable device"),
    (101, "invalid device ordinal"),
    (200, "kernel image is invalid"),
    (201, "invalid device context"),
    (209, "no kernel image"),
    (214, "uncorrectable ecc error"),
    (220, "uncorrectable nvlink"),
    (222, "unsupported toolchain"),
    (400, "invalid resource handle"),
    (500, "named symbol not found"),
    (700, "illegal memory access"),
    (702, "launch timed out"),
    (710, "device-side assert"),
    (711, "peer mapping resources exhausted"),
    (714, "hardware stack error"),
    (715, "illegal instruction was"),
    (716, "misaligned address"),
    (719, "unspecified launch failure"),
    (800, "cuda failure 800"),
    (802, "system not yet initialized"),
    (803, "driver version is insufficient"),
    (804, "forward compatibility"),
    (999, "cuda error: unknown error"),
];

/// Numbers of NCCL's results.
const OF_NCCL: [(u32, &str); 6] = [
    (1, "unhandled cuda error"),
    (2, "unhandled system error"),
    (3, "nccl error: internal error"),
    (4, "nccl error: invalid argument"),
    (5, "nccl error: invalid usage"),
    (6, "nccl error: remote process exited"),
];

/// Numbers of the states of completions of RDMA.
const OF_COMPLETIONS: [(u32, &str); 6] = [
    (4, "local protection error"),
    (5, "work request flushed"),
    (9, "remote invalid request"),
    (10, "remote access error"),
    (12, "transport retry counter exceeded"),
    (13, "rnr retry counter exceeded"),
];

/// Syndromes in the dump of a completion of mlx5, which are hexadecimal, as far as their digits are decimal.
const OF_SYNDROMES: [(u32, &str); 7] = [
    (4, "local protection error"),
    (5, "work request flushed"),
    (11, "local access error"),
    (12, "remote invalid request"),
    (13, "remote access error"),
    (15, "transport retry counter exceeded"),
    (16, "rnr retry counter exceeded"),
];

/// Names, in lower case.
const NAMES: [(&str, &str); 50] = [
    ("ncclunhandledcudaerror", "unhandled cuda error"),
    ("ncclsystemerror", "unhandled system error"),
    ("ncclinternalerror", "nccl error: internal error"),
    ("ncclinvalidargument", "nccl error: invalid argument"),
    ("ncclinvalidusage", "nccl error: invalid usage"),
    ("ncclremoteerror", "nccl error: remote process exited"),
    ("cudaerrornodevice", "no cuda-capable device"),
    ("cuda_error_no_device", "no cuda-capable device"),
    ("cudaerrorinvaliddevice", "invalid device ordinal"),
    ("cuda_error_invalid_device", "invalid device ordinal"),
    ("cudaerrormemoryallocation", "out of memory"),
    (
        "cudaerrorinsufficientdriver",
        "driver version is insufficient",
    ),
    (
        "cudaerrorinitializationerror",
        "cuda error: initialization error",
    ),
    (
        "cuda_error_not_initialized",
        "cuda error: initialization error",
    ),
    (
        "cudaerrordevicesunavailable",
        "devices are busy or unavailable",
    ),
    ("cudaerrornokernelimagefordevice", "no kernel image"),
    ("cuda_error_invalid_image", "kernel image is invalid"),
    ("cudaerrorunsupportedptxversion", "unsupported toolchain"),
    ("cudaerroreccuncorrectable", "uncorrectable ecc error"),
    ("cuda_error_ecc_uncorrectable", "uncorrectable ecc error"),
    ("cudaerrornvlinkuncorrectable", "uncorrectable nvlink"),
    ("cuda_error_nvlink_uncorrectable", "uncorrectable nvlink"),
    ("cudaerrorillegaladdress", "illegal memory access"),
    ("cuda_error_illegal_address", "illegal memory access"),
    ("cudaerrorlaunchfailure", "unspecified launch failure"),
    ("cuda_error_launch_failed", "unspecified launch failure"),
    ("cudaerrorassert", "device-side assert"),
    ("cudaerrordeviceuninitialized", "invalid device context"),
    ("cuda_error_invalid_context", "invalid device context"),
    ("cudaerrortoomanypeers", "peer mapping resources exhausted"),
    (
        "cuda_error_too_many_peers",
        "peer mapping resources exhausted",
    ),
    ("cudaerrorsystemnotready", "system not yet initialized"),
    ("cuda_error_system_not_ready", "system not yet initialized"),
    (
        "cudaerrorsystemdrivermismatch",
        "driver version is insufficient",
    ),
    (
        "cuda_error_system_driver_mismatch",
        "driver version is insufficient",
    ),
    ("cuda_error_compat_not_supported", "forward compatibility"),
    ("cudaerrornotpermitted", "cuda failure 800"),
    ("cudaerrorstreamcapture", "stream is capturing"),
    ("cuda_error_stream_capture", "stream is capturing"),
    ("cudaerrorunknown", "cuda error: unknown error"),
    ("ibv_wc_retry_exc_err", "transport retry counter exceeded"),
    ("ibv_wc_rnr_retry_exc_err", "rnr retry counter exceeded"),
    ("ibv_wc_loc_prot_err", "local protection error"),
    ("ibv_wc_rem_access_err", "remote access error"),
    ("ibv_wc_rem_inv_req_err", "remote invalid request"),
    ("ibv_wc_wr_flush_err", "work request flushed"),
    ("ucs_err_unreachable", "no active messages transport"),
    (
        "ucs_err_endpoint_timeout",
        "transport retry counter exceeded",
    ),
    ("ucs_err_connection_reset", "connection reset by peer"),
    ("ucs_err_no_memory", "cannot allocate memory"),
];

/// Numbers, and the words of the error with each.
type Words = &'static [(u32, &'static str)];

/// How programs write the numbers of each.
static NUMBERS: LazyLock<[(Regex, Words); 5]> = LazyLock::new(|| {
    let regex = |words: &str| Regex::new(&format!("(?i-u){words}")).expect("a sound regex");
    [
        (
            regex(concat!(
                r"\b(?:cuda|cu|hip)\w*(?: runtime| driver)?(?: api)?[ _](?:error|failure|err)\b\W{1,3}(?:code )?[(=:]?\s?(\d{1,3})\b",
                r"|cudasuccess \((\d{1,3}) vs",
            )),
            &OF_CUDA[..],
        ),
        (
            regex(r"\bnccl\w*[ _](?:error|failure|err|result)\b\W{1,3}(?:code )?(\d)\b"),
            &OF_NCCL[..],
        ),
        (
            regex(r"\b(?:wc|completion|cqe|work)\b.{0,24}\bstatus\W{1,3}(\d{1,2})\b"),
            &OF_COMPLETIONS[..],
        ),
        // The last of four lines: its eighth byte.
        (
            regex(
                r"(?:(?:[0-9a-f]{8} ){3}[0-9a-f]{8}\s+){3}[0-9a-f]{8} [0-9a-f]{6}(\d{2}) [0-9a-f]{8} [0-9a-f]{8}",
            ),
            &OF_SYNDROMES[..],
        ),
        // A negative number is one of the system if it is too large for a result of the program's own.
        (
            regex(concat!(
                r"\berrno\W{0,3}(?:is |= ?)?(\d{1,3})\b",
                r"|\b(?:rc|ret|retval|err|error|status|code|returned|failed)\b\W{0,3}(?:with )?-(1[2-9]|[2-9]\d|\d{3})\b",
            )),
            &OF_SYSTEM[..],
        ),
    ]
});

/// The words of the error whose number or name is in a line.
pub(super) fn words(line: &[u8]) -> Option<&'static str> {
    let lower = line.to_ascii_lowercase();
    let is_in = |(name, _): &&(&str, &str)| memchr::memmem::find(&lower, name.as_bytes()).is_some();
    if let Some((_, words)) = NAMES.iter().find(is_in) {
        return Some(words);
    }
    NUMBERS.iter().find_map(|(regex, table)| {
        let found = regex.captures(line)?;
        let number = found.iter().skip(1).flatten().next()?;
        let number: u32 = str::from_utf8(number.as_bytes()).ok()?.parse().ok()?;
        let row = table.iter().find(|(code, _)| *code == number);
        row.map(|(_, words)| *words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_of_errors_are_told_in_words() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(words(line.as_bytes()), expected, "{line}");
        };
        check("connect failed (errno 113)", Some("no route to host"));
        check("reg_mr failed, rc: -12", Some("cannot allocate memory"));
        check("bind: errno=98", Some("address already in use"));
        check("fi_send failed: -22", None);
        check("the call returned -1", None);
        check("NCCL error 5", Some("nccl error: invalid usage"));
        check("wc status 12", Some("transport retry counter exceeded"));
        check(
            "Check failed: x == cudaSuccess (2 vs. 0)",
            Some("out of memory"),
        );
        check(
            "the request ended with status -110",
            Some("connection timed out"),
        );
        check(
            "CUDA error 802 at init.cu:7",
            Some("system not yet initialized"),
        );
        check("Cuda failure 700", Some("illegal memory access"));
        check(
            "CUDA error 711 at p2p.cu:7",
            Some("peer mapping resources exhausted"),
        );
        check("CUDA_ERROR_INVALID_CONTEXT", Some("invalid device context"));
        check(
            "cuda runtime error (719) in a.cu",
            Some("unspecified launch failure"),
        );
        check("cudaErrorNoDevice", Some("no cuda-capable device"));
        check(
            "wc: IBV_WC_RETRY_EXC_ERR",
            Some("transport retry counter exceeded"),
        );
        check(
            "00000000 00000000 00000000 00000000\n00000000 00000000 00000000 00000000\n\
             00000000 00000000 00000000 00000000\n00000000 93003204 08000a3c 0000a1d2",
            Some("local protection error"),
        );
        check("step 12: train error: 0.25", None);
        check("all is well", None);
    }

    #[test]
    fn each_of_the_words_has_a_reason() {
        let numbers = NUMBERS.iter().flat_map(|(_, table)| *table);
        let numbers = numbers.map(|(_, words)| *words);
        for words in numbers.chain(NAMES.iter().map(|(_, words)| *words)) {
            assert!(
                super::super::reason_in(words.as_bytes()).is_some(),
                "{words}"
            );
        }
    }
}
