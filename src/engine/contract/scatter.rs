//! Receives into device memory: scatter lists, bounce pages, and when pages may be reused.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::exchange::exchange;
use super::pages::{read_list, scratch};
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Shortfall, Subject, owe, poll, watch};
use crate::gpu::ScatterError;

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::tcpx(
        "scatter-covers",
        "the scatter entries of a receive cover the whole message",
        covers,
    ),
    ContractCheck::tcpx(
        "scatter-slot-sequence",
        "the k-th finished receive uses scatter slot k mod 16",
        slot_sequence,
    ),
    ContractCheck::tcpx(
        "scatter-not-in-place",
        "the buffer of a done receive is unwritten until it is unpacked",
        not_in_place,
    ),
    ContractCheck::tcpx(
        "scatter-consumed-early",
        "pages of a consumed receive no longer hold its payload",
        consumed_early,
    ),
    ContractCheck::tcpx(
        "scatter-pages-return",
        "pages are freed only when a receive is consumed",
        pages_return,
    ),
    ContractCheck::tcpx(
        "scatter-host-none",
        "a host receive has no scatter entries and is already in its buffer",
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
        // The lengths add up to the bytes sent, not to the bytes posted.
        let list = read_list(&source, pair.done[0], len, &mut scratch)?;
        pair.gather(&list, pair.done[0])?;
        fragments.push(list.len());
        // If the sum is right, an overlap leaves a gap, and a gap leaves canary bytes.
        pair.verify(message, len)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!(
        "sizes {sizes:?} in {fragments:?} fragments, no gap and no overlap"
    ))
}

fn slot_sequence(subject: &Subject<'_>) -> Checked {
    const MESSAGES: usize = 40;
    let mut pair = Pair::on_stand_in(subject, 16, 16 << 10)?;
    // Every message has its own length, so a list from another slot has the wrong sum.
    let sizes: Vec<usize> = (0..MESSAGES).map(|message| 8192 + 17 * message).collect();
    exchange(&mut pair, &sizes, 16)?;
    pair.close()?;
    Ok(format!(
        "{MESSAGES} receives of different sizes, window 16, every list in slot k mod 16"
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
        "{len} bytes done, none in the buffer; all in the buffer after unpacking"
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
        "unpacked after consuming, and the payload was still intact".into()
    })?;
    pair.close()?;
    match after {
        Err(Shortfall::Broken(found)) => Ok(format!("unpacked after consuming: {found}")),
        _ => Ok("unpacked after consuming: the payload differs".into()),
    }
}

/// One comm holds every page, so a second comm makes no progress until one is freed.
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
    // No page of an unconsumed message may have been reused.
    for posted in holder.done.clone() {
        holder.unpack(posted)?;
        holder.verify(posted.message, len)?;
    }
    if starved.receives.is_empty() {
        return Err(Shortfall::NotOwed(format!(
            "the page pool holds more than {held} messages of {len} bytes"
        )));
    }
    holder.hand_back()?;
    poll("the other comm continues", PATIENCE, || {
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
        "{held} messages of 4 MiB unconsumed: another comm made no progress in {tests} tests; after one consume it continued"
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
        || format!("the host receive has {read:?} scatter entries"),
    )?;
    pair.verify(0, 4096)?;
    pair.hand_back()?;
    pair.close()?;
    Ok("count 0, 4096 bytes in the buffer".into())
}
