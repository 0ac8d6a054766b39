//! Illegal calls, and the error that each must return.
//!
//! TCPX 3.1.9 answers the last rows with a crash, a double free or an overrun; the software
//! plugin must refuse them.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::calls::{Raw, UNWRITTEN};
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Subject, owe, poll, refused, watch};
use crate::plugin::{Comm, PluginError};
use tcpx_abi::result::{INTERNAL_ERROR, SUCCESS};

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "raw-handle-size",
        "listen writes at most 128 handle bytes",
        handle_size,
    ),
    ContractCheck::tcpx(
        "raw-no-such-device",
        "device -1 and the device after the last are rc 3",
        no_such_device,
    ),
    ContractCheck::tcpx(
        "raw-send-unregistered",
        "a send without a registration is rc 3, with a log message",
        send_unregistered,
    ),
    ContractCheck::tcpx(
        "raw-receive-grouped",
        "irecv with n other than 1 is rc 3",
        receive_grouped,
    ),
    ContractCheck::tcpx("raw-tags-null", "irecv accepts null tags", tags_null),
    ContractCheck::tcpx(
        "raw-test-null",
        "test of a null request is rc 3, with a log message",
        test_null,
    ),
    ContractCheck::tcpx(
        "raw-test-writes",
        "every test writes done, and none writes sizes",
        test_writes,
    ),
    ContractCheck::tcpx(
        "raw-receive-unregistered",
        "a receive without a registration is rc 3, with a log message",
        receive_unregistered,
    )
    .never_on_google("was never observed with this call"),
    ContractCheck::tcpx(
        "raw-accept-bare",
        "accept without a device handle fails, or returns a comm that can be closed",
        accept_bare,
    )
    .never_on_google("crashes in the first receive on such a comm"),
    ContractCheck::tcpx(
        "raw-accept-again",
        "a second accept on a listener is rc 3",
        accept_again,
    )
    .never_on_google("frees its state twice"),
    ContractCheck::tcpx(
        "raw-connect-again",
        "a second connect with the same handle buffer is rc 3",
        connect_again,
    )
    .never_on_google("reads freed memory"),
    ContractCheck::tcpx(
        "raw-flush-null",
        "iflush of a null request is rc 3",
        flush_null,
    )
    .never_on_google("crashes"),
    ContractCheck::tcpx(
        "raw-no-comm",
        "isend and irecv on a null comm are rc 3",
        no_comm,
    )
    .never_on_google("crashes"),
    ContractCheck::tcpx(
        "raw-wrong-end",
        "isend on a receive comm is rc 3, and so is irecv on a send comm",
        wrong_end,
    )
    .never_on_google("accepts it and crashes or stalls later"),
    ContractCheck::tcpx(
        "raw-negative-size",
        "a negative size is rc 3",
        negative_size,
    )
    .never_on_google("overruns memory"),
    ContractCheck::tcpx(
        "raw-sender-longer",
        "a message longer than its receive is an error, and nothing is overrun",
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
        format!("{beyond} of the 512 bytes after the handle were written")
    })?;
    Ok("none of the 512 bytes after the handle was written".into())
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
        format!("rc 3, but it logged {said:?}")
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
        format!("rc 3, but it logged {:?}", answer.words())
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
        "a comm, which could be closed"
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
    Ok("a receive posted with null tags received its message".into())
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
        format!("before anything was sent: {before:?}")
    })?;
    pair.send(0, 1000)?;
    let send = pair.sends[0].request;
    let mut seen = vec![before];
    for request in [send, receive] {
        seen.push(poll("test reports done", PATIENCE, || {
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
    Ok("done = 0 written before the message, done = 1 after it, sizes never written".into())
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
        // The sender cannot know the receive's size, so its send may become done.
        pair.test_send()?;
        match subject.net.test(request) {
            Ok(tested) => owe(!tested.done, || {
                format!("a receive of 100 bytes was done with a message of {LEN}")
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
        "message of {LEN} bytes for a receive of 100: rc 3, {words}; no byte written"
    ))
}
