//! Closing a comm: outstanding requests, the peer's view, and leaked resources.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::calls::Raw;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{
    Checked, PATIENCE, Pace, Shortfall, Subject, descriptors, owe, poll, seek, threads, watch,
    within,
};
use crate::plugin::{PluginError, Request};
use std::time::{Duration, Instant};
use tcpx_abi::result::{SUCCESS, SYSTEM_ERROR};

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "close-outstanding",
        "a comm with outstanding requests closes promptly",
        outstanding,
    ),
    ContractCheck::any(
        "close-listener-first",
        "a listener can be closed as soon as accept has returned a comm",
        listener_first,
    ),
    ContractCheck::any(
        "close-gives-back",
        "closing a connection frees its descriptors and threads",
        gives_back,
    ),
    ContractCheck::any(
        "close-seen-by-receiver",
        "a receive whose peer has closed is never done",
        seen_by_receiver,
    ),
    ContractCheck::any(
        "close-seen-by-sender",
        "sends to a closed peer raise no signal, and an error is reported if the plugin has one",
        seen_by_sender,
    ),
    ContractCheck::any(
        "close-after-data",
        "messages sent before the peer closed still arrive",
        after_data,
    ),
    ContractCheck::any(
        "close-by-sender-midway",
        "a receive whose sender closes mid-message is never done without all its bytes",
        sender_leaves,
    ),
    ContractCheck::any(
        "close-by-receiver-midway",
        "a send whose receiver closes mid-message is not done, or all bytes arrive",
        receiver_leaves,
    ),
    ContractCheck::tcpx(
        "close-keeps-saying",
        "every test after the peer closed is rc 2, with a log message",
        keeps_saying,
    ),
    ContractCheck::tcpx("close-null", "closing a null comm is rc 0", null),
];

/// A close that takes longer, on the clock of `Pace`, counts as blocking.
const CLOSE_MAX: Duration = Duration::from_secs(2);
const LEN: usize = 4096;
/// Most tests that may report the close before the data is reported.
const REFUSALS_MAX: usize = 100;
/// More bytes than the kernel's socket buffers hold.
const LARGE: usize = 64 << 20;

fn outstanding(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 8, LEN)?;
    for message in 0..4 {
        pair.receive(message, LEN)?;
    }
    let mut other = Pair::on_host(subject, 8, LEN)?;
    for message in 0..4 {
        other.try_send(message, LEN)??;
    }
    let sends = other.sends.len();
    watch(|| {
        pair.test_receive()?;
        other.test_send().map(drop)
    })?;
    let (started, pace) = (Instant::now(), Pace::start());
    pair.close()?;
    other.close()?;
    let (took, worked) = (started.elapsed(), pace.elapsed());
    owe(worked < CLOSE_MAX, || format!("closing took {worked:.1?}"))?;
    Ok(format!(
        "4 unmatched receives and {sends} unmatched sends outstanding, closed in {took:.1?}"
    ))
}

fn listener_first(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::connect(subject)?;
    pair.close_listener()?;
    pair.allocate(crate::gpu::HostMemory::host(), 4, LEN)?;
    exchange(&mut pair, &[LEN; 16], 4)?;
    pair.close()?;
    Ok("16 messages moved after the listener was closed".into())
}

fn gives_back(subject: &Subject<'_>) -> Checked {
    const CONNECTIONS: usize = 4;
    let round = || -> Checked<()> {
        let mut pairs = (0..CONNECTIONS)
            .map(|_| Pair::start(subject))
            .collect::<Checked<Vec<_>>>()?;
        poll("four connections", subject.connect_patience(), || {
            let standing = pairs
                .iter_mut()
                .map(Pair::step)
                .collect::<Checked<Vec<bool>>>()?;
            Ok(standing.iter().all(|standing| *standing).then_some(()))
        })?;
        for pair in &mut pairs {
            pair.allocate(crate::gpu::HostMemory::host(), 1, LEN)?;
            exchange(pair, &[LEN], 1)?;
        }
        pairs.into_iter().try_for_each(Pair::close)
    };
    // The plugin may keep resources that it opens for the first connections.
    round()?;
    let before = (descriptors(), threads());
    round()?;
    let after = poll("descriptors and threads are freed", CLOSE_MAX, || {
        let now = (descriptors(), threads());
        Ok((now.0 < before.0 + CONNECTIONS && now.1 < before.1 + CONNECTIONS).then_some(now))
    });
    let after = after.map_err(|_| {
        let now = (descriptors(), threads());
        Shortfall::Broken(format!(
            "after opening and closing {CONNECTIONS} more connections: {} descriptors became {}, {} threads became {}",
            before.0, now.0, before.1, now.1
        ))
    })?;
    Ok(format!(
        "{CONNECTIONS} more connections opened and closed: descriptors {} before, {} after; threads {} before, {} after",
        before.0, after.0, before.1, after.1
    ))
}

