//! Malformed calls, made on the raw table because the safe `Net` does not allow them.
//!
//! Each function makes exactly one malformed call, and its SAFETY note says why that call
//! is safe to make: "answers" means that TCPX 3.1.9 was observed to return an error for
//! exactly these arguments, and that every plugin of its family must do the same. Calls
//! that TCPX does not survive are in `fatal`.
//!
//! All ABI versions are called alike: `plugin::Calls` drops the arguments that a version
//! does not have.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

use super::subject::{Checked, Shortfall};
use crate::gpu::{Region, Span};
use crate::plugin::{
    Calls, Comm, ConnectHandle, DeviceHandle, GROUP_MAX, MHandle, Net, RecvComm, Request, SendComm,
    forget_said, take_said,
};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use tcpx_abi::{HANDLE_MAX, ResultCode};

/// Value of an out-parameter before the call.
pub(super) const UNWRITTEN: c_int = -0x5eed;

/// A result code and the WARN lines that the plugin logged during the call.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) code: ResultCode,
    said: Vec<String>,
}

impl Answer {
    /// The plugin's WARN lines, or "nothing logged".
    pub(super) fn words(&self) -> String {
        if self.said.is_empty() {
            "nothing logged".into()
        } else {
            self.said.join(" / ")
        }
    }
}

/// Makes a call, if the table has that member, and collects the plugin's WARN lines.
pub(super) fn ask(
    name: &'static str,
    call: impl FnOnce() -> Option<ResultCode>,
) -> Checked<Answer> {
    forget_said();
    let code = call().ok_or_else(absent(name))?;
    Ok(Answer {
        code,
        said: take_said(),
    })
}

/// The raw table.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a>(pub(super) &'a dyn Calls);

/// The shortfall of a row that needs a call which the table lacks.
pub(super) fn absent(call: &'static str) -> impl FnOnce() -> Shortfall {
    move || Shortfall::NotOwed(format!("the table has no {call}"))
}

/// A connect handle followed by bytes that the plugin must not write.
#[repr(C, align(16))]
pub(super) struct Guarded {
    pub(super) handle: [u8; HANDLE_MAX],
    pub(super) behind: [u8; 512],
}

/// The result of a `test` call and its out-parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) code: ResultCode,
    pub(super) done: c_int,
    pub(super) sizes: [c_int; GROUP_MAX],
}

impl<'a> Raw<'a> {
    pub(super) fn of(net: &'a dyn Net) -> Self {
        Self(net.calls())
    }

    /// `listen` on any device number, with a guard behind the handle. Returns the answer
    /// and how many guard bytes were written, and closes the listener again.
    pub(super) fn listen(self, device: c_int) -> Checked<(Answer, usize)> {
        let mut buffer = Guarded {
            handle: [0; HANDLE_MAX],
            behind: [0xa5; 512],
        };
        let (whole, mut raw) = ((&raw mut buffer).cast::<c_void>(), null_mut());
        // SAFETY: a legal call but for the number, whose check answers; the
        // pointer reaches over the guard as well.
        let answer = ask("listen", || unsafe {
            self.0.listen(null_mut(), device, whole, &mut raw)
        })?;
        if !raw.is_null() {
            // SAFETY: just made, and used by nobody else.
            unsafe { self.0.close_listen(raw) };
        }
        Ok((
            answer,
            buffer.behind.iter().filter(|byte| **byte != 0xa5).count(),
        ))
    }

    /// `connect` from device -1, with the handle of a real listener.
    pub(super) fn connect_from_nowhere(self, handle: ConnectHandle) -> Checked<Answer> {
        let mut buffer = Guarded {
            handle: handle.0,
            behind: [0; 512],
        };
        let (whole, mut raw, mut device): (_, _, *mut DeviceHandle) =
            ((&raw mut buffer).cast::<c_void>(), null_mut(), null_mut());
        // SAFETY: the number is checked before anything is read; answers.
        ask("connect", || unsafe {
            self.0.connect(null_mut(), -1, whole, &mut raw, &mut device)
        })
    }

