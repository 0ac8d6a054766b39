//! Lines that a terminal or a person cut, with the lines in which they go on.
//!
//! PyTorch's line on a collective and UCX's on a call are long, and a report of them is often wrapped: what timed out,
//! or why a call failed, is in the next line then. Only lines that show that they are not whole are joined: their
//! last word is followed by more, or a bracket is open.
//!
//! A mail wraps any line of an error at the width of its page, often with a space at the end ("format=flowed"), after
//! a terminal may have cut it at its own width. Such a line has a header, which the line behind it lacks.
#![forbid(unsafe_code)]

use super::word::has;

/// Most lines of which a line is joined, and its longest text.
const LINES_MAX: usize = 6;
const TEXT_MAX: usize = 2048;
/// Where a mail wraps a line, and the width at which a terminal cuts one, within a word too.
const PAGE: std::ops::RangeInclusive<usize> = 50..=80;
const TERMINAL: usize = 80;

/// A line with those in which it goes on.
pub(super) struct Joined {
    pub text: Vec<u8>,
    /// Bytes of the lines in which it goes on, with the line ends before them, and their number.
    pub size: usize,
    pub lines: usize,
}

/// Joins a line with those behind it, if it is cut. `behind` begins with the end of the line.
pub(super) fn join(line: &[u8], behind: &[u8]) -> Option<Joined> {
    if !may_go_on(line) {
        return None;
    }
    let is_wrapped = is_wrapped(line);
    let mut joined = Joined {
        text: line.trim_ascii_end().to_vec(),
        size: 0,
        lines: 0,
    };
    let mut last = line;
    while joined.lines < LINES_MAX && joined.text.len() < TEXT_MAX {
        let Some(rest) = behind
            .get(joined.size..)
            .and_then(|rest| rest.strip_prefix(b"\n"))
        else {
            break;
        };
        let size = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let raw = &rest[..size];
        let next = raw.trim_ascii();
        let is_of_terminal = is_wrapped && joined.lines > 0 && joined.text.len() == TERMINAL;
        let is_open = is_open_work(&joined.text);
        let is_more = || {
            is_open && is_rest_of_work(next)
                || is_cut(&joined.text)
                || next.starts_with(b"ran for ")
                || is_of_terminal
                || is_wrapped && ends_at_page(last) && begins_within(next)
                || is_more_of_completion(&joined.text, raw)
        };
        if !goes_on(next) || !is_more() {
            break;
        }
        // A name of a source and the number behind it are one word.
        // The same of the parts of a collective, which are cut within a word.
        let is_within_word = is_open && !joined.text.ends_with(b",") && !last.ends_with(b" ");
        if !is_of_terminal && !is_within_word && !joined.text.ends_with(b".c:") {
            joined.text.push(b' ');
        }
        let next = if is_of_terminal {
            raw.trim_ascii_end()
        } else {
            next
        };
        joined.text.extend_from_slice(next);
        joined.size += 1 + size;
        joined.lines += 1;
        last = raw;
    }
    let is_whole = is_cut(line) || is_open_work(line) || tells_error(&joined.text);
    (joined.lines > 0 && is_whole).then_some(joined)
}

/// Whether a line shows that it is not whole: the same for all lines that differ in the values of digits only.
pub(super) fn may_go_on(line: &[u8]) -> bool {
    is_wrapped(line) || is_cut(line) || is_open_work(line)
}

/// Whether a line of PyTorch's watchdog ends within the parts of the collective: `WorkNCCL(SeqNum=12, OpT`.
fn is_open_work(line: &[u8]) -> bool {
    const WORK: &[u8] = b"operation timeout: Work";
    let Some(at) = memchr::memmem::find(line, WORK) else {
        return false;
    };
    let parts = &line[at..];
    let count = |byte: u8| memchr::memchr_iter(byte, parts).count();
    count(b'(') > count(b')')
}

/// Whether a line goes on with parts of a collective.
fn is_rest_of_work(line: &[u8]) -> bool {
    has!(line, b"OpType=")
        || has!(line, b"Numel")
        || has!(line, b"(ms)=")
        || has!(line, b"ran for ")
}

