//! `irecvConsumed`: once per receive, in order, and the result of each wrong call.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::calls::Raw;
use super::pair::Pair;
use super::subject::{Checked, Subject, owe, refused};
use crate::plugin::{Comm, Request};
use tcpx_abi::result::{INTERNAL_ERROR, SUCCESS};

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::tcpx(
        "consume-in-order",
        "consuming any but the oldest done receive is rc 3 with a log message; in order it is rc 0",
        in_order,
    ),
    ContractCheck::tcpx(
        "consume-not-done",
        "consuming a receive that is not done is rc 3",
        not_done,
    ),
    ContractCheck::tcpx("consume-twice", "consuming a receive twice is rc 3", twice),
    ContractCheck::tcpx(
        "consume-zero-size",
        "a zero-byte receive keeps its slot until it is consumed",
        zero_size,
    ),
    ContractCheck::tcpx(
        "consume-a-send",
        "consuming a send is rc 0 with a log message, and changes nothing",
        a_send,
    ),
    ContractCheck::tcpx(
        "consume-null",
        "consuming a null request is rc 3, and so is n = 2",
        null,
    ),
    ContractCheck::tcpx(
        "flush-tells-size",
        "iflush of a done receive reports its size, and n = 2 is rc 3",
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
        "consuming the third of three receives first",
    )?;
    let words = refused(
        consume(subject, &pair, second)?,
        INTERNAL_ERROR,
        "consuming the second of three receives first",
    )?;
    owe(words.contains("invalid request"), || {
        format!("rc 3, but it logged {words:?}")
    })?;
    // TCPX 3.1.9 prints the two pointers in the wrong order.
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
        "consuming a receive that is only posted",
    )?;
    pair.send(0, LEN)?;
    pair.finish()?;
    pair.verify(0, LEN)?;
    pair.hand_back()?;
    pair.close()?;
    Ok(format!("rc 3: {words}; the receive completed afterwards"))
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
        "consuming a receive a second time",
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
        "a receive after 16 zero-byte receives, none consumed",
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
    Ok(
        "16 zero-byte receives, none consumed: the 17th is rc 3; all consumed: it is accepted"
            .into(),
    )
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
        "null request rc 3: {}; n = 2 rc 3: {}; then consumed correctly",
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
    owe(right, || {
        format!("sent {sizes:?}, iflush reported {told:?}")
    })?;
    pair.close()?;
    Ok(format!(
        "messages of {sizes:?} bytes in receives of {LEN}; iflush reported {told:?}"
    ))
}
