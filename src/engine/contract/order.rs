//! Messages keep their order on one comm, and comms do not depend on each other.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Shortfall, Subject, owe, poll, watch};
use std::collections::BTreeSet;

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "order-fifo",
        "receives are filled in posting order, for any sizes",
        fifo,
    ),
    ContractCheck::any(
        "order-not-early",
        "a receive is not done before its peer has sent",
        not_early,
    ),
    ContractCheck::any(
        "order-sends-first",
        "messages sent before the receive is posted are not lost",
        sends_first,
    ),
    ContractCheck::any(
        "order-done-once",
        "each request becomes done once, in posting order",
        done_once,
    ),
    ContractCheck::any(
        "order-both-ways",
        "two connections in opposite directions work at once",
        both_ways,
    ),
    ContractCheck::any(
        "order-independent",
        "a blocked comm does not block another comm",
        independent,
    ),
    ContractCheck::any(
        "order-thousands",
        "4096 small messages go through one comm",
        thousands,
    ),
    ContractCheck::tcpx(
        "order-send-alone",
        "a small send is done before the peer posts a receive",
        send_alone,
    ),
    ContractCheck::tcpx(
        "order-request-ring",
        "request pointers repeat every 16 requests",
        request_ring,
    ),
];

fn fifo(subject: &Subject<'_>) -> Checked {
    let sizes = [70_000, 1, 4096, 33, 9000, 2, 50_000, 512];
    let mut pair = Pair::on_host(subject, sizes.len(), 70_000)?;
    for (message, len) in sizes.into_iter().enumerate() {
        pair.receive(message, len)?;
    }
    for (message, len) in sizes.into_iter().enumerate() {
        pair.send(message, len)?;
    }
    pair.finish()?;
    for (message, len) in sizes.into_iter().enumerate() {
        pair.verify(message, len)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!(
        "sizes {sizes:?}, all posted at once, each in its own buffer"
    ))
}

fn not_early(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, 4096)?;
    pair.receive(0, 4096)?;
    let tests = watch(|| {
        owe(!pair.test_receive()?, || {
            "a receive was done although nothing was sent".into()
        })
    })?;
    pair.blank_from(0, 0)?;
    pair.send(0, 4096)?;
    pair.finish()?;
    pair.verify(0, 4096)?;
    pair.hand_back()?;
    pair.close()?;
    Ok(format!("not done in {tests} tests, done after the send"))
}

fn sends_first(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 4, 4096)?;
    let mut before = 0;
    // A plugin that needs the receive first may return no request.
    while before < 4 && pair.try_send(before, 4096)?? {
        before += 1;
    }
    let tests = watch(|| pair.test_send().map(drop))?;
    let done_alone = before - pair.sends.len();
    for message in 0..4 {
        pair.receive(message, 4096)?;
    }
    for message in before..4 {
        pair.send(message, 4096)?;
    }
    pair.finish()?;
    for message in 0..4 {
        pair.verify(message, 4096)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!(
        "without a receive: {before} sends accepted, {done_alone} done in {tests} tests; with receives all 4 arrived"
    ))
}

fn done_once(subject: &Subject<'_>) -> Checked {
    const MESSAGES: usize = 8;
    let mut pair = Pair::on_host(subject, MESSAGES, 4096)?;
    for message in 0..MESSAGES {
        pair.receive(message, 4096)?;
    }
    for message in 0..MESSAGES {
        pair.send(message, 4096)?;
    }
    let mut received = 0;
    poll("eight messages", PATIENCE, || {
        pair.test_send()?;
        pair.test_receive()?;
        // A receive that is done must already hold its message. Some may be done while others
        // are posted.
        while received < MESSAGES - pair.receives.len() {
            pair.verify(received, 4096)?;
            received += 1;
        }
        Ok((pair.sends.is_empty() && received == MESSAGES).then_some(()))
    })?;
    for _ in 0..MESSAGES {
        pair.hand_back()?;
    }
    let bytes = exchange(&mut pair, &[4096; MESSAGES], MESSAGES)?;
    pair.close()?;
    Ok(format!(
        "{MESSAGES} sends and {received} receives done once each; {bytes} more bytes moved afterwards"
    ))
}

