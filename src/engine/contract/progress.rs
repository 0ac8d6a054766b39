//! `test` is the only thing that moves anything, and the oldest request decides
//! what it answers.
#![forbid(unsafe_code)]

use super::Row;
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Shortfall, Subject, owe, poll, watch};
use crate::plugin::{Net, PluginError, Request};
use tcpx_abi::result::INTERNAL_ERROR;

pub(super) const ROWS: &[Row] = &[
    Row::tcpx(
        "progress-sender",
        "sends that are never tested move nothing",
        sender,
    ),
    Row::tcpx(
        "progress-receiver",
        "a receive that is never tested takes nothing",
        receiver,
    ),
    Row::tcpx(
        "progress-any-request",
        "testing any request drives the whole comm",
        any_request,
    ),
    Row::tcpx(
        "progress-younger-receive",
        "a younger receive tested first is not done, and rc 3 once the older one is transmitting",
        younger_receive,
    ),
    Row::tcpx(
        "progress-younger-send",
        "a younger send tested first is rc 3 once the older one is transmitting",
        younger_send,
    ),
    Row::tcpx(
        "progress-done-again",
        "a finished receive tested again is rc 0 and not done",
        done_again,
    ),
];

const LEN: usize = 4096;

fn sender(subject: &Subject<'_>) -> Checked {
    const MESSAGES: usize = 8;
    let mut pair = Pair::on_host(subject, MESSAGES, LEN)?;
    for message in 0..MESSAGES {
        pair.receive(message, LEN)?;
        pair.send(message, LEN)?;
    }
    let tests = watch(|| {
        owe(!pair.test_receive()?, || {
            "a message arrived, and no send had been tested".into()
        })
    })?;
    for message in 0..MESSAGES {
        pair.blank_from(message, 0)?;
    }
    pair.finish()?;
    for message in 0..MESSAGES {
        pair.verify(message, LEN)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!(
        "{MESSAGES} sends posted: 0 bytes at the peer after {tests} of its tests; all arrive once they are tested"
    ))
}

fn receiver(subject: &Subject<'_>) -> Checked {
    let len = 64 << 10;
    let mut pair = Pair::on_host(subject, 1, len)?;
    pair.receive(0, len)?;
    pair.send(0, len)?;
    let tests = watch(|| {
        pair.test_send()?;
        pair.blank_from(0, 0)
    })?;
    pair.finish()?;
    pair.verify(0, len)?;
    pair.hand_back()?;
    pair.close()?;
    Ok(format!(
        "{tests} tests of the sender: 0 of {len} bytes in the receive buffer; all there once it was tested"
    ))
}

fn any_request(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 4, LEN)?;
    for message in 0..4 {
        pair.receive(message, LEN)?;
        pair.send(message, LEN)?;
    }
    let youngest = pair.receives.back().map(|posted| posted.request);
    let youngest = youngest.ok_or_else(|| Shortfall::Broken("nothing is posted".into()))?;
    // Refused or not, each of these calls drives the comm.
    poll("the oldest message is in place", PATIENCE, || {
        pair.test_send()?;
        not_done_or_refused(subject.net, youngest)?;
        Ok(pair.verify(0, LEN).is_ok().then_some(()))
    })?;
    pair.finish()?;
    for message in 0..4 {
        pair.verify(message, LEN)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok("the oldest message came into place while only the youngest receive was tested".into())
}

/// Tests a request that is not the oldest: its words when it was refused.
fn not_done_or_refused(net: &dyn Net, request: Request) -> Checked<Option<String>> {
    match net.test(request) {
        Ok(tested) => owe(!tested.done, || {
            "a younger request was done before the oldest".into()
        })
        .map(|()| None),
        Err(PluginError::Refused {
            code: INTERNAL_ERROR,
            said,
            ..
        }) => Ok(Some(said.join(" / "))),
        Err(error) => Err(error.into()),
    }
}

fn younger_receive(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 2, LEN)?;
    pair.receive(0, LEN)?;
    pair.receive(1, LEN)?;
    let younger = pair.receives[1].request;
    let tests = watch(|| {
        let refused = not_done_or_refused(subject.net, younger)?;
        owe(refused.is_none(), || {
            format!("refused although nothing was transmitting: {refused:?}")
        })
    })?;
    pair.send(0, LEN)?;
    let words = poll("the younger receive is refused", PATIENCE, || {
        pair.test_send()?;
        not_done_or_refused(subject.net, younger)
    })?;
    says_invalid(&words)?;
    pair.send(1, LEN)?;
    pair.finish()?;
    for message in 0..2 {
        pair.verify(message, LEN)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!(
        "not done {tests} times, then rc 3: {words}; both messages intact"
    ))
}

fn younger_send(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 2, LEN)?;
    pair.send(0, LEN)?;
    pair.send(1, LEN)?;
    let younger = pair.sends[1].request;
    pair.receive(0, LEN)?;
    pair.receive(1, LEN)?;
    let words = poll("the younger send is refused", PATIENCE, || {
        // With RECV_SYNC nothing is transmitting before the receiver has spoken.
        pair.test_receive()?;
        not_done_or_refused(subject.net, younger)
    })?;
    says_invalid(&words)?;
    pair.finish()?;
    for message in 0..2 {
        pair.verify(message, LEN)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!("rc 3: {words}; both messages intact"))
}

fn says_invalid(words: &str) -> Checked<()> {
    owe(words.contains("test called with invalid request"), || {
        format!("rc 3, but it said {words:?}")
    })
}

fn done_again(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    pair.send(0, LEN)?;
    pair.finish()?;
    let request = pair.done[0].request;
    for _ in 0..10 {
        let tested = subject.net.test(request)?;
        owe(!tested.done, || "done a second time".into())?;
    }
    pair.verify(0, LEN)?;
    pair.hand_back()?;
    pair.close()?;
    Ok("rc 0 and not done, 10 times".into())
}
