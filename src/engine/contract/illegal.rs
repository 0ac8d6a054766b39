//! Calls that nobody should make, and the error that each one gets.
//!
//! The last rows are what TCPX 3.1.9 answers with a crash, a double free or an
//! overrun; its stand-in promises a refusal instead.
#![forbid(unsafe_code)]

use super::Row;
use super::calls::{Raw, UNWRITTEN};
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Subject, owe, poll, refused, watch};
use crate::plugin::{Comm, PluginError};
use tcpx_abi::result::{INTERNAL_ERROR, SUCCESS};

pub(super) const ROWS: &[Row] = &[
    Row::any(
        "raw-handle-size",
        "listen writes no more than 128 bytes of handle",
        handle_size,
    ),
    Row::tcpx(
        "raw-no-such-device",
        "device -1 and the one after the last are rc 3",
        no_such_device,
    ),
    Row::tcpx(
        "raw-send-unregistered",
        "a send without a registration is rc 3, with words",
        send_unregistered,
    ),
    Row::tcpx(
        "raw-receive-grouped",
        "irecv with n other than 1 is rc 3",
        receive_grouped,
    ),
    Row::tcpx("raw-tags-null", "irecv reads no tags", tags_null),
    Row::tcpx(
        "raw-test-null",
        "test of no request is rc 3, with words",
        test_null,
    ),
    Row::tcpx(
        "raw-test-writes",
        "test writes done on every call and sizes on none",
        test_writes,
    ),
    Row::tcpx(
        "raw-receive-unregistered",
        "a receive without a registration is rc 3, with words",
        receive_unregistered,
    )
    .never_on_google("was not seen with this"),
    Row::tcpx(
        "raw-accept-bare",
        "accept without a device handle is an error or a comm that can be closed",
        accept_bare,
    )
    .never_on_google("crashes at the first receive of such a comm"),
    Row::tcpx(
        "raw-accept-again",
        "a listener that has delivered accepts no more: rc 3",
        accept_again,
    )
    .never_on_google("frees its state twice"),
    Row::tcpx(
        "raw-connect-again",
        "a handle buffer that has connected does not again: rc 3",
        connect_again,
    )
    .never_on_google("reads freed memory"),
    Row::tcpx("raw-flush-null", "iflush of no request is rc 3", flush_null)
        .never_on_google("crashes"),
    Row::tcpx("raw-no-comm", "posts without a comm are rc 3", no_comm).never_on_google("crashes"),
    Row::tcpx(
        "raw-wrong-end",
        "a send on a receiving comm is rc 3, and the other way round",
        wrong_end,
    )
    .never_on_google("takes it and crashes or stalls later"),
    Row::tcpx(
        "raw-negative-size",
        "a negative size is rc 3",
        negative_size,
    )
    .never_on_google("overruns memory"),
    Row::tcpx(
        "raw-sender-longer",
        "a message longer than its receive is an error and overruns nothing",
        longer,
    )
    .never_on_google("overruns the receive buffer"),
];

const LEN: usize = 4096;

fn handle_size(subject: &Subject<'_>) -> Checked {
    let (answer, beyond) = Raw::of(subject.net).listen(subject.device()?.index as i32)?;
    owe(answer.code == SUCCESS, || {
        format!("listen rc {}: {}", answer.code, answer.words())
    })?;
    owe(beyond == 0, || {
        format!("{beyond} of the 512 bytes behind the handle were written")
    })?;
    Ok("none of the 512 bytes behind it were written".into())
}

fn no_such_device(subject: &Subject<'_>) -> Checked {
    let calls = Raw::of(subject.net);
    let count = subject.devices.len() as i32;
    let listens = [calls.listen(-1)?.0, calls.listen(count)?.0];
    let (listener, handle) = subject.net.listen(subject.device()?.index)?;
    let connect = calls.connect_from_nowhere(handle)?;
    subject.net.close_listen(listener)?;
    let codes = [listens[0].code, listens[1].code, connect.code];
    owe(codes == [INTERNAL_ERROR; 3], || {
        format!("listen -1, listen {count}, connect -1: rc {codes:?}")
    })?;
    Ok(format!("listen on -1 and {count}, connect from -1: rc 3"))
}

fn send_unregistered(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    let mut said = String::new();
    for len in [LEN, 0] {
        let (span, _) = pair.source(0, len)?;
        let (answer, nothing) = Raw::of(subject.net).send_unregistered(pair.sender()?, span)?;
        owe(answer.code == INTERNAL_ERROR && nothing, || {
            format!("{len} bytes: rc {}", answer.code)
        })?;
        said = answer.words();
    }
    owe(said.contains("mhandle is null"), || {
        format!("rc 3, but it said {said:?}")
    })?;
    exchange(&mut pair, &[LEN], 1)?;
    pair.close()?;
    Ok(format!(
        "{LEN} and 0 bytes rc 3: {said}; the comm still works"
    ))
}

