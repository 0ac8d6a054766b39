//! Parses the fields of TCPX's lines: flows, poll counts, device lists.
#![forbid(unsafe_code)]

use super::word::{after, find};
use memchr::memchr_iter;
use memchr::memmem::Finder;
use serde::Serialize;
use std::sync::LazyLock;

/// Bytes of an address, IPv6 with a scope included.
const ADDRESS_MAX: usize = 64;
/// Longest name of a process group, in bytes.
const GROUP_MAX: usize = 120;
const DEVICES_MAX: usize = 64;

/// `10.0.1.25<40211>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct End<'a> {
    pub ip: &'a [u8],
    /// A few digits.
    pub port: &'a [u8],
}

impl End<'_> {
    pub(super) fn port(&self) -> u32 {
        let add = |port: u32, digit: &u8| 10 * port + u32::from(digit - b'0');
        self.port.iter().fold(0, add)
    }
}

/// `local<port>->remote<port> tx`, or `<-` and `rx`: the local end is always first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FlowText<'a> {
    pub local: End<'a>,
    pub remote: End<'a>,
    pub sends: bool,
}

/// The process that Ray names before its lines: `pid=4048, ip=10.0.0.226` of `(Worker pid=4048, ip=10.0.0.226) `.
pub(super) fn launched_process(line: &[u8]) -> Option<&[u8]> {
    let front = &line[..line.len().min(ADDRESS_MAX * 4)];
    let open = memchr::memchr(b'(', front)?;
    let close = open + memchr::memchr(b')', &front[open..])?;
    let pid = find!(&front[open..close], b"pid=")?;
    Some(&front[open + pid..close])
}

/// The first flow of a message.
pub(super) fn flow(text: &[u8]) -> Option<FlowText<'_>> {
    memchr_iter(b'>', text).find_map(|at| {
        let sends = match text.get(at + 1..at + 3)? {
            b"->" => true,
            b"<-" => false,
            _ => return None,
        };
        let remote = &text[at + 3..];
        let close = memchr::memchr(b'>', &remote[..remote.len().min(ADDRESS_MAX)])?;
        Some(FlowText {
            local: end_before(&text[..at])?,
            remote: end_before(&remote[..close])?,
            sends,
        })
    })
}

/// The address at the end of `10.0.1.25<40211`.
fn end_before(text: &[u8]) -> Option<End<'_>> {
    let digits = text
        .iter()
        .rev()
        .take(6)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (rest, digits) = text.split_at(text.len() - digits);
    let rest = rest.strip_suffix(b"<")?;
    let part = |byte: &&u8| byte.is_ascii_hexdigit() || matches!(**byte, b'.' | b':' | b'%');
    let size = rest.iter().rev().take(ADDRESS_MAX).take_while(part).count();
    // `[0] [12533759525973517964:10.0.1.25<1>` has an id and a colon before it.
    let ip = &rest[rest.len() - size..];
    let ip = match memchr::memrchr(b':', ip) {
        Some(at) if ip[at..].contains(&b'.') => &ip[at + 1..],
        _ => ip,
    };
    let is_whole = !ip.is_empty() && !digits.is_empty();
    is_whole.then_some(End { ip, port: digits })
}

/// How often the plugin polled during a wait, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Polls {
    /// Polls since the last progress.
    pub(super) count: u64,
    /// Time since the last progress.
    pub(super) nanoseconds: u64,
}

impl Polls {
    /// `None` for a number that is too large.
    pub(super) fn new((count, nanoseconds): (&[u8], &[u8])) -> Option<Self> {
        Some(Self {
            count: number(count)?,
            nanoseconds: number(nanoseconds)?,
        })
    }

    /// Polls per second.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(super) fn per_second(self) -> f64 {
        if self.nanoseconds == 0 {
            0.0
        } else {
            self.count as f64 * 1e9 / self.nanoseconds as f64
        }
    }
}

static COUNT: LazyLock<Finder> = LazyLock::new(|| Finder::new(" cnt "));
static NANOSECONDS: LazyLock<Finder> = LazyLock::new(|| Finder::new(" nanos "));

