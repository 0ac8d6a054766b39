//! Small reads and writes, many at once, which travel together.

mod support;

use support::{AMPLE, Buffer, Pair, at, done};
use tcpx_p2p::{Error, Transfer};

/// Lengths on both sides of what travels together and of a full message.
const LENS: [usize; 9] = [4096, 1, 0, 8192, 8193, 64, 4096, 5000, 3];
const COUNT: usize = 600;
const STRIDE: usize = 9000;

fn len(index: usize) -> usize {
    LENS[index % LENS.len()]
}

/// The place of an operation at the end that serves: in another order.
fn there(index: usize) -> usize {
    (COUNT - 1 - index) * STRIDE
}

fn wait(all: Vec<Transfer>) {
    for (index, transfer) in all.into_iter().enumerate() {
        assert_eq!(transfer.wait(AMPLE), Ok(len(index) as u64));
    }
}

#[test]
fn many_small_reads_and_writes_at_once_keep_their_places() {
    let pair = Pair::new();
    let size = COUNT * STRIDE;
    let (read, written) = (
        Buffer::new(&pair.one, size, 1),
        Buffer::new(&pair.one, size, 2),
    );
    let (from, into) = (
        Buffer::new(&pair.other, size, 3),
        Buffer::new(&pair.other, size, 4),
    );
    let (from_blob, into_blob) = (pair.advertise(from.all()), pair.advertise(into.all()));
    let (mut expected_here, mut expected_there) = (read.content(), into.content());
    let (theirs, ours) = (from.content(), written.content());
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for index in 0..COUNT {
        let (len, here, there) = (len(index), index * STRIDE, there(index));
        let remote = at(&from_blob, there as u64);
        reads.push(
            pair.one
                .read(pair.to_other, &[(read.part(here, len), remote)])
                .expect("starts"),
        );
        let remote = at(&into_blob, there as u64);
        writes.push(
            pair.one
                .write(pair.to_other, &[(written.part(here, len), remote)])
                .expect("starts"),
        );
        expected_here[here..here + len].copy_from_slice(&theirs[there..there + len]);
        expected_there[there..there + len].copy_from_slice(&ours[here..here + len]);
    }
    wait(reads);
    wait(writes);
    assert!(read.content() == expected_here && into.content() == expected_there);
    assert!(from.content() == theirs && written.content() == ours);
    for buffer in [&read, &written] {
        pair.one.deregister(buffer.registration).expect("free");
    }
}

#[test]
fn small_operations_of_one_kind_only_keep_their_places_too() {
    let pair = Pair::new();
    let (into, from) = (
        Buffer::new(&pair.one, 256 * 4096, 1),
        Buffer::new(&pair.other, 256 * 4096, 2),
    );
    let blob = pair.advertise(from.all());
    let page = |page: usize| {
        (
            into.part(page * 4096, 4096),
            at(&blob, (page * 4096) as u64),
        )
    };
    for _ in 0..20 {
        let start = |index| {
            pair.one
                .read(pair.to_other, &[page(index)])
                .expect("starts")
        };
        let all: Vec<Transfer> = (0..256).map(start).collect();
        all.iter()
            .for_each(|one| assert_eq!(one.wait(AMPLE), Ok(4096)));
        assert!(into.content() == from.content());
        let start = |index| pair.one.write(pair.to_other, &[page(index)]);
        let all: Vec<Transfer> = (0..256)
            .map(start)
            .map(|one| one.expect("starts"))
            .collect();
        all.iter()
            .for_each(|one| assert_eq!(one.wait(AMPLE), Ok(4096)));
        assert!(into.content() == from.content());
    }
}

#[test]
fn one_that_is_refused_among_many_fails_alone_and_moves_nothing() {
    let pair = Pair::new();
    let size = 64 * 4096;
    let (here, from, into) = (
        Buffer::new(&pair.one, size, 1),
        Buffer::new(&pair.other, size, 2),
        Buffer::new(&pair.other, size, 3),
    );
    let (good, into_blob) = (pair.advertise(from.all()), pair.advertise(into.all()));
    let mut forged = good;
    forged[63] ^= 1;
    let mut forged_into = into_blob;
    forged_into[63] ^= 1;
    let is_forged = |page: usize| page % 13 == 5;
    let (mut expected, theirs) = (here.content(), from.content());
    let place = |page: usize| (page * 4096) as u64;
    let reads: Vec<Transfer> = (0..64)
        .map(|page| {
            let blob = if is_forged(page) { &forged } else { &good };
            let piece = (here.part(page * 4096, 4096), at(blob, place(page)));
            pair.one.read(pair.to_other, &[piece]).expect("starts")
        })
        .collect();
    check(&reads, is_forged);
    for page in (0..64).filter(|page| !is_forged(*page)) {
        let range = page * 4096..(page + 1) * 4096;
        expected[range.clone()].copy_from_slice(&theirs[range]);
    }
    assert!(here.content() == expected && from.content() == theirs);
    let mut there = into.content();
    let writes: Vec<Transfer> = (0..64)
        .map(|page| {
            let blob = if is_forged(page) {
                &forged_into
            } else {
                &into_blob
            };
            let piece = (here.part(page * 4096, 4096), at(blob, place(page)));
            pair.one.write(pair.to_other, &[piece]).expect("starts")
        })
        .collect();
    check(&writes, is_forged);
    for page in (0..64).filter(|page| !is_forged(*page)) {
        let range = page * 4096..(page + 1) * 4096;
        there[range.clone()].copy_from_slice(&expected[range]);
    }
    assert!(into.content() == there && here.content() == expected);
    let whole = (here.all(), at(&good, 0));
    assert_eq!(done(pair.one.read(pair.to_other, &[whole])), size as u64);
}

fn check(transfers: &[Transfer], is_forged: impl Fn(usize) -> bool) {
    for (page, transfer) in transfers.iter().enumerate() {
        match transfer.wait(AMPLE) {
            Err(Error::Refused { peer, why }) if is_forged(page) => {
                assert_eq!(peer, "other");
                assert!(why.starts_with("the descriptor was changed"), "{why}");
            }
            result => assert_eq!((result, is_forged(page)), (Ok(4096), false), "{page}"),
        }
    }
}
