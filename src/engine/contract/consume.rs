//! `irecvConsumed`: in order, once per receive, and what each wrong call gets.
#![forbid(unsafe_code)]

use super::Row;
use super::calls::Raw;
use super::pair::Pair;
use super::subject::{Checked, Subject, owe, refused};
use crate::plugin::{Comm, Request};
use tcpx_abi::result::{INTERNAL_ERROR, SUCCESS};

pub(super) const ROWS: &[Row] = &[
    Row::tcpx(
        "consume-in-order",
        "any but the oldest done receive is rc 3, with words; in order is rc 0",
        in_order,
    ),
    Row::tcpx(
        "consume-not-done",
        "a receive that is not done is rc 3",
        not_done,
    ),
    Row::tcpx("consume-twice", "a consumed receive is rc 3", twice),
    Row::tcpx(
        "consume-zero-size",
        "a receive of no bytes keeps its slot until it is consumed",
        zero_size,
    ),
    Row::tcpx(
        "consume-a-send",
        "a send is rc 0, with words, and changes nothing",
        a_send,
    ),
    Row::tcpx("consume-null", "no request is rc 3, and so is n = 2", null),
    Row::tcpx(
        "flush-tells-size",
        "iflush of a done receive tells its size, and n = 2 is rc 3",
        flush,
    ),
];

const LEN: usize = 4096;

fn consume(
    subject: &Subject<'_>,
    pair: &Pair<'_>,
    request: Request,
) -> Checked<crate::plugin::PluginResult<()>> {
    crate::plugin::forget_said();
    Ok(subject.net.irecv_consumed(pair.receiver()?, request))
}

fn in_order(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 3, LEN)?;
    for message in 0..3 {
        pair.receive(message, LEN)?;
        pair.send(message, LEN)?;
    }
    pair.finish()?;
    let [first, second, third] = [0, 1, 2].map(|at| pair.done[at].request);
    refused(
        consume(subject, &pair, third)?,
        INTERNAL_ERROR,
        "the third of three consumed first",
    )?;
    let words = refused(
        consume(subject, &pair, second)?,
        INTERNAL_ERROR,
        "the second of three consumed first",
    )?;
    owe(words.contains("invalid request"), || {
        format!("rc 3, but it said {words:?}")
    })?;
    // TCPX 3.1.9 prints the two pointers the wrong way round.
    let swapped = words.contains(&format!(
        "{:p} vs expected {:p}",
        first.as_ptr(),
        second.as_ptr()
    ));
    for message in 0..3 {
        pair.verify(message, LEN)?;
        pair.hand_back()?;
    }
    pair.close()?;
    let order = if swapped {
        "expected before given, as TCPX 3.1.9 does"
    } else {
        "given before expected"
    };
    Ok(format!(
        "third and second rc 3 ({words}; pointers {order}), then all three in order rc 0"
    ))
}

fn not_done(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    let posted = pair.receives[0].request;
    let words = refused(
        consume(subject, &pair, posted)?,
        INTERNAL_ERROR,
        "a posted receive consumed",
    )?;
    pair.send(0, LEN)?;
    pair.finish()?;
    pair.verify(0, LEN)?;
    pair.hand_back()?;
    pair.close()?;
    Ok(format!("rc 3: {words}; it completed afterwards"))
}

fn twice(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    pair.send(0, LEN)?;
    pair.finish()?;
    let done = pair.done[0].request;
    pair.hand_back()?;
    let words = refused(
        consume(subject, &pair, done)?,
        INTERNAL_ERROR,
        "a receive consumed twice",
    )?;
    pair.receive(1, LEN)?;
    pair.send(1, LEN)?;
    pair.finish()?;
    pair.verify(1, LEN)?;
    pair.hand_back()?;
    pair.close()?;
    Ok(format!("rc 3: {words}; the next message still arrives"))
}

fn zero_size(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 16, LEN)?;
    for message in 0..16 {
        pair.receive(message, LEN)?;
        pair.send(message, 0)?;
        pair.finish()?;
        pair.blank_from(message, 0)?;
    }
    let full = pair.try_receive(16, LEN)?;
    refused(
        full,
        INTERNAL_ERROR,
        "a receive after 16 empty ones, none consumed",
    )?;
    while !pair.done.is_empty() {
        pair.hand_back()?;
    }
    pair.receive(17, LEN)?;
    pair.send(17, LEN)?;
    pair.finish()?;
    pair.verify(17, LEN)?;
    pair.hand_back()?;
    pair.close()?;
    Ok("16 empty receives, none consumed: one more rc 3; all consumed: it fits".into())
}

fn a_send(subject: &Subject<'_>) -> Checked {
    let calls = Raw::of(subject.net);
    let mut pair = Pair::on_host(subject, 2, LEN)?;
    pair.receive(0, LEN)?;
    pair.send(0, LEN)?;
    let send = pair.sends[0].request;
    let answer = calls.consume(Comm::Send(pair.sender()?), 1, Some(send))?;
    owe(answer.code == SUCCESS, || {
        format!("rc {}: {}", answer.code, answer.words())
    })?;
    pair.finish()?;
    pair.verify(0, LEN)?;
    pair.hand_back()?;
    pair.close()?;
    Ok(format!(
        "rc 0: {}; the send and its receive completed",
        answer.words()
    ))
}

fn null(subject: &Subject<'_>) -> Checked {
    let calls = Raw::of(subject.net);
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    pair.send(0, LEN)?;
    pair.finish()?;
    let comm = Comm::Recv(pair.receiver()?);
    let null = calls.consume(comm, 1, None)?;
    let two = calls.consume(comm, 2, Some(pair.done[0].request))?;
    let codes = (null.code, two.code);
    owe(codes == (INTERNAL_ERROR, INTERNAL_ERROR), || {
        format!("null and n = 2 are rc {codes:?}")
    })?;
    pair.hand_back()?;
    pair.close()?;
    Ok(format!(
        "null rc 3: {}; n = 2 rc 3: {}; then consumed properly",
        null.words(),
        two.words()
    ))
}

fn flush(subject: &Subject<'_>) -> Checked {
    let calls = Raw::of(subject.net);
    let sizes = [LEN, 1000, 1, 0];
    let mut pair = Pair::on_host(subject, sizes.len(), LEN)?;
    let mut told = Vec::new();
    for (message, size) in sizes.into_iter().enumerate() {
        pair.receive(message, LEN)?;
        pair.send(message, size)?;
        pair.finish()?;
        let request = pair.done[0].request;
        let (answer, size) = calls.flush(pair.receiver()?, 1, Some(request))?;
        owe(answer.code == SUCCESS, || {
            format!("rc {}: {}", answer.code, answer.words())
        })?;
        told.push(size);
        let (two, _) = calls.flush(pair.receiver()?, 2, Some(request))?;
        owe(two.code == INTERNAL_ERROR, || {
            format!("n = 2 is rc {}", two.code)
        })?;
        pair.hand_back()?;
    }
    let right = told
        .iter()
        .zip(sizes)
        .all(|(told, sent)| *told as usize == sent);
    owe(right, || format!("sent {sizes:?}, told {told:?}"))?;
    pair.close()?;
    Ok(format!(
        "receives of {LEN} took {sizes:?} bytes, and iflush told {told:?}"
    ))
}