/// The digits in `cnt 6120433, nanos 10000000311`; `None` for a line that is cut off before.
pub(super) fn polls(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let after =
        |finder: &Finder<'_>, text: &[u8]| finder.find(text).map(|at| at + finder.needle().len());
    let rest = &message[after(&COUNT, message)?..];
    let nanoseconds = digits(&rest[after(&NANOSECONDS, rest)?..])?;
    Some((digits(rest)?, nanoseconds))
}

/// The digits at the start of a text.
fn digits(text: &[u8]) -> Option<&[u8]> {
    let size = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (size > 0).then(|| &text[..size])
}

fn leading(text: &[u8]) -> Option<u64> {
    number(digits(text)?)
}

/// How many ranks a communicator has: `rank 0 nranks 16`.
pub(super) fn ranks(message: &[u8]) -> Option<u64> {
    let starts = [&b" nranks "[..], b" nRanks "];
    let found = |word: &&[u8]| Some(memchr::memmem::find(message, word)? + word.len());
    let rest = message.get(starts.iter().find_map(found)?..)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    number(&rest[..digits]).filter(|ranks| *ranks > 0)
}

/// A text of digits as a number.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        sum.checked_mul(10)?
            .checked_add(u64::from(digit.checked_sub(b'0')?))
    };
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, add))?
}

/// The interface in `nic 2, eth3, ` and `nic 0, lo `.
pub(super) fn nic(message: &[u8]) -> Option<&[u8]> {
    static NIC: LazyLock<Finder> = LazyLock::new(|| Finder::new(" nic "));
    let rest = &message[NIC.find(message)? + 5..];
    let rest = &rest[memchr::memchr(b' ', &rest[..rest.len().min(8)])? + 1..];
    let size = rest
        .iter()
        .take(16)
        .take_while(|byte| !matches!(byte, b',' | b' '))
        .count();
    (size > 0).then_some(&rest[..size])
}

/// Names and addresses in `[0]eth1:10.0.1.25<0> [1]eth2:...`.
pub(super) fn devices(message: &[u8]) -> Vec<(&[u8], &[u8])> {
    let words = message.split(|byte| *byte == b' ').take(DEVICES_MAX);
    words
        .filter_map(|word| {
            let rest = &word[memchr::memchr(b']', word)? + 1..];
            let colon = memchr::memchr(b':', rest)?;
            let address = &rest[colon + 1..];
            let end = memchr::memchr(b'<', address)?;
            Some((&rest[..colon], &address[..end]))
        })
        .collect()
}

/// A rank of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommRank {
    /// NCCL's id of the communicator, the same on all ranks.
    pub(super) comm_id: u64,
    pub(super) rank: u32,
    /// How many ranks the communicator has; 0 if the line does not say.
    pub(super) ranks: u32,
}

/// PyTorch's collectives, as its lines name them.
const OPERATIONS: [&[u8]; 20] = [
    b"ALLGATHER",
    b"ALLGATHER_COALESCED",
    b"ALLREDUCE",
    b"ALLREDUCE_COALESCED",
    b"ALLTOALL",
    b"ALLTOALL_BASE",
    b"BARRIER",
    b"BROADCAST",
    b"COALESCED",
    b"GATHER",
    b"RECV",
    b"RECVANYSOURCE",
    b"REDUCE",
    b"REDUCE_SCATTER",
    b"SCATTER",
    b"SEND",
    b"_ALLGATHER_BASE",
    b"_ALLREDUCE_SPARSE",
    b"_BROADCAST_OOP",
    b"_REDUCE_SCATTER_BASE",
];

/// The whole name of a collective that a terminal cut: `_ALLGATHER_BASE` of `OpType=_ALLGATHER_BA`, where no other
/// begins so.
pub(super) fn whole_operation<'a>(message: &[u8], name: &'a [u8]) -> &'a [u8] {
    let after = memchr::memmem::find(message, name).map(|at| message.get(at + name.len()));
    let is_whole = matches!(after, None | Some(Some(b',' | b')' | b' ')));
    let mut longer = OPERATIONS.iter().filter(|one| one.starts_with(name));
    match (longer.next(), longer.next()) {
        (Some(only), None) if !is_whole => only,
        _ => name,
    }
}