/// What a row says if the plugin reports no error after the peer has closed, which is allowed.
const SILENT: &str = "no error reported: only a watchdog detects this";

/// Repeats `step` until it fails, and returns the plugin's error. A plugin that has not failed after
/// `PATIENCE` reports none.
fn error_in(
    mut step: impl FnMut() -> Checked<Result<(), PluginError>>,
) -> Checked<Option<PluginError>> {
    within(PATIENCE, || Ok(step()?.err()))
}

fn seen_by_receiver(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    let request = pair.receives[0].request;
    watch(|| {
        let is_done = pair.test_receive()?;
        owe(!is_done, || {
            "the receive was done although nothing was sent".into()
        })
    })?;
    pair.close_sender()?;
    let started = Instant::now();
    let error = error_in(|| match subject.net.test(request) {
        Ok(tested) => owe(!tested.done, || {
            "the receive was done although nothing was sent".into()
        })
        .map(Ok),
        Err(error) => Ok(Err(error)),
    })?;
    let took = started.elapsed();
    pair.close()?;
    Ok(match error {
        Some(error) => format!("{error}, {took:.1?} after the close"),
        None => format!("not done in {took:.1?} after the close; {SILENT}"),
    })
}

fn seen_by_sender(subject: &Subject<'_>) -> Checked {
    // One task chunk per message: TCPX reports nothing when a data socket dies in the
    // middle of a chunk, and rc 2 when the next header cannot be sent.
    let mut pair = Pair::on_host(subject, 1, 1)?;
    pair.open()?;
    pair.close_receiver()?;
    let mut completed = 0;
    let error = error_in(|| {
        let posted = if pair.sends.is_empty() {
            pair.try_send(0, 1)?.map(drop)
        } else {
            Ok(())
        };
        if posted.is_err() {
            return Ok(posted);
        }
        let Some(oldest) = pair.sends.front() else {
            return Ok(Ok(()));
        };
        match subject.net.test(oldest.request) {
            Ok(tested) if tested.done => {
                pair.sends.pop_front();
                completed += 1;
                Ok(Ok(()))
            }
            answer => Ok(answer.map(drop)),
        }
    })?;
    pair.close()?;
    Ok(match error {
        Some(error) => format!("{completed} sends done, then {error}"),
        None => format!("{completed} sends done; {SILENT}"),
    })
}

fn after_data(subject: &Subject<'_>) -> Checked {
    const MESSAGES: usize = 4;
    let mut pair = Pair::on_host(subject, MESSAGES, LEN)?;
    for message in 0..MESSAGES {
        pair.receive(message, LEN)?;
    }
    for message in 0..MESSAGES {
        pair.send(message, LEN)?;
    }
    // Without testing the receives if possible, so that all data is unread when the sender closes.
    watch(|| pair.test_send().map(drop))?;
    poll("four sends are done", PATIENCE, || {
        if pair.sends.is_empty() {
            return Ok(Some(()));
        }
        pair.drive()?;
        Ok(None)
    })?;
    pair.close_sender()?;
    let mut refusals = 0;
    poll("messages sent before the close arrive", PATIENCE, || {
        match pair.try_test_receive() {
            Ok(_) => {}
            // TCPX may report the close once before it reports the data.
            Err(PluginError::Refused {
                code: SYSTEM_ERROR, ..
            }) if refusals < REFUSALS_MAX => refusals += 1,
            Err(error) => {
                let arrived = pair.done.len();
                return Err(Shortfall::Broken(format!(
                    "{arrived} of {MESSAGES} messages arrived, then {error}"
                )));
            }
        }
        Ok(pair.receives.is_empty().then_some(()))
    })?;
    for message in 0..MESSAGES {
        pair.verify(message, LEN)?;
        pair.hand_back()?;
    }
    pair.close()?;
    Ok(format!(
        "{MESSAGES} messages, all verified; {refusals} tests returned rc 2 before that"
    ))
}

