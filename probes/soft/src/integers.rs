//! The integer variables of the real plugin with ranges and defaults, and a parser that works
//! like the plugin's `strtoll`.
#![forbid(unsafe_code)]

/// One integer variable.
pub(crate) struct Integer {
    /// Label in the log line of `init`.
    pub label: &'static str,
    /// Name without the prefix `NCCL_`.
    pub name: &'static str,
    /// Value if unset.
    pub declared: i64,
    /// Value if out of range.
    pub restored: i64,
    /// Lowest valid value.
    pub least: i64,
    /// Highest valid value.
    pub most: i64,
}

const fn integer(
    label: &'static str,
    name: &'static str,
    [declared, restored]: [i64; 2],
    [least, most]: [i64; 2],
) -> Integer {
    Integer {
        label,
        name,
        declared,
        restored,
        least,
        most,
    }
}

/// The real plugin's declared value for "keep the built-in default".
const KEEP: i64 = -2;
const INT_MAX: i64 = i32::MAX as i64 - 1;
const LEAST_WAIT_NS: i64 = 100_000;

/// Whether the plugin is enabled.
pub(crate) const ENABLE: Integer = integer(
    "TCPXSoft enable",
    "GPUDIRECTTCPX_SOCKET_ENABLE",
    [1, 1],
    [0, 1],
);
/// Longest message that is sent on the control socket, in bytes.
pub(crate) const INLINE: Integer =
    integer("inline threshold", "INLINE_THRESHOLD", [KEEP, 0], [0, 2048]);
/// Bytes of one task chunk.
pub(crate) const CHUNK: Integer = integer(
    "dynamic chunk size",
    "DYNAMIC_CHUNK_SIZE",
    [0, 131_072],
    [0, INT_MAX],
);
/// Data sockets per thread.
pub(crate) const SOCKETS: Integer =
    integer("nsocks per thread", "NSOCKS_PERTHREAD", [KEEP, 1], [1, 8]);
/// Threads per comm.
pub(crate) const THREADS: Integer = integer("nthreads", "SOCKET_NTHREADS", [KEEP, 1], [1, 16]);
/// Attempts per socket.
pub(crate) const ATTEMPTS: Integer = integer(
    "connection retry count",
    "GPUDIRECTTCPX_CONNECTION_RETRY",
    [KEEP, 3],
    [0, i32::MAX as i64],
);
/// Whether senders wait for posted receives.
pub(crate) const RECV_SYNC: Integer =
    integer("receiver sync", "GPUDIRECTTCPX_RECV_SYNC", [0, 1], [0, 1]);
/// Nanoseconds before the first slowness line.
pub(crate) const FIRST_REPORT: Integer = integer(
    "timeout report threshold in nanos",
    "GPUDIRECTTCPX_TIMEOUT_THRESHOLD_NS",
    [KEEP, 10_000_000_000],
    [LEAST_WAIT_NS, i64::MAX],
);
/// Nanoseconds between slowness lines.
pub(crate) const NEXT_REPORT: Integer = integer(
    "timeout report frequency in nanos",
    "GPUDIRECTTCPX_TIMEOUT_FREQUENCY_NS",
    [KEEP, 30_000_000_000],
    [LEAST_WAIT_NS, i64::MAX],
);
/// Microseconds that accept waits for flow steering at its end.
pub(crate) const STEERING: Integer = integer(
    "flow steering wait in micros",
    "GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS",
    [KEEP, 5_000_000],
    [1, i32::MAX as i64],
);

/// `strtoll(text, NULL, 0)`; `None` if C sets `ERANGE`.
pub fn strtoll(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = radix_of(digits);
    let mut value: i64 = 0;
    for digit in digits.chars().map_while(|letter| letter.to_digit(radix)) {
        let digit = i64::from(digit);
        value = value.checked_mul(i64::from(radix))?;
        // Negative values are accumulated as negative, because there is one more of them.
        value = if negative {
            value.checked_sub(digit)?
        } else {
            value.checked_add(digit)?
        };
    }
    Some(value)
}

fn radix_of(digits: &str) -> (u32, &str) {
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    match hexadecimal {
        Some(rest) if rest.starts_with(|letter: char| letter.is_ascii_hexdigit()) => (16, rest),
        _ if digits.starts_with('0') => (8, digits),
        _ => (10, digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_strtoll_reads_them() {
        let check =
            |text: &str, expected: Option<i64>| assert_eq!(strtoll(text), expected, "{text:?}");
        check("524288", Some(524_288));
        check("0x80000", Some(524_288));
        check("010", Some(8));
        check("512K", Some(512));
        check("  -7 apples", Some(-7));
        check("+3", Some(3));
        check("0x", Some(0));
        check("08", Some(0));
        check("", Some(0));
        check("many", Some(0));
        check("-9223372036854775808", Some(i64::MIN));
        check("9223372036854775808", None);
    }
}
