//! How many requests a comm accepts, and how it refuses one more.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, Shortfall, Subject, owe, refused, seek};
use crate::plugin::PluginResult;
use tcpx_abi::result::INTERNAL_ERROR;

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "slots-receives",
        "a comm accepts at least 8 receives and completes all that it accepted",
        receives,
    ),
    ContractCheck::any(
        "slots-sends",
        "a comm accepts at least 8 sends and completes all that it accepted",
        sends,
    ),
    ContractCheck::any(
        "slots-every-depth",
        "windows of every depth up to the plugin's limit move all bytes",
        every_depth,
    ),
    ContractCheck::tcpx(
        "slots-17th-receive",
        "16 receives are accepted; the 17th is rc 3, with a log message",
        seventeenth_receive,
    ),
    ContractCheck::tcpx(
        "slots-17th-send",
        "16 sends are accepted; the 17th is rc 3, with a log message",
        seventeenth_send,
    ),
    ContractCheck::tcpx(
        "slots-unconsumed",
        "a done receive keeps its slot until it is consumed",
        unconsumed,
    ),
];

/// Fewest requests that a comm must accept; NCCL needs no more.
const NEEDED: usize = 8;
/// Most requests that the suite posts.
const ASKED: usize = 64;
const SLOTS: usize = 16;
const LEN: usize = 4096;
const WORDS: &str = "unable to allocate requests";

type Post<'a> = fn(&mut Pair<'a>, usize, usize) -> Checked<PluginResult<bool>>;

/// Posts up to `most` messages until the plugin accepts no more. Returns how many it accepted, and
/// its last answer. A "not yet" need not mean that the comm is full, so the post is repeated for a
/// while, and the peer's requests are tested meanwhile.
fn fill<'a>(
    pair: &mut Pair<'a>,
    most: usize,
    post: Post<'a>,
    meanwhile: fn(&mut Pair<'a>) -> Checked<bool>,
) -> Checked<(usize, String)> {
    for taken in 0..most {
        let answer = seek(|| match post(pair, taken, LEN)? {
            Ok(false) => meanwhile(pair).map(|_| None),
            answer => Ok(Some(answer)),
        })?;
        match answer {
            Some(Ok(_)) => {}
            None => return Ok((taken, "rc 0 with a null request".into())),
            Some(Err(error)) => return Ok((taken, error.to_string())),
        }
    }
    Ok((most, "not tried".into()))
}

fn fill_receives(pair: &mut Pair<'_>, most: usize) -> Checked<(usize, String)> {
    fill(pair, most, Pair::try_receive, Pair::test_send)
}

fn receives(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, ASKED, LEN)?;
    let (taken, answer) = fill_receives(&mut pair, ASKED)?;
    owe(taken >= NEEDED, || {
        format!("{taken} receives accepted, the next one: {answer}")
    })?;
    complete(&mut pair, taken, Pair::send)?;
    pair.close()?;
    Ok(format!(
        "{taken} accepted, all completed; the next one: {answer}"
    ))
}

fn sends(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, ASKED, LEN)?;
    // Some plugins accept sends only if receives are posted.
    let posted = fill_receives(&mut pair, NEEDED)?.0;
    let (taken, answer) = fill(&mut pair, ASKED, Pair::try_send, Pair::test_receive)?;
    owe(taken >= NEEDED, || {
        format!("{taken} sends accepted, the next one: {answer}")
    })?;
    for message in 0..taken {
        if message >= posted {
            pair.receive(message, LEN)?;
        }
        finish_one(&mut pair, message)?;
    }
    pair.finish()?;
    pair.close()?;
    Ok(format!(
        "{taken} accepted, all completed; the next one: {answer}"
    ))
}

fn finish_one(pair: &mut Pair<'_>, message: usize) -> Checked<()> {
    super::subject::poll("a receive becomes done", super::subject::PATIENCE, || {
        pair.drive()?;
        Ok((!pair.done.is_empty()).then_some(()))
    })?;
    pair.verify(message, LEN)?;
    pair.hand_back()
}

/// Posts the other end of `taken` messages and verifies each.
fn complete<'a>(
    pair: &mut Pair<'a>,
    taken: usize,
    post: impl Fn(&mut Pair<'a>, usize, usize) -> Checked<()>,
) -> Checked<()> {
    for message in 0..taken {
        post(pair, message, LEN)?;
        finish_one(pair, message)?;
    }
    pair.finish()
}

fn every_depth(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, ASKED, LEN)?;
    let (limit, answer) = fill_receives(&mut pair, ASKED)?;
    owe(limit > 0, || format!("no receive accepted: {answer}"))?;
    complete(&mut pair, limit, Pair::send)?;
    for depth in (1..=limit).filter(|depth| *depth <= SLOTS || depth.is_power_of_two()) {
        let moved = exchange(&mut pair, &vec![LEN; 3 * depth], depth);
        moved.map_err(|shortfall| at_depth(depth, shortfall))?;
    }
    pair.close()?;
    Ok(format!(
        "depths 1 to {limit}, three windows each, all verified"
    ))
}

fn at_depth(depth: usize, shortfall: Shortfall) -> Shortfall {
    match shortfall {
        Shortfall::Broken(why) => Shortfall::Broken(format!("with a window of {depth}: {why}")),
        other => other,
    }
}

fn seventeenth_receive(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, SLOTS + 1, LEN)?;
    for message in 0..SLOTS {
        pair.receive(message, LEN)?;
    }
    let words = full(pair.try_receive(SLOTS, LEN)?)?;
    complete(&mut pair, SLOTS, Pair::send)?;
    pair.close()?;
    Ok(format!("16 accepted, the 17th rc 3: {words}"))
}

fn seventeenth_send(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, SLOTS + 1, LEN)?;
    for message in 0..SLOTS {
        pair.send(message, LEN)?;
    }
    let words = full(pair.try_send(SLOTS, LEN)?)?;
    complete(&mut pair, SLOTS, Pair::receive)?;
    pair.close()?;
    Ok(format!("16 accepted, the 17th rc 3: {words}"))
}

fn unconsumed(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::on_host(subject, SLOTS, LEN)?;
    for message in 0..SLOTS {
        pair.receive(message, LEN)?;
        pair.send(message, LEN)?;
        pair.finish()?;
    }
    let words = full(pair.try_receive(SLOTS, LEN)?)?;
    // The refused post has blanked the slot of message 0; the others are intact.
    for message in 1..SLOTS {
        pair.verify(message, LEN)?;
    }
    pair.hand_back()?;
    pair.receive(SLOTS, LEN)?;
    full(pair.try_receive(SLOTS + 1, LEN)?)?;
    pair.send(SLOTS, LEN)?;
    pair.finish()?;
    pair.close()?;
    Ok(format!(
        "16 done, none consumed: the 17th is rc 3: {words}; after one consume, it is accepted"
    ))
}

/// Checks that a full comm refused the post, and returns its log message.
fn full(answer: PluginResult<bool>) -> Checked {
    let words = refused(answer, INTERNAL_ERROR, "a post on a full comm")?;
    owe(words.contains(WORDS), || {
        format!("rc 3, but it logged {words:?} instead of `{WORDS}`")
    })?;
    Ok(words)
}