/// The start of the line in which the one at `start` begins, at or behind `from`.
pub(super) fn begin(block: &[u8], from: usize, start: usize) -> usize {
    let mut at = start;
    for _ in 0..LINES_MAX {
        let is_header = block.get(at).is_none_or(|first| *first == b'[');
        if at <= from || is_header {
            break;
        }
        let end = at - 1;
        let before = &block[from..end];
        at = from + memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let line = &block[at..end];
        if line.is_empty() || line.len() > TEXT_MAX {
            break;
        }
        if join(line, &block[end..]).is_some_and(|joined| end + joined.size >= start) {
            return at;
        }
    }
    start
}

/// Whether a mail may have wrapped a line with a header of its own.
fn is_wrapped(line: &[u8]) -> bool {
    if !ends_at_page(line) {
        return false;
    }
    let line = line.trim_ascii();
    let first = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    let has_digit = first.iter().any(u8::is_ascii_digit);
    let is_open = line.starts_with(b"[") || first.ends_with(b":");
    is_open || has_digit && memchr::memchr2(b'.', b':', first).is_some()
}

/// Whether a line ends at the width of a page, where its sentence does not.
fn ends_at_page(raw: &[u8]) -> bool {
    let line = raw.trim_ascii_end();
    let last = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let is_open = raw.ends_with(b" ") || OPEN_WORDS.contains(&last);
    let is_end = matches!(
        last.last(),
        Some(b'.' | b'!' | b'?' | b';' | b'-' | b'=' | b'|')
    );
    PAGE.contains(&line.len()) && is_open && !is_end
}

/// Words behind which a sentence goes on.
const OPEN_WORDS: [&[u8]; 14] = [
    b"a", b"an", b"the", b"of", b"on", b"in", b"to", b"for", b"from", b"with", b"is", b"not",
    b"and", b"or",
];

/// Whether a line begins within a sentence, and names no program that writes it.
fn begins_within(line: &[u8]) -> bool {
    let first = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    line.first().is_some_and(u8::is_ascii_lowercase) && !first.ends_with(b":") && first != b"at"
}

fn tells_error(text: &[u8]) -> bool {
    let words: [&[u8]; 6] = [b"rror", b"ail", b"ould not", b"nable", b"annot", b"an't"];
    words
        .iter()
        .any(|word| memchr::memmem::find(text, word).is_some())
}

/// Whether an indented line has the status, or more, of the completion of a transfer of NCCL.
fn is_more_of_completion(text: &[u8], raw: &[u8]) -> bool {
    let is_indented = raw.starts_with(b" ") || raw.starts_with(b"\t");
    is_indented && is_completion(text) && (has!(raw, b"=") || has!(raw, b"Gid"))
}

/// Whether a line is one of NCCL on the completion of a transfer with a peer.
fn is_completion(line: &[u8]) -> bool {
    has!(line, b"Got completion from peer ")
}

/// Whether a line of PyTorch's watchdog or of UCX ends before what it tells.
fn is_cut(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let Some(last) = line.last() else {
        return false;
    };
    if is_cut_of_open_mpi(line) || ends_with_source(line) {
        return true;
    }
    if is_completion(line) {
        return !has!(line, b"status") && !has!(line, b"error");
    }
    let may_be = matches!(last, b':' | b',' | b'g');
    if !may_be || !(has!(line, b"atchdog") || has!(line, b"UCX  ERROR ")) {
        return false;
    }
    let count = |byte: u8| memchr::memchr_iter(byte, line).count();
    line.ends_with(b"operation timeout:")
        || line.ends_with(b"] Watchdog") && has!(line, b"ProcessGroupNCCL.cpp")
        || matches!(last, b',') && count(b'(') > count(b')')
}

