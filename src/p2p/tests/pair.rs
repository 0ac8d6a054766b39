//! Two endpoints in one process: reads, writes, sends, and what is refused.

mod support;

use std::sync::Arc;
use std::time::Duration;
use support::{AMPLE, Buffer, CANARY, Pair, at, done, endpoint, failed, settings};
use tcpx_engine::gpu::{DeviceMemory, HostMemory, Region};
use tcpx_p2p::{Endpoint, Error, Local, Metadata, Remote, Rights, Secret, Settings};

#[test]
fn a_read_and_a_write_move_every_byte_and_no_other() {
    for len in [0, 1, 4095, 64 * 1024, 64 * 1024 + 1, 1_000_003] {
        let pair = Pair::new();
        let (here, there) = (
            Buffer::new(&pair.one, len, 1),
            Buffer::new(&pair.other, len, 2),
        );
        let blob = pair.advertise(there.all());
        let theirs = there.content();
        let ours = here.content();
        assert_eq!(
            done(pair.one.write(pair.to_other, &[(here.all(), at(&blob, 0))])),
            len as u64
        );
        assert!(there.content() == ours, "{len} bytes written");
        let back = Buffer::new(&pair.one, len, 3);
        assert_eq!(
            done(pair.one.read(pair.to_other, &[(back.all(), at(&blob, 0))])),
            len as u64
        );
        assert!(
            back.content() == ours && (len == 0 || ours != theirs),
            "{len} bytes read"
        );
    }
}

#[test]
fn a_send_meets_a_receive_in_order_whoever_is_first() {
    let pair = Pair::new();
    let from: Vec<Buffer> = (0..4)
        .map(|seed| Buffer::new(&pair.one, 200_000, seed))
        .collect();
    let into: Vec<Buffer> = (0..4)
        .map(|_| Buffer::new(&pair.other, 200_000, 99))
        .collect();
    let mut pending = Vec::new();
    for (index, (from, into)) in from.iter().zip(&into).enumerate() {
        let send = || pair.one.send(pair.to_other, from.all()).expect("starts");
        let receive = || pair.other.receive(pair.to_one, into.all()).expect("starts");
        pending.extend(if index % 2 == 0 {
            [send(), receive()]
        } else {
            [receive(), send()]
        });
    }
    for transfer in pending {
        assert_eq!(transfer.wait(AMPLE), Ok(200_000));
    }
    for (from, into) in from.iter().zip(&into) {
        assert!(from.content() == into.content());
    }
}

#[test]
fn a_send_of_another_length_than_the_receive_fails_on_both_ends() {
    let pair = Pair::new();
    let (from, into) = (
        Buffer::new(&pair.one, 10, 1),
        Buffer::new(&pair.other, 5, 2),
    );
    let sent = pair.one.send(pair.to_other, from.all());
    let received = failed(pair.other.receive(pair.to_one, into.all())).to_string();
    assert_eq!(received, "a send of 10 bytes meets a receive of 5 bytes");
    assert_eq!(
        failed(sent).to_string(),
        format!("endpoint `other` refused: {received}")
    );
    into.content();
}

#[test]
fn vectors_and_many_operations_in_both_directions_keep_their_places() {
    let pair = Pair::new();
    let (here, there) = (
        Buffer::new(&pair.one, 64 * 5000, 1),
        Buffer::new(&pair.other, 64 * 5000, 2),
    );
    let (blob, mine) = (
        pair.advertise(there.all()),
        pair.one.advertise(here.all(), Rights::Both),
    );
    let (mine, before) = (mine.expect("inside"), (here.content(), there.content()));
    // Pages in reverse order, as one vector.
    let into = Buffer::new(&pair.one, 64 * 5000, 3);
    let pages: Vec<_> = (0..64)
        .map(|page| {
            (
                into.part(page * 5000, 5000),
                at(&blob, (63 - page as u64) * 5000),
            )
        })
        .collect();
    assert_eq!(done(pair.one.read(pair.to_other, &pages)), 64 * 5000);
    let reversed: Vec<u8> = before.1.chunks(5000).rev().flatten().copied().collect();
    assert!(into.content() == reversed);
    // Single pages of both ends at once.
    let back = Buffer::new(&pair.other, 64 * 5000, 4);
    let again = Buffer::new(&pair.one, 64 * 5000, 5);
    let mut pending = Vec::new();
    for page in 0..64 {
        let offset = page as u64 * 5000;
        let read = pair.one.read(
            pair.to_other,
            &[(again.part(page * 5000, 5000), at(&blob, offset))],
        );
        pending.push(read.expect("starts"));
        let read = pair.other.read(
            pair.to_one,
            &[(back.part(page * 5000, 5000), at(&mine, offset))],
        );
        pending.push(read.expect("starts"));
    }
    for transfer in pending {
        assert_eq!(transfer.wait(AMPLE), Ok(5000));
    }
    assert!(again.content() == before.1 && back.content() == before.0);
}