fn receive_unregistered(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    let (span, _) = pair.destination(0, LEN)?;
    let comm = Comm::Recv(pair.receiver()?);
    let (answer, nothing) = Raw::of(subject.net).receive_any(Some(comm), span, None)?;
    owe(answer.code == INTERNAL_ERROR && nothing, || {
        format!("rc {}", answer.code)
    })?;
    owe(answer.words().contains("mhandle is null"), || {
        format!("rc 3, but it said {:?}", answer.words())
    })?;
    exchange(&mut pair, &[LEN], 1)?;
    pair.close()?;
    Ok(format!("rc 3: {}; the comm still works", answer.words()))
}

fn accept_bare(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::start(subject)?;
    let raw = Raw::of(subject.net);
    let (answer, delivered) = pair.accept_bare(raw)?;
    pair.close()?;
    let what = if delivered {
        "a comm, which closes"
    } else {
        "no comm"
    };
    Ok(format!("rc {} and {what}: {}", answer.code, answer.words()))
}

fn receive_grouped(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    for n in [0, 2, 8, -1] {
        let (span, mhandle) = pair.destination(0, LEN)?;
        let (answer, request) =
            Raw::of(subject.net).receive_grouped(pair.receiver()?, n, &[span], mhandle)?;
        let refused = answer.code == INTERNAL_ERROR && request.is_none();
        owe(refused, || {
            format!("n = {n}: rc {}, request {request:?}", answer.code)
        })?;
    }
    exchange(&mut pair, &[LEN], 1)?;
    pair.close()?;
    Ok("n = 0, 2, 8, -1 rc 3; the comm still works".into())
}

fn tags_null(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    pair.send(0, LEN)?;
    pair.finish()?;
    pair.hand_back()?;
    let (span, mhandle) = pair.destination(0, LEN)?;
    let (answer, request) =
        Raw::of(subject.net).receive_untagged(pair.receiver()?, span, mhandle)?;
    owe(answer.code == SUCCESS && request.is_some(), || {
        format!("rc {}: {}", answer.code, answer.words())
    })?;
    pair.send(1, LEN)?;
    poll("the receive is done", PATIENCE, || {
        pair.test_send()?;
        let Some(request) = request else {
            return Ok(None);
        };
        Ok(subject.net.test(request)?.done.then_some(()))
    })?;
    pair.verify(1, LEN)?;
    pair.close()?;
    Ok("a receive posted with null tags took its message".into())
}

fn test_null(subject: &Subject<'_>) -> Checked {
    let answer = Raw::of(subject.net).test_null()?;
    owe(answer.code == INTERNAL_ERROR, || {
        format!("rc {}", answer.code)
    })?;
    Ok(format!("rc 3: {}", answer.words()))
}

fn test_writes(subject: &Subject<'_>) -> Checked {
    let calls = Raw::of(subject.net);
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    let receive = pair.receives[0].request;
    let before = calls.test(receive)?;
    owe((before.code, before.done) == (SUCCESS, 0), || {
        format!("with nothing sent: {before:?}")
    })?;
    pair.send(0, 1000)?;
    let send = pair.sends[0].request;
    let mut seen = vec![before];
    for request in [send, receive] {
        seen.push(poll("a test that is done", PATIENCE, || {
            let written = calls.test(request)?;
            owe(written.code == SUCCESS, || format!("{written:?}"))?;
            owe(matches!(written.done, 0 | 1), || {
                format!("done is {}", written.done)
            })?;
            Ok((written.done == 1).then_some(written))
        })?);
    }
    let sizes: Vec<_> = seen.iter().map(|written| written.sizes).collect();
    owe(
        sizes
            .iter()
            .all(|sizes| *sizes == [UNWRITTEN; crate::plugin::GROUP_MAX]),
        || format!("test wrote sizes: {sizes:?}"),
    )?;
    subject.net.irecv_consumed(pair.receiver()?, receive)?;
    pair.sends.clear();
    pair.receives.clear();
    pair.close()?;
    Ok("not done wrote done = 0, done wrote 1, sizes untouched each time".into())
}

fn accept_again(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    let (answer, nothing) = Raw::of(subject.net).accept_again(pair.listener()?)?;
    owe(answer.code == INTERNAL_ERROR && nothing, || {
        format!("rc {}", answer.code)
    })?;
    exchange(&mut pair, &[LEN], 1)?;
    pair.close()?;
    Ok(format!(
        "rc 3: {}; the first comm still works",
        answer.words()
    ))
}