/// Longest text of the elements of a collective.
const ELEMENTS_MAX: usize = 64;

/// `NumelIn=1024, NumelOut=8192` of a collective of PyTorch; empty where the line has none.
pub(super) fn elements(message: &[u8]) -> &[u8] {
    let Some(start) = find!(message, b"NumelIn=") else {
        return b"";
    };
    let rest = &message[start..];
    let is_of = |byte: &&u8| byte.is_ascii_alphanumeric() || b"=, ".contains(byte);
    let end = find!(rest, b", Timeout");
    let end = end.unwrap_or_else(|| rest.iter().take_while(is_of).count());
    &rest[..end.min(ELEMENTS_MAX)]
}

/// The address of a communicator, its id and the rank, in
/// `ncclCommInitRank comm 0x55d1c0ffee00 rank 3 nranks 16 ... commId 0x2ef13c5ed0553a05 - Init COMPLETE`.
pub(super) fn comm_rank(message: &[u8]) -> Option<(u64, CommRank)> {
    let comm = hexadecimal(after!(message, b"comm 0x")?)?;
    let rank = leading(after!(message, b" rank ")?)?;
    let comm_id = hexadecimal(after!(message, b" commId 0x")?)?;
    let rank = u32::try_from(rank).ok()?;
    let ranks = after!(message, b" nranks ").or_else(|| after!(message, b" nRanks "));
    let ranks = ranks
        .and_then(leading)
        .and_then(|ranks| u32::try_from(ranks).ok());
    let member = CommRank {
        comm_id,
        rank,
        ranks: ranks.unwrap_or_default(),
    };
    Some((comm, member))
}

/// The rank in `comm 0x55d1c0ffee00 rank 3 nranks 16 cudaDev 0 busId 1b000`, with or without an id behind it.
pub(super) fn rank_of_comm(message: &[u8]) -> Option<u32> {
    let rank = leading(after!(after!(message, b"comm 0x")?, b" rank ")?)?;
    u32::try_from(rank).ok()
}

/// The rank of a communicator and the PCI address of its GPU, in
/// `ncclCommInitRank comm 0x55d1c0ffee00 rank 3 nranks 16 cudaDev 0 busId 1b000 commId 0x2ef13c5ed0553a05`.
pub(super) fn rank_gpu(message: &[u8]) -> Option<(CommRank, u64)> {
    let (_, rank) = comm_rank(message)?;
    Some((rank, hexadecimal(after!(message, b" busId ")?)?))
}

/// The address of a communicator and the number of its collective, in
/// `AllReduce: opCount 1f2 sendbuff 0x7f3a80000000 ... comm 0x55d1c0ffee00`.
pub(super) fn op_count(message: &[u8]) -> Option<(u64, u64)> {
    let count = hexadecimal(after!(message, b": opCount ")?)?;
    Some((hexadecimal(after!(message, b" comm 0x")?)?, count))
}

/// The numbers behind words of a message.
pub(super) fn numbers_behind<const N: usize>(message: &[u8], words: [&str; N]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for (number, word) in numbers.iter_mut().zip(words) {
        let at = memchr::memmem::find(message, word.as_bytes())?;
        *number = leading(&message[at + word.len()..])?;
    }
    Some(numbers)
}

/// The name of PyTorch's process group in `[PG ID 0 PG GUID 0(default_pg) Rank 3]`, or the
/// number in `[PG 0 Rank 3]`.
pub(super) fn torch_group(line: &[u8]) -> Option<&[u8]> {
    let rest = after!(line, b" PG GUID ").or_else(|| after!(line, b"[PG "))?;
    let size = memchr::memchr(b' ', &rest[..rest.len().min(GROUP_MAX)])?;
    rest[size..].starts_with(b" Rank ").then_some(&rest[..size])
}

/// The number of the collective that failed, in PyTorch's line on how far the rank is.
pub(super) fn failed_work(line: &[u8]) -> Option<u64> {
    let rest = after!(line, b" at work sequence id: ")?;
    let size = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    number(&rest[..size])
}

