//! Calls that the safe `Net` does not allow, on the raw table.
//!
//! Each function makes one malformed call and no other, so whether it may be
//! made at all is said where it is made: "answers" below means that TCPX 3.1.9
//! was seen to return an error for exactly this shape, and that any other
//! plugin of its family must do as well. What it does not survive is in `fatal`.
//!
//! v7 and v8 differ in `regMr` only.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

use super::subject::{Checked, Shortfall};
use crate::gpu::{Region, Span};
use crate::plugin::{
    Comm, ConnectHandle, DeviceHandle, MHandle, Net, RawTable, RecvComm, Request, SendComm, forget_said, take_said,
};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use tcpx_abi::{HANDLE_MAX, ResultCode};

/// What an out-parameter holds before the call.
pub(super) const UNWRITTEN: c_int = -0x5eed;

/// A result code and the plugin's words.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) code: ResultCode,
    said: Vec<String>,
}

impl Answer {
    /// What the plugin said, or that it said nothing.
    pub(super) fn words(&self) -> String {
        if self.said.is_empty() { "no words".into() } else { self.said.join(" / ") }
    }
}

/// Makes a call and listens.
pub(super) fn ask(call: impl FnOnce() -> ResultCode) -> Answer {
    forget_said();
    let code = call();
    Answer { code, said: take_said() }
}

/// The raw table.
#[derive(Clone, Copy)]
pub(super) struct Calls(pub(super) RawTable);

/// A member of whichever table there is.
macro_rules! member {
    ($calls:expr, $member:ident) => {
        match $calls.0 {
            RawTable::V7(table) => table.$member,
            RawTable::V8(table) => table.$member,
        }
        .ok_or_else(|| Shortfall::NotOwed(concat!("the table has no ", stringify!($member)).into()))?
    };
}

pub(super) use member;

/// A connect handle with bytes behind it that nobody may write.
#[repr(C, align(16))]
pub(super) struct Guarded {
    pub(super) handle: [u8; HANDLE_MAX],
    pub(super) behind: [u8; 512],
}

/// What `test` wrote where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) code: ResultCode,
    pub(super) done: c_int,
    pub(super) sizes: [c_int; 4],
}

impl Calls {
    pub(super) fn of(net: &dyn Net) -> Self {
        Self(net.table())
    }

    /// `listen` on any device number, with a guard behind the handle; how many
    /// guard bytes were written. Closes the listener again.
    pub(super) fn listen(self, device: c_int) -> Checked<(Answer, usize)> {
        let (listen, close) = (member!(self, listen), member!(self, close_listen));
        let mut buffer = Guarded { handle: [0; HANDLE_MAX], behind: [0xa5; 512] };
        let (whole, mut raw) = ((&raw mut buffer).cast::<c_void>(), null_mut());
        // SAFETY: a legal call but for the number, whose check answers; the
        // pointer reaches over the guard as well.
        let answer = ask(|| unsafe { listen(device, whole, &mut raw) });
        if !raw.is_null() {
            // SAFETY: just made, and used by nobody else.
            unsafe { close(raw) };
        }
        Ok((answer, buffer.behind.iter().filter(|byte| **byte != 0xa5).count()))
    }

    /// `connect` from device -1, with the bytes of a real listener.
    pub(super) fn connect_from_nowhere(self, handle: ConnectHandle) -> Checked<Answer> {
        let connect = member!(self, connect);
        let mut buffer = Guarded { handle: handle.0, behind: [0; 512] };
        let (whole, mut raw, mut device): (_, _, *mut DeviceHandle) =
            ((&raw mut buffer).cast::<c_void>(), null_mut(), null_mut());
        // SAFETY: the number is checked before anything is read; answers.
        Ok(ask(|| unsafe { connect(-1, whole, &mut raw, &mut device) }))
    }

    /// `isend` without a registration.
    pub(super) fn send_unregistered(self, comm: &SendComm, data: Span) -> Checked<(Answer, bool)> {
        let isend = member!(self, isend);
        let (buffer, len, mut raw) = (data.as_ptr().cast::<c_void>(), data.len() as c_int, null_mut());
        // SAFETY: comm and data are good; a null registration answers.
        let answer = ask(|| unsafe { isend(Comm::Send(comm).as_ptr(), buffer, len, 0, null_mut(), &mut raw) });
        Ok((answer, raw.is_null()))
    }