fn connect_again(subject: &Subject<'_>) -> Checked {
    let device = subject.device()?.index;
    let (mut listener, handle) = subject.net.listen(device)?;
    let mut receiver = None;
    let answer = Raw::of(subject.net).connect_twice(device as i32, handle, || {
        if receiver.is_none() {
            receiver = subject.net.accept(&mut listener)?;
        }
        Ok(())
    });
    if let Some(receiver) = receiver {
        subject.net.close_recv(receiver)?;
    }
    subject.net.close_listen(listener)?;
    let (answer, nothing) = answer?;
    owe(answer.code == INTERNAL_ERROR && nothing, || {
        format!("rc {}", answer.code)
    })?;
    Ok(format!("rc 3: {}", answer.words()))
}

fn flush_null(subject: &Subject<'_>) -> Checked {
    let pair = Pair::connect(subject)?;
    let (answer, _) = Raw::of(subject.net).flush(pair.receiver()?, 1, None)?;
    owe(answer.code == INTERNAL_ERROR, || {
        format!("rc {}", answer.code)
    })?;
    pair.close()?;
    Ok(format!("rc 3: {}", answer.words()))
}

fn no_comm(subject: &Subject<'_>) -> Checked {
    let calls = Raw::of(subject.net);
    let pair = Pair::on_host(subject, 1, LEN)?;
    let (span, mhandle) = pair.source(0, LEN)?;
    let (send, no_send) = calls.send_any(None, span, LEN as i32, mhandle)?;
    let (receive, no_receive) = calls.receive_any(None, span, Some(mhandle))?;
    let codes = (send.code, receive.code);
    let refused = codes == (INTERNAL_ERROR, INTERNAL_ERROR) && no_send && no_receive;
    owe(refused, || format!("isend, irecv: rc {codes:?}"))?;
    pair.close()?;
    Ok(format!(
        "isend rc 3: {}; irecv rc 3: {}",
        send.words(),
        receive.words()
    ))
}

fn wrong_end(subject: &Subject<'_>) -> Checked {
    let calls = Raw::of(subject.net);
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    let (from, from_mhandle) = pair.source(0, LEN)?;
    let (into, into_mhandle) = pair.destination(0, LEN)?;
    let (send, _) = calls.send_any(
        Some(Comm::Recv(pair.receiver()?)),
        into,
        LEN as i32,
        into_mhandle,
    )?;
    let (receive, _) =
        calls.receive_any(Some(Comm::Send(pair.sender()?)), from, Some(from_mhandle))?;
    let codes = (send.code, receive.code);
    owe(codes == (INTERNAL_ERROR, INTERNAL_ERROR), || {
        format!("isend, irecv: rc {codes:?}")
    })?;
    exchange(&mut pair, &[LEN], 1)?;
    pair.close()?;
    Ok(format!(
        "isend rc 3: {}; irecv rc 3: {}; both ends still work",
        send.words(),
        receive.words()
    ))
}

fn negative_size(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    let (span, mhandle) = pair.source(0, LEN)?;
    let comm = Comm::Send(pair.sender()?);
    let mut said = String::new();
    for len in [-1, i32::MIN] {
        let (answer, nothing) = Raw::of(subject.net).send_any(Some(comm), span, len, mhandle)?;
        owe(answer.code == INTERNAL_ERROR && nothing, || {
            format!("{len} bytes: rc {}", answer.code)
        })?;
        said = answer.words();
    }
    exchange(&mut pair, &[LEN], 1)?;
    pair.close()?;
    Ok(format!(
        "-1 and {} rc 3: {said}; the comm still works",
        i32::MIN
    ))
}

fn longer(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, 100)?;
    pair.send(0, LEN)?;
    let request = pair.receives[0].request;
    let words = poll("the receive is refused", PATIENCE, || {
        // The sender cannot know, and its send may well be done.
        pair.test_send()?;
        match subject.net.test(request) {
            Ok(tested) => owe(!tested.done, || {
                format!("{LEN} bytes were done in a receive of 100")
            })
            .map(|()| None),
            Err(PluginError::Refused {
                code: INTERNAL_ERROR,
                said,
                ..
            }) => Ok(Some(said.join(" / "))),
            Err(error) => Err(error.into()),
        }
    })?;
    watch(|| refused(subject.net.test(request), INTERNAL_ERROR, "a later test").map(drop))?;
    pair.blank_from(0, 0)?;
    pair.close()?;
    Ok(format!(
        "{LEN} bytes for a receive of 100: rc 3, {words}; not one byte written"
    ))
}
