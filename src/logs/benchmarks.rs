//! The tables of benchmarks that print a head and one row for each size: nccl-tests, the tests of OSU, perftest,
//! and nixlbench.
//!
//! A head without a row tells that the first size never ended, which no line says. A row is known by its form, so
//! whatever other programs write between head and row does not matter.
//!
//! Of nixlbench, whose rows `harness` reads, only a head without a row is told here. Not here: UCCL's benchmark, which
//! prints no table.
#![forbid(unsafe_code)]

use super::loggers::regex;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// What a launcher writes in front of a line: `[1,0]<stdout>:`, `0: `, `node-a: `.
const PREFIX: &str = r"^(?:\[[\w,.:-]+\] ?(?:<\w+>)? ?:?|[\w.-]+: )?\s*";

const NCCL_TESTS: &str = "nccl-tests";
pub(super) const PERFTEST: &str = "perftest";
const OSU: &str = "OSU's test";

/// The one benchmark that `harness` follows too.
pub(super) const NIXLBENCH: &str = "nixlbench";

/// The last line of a head.
static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    let heads = r"(?:(?P<nixl>Block Size \(B\)\s+Batch Size\s)|#(?:\s+\(B\)\s+\((?P<nccl>elements)\)\s|(?P<perftest>bytes)\s+#iterations\s|\s*(?P<osu>Size\s+(?:Avg |Bandwidth|Latency|Messages)|Avg Latency\(us\))))";
    regex(&format!("{PREFIX}{heads}"))
});

/// A row, or a line that nccl-tests writes below its last one.
static ROW: LazyLock<Regex> = LazyLock::new(|| {
    let row = r"(?:\d+\s+\d+\s+(?:u?int|float|half|double|bfloat|u?char|f8|fp8|u?long)\w*\s|#\s*(?:Out of bounds|Errors with asterisks|Avg bus bandwidth)|\d[\d.]*(?:\s+[\d.]+)*\s*$)";
    regex(&format!("{PREFIX}{row}"))
});

/// The benchmark whose head a line ends.
pub(super) fn benchmark_of_head(line: &[u8]) -> Option<&'static str> {
    memchr::memchr2(b'#', b'(', line)?;
    let found = HEAD.captures(line)?;
    let names = [
        ("nccl", NCCL_TESTS),
        ("perftest", PERFTEST),
        ("osu", OSU),
        ("nixl", NIXLBENCH),
    ];
    let is_its = |(group, _): &&(&str, &str)| found.name(group).is_some();
    names.iter().find(is_its).map(|(_, name)| *name)
}

/// Whether a line tells that a table has what comes behind its head: it is a row, or below the last one. A server of
/// perftest, at which the client only reads, has none, and ends its table with a line all the same.
pub(super) fn is_answer(benchmark: &str, line: &[u8]) -> bool {
    ROW.is_match(line) || benchmark == PERFTEST && line.starts_with(b"--------")
}

/// A row, with its size.
static SIZE: LazyLock<Regex> = LazyLock::new(|| {
    let row = r"(?P<size>\d{1,18})(?:\s+\d+\s+(?:u?int|float|half|double|bfloat|u?char|f8|fp8|u?long)\w*\s|(?:\s+[\d.]+)*\s*$)";
    regex(&format!("{PREFIX}{row}"))
});

/// A row of nccl-tests, by the type of its data.
static TYPED: LazyLock<Regex> = LazyLock::new(|| {
    let row = r"(?P<size>\d{1,18})\s+\d{1,18}\s+(?:u?int|float|half|double|bfloat|u?char|f8|fp8|u?long)\w*\s";
    regex(&format!("{PREFIX}{row}"))
});

/// The size of a row of nccl-tests.
pub(super) fn size_of_typed_row(line: &[u8]) -> Option<u64> {
    let size = TYPED.captures(line)?.name("size")?.as_bytes();
    std::str::from_utf8(size).ok()?.parse().ok()
}

/// Columns that a row of nccl-tests has at least: size, count, type, and four of each of its two halves.
const COLUMNS_MIN: usize = 11;