    /// `irecv` of `n` grouped receives, each the same; n = 1 is legal, and then
    /// with null `tags`, which TCPX does not read.
    pub(super) fn receive_grouped(
        self,
        comm: &RecvComm,
        n: c_int,
        data: Span,
        mhandle: &MHandle,
    ) -> Checked<(Answer, Option<Request>)> {
        let irecv = member!(self, irecv);
        let (mut buffers, mut sizes) = ([data.as_ptr().cast::<c_void>(); 8], [data.len() as c_int; 8]);
        let (mut mhandles, mut raw) = ([mhandle.as_ptr(); 8], null_mut());
        let comm = Comm::Recv(comm).as_ptr();
        // SAFETY: `n` is at most eight, so every array is long enough even for a
        // plugin that would read it; a wrong count answers.
        let answer = ask(|| unsafe {
            irecv(
                comm,
                n.clamp(-1, 8),
                buffers.as_mut_ptr(),
                sizes.as_mut_ptr(),
                null_mut(),
                mhandles.as_mut_ptr(),
                &mut raw,
            )
        });
        Ok((answer, Request::from_ptr(raw)))
    }

    /// `test` of no request.
    pub(super) fn test_null(self) -> Checked<Answer> {
        let test = member!(self, test);
        let (mut done, mut sizes) = (0, [0; 4]);
        // SAFETY: a null request answers; the rest is ours to write.
        Ok(ask(|| unsafe { test(null_mut(), &mut done, sizes.as_mut_ptr()) }))
    }

    /// A legal `test`, and what it wrote.
    pub(super) fn test(self, request: Request) -> Checked<Written> {
        let test = member!(self, test);
        let (mut done, mut sizes) = (UNWRITTEN, [UNWRITTEN; 4]);
        // SAFETY: as `Net::test`, with room for more sizes than it may write.
        let code = unsafe { test(request.as_ptr(), &mut done, sizes.as_mut_ptr()) };
        Ok(Written { code, done, sizes })
    }

    /// `irecvConsumed` of `n` requests, or of none.
    pub(super) fn consume(self, comm: Comm<'_>, n: c_int, request: Option<Request>) -> Checked<Answer> {
        let consumed = member!(self, irecv_consumed);
        let raw = request.map_or(null_mut(), Request::as_ptr);
        // SAFETY: null, a wrong count and a send's request all answer.
        Ok(ask(|| unsafe { consumed(comm.as_ptr(), n, raw) }))
    }

    /// `iflush` with a request to ask about; the size it told. On TCPX a null
    /// request crashes.
    pub(super) fn flush(self, comm: &RecvComm, n: c_int, request: Option<Request>) -> Checked<(Answer, c_int)> {
        let iflush = member!(self, iflush);
        let (mut buffers, mut sizes, mut mhandles) = ([null_mut(); 8], [UNWRITTEN; 8], [null_mut(); 8]);
        let mut raw = request.map_or(null_mut(), Request::as_ptr);
        let comm = Comm::Recv(comm).as_ptr();
        // SAFETY: TCPX reads the size of the request it is given and nothing
        // else; a wrong count answers. Only the family is asked.
        let answer = ask(|| unsafe {
            iflush(comm, n, buffers.as_mut_ptr(), sizes.as_mut_ptr(), mhandles.as_mut_ptr(), &mut raw)
        });
        Ok((answer, sizes[0]))
    }

    /// `regMr` with any type, or without a comm; ended again when accepted.
    pub(super) fn register(self, comm: Option<Comm<'_>>, region: &Region, kind: c_int) -> Checked<Answer> {
        let comm = comm.map_or(null_mut(), Comm::as_ptr);
        let (data, len, mut raw) = (region.as_ptr().cast::<c_void>(), region.len(), null_mut());
        let none = || Shortfall::NotOwed("the table has no reg_mr".into());
        let answer = match self.0 {
            RawTable::V7(table) => {
                let reg_mr = table.reg_mr.ok_or_else(none)?;
                // SAFETY: the memory is good; a null comm and an unknown type answer.
                ask(|| unsafe { reg_mr(comm, data, len as c_int, kind, &mut raw) })
            }
            RawTable::V8(table) => {
                let reg_mr = table.reg_mr.ok_or_else(none)?;
                // SAFETY: as above.
                ask(|| unsafe { reg_mr(comm, data, len, kind, &mut raw) })
            }
        };
        if !raw.is_null() {
            let dereg_mr = member!(self, dereg_mr);
            // SAFETY: just made, on this comm.
            unsafe { dereg_mr(comm, raw) };
        }
        Ok(answer)
    }

    /// `deregMr` of no registration.
    pub(super) fn deregister_null(self, comm: Option<Comm<'_>>) -> Checked<Answer> {
        let dereg_mr = member!(self, dereg_mr);
        let comm = comm.map_or(null_mut(), Comm::as_ptr);
        // SAFETY: TCPX looks at the registration first, and null is nothing to end.
        Ok(ask(|| unsafe { dereg_mr(comm, null_mut()) }))
    }

    /// Every close of no comm.
    pub(super) fn close_null(self) -> Checked<[Answer; 3]> {
        let closes = [member!(self, close_send), member!(self, close_recv), member!(self, close_listen)];
        // SAFETY: TCPX closes nothing with rc 0.
        Ok(closes.map(|close| ask(|| unsafe { close(null_mut()) })))
    }
}