#[test]
fn notifications_arrive_in_order() {
    let pair = Pair::new();
    for text in ["one", "two"] {
        done(pair.one.notify(pair.to_other, text.as_bytes()));
    }
    let heard = [(); 2].map(|()| pair.other.notification(AMPLE).expect("one"));
    assert_eq!(
        heard,
        [
            (pair.to_one, b"one".to_vec()),
            (pair.to_one, b"two".to_vec())
        ]
    );
}

#[test]
fn what_was_not_advertised_is_refused_here() {
    let pair = Pair::new();
    let (here, there) = (
        Buffer::new(&pair.one, 100, 1),
        Buffer::new(&pair.other, 100, 2),
    );
    let blob = pair
        .other
        .advertise(there.part(10, 50), Rights::Read)
        .expect("inside");
    let own = pair
        .one
        .advertise(here.all(), Rights::Both)
        .expect("inside");
    let said = |len, remote| {
        failed(pair.one.read(pair.to_other, &[(here.part(0, len), remote)])).to_string()
    };
    assert_eq!(
        said(51, at(&blob, 0)),
        "bytes 0..51 are outside the advertised range of 50 bytes"
    );
    assert_eq!(
        said(1, at(&blob, 50)),
        "bytes 50..51 are outside the advertised range of 50 bytes"
    );
    assert_eq!(
        said(
            1,
            Remote {
                blob: &blob[..63],
                offset: 0
            }
        ),
        "a descriptor has 64 bytes, and this has 63"
    );
    assert!(said(1, at(&own, 0)).starts_with("the descriptor is of endpoint "));
    let write = failed(
        pair.one
            .write(pair.to_other, &[(here.part(0, 1), at(&blob, 0))]),
    );
    assert_eq!(
        write.to_string(),
        "the range was not advertised for a write"
    );
    assert!(
        failed(pair.one.read(99, &[(here.all(), at(&blob, 0))]))
            .to_string()
            .contains("connection 99")
    );
    let outside = Local {
        len: 100 + 2 * CANARY,
        ..here.all()
    };
    assert!(
        failed(pair.one.send(pair.to_other, outside))
            .to_string()
            .contains("outside registration")
    );
    assert!(
        pair.other
            .advertise(
                Local {
                    len: 101 + CANARY,
                    ..there.all()
                },
                Rights::Read
            )
            .is_err()
    );
    here.content();
    there.content();
}

/// The peer checks what this end's library would let pass.
#[test]
fn a_forged_or_outlived_descriptor_is_refused_there_and_the_connection_goes_on() {
    let pair = Pair::new();
    let (here, there) = (
        Buffer::new(&pair.one, 300_000, 1),
        Buffer::new(&pair.other, 300_000, 2),
    );
    let other = Buffer::new(&pair.other, 300_000, 3);
    let (good, outlived) = (pair.advertise(there.all()), pair.advertise(other.all()));
    let before = (here.content(), there.content(), other.content());
    pair.other
        .deregister(other.registration)
        .expect("nobody uses it");
    // A larger size, another address, another registration.
    let mut forged = [good; 3];
    forged[0][10] ^= 1;
    forged[1][1] ^= 1;
    forged[2][20] ^= 1;
    for (blob, why) in forged
        .iter()
        .map(|blob| (blob, "the descriptor was changed"))
        .chain([(&outlived, "was removed")])
    {
        for transfer in [
            pair.one.read(pair.to_other, &[(here.all(), at(blob, 0))]),
            pair.one.write(pair.to_other, &[(here.all(), at(blob, 0))]),
        ] {
            let error = failed(transfer);
            assert!(
                matches!(&error, Error::Refused { peer, .. } if peer == "other"),
                "{error}"
            );
            assert!(error.to_string().contains(why), "{error}");
        }
    }
    assert!(
        here.content() == before.0 && there.content() == before.1 && other.content() == before.2
    );
    done(pair.one.read(pair.to_other, &[(here.all(), at(&good, 0))]));
    assert!(here.content() == before.1);
}

#[test]
fn a_closed_endpoint_fails_what_the_other_waits_for() {
    let pair = Pair::new();
    let buffer = Buffer::new(&pair.one, 100, 1);
    let waiting = pair.one.send(pair.to_other, buffer.all());
    let receiving = pair.one.receive(pair.to_other, buffer.all());
    drop(pair.other);
    for transfer in [waiting, receiving] {
        let error = failed(transfer).to_string();
        assert_eq!(
            error,
            "connection to endpoint `other`: closed by the peer: its program closed the endpoint"
        );
    }
    assert!(pair.one.peer(pair.to_other).is_none());
    pair.one.deregister(buffer.registration).expect("free");
    assert_eq!(pair.one.registrations(), 0);
}

