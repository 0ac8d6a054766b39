//! Order: of messages on one comm, and none between comms.
#![forbid(unsafe_code)]

use super::Row;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Shortfall, Subject, owe, poll, watch};
use std::collections::BTreeSet;

pub(super) const ROWS: &[Row] = &[
    Row::any(
        "order-fifo",
        "receives are filled in posting order, whatever their sizes",
        fifo,
    ),
    Row::any(
        "order-not-early",
        "a receive is not done before its peer has sent",
        not_early,
    ),
    Row::any(
        "order-sends-first",
        "messages sent before the receive is posted are not lost",
        sends_first,
    ),
    Row::any(
        "order-done-once",
        "each request is done once, and in posting order",
        done_once,
    ),
    Row::any(
        "order-both-ways",
        "two connections in opposite directions work at once",
        both_ways,
    ),
    Row::any(
        "order-independent",
        "a stuck comm does not hold another one up",
        independent,
    ),
    Row::any(
        "order-thousands",
        "4096 small messages go through one comm",
        thousands,
    ),
    Row::tcpx(
        "order-send-alone",
        "a small send is done before the peer has posted anything",
        send_alone,
    ),
    Row::tcpx(
        "order-request-ring",
        "request pointers repeat every sixteen",
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
            "a receive was done and nothing had been sent".into()
        })
    })?;
    pair.blank_from(0, 0)?;
    pair.send(0, 4096)?;
    pair.finish()?;
    pair.verify(0, 4096)?;
    pair.hand_back()?;
    pair.close()?;
    Ok(format!("{tests} tests not done, done after the send"))
}

fn sends_first(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 4, 4096)?;
    let mut before = 0;
    // A plugin that needs the receive first answers with no request: also fine.
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
        "{before} sends accepted and {done_alone} done in {tests} tests without a receive; all 4 arrived"
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
    let (mut sent, mut received) = (0, 0);
    poll("eight messages", PATIENCE, || {
        sent += usize::from(pair.test_send()?);
        if pair.test_receive()? {
            // The one that is done must hold its message already.
            pair.verify(received, 4096)?;
            received += 1;
        }
        Ok((sent == MESSAGES && received == MESSAGES).then_some(()))
    })?;
    for _ in 0..MESSAGES {
        pair.hand_back()?;
    }
    let bytes = exchange(&mut pair, &[4096; MESSAGES], MESSAGES)?;
    pair.close()?;
    Ok(format!(
        "{sent} sends and {received} receives done once each; {bytes} more bytes after them"
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
        "{MESSAGES} messages of {len} bytes each way, alternating, none wrong"
    ))
}

fn independent(subject: &Subject<'_>) -> Checked {
    let mut stuck = Pair::on_host(subject, 1, 4096)?;
    let mut busy = Pair::on_host(subject, 4, 64 << 10)?;
    stuck.receive(0, 4096)?;
    for _ in 0..8 {
        owe(!stuck.test_receive()?, || {
            "the receive without a sender was done".into()
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
    Ok("64 messages on one comm while another waited; then that one went on".into())
}

fn thousands(subject: &Subject<'_>) -> Checked {
    const MESSAGES: usize = 4096;
    let mut pair = Pair::on_host(subject, 8, 64)?;
    let bytes = exchange(&mut pair, &[64; MESSAGES], 8)?;
    pair.close()?;
    Ok(format!("{MESSAGES} messages, {bytes} bytes, none wrong"))
}

fn send_alone(subject: &Subject<'_>) -> Checked {
    if subject.receiver_first() {
        return Err(Shortfall::NotOwed(
            "NCCL_GPUDIRECTTCPX_RECV_SYNC=1: a send waits for its receive".into(),
        ));
    }
    let mut pair = Pair::on_host(subject, 1, 4096)?;
    pair.send(0, 4096)?;
    poll("a send of 4096 bytes is done alone", PATIENCE, || {
        Ok(pair.test_send()?.then_some(()))
    })?;
    pair.receive(0, 4096)?;
    pair.finish()?;
    pair.verify(0, 4096)?;
    pair.hand_back()?;
    pair.close()?;
    Ok("done with no receive posted; the message was there when one was".into())
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
    Ok("40 messages, 16 requests on each end, in turn".into())
}
