//! Features that TCPX lacks and other plugins may have: grouped receives matched by tag,
//! sizes reported by `test`, a flush, contexts.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::calls::{Raw, UNWRITTEN};
use super::pair::Pair;
use super::subject::{Checked, PATIENCE, Shortfall, Subject, owe, poll};
use crate::gpu::{DeviceMemory, HostMemory};
use crate::plugin::{GROUP_MAX, PluginError, Request};
use tcpx_abi::result::SUCCESS;

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "group-by-tag",
        "a grouped receive of maxRecvs buffers matches messages by tag, in any order",
        by_tag,
    ),
    ContractCheck::any(
        "test-tells-size",
        "test writes the received size, or does not write sizes at all",
        tells_size,
    ),
    ContractCheck::any(
        "flush-is-done",
        "iflush of a done receive returns no request, or one that becomes done",
        flush,
    ),
    ContractCheck::any(
        "finalize-ends",
        "after finalize, init creates a new context",
        finalize,
    ),
];

const LEN: usize = 16 << 10;

fn by_tag(subject: &Subject<'_>) -> Checked {
    let most = usize::try_from(subject.device()?.max_recvs)
        .unwrap_or(0)
        .min(GROUP_MAX);
    if most < 2 {
        return Err(Shortfall::NotOwed(format!(
            "maxRecvs is {most}: one buffer per receive"
        )));
    }
    let raw = Raw::of(subject.net);
    let mut pair = Pair::on_host(subject, most, LEN)?;
    pair.open()?;
    let length = |message: usize| LEN - 1000 * message;
    let mut places = Vec::new();
    for message in 0..most {
        pair.prepare(message, length(message))?;
        places.push(pair.destination(message, LEN)?.0);
    }
    let mhandle = pair.destination(0, LEN)?.1;
    let group = poll("a grouped irecv is accepted", PATIENCE, || {
        let (answer, request) =
            raw.receive_grouped(pair.receiver()?, most as i32, &places, mhandle)?;
        owe(answer.code == SUCCESS, || {
            format!(
                "irecv of {most} buffers: rc {}: {}",
                answer.code,
                answer.words()
            )
        })?;
        Ok(request)
    })?;
    let mut sends = Vec::new();
    for message in (0..most).rev() {
        sends.push(post(
            subject,
            raw,
            &pair,
            (message, length(message)),
            group,
        )?);
    }
    let mut told = None;
    poll(
        "a grouped receive and its sends become done",
        PATIENCE,
        || {
            let mut waiting = Vec::new();
            for send in &sends {
                if !subject.net.test(*send)?.done {
                    waiting.push(*send);
                }
            }
            sends = waiting;
            if told.is_none() {
                let written = raw.test(group)?;
                owe(written.code == SUCCESS, || {
                    format!("test of the group: {written:?}")
                })?;
                told = (written.done == 1).then_some(written.sizes);
            }
            Ok((sends.is_empty() && told.is_some()).then_some(()))
        },
    )?;
    for (message, size) in told
        .unwrap_or([UNWRITTEN; GROUP_MAX])
        .into_iter()
        .enumerate()
        .take(most)
    {
        let right = size == UNWRITTEN || usize::try_from(size) == Ok(length(message));
        owe(right, || {
            format!(
                "test reported {size} bytes for tag {message}, sent were {}",
                length(message)
            )
        })?;
        pair.verify(message, length(message))?;
    }
    pair.close()?;
    Ok(format!(
        "{most} messages sent in reverse order, each in the buffer of its tag"
    ))
}

/// Posts a send with the message number as tag, and tests the grouped receive meanwhile.
fn post(
    subject: &Subject<'_>,
    raw: Raw<'_>,
    pair: &Pair<'_>,
    (message, len): (usize, usize),
    group: Request,
) -> Checked<Request> {
    let (span, mhandle) = pair.source(message, len)?;
    poll("a tagged isend is accepted", PATIENCE, || {
        let (answer, request) = raw.send_tagged(pair.sender()?, span, message as i32, mhandle)?;
        owe(answer.code == SUCCESS, || {
            format!("isend with tag {message}: rc {}", answer.code)
        })?;
        if request.is_none() {
            let early = subject.net.test(group)?.done;
            owe(!early, || {
                "the grouped receive was done with a message missing".into()
            })?;
        }
        Ok(request)
    })
}

fn tells_size(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    pair.send(0, LEN / 3)?;
    let request = pair.receives[0].request;
    let told = poll("a receive becomes done", PATIENCE, || {
        pair.test_send()?;
        let written = Raw::of(subject.net).test(request)?;
        owe(written.code == SUCCESS, || format!("test: {written:?}"))?;
        Ok((written.done == 1).then_some(written.sizes[0]))
    })?;
    pair.done.extend(pair.receives.pop_front());
    pair.hand_back()?;
    pair.close()?;
    match told {
        UNWRITTEN => Ok("sizes is not written".into()),
        size if usize::try_from(size) == Ok(LEN / 3) => Ok(format!(
            "{size} bytes reported, as sent, for a receive of {LEN}"
        )),
        size => Err(Shortfall::Broken(format!(
            "{size} bytes reported; {} were sent into a receive of {LEN}",
            LEN / 3
        ))),
    }
}

fn flush(subject: &Subject<'_>) -> Checked {
    if subject.hands_back() {
        return Err(Shortfall::NotOwed(
            "receives are unpacked, so there is no flush".into(),
        ));
    }
    if !subject.device()?.takes_cuda() {
        return Err(Shortfall::NotOwed(
            "only receives in GPU memory are flushed, and ptrSupport is host memory only".into(),
        ));
    }
    match subject.stand_in() {
        Ok(memory) => flush_in(subject, memory),
        Err(_) => flush_in(subject, HostMemory::host()).map_err(|shortfall| match shortfall {
            Shortfall::Broken(why) => Shortfall::NotOwed(format!(
                "only receives in GPU memory are flushed, and only host memory was tried: {why}"
            )),
            other => other,
        }),
    }
}

fn flush_in(subject: &Subject<'_>, memory: HostMemory) -> Checked {
    let mut pair = Pair::connect(subject)?;
    pair.allocate(memory, 1, LEN)?;
    pair.receive(0, LEN)?;
    pair.send(0, LEN)?;
    pair.finish()?;
    let (span, mhandle) = pair.destination(0, LEN)?;
    let request = match subject.net.iflush(pair.receiver()?, span, mhandle) {
        Err(PluginError::Missing { .. }) => {
            return Err(Shortfall::NotOwed("the table has no iflush".into()));
        }
        other => other?,
    };
    if let Some(request) = request {
        poll("a flush becomes done", PATIENCE, || {
            Ok(subject.net.test(request)?.done.then_some(()))
        })?;
    }
    pair.verify(0, LEN)?;
    pair.close()?;
    let how = if request.is_some() {
        "iflush returned a request, which became done"
    } else {
        "iflush returned no request"
    };
    Ok(format!("{}: {how}", memory.describe()))
}

fn finalize(subject: &Subject<'_>) -> Checked {
    if !subject.net.calls().limits().has_context {
        return Err(Shortfall::NotOwed(
            "there are no contexts before v11".into(),
        ));
    }
    subject.net.finalize()?;
    subject.net.init()?;
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    pair.send(0, LEN)?;
    pair.finish()?;
    pair.verify(0, LEN)?;
    pair.hand_back()?;
    pair.close()?;
    Ok("finalize, init, then a message arrived".into())
}