fn both_ways(subject: &Subject<'_>) -> Checked {
    const MESSAGES: usize = 64;
    let len = 32 << 10;
    let mut pairs = [
        Pair::on_host(subject, 4, len)?,
        Pair::on_host(subject, 4, len)?,
    ];
    let (mut sent, mut received) = ([0; 2], [0; 2]);
    poll("both directions", 2 * PATIENCE, || {
        let mut moved = true;
        while moved {
            moved = false;
            for (way, pair) in pairs.iter_mut().enumerate() {
                let in_flight = pair.receives.len();
                if received[way] + in_flight < MESSAGES && in_flight < 4 {
                    moved |= pair.try_receive(received[way] + in_flight, len)??;
                }
                if sent[way] < MESSAGES
                    && pair.sends.len() < 4
                    && pair.try_send(sent[way], len)??
                {
                    (sent[way], moved) = (sent[way] + 1, true);
                }
                moved |= pair.drive()?;
                if !pair.done.is_empty() {
                    pair.verify(received[way], len)?;
                    pair.hand_back()?;
                    received[way] += 1;
                }
            }
        }
        Ok(
            (received == [MESSAGES; 2] && pairs.iter().all(|pair| pair.sends.is_empty()))
                .then_some(()),
        )
    })?;
    pairs.into_iter().try_for_each(Pair::close)?;
    Ok(format!(
        "{MESSAGES} messages of {len} bytes each way, alternating, all verified"
    ))
}

fn independent(subject: &Subject<'_>) -> Checked {
    let mut stuck = Pair::on_host(subject, 1, 4096)?;
    let mut busy = Pair::on_host(subject, 4, 64 << 10)?;
    stuck.receive(0, 4096)?;
    for _ in 0..8 {
        owe(!stuck.test_receive()?, || {
            "the receive was done although nothing was sent".into()
        })?;
        exchange(&mut busy, &[64 << 10; 8], 4)?;
    }
    stuck.blank_from(0, 0)?;
    stuck.send(0, 4096)?;
    stuck.finish()?;
    stuck.verify(0, 4096)?;
    stuck.hand_back()?;
    stuck.close()?;
    busy.close()?;
    Ok("64 messages on one comm while the other waited; then the other continued".into())
}

fn thousands(subject: &Subject<'_>) -> Checked {
    const MESSAGES: usize = 4096;
    let mut pair = Pair::on_host(subject, 8, 64)?;
    let bytes = exchange(&mut pair, &[64; MESSAGES], 8)?;
    pair.close()?;
    Ok(format!("{MESSAGES} messages, {bytes} bytes, all verified"))
}

fn send_alone(subject: &Subject<'_>) -> Checked {
    if subject.receiver_first() {
        return Err(Shortfall::NotOwed(
            "NCCL_GPUDIRECTTCPX_RECV_SYNC=1: a send waits for its receive".into(),
        ));
    }
    let mut pair = Pair::on_host(subject, 1, 4096)?;
    pair.send(0, 4096)?;
    poll(
        "a send of 4096 bytes is done without a receive",
        PATIENCE,
        || Ok(pair.test_send()?.then_some(())),
    )?;
    pair.receive(0, 4096)?;
    pair.finish()?;
    pair.verify(0, 4096)?;
    pair.hand_back()?;
    pair.close()?;
    Ok("the send was done before a receive was posted, which then got the message".into())
}

fn request_ring(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, 64)?;
    let mut pointers = Vec::new();
    for message in 0..40 {
        pair.receive(message, 64)?;
        pair.send(message, 64)?;
        let of = |queue: &std::collections::VecDeque<super::pair::Posted>| {
            queue.back().map(|posted| posted.request.as_ptr().addr())
        };
        pointers.push((of(&pair.sends), of(&pair.receives)));
        pair.finish()?;
        pair.hand_back()?;
    }
    let distinct: BTreeSet<_> = pointers.iter().collect();
    let repeats = pointers
        .iter()
        .zip(&pointers[16..])
        .all(|(one, later)| one == later);
    owe(repeats && distinct.len() == 16, || {
        format!("{} different requests in 40 messages", distinct.len())
    })?;
    pair.close()?;
    Ok("40 messages, 16 request pointers per end, used in turn".into())
}
