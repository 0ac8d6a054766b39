//! Endpoints whose lanes several threads drive.

mod support;

use std::num::NonZero;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{AMPLE, Buffer, Pair, at, done, failed, settings};
use tcpx_p2p::{Endpoint, Error, Rights, Settings, Transfer};

const PAGE: usize = 100_000;
const PAGES: usize = 48;

fn pair(threads: usize) -> Pair {
    let made = |name| {
        let made = Endpoint::new(&Settings {
            lanes: 4,
            threads: NonZero::new(threads),
            ..settings(name)
        });
        made.expect("an endpoint")
    };
    Pair::of(made("one"), made("other"))
}

/// The tests of this file take turns, because they count threads of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Helpers that this process has.
fn helpers() -> usize {
    let tasks = Path::new("/proc/self/task").read_dir().expect("threads");
    let is_helper = |task: std::io::Result<std::fs::DirEntry>| {
        let name = std::fs::read_to_string(task.ok()?.path().join("comm")).ok()?;
        name.starts_with("tcpxp2p-help").then_some(())
    };
    tasks.filter_map(is_helper).count()
}

fn wait(transfers: Vec<Transfer>) {
    for transfer in transfers {
        transfer.wait(AMPLE).expect("done");
    }
}

/// Reads, writes and sends of 5 MB in both directions at once, and vectors of scattered pages.
fn move_much(pair: &Pair, round: u8) {
    let size = PAGE * PAGES;
    let ours = [0, 1, 2].map(|seed| Buffer::new(&pair.one, size, seed ^ round));
    let theirs = [3, 4, 5].map(|seed| Buffer::new(&pair.other, size, seed ^ round));
    let [read, received] = [6, 7].map(|seed| Buffer::new(&pair.one, size, seed));
    let scattered = Buffer::new(&pair.other, size, 9);
    let blobs = theirs.each_ref().map(|one| {
        pair.other
            .advertise(one.all(), Rights::Both)
            .expect("inside")
    });
    let back = pair.one.advertise(ours[2].all(), Rights::Read);
    let back = back.expect("inside");
    let before = theirs.each_ref().map(Buffer::content);
    let pages: Vec<_> = (0..PAGES)
        .map(|page| {
            let there = (page * 7 % PAGES * PAGE) as u64;
            (scattered.part(page * PAGE, PAGE), at(&back, there))
        })
        .collect();
    wait(vec![
        pair.one
            .read(pair.to_other, &[(read.all(), at(&blobs[0], 0))])
            .expect("starts"),
        pair.one
            .write(pair.to_other, &[(ours[1].all(), at(&blobs[1], 0))])
            .expect("starts"),
        pair.other.read(pair.to_one, &pages).expect("starts"),
        pair.other
            .send(pair.to_one, theirs[2].all())
            .expect("starts"),
        pair.one
            .receive(pair.to_other, received.all())
            .expect("starts"),
    ]);
    assert!(read.content() == before[0] && received.content() == before[2]);
    assert!(theirs[1].content() == ours[1].content());
    let there = ours[2].content();
    let picked = (0..PAGES).map(|page| &there[page * 7 % PAGES * PAGE..][..PAGE]);
    assert!(scattered.content() == picked.collect::<Vec<_>>().concat());
    for (endpoint, buffers) in [(&pair.one, &ours), (&pair.other, &theirs)] {
        for buffer in buffers {
            endpoint.deregister(buffer.registration).expect("free");
        }
    }
}

#[test]
fn every_byte_is_in_place_whichever_thread_moves_it() {
    let _alone = alone();
    let pair = pair(3);
    // Small messages do not wake other threads.
    let (here, there) = (
        Buffer::new(&pair.one, 4096, 1),
        Buffer::new(&pair.other, 4096, 2),
    );
    let blob = pair.advertise(there.all());
    done(pair.one.read(pair.to_other, &[(here.all(), at(&blob, 0))]));
    assert_eq!(helpers(), 0);
    for round in 0..4 {
        move_much(&pair, round);
    }
    assert!(helpers() > 0, "no lane was lent");
    // One at a time, so that lanes are lent and taken back.
    for _ in 0..200 {
        done(pair.one.read(pair.to_other, &[(here.all(), at(&blob, 0))]));
    }
    drop(pair);
    assert_eq!(helpers(), 0, "they end with their endpoints");
}

#[test]
fn memory_is_let_go_of_once_the_last_message_of_a_lent_lane_is_done() {
    let _alone = alone();
    let pair = pair(4);
    let size = PAGE * PAGES;
    for round in 0..8 {
        let (here, there) = (
            Buffer::new(&pair.one, size, round),
            Buffer::new(&pair.other, size, round + 1),
        );
        let blob = pair.advertise(there.all());
        let read = pair.one.read(pair.to_other, &[(here.all(), at(&blob, 0))]);
        let read = read.expect("starts");
        pair.one.deregister(here.registration).expect("waits");
        assert_eq!(read.wait(AMPLE), Ok(size as u64));
        pair.other.deregister(there.registration).expect("waits");
        assert!(here.content() == there.content());
    }
    assert_eq!(
        (pair.one.registrations(), pair.other.registrations()),
        (0, 0)
    );
}

#[test]
fn a_connection_ends_while_its_lanes_are_lent() {
    let _alone = alone();
    for _ in 0..8 {
        let pair = pair(4);
        let size = PAGE * PAGES;
        let (here, there) = (
            Buffer::new(&pair.one, size, 1),
            Buffer::new(&pair.other, size, 2),
        );
        let blob = pair.advertise(there.all());
        let reads: Vec<_> = (0..4)
            .map(|_| pair.one.read(pair.to_other, &[(here.all(), at(&blob, 0))]))
            .collect();
        done(
            pair.one
                .read(pair.to_other, &[(here.part(0, 1), at(&blob, 0))]),
        );
        pair.other.disconnect(pair.to_one).expect("there");
        pair.other.deregister(there.registration).expect("free");
        for read in reads {
            match read.expect("starts").wait(AMPLE) {
                Ok(bytes) => assert_eq!(bytes, size as u64),
                Err(error) => assert!(matches!(error, Error::Connection { .. }), "{error}"),
            }
        }
        // The end may have been heard of already, or not yet.
        failed(pair.one.read(pair.to_other, &[(here.all(), at(&blob, 0))]));
        pair.one.deregister(here.registration).expect("free");
        here.content();
        there.content();
    }
}