/// The hexadecimal number at the start of a text.
fn hexadecimal(text: &[u8]) -> Option<u64> {
    let size = text
        .iter()
        .take(17)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let digits = std::str::from_utf8(&text[..size]).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

/// Words after which a short number decides what happened.
const DECIDING: [&[u8]; 9] = [
    b"status", b"error", b"err", b"errno", b"rank", b"code", b"retcode", b"type", b"family",
];
/// Digits of a number that decides; a longer one is an address or a count.
const DECIDING_MAX: usize = 4;

/// A message with every number and address as `#`, so that lines that differ only in them
/// have one shape. Numbers that decide what happened, such as a status, stay.
pub(super) fn message_shape(message: &[u8], size_max: usize) -> Vec<u8> {
    let mut shape = Vec::with_capacity(message.len().min(size_max));
    let mut rest = message;
    while let Some((&byte, after)) = rest.split_first() {
        if shape.len() >= size_max {
            break;
        }
        let in_word = shape
            .last()
            .is_some_and(|last: &u8| last.is_ascii_alphabetic() || *last == b'_');
        let ipv6 = if in_word { 0 } else { ipv6_size(rest) };
        if ipv6 > 0 {
            shape.push(b'#');
            rest = &rest[ipv6..];
            continue;
        }
        let digits = rest.iter().take_while(|next| next.is_ascii_digit()).count();
        if in_word && digits > 0 && rest.get(digits).is_some_and(u8::is_ascii_alphabetic) {
            // `c10d` is a name.
            shape.extend_from_slice(&rest[..digits]);
            rest = &rest[digits..];
            continue;
        }
        if byte.is_ascii_digit() && !in_word {
            let hex = after.first() == Some(&b'x');
            let of_number = |next: &&u8| {
                next.is_ascii_digit()
                    || **next == b'.'
                    || (hex && (next.is_ascii_hexdigit() || **next == b'x'))
            };
            let size = after.iter().take_while(of_number).count();
            let number = &rest[..=size];
            rest = &after[size..];
            if decides(&shape, number) {
                shape.extend_from_slice(number);
            } else {
                shape.push(b'#');
            }
        } else {
            shape.push(byte);
            rest = after;
        }
    }
    shape
}

/// Whether a number after this text decides what happened: `status=12`, `rank 3`.
fn decides(before: &[u8], number: &[u8]) -> bool {
    let before = before.trim_ascii_end();
    let before = before
        .strip_suffix(b"=")
        .or(before.strip_suffix(b":"))
        .unwrap_or(before);
    let before = before.trim_ascii_end();
    let letters = before
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphabetic());
    let word = &before[before.len() - letters.count()..];
    number.len() <= DECIDING_MAX
        && number.iter().all(u8::is_ascii_digit)
        && DECIDING.iter().any(|one| word.eq_ignore_ascii_case(one))
}

