//! Progress happens only inside `test`, and the oldest request decides its answer.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Shortfall, Subject, owe, poll, watch};
use crate::plugin::{Net, PluginError, Request};
use tcpx_abi::result::INTERNAL_ERROR;

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::tcpx(
        "progress-sender",
        "sends move nothing until they are tested",
        sender,
    ),
    ContractCheck::tcpx(
        "progress-receiver",
        "a receive takes nothing until it is tested",
        receiver,
    ),
    ContractCheck::tcpx(
        "progress-any-request",
        "testing any request of a comm drives the whole comm",
        any_request,
    ),
    ContractCheck::tcpx(
        "progress-younger-receive",
        "testing a younger receive first is not done, and rc 3 once the older one is transmitting",
        younger_receive,
    ),
    ContractCheck::tcpx(
        "progress-younger-send",
        "testing a younger send first is rc 3 once the older one is transmitting",
        younger_send,
    ),
    ContractCheck::tcpx(
        "progress-done-again",
        "testing a finished receive again is rc 0 and not done",
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
            "a message arrived although no send was tested".into()
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
        "{MESSAGES} untested sends: no bytes at the peer in {tests} of its tests; all arrived once tested"
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
        "after {tests} tests of the sender 0 of {len} bytes were in the receive buffer; all arrived once the receive was tested"
    ))
}

fn any_request(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 4, LEN)?;
    for message in 0..4 {
        pair.receive(message, LEN)?;
        pair.send(message, LEN)?;
    }
    let youngest = pair.receives.back().map(|posted| posted.request);
    let youngest =
        youngest.ok_or_else(|| Shortfall::Broken("selftest bug: no receive is posted".into()))?;
    // Each call drives the comm, even if it is refused.
    poll("the oldest message arrives", PATIENCE, || {
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
    Ok("the oldest message arrived while only the youngest receive was tested".into())
}

/// Tests a request that is not the oldest. Returns the plugin's WARN lines if it refuses,
/// `None` if it reports not done.
fn not_done_or_refused(net: &dyn Net, request: Request) -> Checked<Option<String>> {
    match net.test(request) {
        Ok(tested) => owe(!tested.done, || {
            "a younger request was done before the oldest one".into()
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
            format!("refused although no request was transmitting: {refused:?}")
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
        // With RECV_SYNC nothing transmits until the receiver has announced a receive.
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
        format!("rc 3, but it logged {words:?}")
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
        owe(!tested.done, || "reported done a second time".into())?;
    }
    pair.verify(0, LEN)?;
    pair.hand_back()?;
    pair.close()?;
    Ok("10 more tests: rc 0 and not done".into())
}
