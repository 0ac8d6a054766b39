//! Payload: every byte arrives as it was sent, and no other byte is written.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, Shortfall, Subject};

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "payload-1",
        "a message of 1 byte arrives byte for byte",
        |subject| one_size(subject, 1),
    ),
    ContractCheck::any(
        "payload-4095",
        "a message of 4095 bytes, one less than a page, arrives byte for byte",
        |subject| one_size(subject, 4095),
    ),
    ContractCheck::any(
        "payload-4096",
        "a message of 4096 bytes, one page, arrives byte for byte",
        |subject| one_size(subject, 4096),
    ),
    ContractCheck::any(
        "payload-512k",
        "messages of 512 KiB, the size used in production, arrive byte for byte",
        |subject| one_size(subject, 512 << 10),
    ),
    ContractCheck::any(
        "payload-odd",
        "messages of 1 MiB + 1 byte arrive byte for byte",
        |subject| one_size(subject, (1 << 20) + 1),
    ),
    ContractCheck::any(
        "payload-4m",
        "messages of 4 MiB, TCPX's largest, arrive byte for byte",
        |subject| one_size(subject, 4 << 20),
    ),
    ContractCheck::any(
        "payload-zero",
        "a zero-byte message arrives in order",
        zero_size,
    ),
    ContractCheck::any(
        "payload-shorter",
        "a message shorter than its receive leaves the rest of the buffer unwritten",
        shorter,
    ),
    ContractCheck::any(
        "payload-any-size",
        "messages of mixed sizes arrive byte for byte",
        any_size,
    ),
    ContractCheck::tcpx(
        "payload-device",
        "receives into device memory, once unpacked, hold what was sent",
        device,
    ),
];

/// Several messages of one size, so that a stale buffer is not mistaken for a message.
fn one_size(subject: &Subject<'_>, len: usize) -> Checked {
    let longest = subject.device()?.max_p2p_bytes;
    if (1..len as u64).contains(&longest) {
        return Err(Shortfall::NotOwed(format!(
            "maxP2pBytes allows messages of at most {longest} bytes"
        )));
    }
    let (messages, depth) = (6, 2);
    let mut pair = Pair::on_host(subject, depth, len)?;
    let bytes = exchange(&mut pair, &vec![len; messages], depth)?;
    pair.close()?;
    Ok(format!("{messages} messages, {bytes} bytes, all verified"))
}

fn zero_size(subject: &Subject<'_>) -> Checked {
    let sizes = [0, 4096, 0, 0, 1, 0, 70_000, 0];
    let mut pair = Pair::on_host(subject, 4, 70_000)?;
    exchange(&mut pair, &sizes, 4)?;
    pair.close()?;
    Ok(format!("sizes {sizes:?}, in order, all verified"))
}

fn shorter(subject: &Subject<'_>) -> Checked {
    let sizes = [1, 4095, 65_536, 99_999];
    let mut pair = Pair::on_host(subject, sizes.len(), 100_000)?;
    for (message, len) in sizes.into_iter().enumerate() {
        pair.receive(message, 100_000)?;
        pair.send(message, len)?;
        pair.finish()?;
        // The bytes after the message are compared with the canary.
        pair.verify(message, len)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!(
        "sizes {sizes:?} into receives of 100000 bytes, the rest unwritten"
    ))
}

fn any_size(subject: &Subject<'_>) -> Checked {
    let sizes = random_sizes(200, 128 << 10);
    let mut pair = Pair::on_host(subject, 8, 128 << 10)?;
    let bytes = exchange(&mut pair, &sizes, 8)?;
    pair.close()?;
    Ok(format!(
        "{} messages of 0 to 128 KiB, {bytes} bytes, window 8, all verified",
        sizes.len()
    ))
}

fn device(subject: &Subject<'_>) -> Checked {
    let sizes = [1, 4095, 4096, 512 << 10, (1 << 20) + 1, 4 << 20, 0, 65_537];
    let mut pair = Pair::on_stand_in(subject, 2, 4 << 20)?;
    let bytes = exchange(&mut pair, &sizes, 2)?;
    pair.close()?;
    Ok(format!(
        "sizes {sizes:?}, {bytes} bytes unpacked, all verified"
    ))
}

/// Sizes from a fixed seed, so that every plugin gets the same messages.
fn random_sizes(count: usize, most: usize) -> Vec<usize> {
    let mut state = 0x5eed_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    // Half of the sizes are small, where headers and payload interfere most.
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