    /// `isend` without a registration.
    pub(super) fn send_unregistered(self, comm: &SendComm, data: Span) -> Checked<(Answer, bool)> {
        let (comm, buffer, mut raw) = (
            Comm::Send(comm).as_ptr(),
            data.as_ptr().cast::<c_void>(),
            null_mut(),
        );
        // SAFETY: comm and data are good; a null registration answers.
        let answer = ask("isend", || unsafe {
            self.0
                .isend(comm, buffer, data.len(), 0, null_mut(), &mut raw)
        })?;
        Ok((answer, raw.is_null()))
    }

    /// An `irecv` that is legal except for null `tags`, which TCPX does not read.
    pub(super) fn receive_untagged(
        self,
        comm: &RecvComm,
        data: Span,
        mhandle: &MHandle,
    ) -> Checked<(Answer, Option<Request>)> {
        let (comm, buffer, mut raw) = (
            Comm::Recv(comm).as_ptr(),
            data.as_ptr().cast::<c_void>(),
            null_mut(),
        );
        let (tags, mhandle) = (null_mut(), mhandle.as_ptr());
        // SAFETY: legal for TCPX, and only asked of its family.
        let answer = ask("irecv", || unsafe {
            self.0
                .irecv(comm, buffer, data.len(), tags, mhandle, &mut raw)
        })?;
        Ok((answer, Request::from_ptr(raw)))
    }

    /// `irecv` of `n` grouped receives, one per span of `data`. Receives beyond the last
    /// span share it.
    pub(super) fn receive_grouped(
        self,
        comm: &RecvComm,
        n: c_int,
        data: &[Span],
        mhandle: &MHandle,
    ) -> Checked<(Answer, Option<Request>)> {
        let last = data.last().ok_or_else(|| {
            Shortfall::Broken("selftest bug: a grouped receive without a buffer".into())
        })?;
        let of = |at: usize| data.get(at).unwrap_or(last);
        let mut buffers: [*mut c_void; GROUP_MAX] =
            std::array::from_fn(|at| of(at).as_ptr().cast::<c_void>());
        let sizes: [usize; GROUP_MAX] = std::array::from_fn(|at| of(at).len());
        let mut tags: [c_int; GROUP_MAX] = std::array::from_fn(|at| at as c_int);
        let (mut mhandles, mut raw) = ([mhandle.as_ptr(); GROUP_MAX], null_mut());
        let (comm, n) = (Comm::Recv(comm).as_ptr(), n.clamp(-1, GROUP_MAX as c_int));
        let (buffers, tags, mhandles) = (
            buffers.as_mut_ptr(),
            tags.as_mut_ptr(),
            mhandles.as_mut_ptr(),
        );
        // SAFETY: every array is long enough for the greatest `n`, even for a
        // plugin that would read it; a wrong count answers.
        let answer = ask("grouped irecv", || unsafe {
            self.0
                .irecv_grouped(comm, n, buffers, &sizes, tags, mhandles, &mut raw)
        })?;
        Ok((answer, Request::from_ptr(raw)))
    }

    /// `isend` with the given tag.
    pub(super) fn send_tagged(
        self,
        comm: &SendComm,
        data: Span,
        tag: c_int,
        mhandle: &MHandle,
    ) -> Checked<(Answer, Option<Request>)> {
        let (comm, buffer, mut raw) = (
            Comm::Send(comm).as_ptr(),
            data.as_ptr().cast::<c_void>(),
            null_mut(),
        );
        // SAFETY: a legal call.
        let answer = ask("isend", || unsafe {
            self.0
                .isend(comm, buffer, data.len(), tag, mhandle.as_ptr(), &mut raw)
        })?;
        Ok((answer, Request::from_ptr(raw)))
    }

    /// `test` of a null request.
    pub(super) fn test_null(self) -> Checked<Answer> {
        let (mut done, mut sizes) = (0, [0; GROUP_MAX]);
        // SAFETY: a null request answers; the rest is ours to write.
        ask("test", || unsafe {
            self.0.test(null_mut(), &mut done, sizes.as_mut_ptr())
        })
    }

