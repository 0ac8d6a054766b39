//! Lines that a terminal or a person cut, with the lines in which they go on.
//!
//! PyTorch's line on a collective and UCX's on a call are long, and a report of them is often wrapped: what timed out,
//! or why a call failed, is in the next line then. Only lines that show that they are not whole are joined: their
//! last word is followed by more, or a bracket is open.
#![forbid(unsafe_code)]

/// Most lines of which a line is joined, and its longest text.
const LINES_MAX: usize = 6;
const TEXT_MAX: usize = 2048;

/// A line with those in which it goes on.
pub(super) struct Joined {
    pub text: Vec<u8>,
    /// Bytes of the lines in which it goes on, with the line ends before them, and their number.
    pub size: usize,
    pub lines: usize,
}

/// Joins a line with those behind it, if it is cut. `behind` begins with the end of the line.
pub(super) fn join(line: &[u8], behind: &[u8]) -> Option<Joined> {
    if !is_cut(line) {
        return None;
    }
    let mut joined = Joined {
        text: line.trim_ascii_end().to_vec(),
        size: 0,
        lines: 0,
    };
    while joined.lines < LINES_MAX && joined.text.len() < TEXT_MAX {
        let Some(rest) = behind
            .get(joined.size..)
            .and_then(|rest| rest.strip_prefix(b"\n"))
        else {
            break;
        };
        let size = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let next = rest[..size].trim_ascii();
        let is_end = next.starts_with(b"ran for ");
        if !goes_on(next) || !is_cut(&joined.text) && !is_end {
            break;
        }
        joined.text.push(b' ');
        joined.text.extend_from_slice(next);
        joined.size += 1 + size;
        joined.lines += 1;
    }
    (joined.lines > 0).then_some(joined)
}

/// Whether a line of PyTorch's watchdog or of UCX ends before what it tells.
fn is_cut(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    let Some(last) = line.last() else {
        return false;
    };
    if is_cut_of_open_mpi(line) {
        return true;
    }
    let may_be = matches!(last, b':' | b',' | b'g');
    if !may_be || !(has(b"atchdog") || has(b"UCX  ERROR ")) {
        return false;
    }
    let count = |byte: u8| memchr::memchr_iter(byte, line).count();
    line.ends_with(b"operation timeout:")
        || line.ends_with(b"] Watchdog") && has(b"ProcessGroupNCCL.cpp")
        || matches!(last, b',') && count(b'(') > count(b')')
}

/// Whether a line of a network of Open MPI, `[node-a][[50702,1],0][btl_tcp_endpoint.c:655:function] message`, has no
/// message, or is one on a completion of openib, which ends with the number of the queue pair.
fn is_cut_of_open_mpi(line: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    if !line.starts_with(b"[") || !has(b"btl_") {
        return false;
    }
    let last = memchr::memrchr(b'[', line).map_or(line, |open| &line[open..]);
    let is_header = line.ends_with(b"]") && memchr::memmem::find(last, b".c:").is_some();
    is_header || has(b":handle_wc] from") && !has(b" qp_idx ")
}

/// Whether a line may be the rest of one: it has no header of its own.
fn goes_on(line: &[u8]) -> bool {
    let is_header = line.starts_with(b"[") || line.starts_with(b"Traceback");
    let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    let is_rule = line.ends_with(b"----");
    !line.is_empty()
        && !is_header
        && !is_rule
        && !has(b"UCX  ")
        && !has(b"NCCL ")
        && !has(b"atchdog")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_line_is_joined_with_those_in_which_it_goes_on() {
        let check = |text: &str, expected: Option<(&str, usize)>| {
            let end = text.find('\n').unwrap_or(text.len());
            let joined = join(&text.as_bytes()[..end], &text.as_bytes()[end..]);
            let told = joined
                .as_ref()
                .map(|one| (str::from_utf8(&one.text).unwrap(), one.lines));
            assert_eq!(told, expected, "{text}");
        };
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
        check("a,\nb", None);
    }
}