/// Whether a line of a network of Open MPI, `[node-a][[50702,1],0][btl_tcp_endpoint.c:655:function] message`, has no
/// message, or is one on a completion of openib, which ends with the number of the queue pair.
fn is_cut_of_open_mpi(line: &[u8]) -> bool {
    if !line.starts_with(b"[") || !has!(line, b"btl_") {
        return false;
    }
    let last = memchr::memrchr(b'[', line).map_or(line, |open| &line[open..]);
    let is_header = has!(last, b".c:");
    let is_without_message = line.ends_with(b"]") || line.ends_with(b".c:");
    is_header && is_without_message
        || line.ends_with(b"] connect() failed:")
        || has!(line, b":handle_wc] from") && !has!(line, b" qp_idx ")
}

/// Whether a line of Gloo ends with its place in the source, `[…/gloo/transport/tcp/pair.cc:538]`: its message is below.
fn ends_with_source(line: &[u8]) -> bool {
    let last = memchr::memrchr(b'[', line).map_or(line, |open| &line[open..]);
    line.ends_with(b"]") && has!(last, b"/gloo/")
}

/// Whether a line may be the rest of one: it has no header of its own.
fn goes_on(line: &[u8]) -> bool {
    let is_header = line.starts_with(b"[") || line.starts_with(b"Traceback");
    let is_rule = line.ends_with(b"----");
    !line.is_empty()
        && !is_header
        && !is_rule
        && !has!(line, b"UCX  ")
        && !has!(line, b"NCCL ")
        && !has!(line, b"atchdog")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins the first line with those behind it, and compares the text and the number of those.
    fn check(text: &str, expected: Option<(&str, usize)>) {
        let end = text.find('\n').unwrap_or(text.len());
        let joined = join(&text.as_bytes()[..end], &text.as_bytes()[end..]);
        let told = joined
            .as_ref()
            .map(|one| (str::from_utf8(&one.text).unwrap(), one.lines));
        assert_eq!(told, expected, "{text}");
    }

    #[test]
    fn a_cut_line_is_joined_with_those_in_which_it_goes_on() {
        check(
            "[Rank 1] Watchdog caught collective operation timeout: \nWorkNCCL(SeqNum=7, OpType=A)\nran for 7 milliseconds\n[rank1]: a",
            Some((
                "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=A) ran for 7 milliseconds",
                2,
            )),
        );
        check(
            "[E ProcessGroupNCCL.cpp:689] [Rank 1] Watchdog\n  caught collective operation timeout: WorkNCCL(SeqNum=9,\n  OpType=A)\nb",
            Some((
                "[E ProcessGroupNCCL.cpp:689] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=A)",
                2,
            )),
        );
        check(
            "ib_md.c:282  UCX  ERROR ibv_reg_mr(address=0x3, length=1024,\n      access=0xf) failed: Bad address\nb",
            Some((
                "ib_md.c:282  UCX  ERROR ibv_reg_mr(address=0x3, length=1024, access=0xf) failed: Bad address",
                1,
            )),
        );
        check(
            "[Rank 1] Watchdog caught collective operation timeout: \n[Rank 2] a",
            None,
        );
        check(
            "[[12065,1],23][btl_openib_component.c:2948:handle_wc] from\nnode-a.local to: node-b error polling LP CQ with status RETRY\nEXCEEDED ERROR status number 12 for wr_id 7 opcode 0  vendor error\n129 qp_idx 1\n-----------------------------",
            Some((
                "[[12065,1],23][btl_openib_component.c:2948:handle_wc] from node-a.local to: node-b error polling LP CQ with status RETRY EXCEEDED ERROR status number 12 for wr_id 7 opcode 0  vendor error 129 qp_idx 1",
                3,
            )),
        );
        check(
            "[node-a][[50702,1],0][btl_tcp_endpoint.c:655:mca_btl_tcp_endpoint_complete_connect]\nconnect() to 10.0.0.226 failed: Connection refused (111)\nb",
            Some((
                "[node-a][[50702,1],0][btl_tcp_endpoint.c:655:mca_btl_tcp_endpoint_complete_connect] connect() to 10.0.0.226 failed: Connection refused (111)",
                1,
            )),
        );
        check(
            "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\nb",
            None,
        );
        check(
            "[node-a.example.edu][[25560,1],45][btl_tcp_endpoint.c: \n631:mca_btl_tcp_endpoint_complete_connect] connect() failed:  \nConnection timed out (110)\n[node-b",
            Some((
                "[node-a.example.edu][[25560,1],45][btl_tcp_endpoint.c:631:mca_btl_tcp_endpoint_complete_connect] connect() failed: Connection timed out (110)",
                2,
            )),
        );
        check(
            "RuntimeError: [/w/gloo/transport/tcp/pair.cc:538]\n    Read error [10.0.0.226]:63667: Connection reset by peer\nb",
            Some((
                "RuntimeError: [/w/gloo/transport/tcp/pair.cc:538] Read error [10.0.0.226]:63667: Connection reset by peer",
                1,
            )),
        );
        check(
            "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(S\neqNum=1522789, OpType=_ALLGATHER_BASE, Timeout(ms)=600000) ran for 600003 milliseconds\nb",
            Some((
                "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1522789, OpType=_ALLGATHER_BASE, Timeout(ms)=600000) ran for 600003 milliseconds",
                1,
            )),
        );
        check(
            "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(Seq\nException raised from x",
            None,
        );
        check("a,\nb", None);
    }

    #[test]
    fn the_lines_of_a_completion_are_joined() {
        check(
            "NET/IB: Got completion from peer 10.0.0.226\n  with status=12 opcode=0 len=0 vendor err 129 (Recv)\n  localGid  fe80::1\n  remoteGid fe80::2   hca mlx5_6\n[rank0] a",
            Some((
                "NET/IB: Got completion from peer 10.0.0.226 with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid  fe80::1 remoteGid fe80::2   hca mlx5_6",
                3,
            )),
        );
    }

    #[test]
    fn an_error_that_a_mail_wrapped_is_whole_whichever_of_its_lines_is_found() {
        let check = |text: &str, found: &str, expected: Option<&str>| {
            let at = text.find(found).unwrap();
            let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
            let begin = begin(text.as_bytes(), 0, start);
            let end = begin + text[begin..].find('\n').unwrap();
            let joined = join(&text.as_bytes()[begin..end], &text.as_bytes()[end..]);
            let told = joined
                .as_ref()
                .map(|one| str::from_utf8(&one.text).unwrap());
            assert_eq!(told, expected, "{text}");
        };
        check(
            "a\nnode-a.engin.example.edu.28120ipath_wait_for_device: The /dev/ipath  \ndevice failed to appear after 30.0 seconds: Connection timed out\nb\n",
            "failed",
            Some(
                "node-a.engin.example.edu.28120ipath_wait_for_device: The /dev/ipath device failed to appear after 30.0 seconds: Connection timed out",
            ),
        );
        check(
            " node-a.23245ipath_userinit: assign_context command failed: Network is \n down\n node-a.23245can't\n",
            "down",
            Some(" node-a.23245ipath_userinit: assign_context command failed: Network is down"),
        );
        check(
            "[node2][[9340,1],13][btl_openib_component.c:3002:poll_device] error  \npolling HP C\nQ with -2 errno says Success\nb\n",
            "says",
            Some(
                "[node2][[9340,1],13][btl_openib_component.c:3002:poll_device] error polling HP CQ with -2 errno says Success",
            ),
        );
        check(
            "[node2][[9340,1],9][btl_openib_component.c:3002:poll_device] error  \npolling HP CQ\n with -2 errno says Success\nb\n",
            "polling",
            Some(
                "[node2][[9340,1],9][btl_openib_component.c:3002:poll_device] error polling HP CQ with -2 errno says Success",
            ),
        );
        for (text, found) in [
            (
                "[node-a:71] an error of this program, which its own line tells whole \nsrun: error: node-b\n",
                "srun",
            ),
            (
                "[node-a:71] an error of this program, which its own line tells whole \n[node-b:72] failed\n",
                "failed",
            ),
            (
                "[node-a:71] an error of this program, which its own line tells whole. \nfailed\n",
                "failed\n",
            ),
            (
                "[node-a:71] an error of this program, which its own line tells whole\nfailed\n",
                "failed\n",
            ),
            (
                "[node-a:71] this program tells of nothing that would be bad, and its \nnext line is not\n",
                "next",
            ),
        ] {
            check(text, found, None);
        }
    }
}