fn keeps_saying(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, 1, LEN)?;
    pair.receive(0, LEN)?;
    pair.close_sender()?;
    let request = pair.receives[0].request;
    let refused = || match subject.net.test(request) {
        Ok(_) => Ok(None),
        Err(PluginError::Refused {
            code: SYSTEM_ERROR,
            said,
            ..
        }) => Ok(Some(said.join(" / "))),
        Err(error) => Err(error.into()),
    };
    let words = poll("test is rc 2", PATIENCE, refused)?;
    owe(words.contains("Connection closed by remote peer"), || {
        format!("rc 2, but it logged {words:?}")
    })?;
    for _ in 0..20 {
        owe(refused()?.is_some(), || "rc 2 at first, rc 0 later".into())?;
    }
    pair.close()?;
    Ok(format!("rc 2 on 20 more tests: {words}"))
}

/// A pair with a partly transmitted message that is larger than the kernel's buffers.
fn cut_off<'a>(subject: &Subject<'a>) -> Checked<Pair<'a>> {
    let mut pair = Pair::on_host(subject, 1, LARGE)?;
    pair.receive(0, LARGE)?;
    pair.send(0, LARGE)?;
    for _ in 0..4 {
        if pair.drive()? {
            let why = format!(
                "all {LARGE} bytes arrived within four tests of each end, so no transfer can be interrupted"
            );
            return Err(Shortfall::NotOwed(why));
        }
    }
    Ok(pair)
}

fn sender_leaves(subject: &Subject<'_>) -> Checked {
    let mut pair = cut_off(subject)?;
    pair.close_sender()?;
    let seen = match not_done(subject, pair.receives[0].request)? {
        Some(seen) => seen,
        None if pair.verify(0, LARGE).is_ok() => MOVED_AFTERWARDS.into(),
        None => {
            let why = "done without all its bytes, although the other end closed mid-message";
            return Err(Shortfall::Broken(why.into()));
        }
    };
    pair.close()?;
    Ok(seen)
}

fn receiver_leaves(subject: &Subject<'_>) -> Checked {
    let mut pair = cut_off(subject)?;
    pair.close_receiver()?;
    let seen = match not_done(subject, pair.sends[0].request)? {
        Some(seen) => seen,
        None if pair.verify(0, LARGE).is_ok() => MOVED_AFTERWARDS.into(),
        // NCCL takes a send as done once its buffer may be written again.
        None => {
            let why = "the send is done, but its receiver closed before all bytes had arrived; a plugin may keep a copy";
            return Err(Shortfall::NotOwed(why.into()));
        }
    };
    pair.close()?;
    Ok(seen)
}

/// What is said of a plugin whose threads complete a message one end of which was closed.
const MOVED_AFTERWARDS: &str = "the plugin moved the rest after the close, all bytes verified";

/// The evidence that a request was not done; `None` if it was.
fn not_done(subject: &Subject<'_>, request: Request) -> Checked<Option<String>> {
    let mut said = None;
    let mut tests = 0;
    let done = seek(|| {
        tests += 1;
        match subject.net.test(request) {
            Ok(tested) => return Ok(tested.done.then_some(())),
            Err(error) => said = Some(error.to_string()),
        }
        Ok(None)
    })?;
    let said = said.unwrap_or_else(|| SILENT.into());
    Ok(done.is_none().then(|| {
        format!("interrupted message of {LARGE} bytes: not done in {tests} tests; {said}")
    }))
}

fn null(subject: &Subject<'_>) -> Checked {
    let answers = Raw::of(subject.net).close_null()?;
    owe(answers.iter().all(|answer| answer.code == SUCCESS), || {
        format!("closeSend, closeRecv, closeListen: {answers:?}")
    })?;
    Ok("closeSend, closeRecv, closeListen rc 0".into())
}
