//! Bytes: what was sent is what arrives, all of it, and nothing beside it.
#![forbid(unsafe_code)]

use super::Row;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, Shortfall, Subject};

pub(super) const ROWS: &[Row] = &[
    Row::any(
        "payload-1",
        "a message of 1 byte arrives byte for byte",
        |subject| one_size(subject, 1),
    ),
    Row::any(
        "payload-4095",
        "4095 bytes, one less than a page",
        |subject| one_size(subject, 4095),
    ),
    Row::any("payload-4096", "4096 bytes, a page", |subject| {
        one_size(subject, 4096)
    }),
    Row::any(
        "payload-512k",
        "512 KiB, what production sends",
        |subject| one_size(subject, 512 << 10),
    ),
    Row::any("payload-odd", "1 MiB and one byte", |subject| {
        one_size(subject, (1 << 20) + 1)
    }),
    Row::any("payload-4m", "4 MiB, TCPX's largest", |subject| {
        one_size(subject, 4 << 20)
    }),
    Row::any(
        "payload-zero",
        "a message of no bytes arrives in its turn",
        zero_size,
    ),
    Row::any(
        "payload-shorter",
        "a message shorter than its receive leaves the rest alone",
        shorter,
    ),
    Row::any(
        "payload-any-size",
        "any sizes in any order arrive byte for byte",
        any_size,
    ),
    Row::tcpx(
        "payload-device",
        "device memory, unpacked, holds what was sent",
        device,
    ),
];

/// Several of one size, so that a stale buffer cannot pass for a message.
fn one_size(subject: &Subject<'_>, len: usize) -> Checked {
    let longest = subject.device()?.max_p2p_bytes;
    if (1..len as u64).contains(&longest) {
        return Err(Shortfall::NotOwed(format!(
            "the longest message is {longest} bytes, as maxP2pBytes says"
        )));
    }
    let (messages, depth) = (6, 2);
    let mut pair = Pair::on_host(subject, depth, len)?;
    let bytes = exchange(&mut pair, &vec![len; messages], depth)?;
    pair.close()?;
    Ok(format!("{messages} messages, {bytes} bytes, none wrong"))
}

fn zero_size(subject: &Subject<'_>) -> Checked {
    let sizes = [0, 4096, 0, 0, 1, 0, 70_000, 0];
    let mut pair = Pair::on_host(subject, 4, 70_000)?;
    exchange(&mut pair, &sizes, 4)?;
    pair.close()?;
    Ok(format!("sizes {sizes:?}, in order, none wrong"))
}

fn shorter(subject: &Subject<'_>) -> Checked {
    let sizes = [1, 4095, 65_536, 99_999];
    let mut pair = Pair::on_host(subject, sizes.len(), 100_000)?;
    for (message, len) in sizes.into_iter().enumerate() {
        pair.receive(message, 100_000)?;
        pair.send(message, len)?;
        pair.finish()?;
        // Bytes behind the sent ones are compared with the canary.
        pair.verify(message, len)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!(
        "sizes {sizes:?} into receives of 100000, the rest untouched"
    ))
}

fn any_size(subject: &Subject<'_>) -> Checked {
    let sizes = random_sizes(200, 128 << 10);
    let mut pair = Pair::on_host(subject, 8, 128 << 10)?;
    let bytes = exchange(&mut pair, &sizes, 8)?;
    pair.close()?;
    Ok(format!(
        "{} messages of 0 to 128 KiB, {bytes} bytes, window 8, none wrong",
        sizes.len()
    ))
}

fn device(subject: &Subject<'_>) -> Checked {
    let sizes = [1, 4095, 4096, 512 << 10, (1 << 20) + 1, 4 << 20, 0, 65_537];
    let mut pair = Pair::on_stand_in(subject, 2, 4 << 20)?;
    let bytes = exchange(&mut pair, &sizes, 2)?;
    pair.close()?;
    Ok(format!(
        "sizes {sizes:?}, {bytes} bytes unpacked, none wrong"
    ))
}

/// The same on every run, so that two plugins are asked the same.
fn random_sizes(count: usize, most: usize) -> Vec<usize> {
    let mut state = 0x5eed_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    // Half of them small: that is where headers and payload get in each other's way.
    (0..count)
        .map(|_| {
            if next() % 2 == 0 {
                next() % 300
            } else {
                next() % (most + 1)
            }
        })
        .collect()
}
