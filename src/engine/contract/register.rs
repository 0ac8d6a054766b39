//! Memory registration: what must be accepted, what must be refused, and that nothing leaks.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::calls::Raw;
use super::pair::Pair;
use super::subject::{Checked, Subject, descriptors, owe, refused};
use crate::gpu::{DeviceMemory, HostMemory};
use crate::plugin::Comm;
use tcpx_abi::result::{INTERNAL_ERROR, SUCCESS};

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "register-sizes",
        "both ends register host memory of any size",
        sizes,
    ),
    ContractCheck::any(
        "register-offsets",
        "host memory needs no alignment",
        offsets,
    ),
    ContractCheck::any(
        "register-many",
        "256 registrations at once, deregistered in any order",
        many,
    ),
    ContractCheck::any(
        "register-storm",
        "2000 registrations in a row leak no descriptor",
        storm,
    ),
    ContractCheck::tcpx(
        "register-alignment",
        "device memory not aligned to 4 KiB is rc 3, with a log message",
        alignment,
    ),
    ContractCheck::tcpx(
        "register-null-comm",
        "regMr on a null comm is rc 3",
        null_comm,
    ),
    ContractCheck::tcpx(
        "register-unknown-type",
        "regMr of a type other than host and CUDA is rc 3",
        unknown_type,
    ),
    ContractCheck::tcpx(
        "deregister-null",
        "deregMr of a null mhandle is rc 0, with and without a comm",
        null,
    ),
    ContractCheck::tcpx(
        "deregister-after-close",
        "memory can be deregistered after its comm is closed",
        after_close,
    ),
];

fn sizes(subject: &Subject<'_>) -> Checked {
    let sizes = [1, 512, 4095, 4096, 1 << 20, (1 << 20) + 1, 64 << 20];
    let region = HostMemory::host().allocate(64 << 20)?;
    let pair = Pair::connect(subject)?;
    for comm in [Comm::Send(pair.sender()?), Comm::Recv(pair.receiver()?)] {
        for len in sizes {
            let mhandle = subject.net.reg_mr(comm, &region, 0, len)?;
            subject.net.dereg_mr(comm, mhandle)?;
        }
    }
    pair.close()?;
    Ok(format!("{sizes:?} bytes on both ends"))
}

fn offsets(subject: &Subject<'_>) -> Checked {
    let offsets = [1, 3, 511, 512, 4095, 4096];
    let region = HostMemory::host().allocate(16 << 10)?;
    let pair = Pair::connect(subject)?;
    for comm in [Comm::Send(pair.sender()?), Comm::Recv(pair.receiver()?)] {
        for offset in offsets {
            let mhandle = subject.net.reg_mr(comm, &region, offset, 4096)?;
            subject.net.dereg_mr(comm, mhandle)?;
        }
    }
    pair.close()?;
    Ok(format!("offsets {offsets:?} on both ends"))
}

fn many(subject: &Subject<'_>) -> Checked {
    const COUNT: usize = 256;
    let region = HostMemory::host().allocate(COUNT * 4096)?;
    let pair = Pair::connect(subject)?;
    let comm = Comm::Send(pair.sender()?);
    let mut live = Vec::new();
    for number in 0..COUNT {
        live.push(subject.net.reg_mr(comm, &region, number * 4096, 4096)?);
    }
    // First every third registration, then the rest from the back.
    for at in (0..COUNT).rev().filter(|at| at % 3 == 0) {
        let mhandle = live.swap_remove(at);
        subject.net.dereg_mr(comm, mhandle)?;
    }
    while let Some(mhandle) = live.pop() {
        subject.net.dereg_mr(comm, mhandle)?;
    }
    pair.close()?;
    Ok(format!("{COUNT} at once, deregistered out of order"))
}