    /// A legal `test`. Returns its out-parameters as well.
    pub(super) fn test(self, request: Request) -> Checked<Written> {
        let (mut done, mut sizes) = (UNWRITTEN, [UNWRITTEN; GROUP_MAX]);
        // SAFETY: as `Net::test`, with room for more sizes than it may write.
        let code = unsafe { self.0.test(request.as_ptr(), &mut done, sizes.as_mut_ptr()) };
        Ok(Written {
            code: code.ok_or_else(absent("test"))?,
            done,
            sizes,
        })
    }

    /// `irecvConsumed` with count `n`; `None` passes a null request.
    pub(super) fn consume(
        self,
        comm: Comm<'_>,
        n: c_int,
        request: Option<Request>,
    ) -> Checked<Answer> {
        let raw = request.map_or(null_mut(), Request::as_ptr);
        // SAFETY: null, a wrong count and a send's request all answer.
        ask("irecvConsumed", || unsafe {
            self.0.irecv_consumed(comm.as_ptr(), n, raw)
        })
    }

    /// `iflush` of a request. Returns the answer and the size that the plugin wrote. A null
    /// request crashes TCPX.
    pub(super) fn flush(
        self,
        comm: &RecvComm,
        n: c_int,
        request: Option<Request>,
    ) -> Checked<(Answer, c_int)> {
        let (mut buffers, mut sizes) = ([null_mut(); GROUP_MAX], [UNWRITTEN; GROUP_MAX]);
        let mut mhandles = [null_mut(); GROUP_MAX];
        let mut raw = request.map_or(null_mut(), Request::as_ptr);
        let comm = Comm::Recv(comm).as_ptr();
        let (data, told, registrations) = (
            buffers.as_mut_ptr(),
            sizes.as_mut_ptr(),
            mhandles.as_mut_ptr(),
        );
        // SAFETY: TCPX reads the size of the request it is given and nothing
        // else; a wrong count answers. Only the family is asked.
        let answer = ask("iflush", || unsafe {
            self.0.iflush(comm, n, data, told, registrations, &mut raw)
        })?;
        Ok((answer, sizes[0]))
    }

    /// `regMr` with any memory type, or with a null comm. Deregisters again if accepted.
    pub(super) fn register(
        self,
        comm: Option<Comm<'_>>,
        region: &Region,
        kind: c_int,
    ) -> Checked<Answer> {
        self.register_part(comm, region, region.len(), kind)
    }

    /// As `register`, for the first `len` bytes of the region; 0 is allowed.
    pub(super) fn register_part(
        self,
        comm: Option<Comm<'_>>,
        region: &Region,
        len: usize,
        kind: c_int,
    ) -> Checked<Answer> {
        let comm = comm.map_or(null_mut(), Comm::as_ptr);
        let (data, mut raw) = (region.as_ptr().cast::<c_void>(), null_mut());
        // SAFETY: the memory is good; a null comm and an unknown type answer.
        let answer = ask("regMr", || unsafe {
            self.0.reg_mr(comm, data, len, kind, &mut raw)
        })?;
        if !raw.is_null() {
            // SAFETY: just made, on this comm.
            unsafe { self.0.dereg_mr(comm, raw) };
        }
        Ok(answer)
    }

    /// `deregMr` of a null mhandle.
    pub(super) fn deregister_null(self, comm: Option<Comm<'_>>) -> Checked<Answer> {
        let comm = comm.map_or(null_mut(), Comm::as_ptr);
        // SAFETY: TCPX looks at the registration first, and null is nothing to end.
        ask("deregMr", || unsafe { self.0.dereg_mr(comm, null_mut()) })
    }

    /// `closeSend`, `closeRecv` and `closeListen` of a null comm.
    pub(super) fn close_null(self) -> Checked<[Answer; 3]> {
        // SAFETY: TCPX closes nothing with rc 0.
        let send = ask("closeSend", || unsafe { self.0.close_send(null_mut()) })?;
        // SAFETY: as above.
        let recv = ask("closeRecv", || unsafe { self.0.close_recv(null_mut()) })?;
        // SAFETY: as above.
        let listen = ask("closeListen", || unsafe { self.0.close_listen(null_mut()) })?;
        Ok([send, recv, listen])
    }
}