/// The length of an IPv6 address at the start of a text, with its scope, or 0.
fn ipv6_size(text: &[u8]) -> usize {
    let part = |byte: &&u8| byte.is_ascii_hexdigit() || matches!(**byte, b':' | b'.');
    let size = text.iter().take(ADDRESS_MAX).take_while(part).count();
    let address = text[..size].strip_suffix(b":").unwrap_or(&text[..size]);
    let is_address = std::str::from_utf8(address)
        .is_ok_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    if !is_address {
        return 0;
    }
    let scope = |text: &[u8]| {
        let name = text
            .iter()
            .skip(1)
            .take_while(|byte| byte.is_ascii_alphanumeric());
        if text.starts_with(b"%") {
            1 + name.count()
        } else {
            0
        }
    };
    address.len() + scope(&text[address.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CTRL: &[u8] = b"0x7f3a80412580:0x7f3a8040d0f0, nic 2, eth3, 10.0.1.25<40211><-10.0.0.226<51902> rx rx ctrl timeout cnt 6120433, nanos 10000000311";

    #[test]
    fn a_slow_line_names_its_flow_its_nic_and_its_poll_rate() {
        let flow = flow(CTRL).unwrap();
        assert_eq!(
            (flow.local, flow.sends),
            (
                End {
                    ip: b"10.0.1.25",
                    port: b"40211"
                },
                false
            )
        );
        assert_eq!(
            flow.remote,
            End {
                ip: b"10.0.0.226",
                port: b"51902"
            }
        );
        assert_eq!(nic(CTRL), Some(&b"eth3"[..]));
        let polls = |message| polls(message).and_then(Polls::new);
        assert_eq!(polls(CTRL).unwrap().per_second().round(), 612_043.0);
        assert_eq!(
            polls(b"tx comp timeout poll upper 6, lower 0, cnt 139580, nanos 300000588, range (0 3955200)")
                .unwrap()
                .count,
            139_580
        );
    }

    #[test]
    fn a_flow_follows_its_id() {
        let made = b"NET/GPUDirectTCPX: connected  (0) [12533759525973517964:10.0.1.25<36323>->10.0.0.226<42665> tx] through cuda";
        assert_eq!(
            flow(made).unwrap().local,
            End {
                ip: b"10.0.1.25",
                port: b"36323"
            }
        );
        let six = b"[1:fe80::1%eth1<36323>->fe80::2<42665> tx]";
        assert_eq!(
            flow(six).map(|flow| flow.remote),
            Some(End {
                ip: b"fe80::2",
                port: b"42665"
            })
        );
    }

    #[test]
    fn communicators_and_process_groups_are_read() {
        let init = b"ncclCommInitRank comm 0x55d1 rank 3 nranks 16 cudaDev 3 busId 4000 commId 0x2ef1 - Init COMPLETE";
        let rank = CommRank {
            comm_id: 0x2ef1,
            rank: 3,
            ranks: 16,
        };
        assert_eq!(comm_rank(init), Some((0x55d1, rank)));
        assert_eq!(
            comm_rank(b"comm 0x55d1 rank 3 nranks 16 - Init COMPLETE"),
            None
        );
        let call =
            b"AllReduce: opCount 1f2 sendbuff 0x7f op 0 root 0 comm 0x55d1 [nranks=16] stream 0x1";
        assert_eq!(op_count(call), Some((0x55d1, 0x1f2)));
        assert_eq!(op_count(b"AllReduce: opCount  sendbuff 0x7f"), None);
        assert_eq!(
            torch_group(b"[PG ID 0 PG GUID 0(default_pg) Rank 3] x"),
            Some(&b"0(default_pg)"[..])
        );
        assert_eq!(torch_group(b"[PG 1 Rank 3] x"), Some(&b"1"[..]));
        assert_eq!(torch_group(b"[Rank 3] x"), None);
    }

    #[test]
    fn devices_are_listed() {
        let line = b"NET/GPUDirectTCPX : Using [0]eth1:10.0.1.25<0> [1]eth2:10.0.2.25<0>";
        assert_eq!(
            devices(line),
            [(&b"eth1"[..], &b"10.0.1.25"[..]), (b"eth2", b"10.0.2.25")]
        );
    }

    #[test]
    fn lines_that_differ_in_numbers_have_one_shape() {
        let shape = |text: &str| String::from_utf8(message_shape(text.as_bytes(), 80)).unwrap();
        assert_eq!(
            shape("comm 0x7f3a rank 3 of 10.0.1.25<4>"),
            "comm # rank 3 of #<#>"
        );
        assert_eq!(shape("eth1 v7"), "eth1 v7");
        assert_eq!(shape("with status=12 err: 5"), "with status=12 err: 5");
        assert_eq!(
            shape("peer fe80::1%eth0<40> and 10.0.1.25<4>"),
            "peer #<#> and #<#>"
        );
        assert_eq!(shape(&"x".repeat(100)).len(), 80);
    }

    proptest! {
        #[test]
        fn any_message_has_its_fields_or_none(text in "([0-9.<>:,x -]| cnt | nanos | nic |->|<-|\\[0\\]){0,60}") {
            let bytes = text.as_bytes();
            let _ = (flow(bytes), polls(bytes), nic(bytes), devices(bytes));
            let _ = (comm_rank(bytes), op_count(bytes), torch_group(bytes));
            prop_assert!(message_shape(bytes, 40).len() <= 40);
        }
    }
}
