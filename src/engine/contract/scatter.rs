//! Receives into device memory: scatter lists, pages, and who may touch them when.
#![forbid(unsafe_code)]

use super::Row;
use super::exchange::exchange;
use super::pages::{read_list, scratch};
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Shortfall, Subject, owe, poll, watch};
use crate::gpu::ScatterError;

pub(super) const ROWS: &[Row] = &[
    Row::tcpx(
        "scatter-covers",
        "the entries of a receive cover the whole message",
        covers,
    ),
    Row::tcpx(
        "scatter-slot-sequence",
        "the k-th finished receive uses slot k modulo 16",
        slot_sequence,
    ),
    Row::tcpx(
        "scatter-not-in-place",
        "a done receive is not in its buffer before it is unpacked",
        not_in_place,
    ),
    Row::tcpx(
        "scatter-consumed-early",
        "pages that were handed back hold something else",
        consumed_early,
    ),
    Row::tcpx(
        "scatter-pages-return",
        "pages come back only when a receive is consumed",
        pages_return,
    ),
    Row::tcpx(
        "scatter-host-none",
        "a host receive has no entries and is in place",
        host_none,
    ),
];

fn covers(subject: &Subject<'_>) -> Checked {
    let sizes = [1, 4095, 4096, 4097, 65_537, 512 << 10, 4 << 20];
    let mut pair = Pair::on_stand_in(subject, 1, 4 << 20)?;
    let mut fragments = Vec::new();
    for (message, len) in sizes.into_iter().enumerate() {
        pair.receive(message, 4 << 20)?;
        pair.send(message, len)?;
        pair.finish()?;
        let (source, mut scratch) = (pair.scatter()?, scratch());
        // The lengths sum to what was sent, not to what was posted.
        let list = read_list(&source, pair.done[0], len, &mut scratch)?;
        pair.gather(&list, pair.done[0])?;
        fragments.push(list.len());
        // With the right sum, an overlap would leave a gap, and a gap the canary.
        pair.verify(message, len)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!(
        "sizes {sizes:?} in {fragments:?} fragments, each without gap or overlap"
    ))
}

fn slot_sequence(subject: &Subject<'_>) -> Checked {
    const MESSAGES: usize = 40;
    let mut pair = Pair::on_stand_in(subject, 16, 16 << 10)?;
    // Every message its own length: a list from another slot has the wrong sum.
    let sizes: Vec<usize> = (0..MESSAGES).map(|message| 8192 + 17 * message).collect();
    exchange(&mut pair, &sizes, 16)?;
    pair.close()?;
    Ok(format!(
        "{MESSAGES} receives of different sizes, window 16, each list in slot k mod 16"
    ))
}

fn not_in_place(subject: &Subject<'_>) -> Checked {
    let len = 64 << 10;
    let mut pair = Pair::on_stand_in(subject, 1, len)?;
    pair.receive(0, len)?;
    pair.send(0, len)?;
    pair.finish()?;
    let before = pair.blank_from(0, 0);
    pair.unpack(pair.done[0])?;
    pair.verify(0, len)?;
    pair.hand_back()?;
    pair.close()?;
    owe(before.is_ok(), || {
        "the payload was in the posted buffer before it was unpacked".into()
    })?;
    Ok(format!(
        "{len} bytes done and none of them in the buffer; all there after unpacking"
    ))
}

fn consumed_early(subject: &Subject<'_>) -> Checked {
    let len = 64 << 10;
    let mut pair = Pair::on_stand_in(subject, 2, len)?;
    pair.receive(0, len)?;
    pair.send(0, len)?;
    pair.finish()?;
    let posted = pair.done[0];
    let (source, mut scratch) = (pair.scatter()?, scratch());
    let list = read_list(&source, posted, len, &mut scratch)?;
    pair.hand_back()?;
    pair.gather(&list, posted)?;
    let after = pair.verify(0, len);
    owe(after.is_err(), || {
        "unpacked after the consume, and the payload was still right".into()
    })?;
    pair.close()?;
    match after {
        Err(Shortfall::Broken(found)) => Ok(format!("unpacked after the consume: {found}")),
        _ => Ok("unpacked after the consume: wrong".into()),
    }
}

/// One comm holds every page; another one stands still until pages come back.
fn pages_return(subject: &Subject<'_>) -> Checked {
    let len = 4 << 20;
    let mut holder = Pair::on_stand_in(subject, 16, len)?;
    let mut starved = Pair::on_stand_in(subject, 1, len)?;
    starved.receive(0, len)?;
    starved.send(0, len)?;
    let mut held = 0;
    while held < 16 {
        holder.receive(held, len)?;
        holder.send(held, len)?;
        holder.finish()?;
        held += 1;
    }
    let tests = watch(|| starved.drive().map(drop))?;
    // Nobody may have been given a page that these messages still hold.
    for posted in holder.done.clone() {
        holder.unpack(posted)?;
        holder.verify(posted.message, len)?;
    }
    if starved.receives.is_empty() {
        return Err(Shortfall::NotOwed(format!(
            "the page pool is larger than {held} messages of {len} bytes"
        )));
    }
    holder.hand_back()?;
    poll("the other comm goes on", PATIENCE, || {
        starved.drive()?;
        Ok(starved.receives.is_empty().then_some(()))
    })?;
    starved.unpack(starved.done[0])?;
    starved.verify(0, len)?;
    starved.finish()?;
    starved.hand_back()?;
    starved.close()?;
    holder.close()?;
    Ok(format!(
        "{held} messages of 4 MiB unconsumed: another comm stood still for {tests} tests; one consumed: it went on"
    ))
}

fn host_none(subject: &Subject<'_>) -> Checked {
    subject.stand_in()?;
    let mut pair = Pair::on_host(subject, 1, 4096)?;
    pair.receive(0, 4096)?;
    pair.send(0, 4096)?;
    pair.finish()?;
    let (source, mut scratch) = (pair.scatter()?, scratch());
    let read = source
        .read(pair.done[0].nth, 4096, &mut scratch)
        .map(|list| list.len());
    owe(
        matches!(read, Err(ScatterError::Count { count: 0, .. })),
        || format!("the host receive has {read:?} entries"),
    )?;
    pair.verify(0, 4096)?;
    pair.hand_back()?;
    pair.close()?;
    Ok("count 0, 4096 bytes in place".into())
}