/// The size of a row that is whole, as far as the rows of a benchmark show it.
pub(super) fn size_of_whole_row(benchmark: &str, line: &[u8]) -> Option<u64> {
    let columns = line.trim_ascii().split(u8::is_ascii_whitespace);
    let columns = columns.filter(|column| !column.is_empty()).count();
    let is_whole = benchmark != NCCL_TESTS
        || columns >= COLUMNS_MIN && line.iter().any(u8::is_ascii_alphabetic);
    size_of_row(line).filter(|_| is_whole)
}

/// Digits behind the point of the number with which a row ends, where all rows of a benchmark have as many.
pub(super) fn decimals(benchmark: &str, row: &[u8]) -> usize {
    let row = row.trim_ascii_end();
    let digits = row.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let digits = digits.count();
    let has_point = row[..row.len() - digits].ends_with(b".");
    match [OSU, PERFTEST].contains(&benchmark) && has_point {
        true => digits,
        false => 0,
    }
}

/// The largest size that a command line, or the head of a table, has.
static LARGEST: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b(?:maxBytes|max bytes:?) (?P<size>\d{1,18})\b"));

/// The size of the last row that nccl-tests will print, by its first lines.
pub(super) fn largest_size(line: &[u8]) -> Option<u64> {
    memchr::memchr(b'#', line)?;
    let size = LARGEST.captures(line)?.name("size")?.as_bytes();
    std::str::from_utf8(size).ok()?.parse().ok()
}

/// The size of a row.
pub(super) fn size_of_row(line: &[u8]) -> Option<u64> {
    let size = SIZE.captures(line)?.name("size")?.as_bytes();
    std::str::from_utf8(size).ok()?.parse().ok()
}

/// The size of the last row of a table where a benchmark's options set no other.
pub(super) fn last_size(benchmark: &str) -> u64 {
    match benchmark {
        PERFTEST => 8 << 20,
        OSU => 1 << 20,
        NIXLBENCH => 64 << 20,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_torn_has_fewer_decimals() {
        for (benchmark, row, expected) in [
            (OSU, "131072             24011.22", 2),
            (OSU, "131072             24011.2", 1),
            (OSU, "131072             2401", 0),
            (PERFTEST, " 8192 5000 22934.11 22931.02 5.366896\r", 6),
            (NCCL_TESTS, "8 2 float sum -1 30.00 0.00", 0),
        ] {
            assert_eq!(decimals(benchmark, row.as_bytes()), expected, "{row}");
        }
    }

    #[test]
    fn a_head_names_its_benchmark() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(benchmark_of_head(line.as_bytes()), expected, "{line}");
        };
        let nccl = "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)";
        check(nccl, Some("nccl-tests"));
        check(&format!("[1,0]<stdout>:{nccl}"), Some("nccl-tests"));
        check(&format!("0: {nccl}"), Some("nccl-tests"));
        check(
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]",
            Some("perftest"),
        );
        check("# Size      Bandwidth (MB/s)", Some("OSU's test"));
        check("# Size       Avg Latency(us)", Some("OSU's test"));
        check(
            "Block Size (B)      Batch Size     B/W (GB/Sec)",
            Some("nixlbench"),
        );
        check("#       size         count      type   redop", None);
        check("# Size of the model: 7 B", None);
    }

    #[test]
    fn a_row_is_known_by_its_form() {
        let check = |line: &str, expected: bool| {
            assert_eq!(is_answer("OSU's test", line.as_bytes()), expected, "{line}");
        };
        let nccl =
            "           8             2     float     sum      -1    38.54    0.00    0.00      0";
        check(nccl, true);
        check(&format!("[1,0]<stdout>:{nccl}"), true);
        check("# Out of bounds values : 0 OK", true);
        check(
            " 65536      1000             352.51             352.44",
            true,
        );
        check("4194304             11866.73", true);
        check("node-a:7:7 [0] NCCL INFO Channel 00/02 : 0 1 2 3", false);
        check("GPU[0]		: Temperature (Sensor edge) (C): 63.0", false);
        check("#", false);
        let dashes = "-".repeat(80);
        check(&dashes, false);
        assert!(is_answer(PERFTEST, dashes.as_bytes()));
    }
}