/// A plugin may open what it keeps in any registration, so the second half of them is compared
/// with the first: a leak goes on.
fn storm(subject: &Subject<'_>) -> Checked {
    const HALF: usize = 1000;
    /// Descriptors that another thread of the plugin may have open at the moment.
    const SPARE: usize = 4;
    let region = HostMemory::host().allocate(1 << 20)?;
    let pair = Pair::connect(subject)?;
    let comm = Comm::Recv(pair.receiver()?);
    let before = descriptors();
    let half = || -> Checked<usize> {
        for _ in 0..HALF {
            let mhandle = subject.net.reg_mr(comm, &region, 0, 1 << 20)?;
            subject.net.dereg_mr(comm, mhandle)?;
        }
        Ok(descriptors())
    };
    let (middle, after) = (half()?, half()?);
    owe(after <= middle + SPARE, || {
        format!(
            "{before} descriptors open before, {middle} after {HALF} registrations, {after} after {HALF} more"
        )
    })?;
    pair.close()?;
    Ok(format!(
        "2000 registrations, {before} descriptors open before, {after} after"
    ))
}

fn alignment(subject: &Subject<'_>) -> Checked {
    let memory = subject.stand_in()?;
    let region = memory.allocate(64 << 10)?;
    let pair = Pair::connect(subject)?;
    let mut said = String::new();
    for comm in [Comm::Send(pair.sender()?), Comm::Recv(pair.receiver()?)] {
        for offset in [1, 512, 2048, 4095] {
            let answer = subject.net.reg_mr(comm, &region, offset, 4096);
            said = refused(
                answer,
                INTERNAL_ERROR,
                &format!("device memory at offset {offset}"),
            )?;
            owe(said.contains("data not aligned"), || {
                format!("rc 3, but it logged {said:?}")
            })?;
        }
        for offset in [0, 4096, 8192] {
            let mhandle = subject.net.reg_mr(comm, &region, offset, 4096)?;
            subject.net.dereg_mr(comm, mhandle)?;
        }
    }
    pair.close()?;
    Ok(format!(
        "offsets 1, 512, 2048, 4095 rc 3 ({said}); 0, 4096, 8192 rc 0"
    ))
}

fn null_comm(subject: &Subject<'_>) -> Checked {
    let region = HostMemory::host().allocate(4096)?;
    let answer = Raw::of(subject.net).register(None, &region, tcpx_abi::PTR_HOST)?;
    owe(answer.code == INTERNAL_ERROR, || {
        format!("rc {}", answer.code)
    })?;
    Ok(format!("rc 3: {}", answer.words()))
}

fn unknown_type(subject: &Subject<'_>) -> Checked {
    let region = HostMemory::host().allocate(4096)?;
    let pair = Pair::connect(subject)?;
    let mut said = Vec::new();
    for kind in [tcpx_abi::PTR_DMABUF, 0, 99] {
        let comm = Comm::Send(pair.sender()?);
        let answer = Raw::of(subject.net).register(Some(comm), &region, kind)?;
        owe(answer.code == INTERNAL_ERROR, || {
            format!("type {kind} is rc {}", answer.code)
        })?;
        said.push(answer.words());
    }
    pair.close()?;
    Ok(format!("types 4, 0, 99 rc 3: {}", said.join(", ")))
}

fn null(subject: &Subject<'_>) -> Checked {
    let calls = Raw::of(subject.net);
    let pair = Pair::connect(subject)?;
    let codes = [
        calls.deregister_null(None)?.code,
        calls
            .deregister_null(Some(Comm::Send(pair.sender()?)))?
            .code,
        calls
            .deregister_null(Some(Comm::Recv(pair.receiver()?)))?
            .code,
    ];
    pair.close()?;
    owe(codes == [SUCCESS; 3], || format!("rc {codes:?}"))?;
    Ok("rc 0 in all three cases".into())
}

fn after_close(subject: &Subject<'_>) -> Checked {
    let region = HostMemory::host().allocate(4096)?;
    let (first, second) = (Pair::connect(subject)?, Pair::connect(subject)?);
    let mhandle = subject
        .net
        .reg_mr(Comm::Send(first.sender()?), &region, 0, 4096)?;
    first.close()?;
    // The comm passed to `deregMr` does not matter either.
    subject
        .net
        .dereg_mr(Comm::Recv(second.receiver()?), mhandle)?;
    second.close()?;
    Ok("registered on one comm, deregistered on another after the first was closed: rc 0".into())
}