/// The peer may be faster than the caller of `accept`: it reads, tells, and is gone.
#[test]
fn a_connection_that_has_ended_is_accepted_all_the_same() {
    let (one, other) = (endpoint("one"), endpoint("other"));
    let connection = one.connect(other.metadata()).expect("connects");
    done(one.notify(connection, b"read"));
    one.disconnect(connection).expect("there");
    let (number, said) = other.notification(AMPLE).expect("told");
    assert_eq!(said, b"read");
    while other.peer(number).is_some() {
        std::thread::yield_now();
    }
    let accepted = other.accept(AMPLE).expect("accepts");
    assert_eq!((accepted.connection, &*accepted.peer.name), (number, "one"));
    assert!(other.disconnect(number).is_err());
}

#[test]
fn a_connection_needs_the_secret_the_metadata_and_the_same_settings() {
    let secret = || Some(Secret::generate().expect("randomness"));
    let with = |secret: Option<Secret>| {
        Endpoint::new(&Settings {
            secret,
            connect_within: Duration::from_secs(5),
            ..settings("other")
        })
        .expect("an endpoint")
    };
    let (one, other) = (with(secret()), with(secret()));
    let said = |from: &Endpoint, to: &Metadata| from.connect(to).expect_err("refused").to_string();
    let other_one = |said: String| {
        let why = "the endpoint there has another secret, or is not the one of this metadata";
        assert!(said.ends_with(&format!(": {why}")), "{said}");
    };
    other_one(said(&one, other.metadata()));
    let waited = other.accept(Duration::from_millis(10)).expect_err("nobody");
    let waited = waited.to_string();
    let turned_away = ") took longer than 0.01 s";
    assert!(
        waited.starts_with("a connection of a peer (a peer at ")
            && waited.ends_with(turned_away)
            && waited.contains("another shared secret"),
        "{waited}"
    );
    let without = with(None);
    assert_eq!(
        said(&without, one.metadata()),
        "endpoint `other` requires a shared secret, and this endpoint has none"
    );
    assert!(said(&one, without.metadata()).starts_with("this endpoint has a shared secret"));
    let mut guessed = without.metadata().clone();
    guessed.nonce.reverse();
    other_one(said(&without, &guessed));
    let unlike = Endpoint::new(&Settings {
        lanes: 3,
        ..settings("unlike")
    })
    .expect("an endpoint");
    assert!(said(&unlike, without.metadata()).contains("endpoint.lanes is `3` here and `2` there"));
}

#[test]
fn an_endpoint_that_has_ended_is_not_waited_for() {
    let (one, ended) = (endpoint("one"), endpoint("ended"));
    let metadata = ended.metadata().clone();
    drop(ended);
    let error = one.connect(&metadata).expect_err("gone").to_string();
    assert!(
        error.ends_with(": nothing listens there: the endpoint of this metadata has ended"),
        "{error}"
    );
}

#[test]
fn a_region_of_the_engine_is_read_without_a_promise_of_the_caller() {
    let (server, client) = (endpoint("region-server"), endpoint("region-client"));
    let connection = client.connect(server.metadata()).expect("connected");
    let regions = [0, 1].map(|_| HostMemory::host().allocate(100_000).expect("memory"));
    let fill = |region: &Arc<Region>, byte| {
        let span = region.span(0, 100_000).expect("inside");
        region.with_bytes(span, |bytes| bytes.fill(byte))
    };
    fill(&regions[0], 7).expect("not lent");
    let local = |endpoint: &Endpoint, region: &Arc<Region>| Local {
        registration: endpoint.register_region(region).expect("registered"),
        address: region.as_ptr().addr(),
        len: region.len(),
    };
    let from = local(&server, &regions[0]);
    let blob = server.advertise(from, Rights::Read).expect("a blob");
    let into = local(&client, &regions[1]);
    let remote = Remote {
        blob: &blob,
        offset: 0,
    };
    let read = client.read(connection, &[(into, remote)]).expect("started");
    assert_eq!(read.wait(AMPLE), Ok(100_000));
    let span = regions[1].span(0, 100_000).expect("inside");
    let arrived = regions[1].with_bytes(span, |bytes| bytes.iter().all(|byte| *byte == 7));
    assert_eq!(arrived, Some(true));
    let device = HostMemory::device_stand_in().allocate(4096);
    let refused = client.register_region(&device.expect("memory"));
    assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
}
