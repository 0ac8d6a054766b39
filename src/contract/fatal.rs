//! Calls that TCPX 3.1.9 does not survive: it frees twice, reads what it freed,
//! or overruns memory. Its stand-in promises a refusal.
//!
//! Only rows that are `never_on_google` come here; on a plugin that breaks the
//! promise they cost a worker process, which is what workers are for.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

use super::calls::{Answer, Calls, Guarded, ask, member};
use super::subject::{Checked, PATIENCE, Shortfall, poll};
use crate::gpu::Span;
use crate::plugin::{Comm, ConnectHandle, DeviceHandle, ListenComm, MHandle, RawTable};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

impl Calls {
    /// `accept` on a listener that has delivered. Aborts on TCPX.
    pub(super) fn accept_again(self, listener: &ListenComm) -> Checked<(Answer, bool)> {
        let accept = member!(self, accept);
        let mut device = DeviceHandle {
            net_device_type: 0,
            net_device_version: 0,
            handle: null_mut(),
            size: 0,
            needs_proxy_progress: 0,
        };
        let (mut raw, mut pointer) = (null_mut(), &raw mut device);
        // SAFETY: only asked of plugins that promise an answer (see the row).
        let answer = ask(|| unsafe { accept(listener.as_ptr(), &mut raw, &mut pointer) });
        Ok((answer, raw.is_null()))
    }

    /// `connect` with a handle buffer of our own, until it delivers, and once
    /// more. Reads freed memory on TCPX. `meanwhile` drives the other end.
    pub(super) fn connect_twice(
        self,
        device: c_int,
        handle: ConnectHandle,
        mut meanwhile: impl FnMut() -> Checked<()>,
    ) -> Checked<(Answer, bool)> {
        let (connect, close) = (member!(self, connect), member!(self, close_send));
        let mut buffer = Guarded { handle: handle.0, behind: [0; 512] };
        let whole = (&raw mut buffer).cast::<c_void>();
        let none: *mut *mut DeviceHandle = &mut null_mut();
        let mut raw = null_mut();
        poll("connect", PATIENCE, || {
            meanwhile()?;
            // SAFETY: as `Net::connect`; the buffer stays where it is.
            let answer = ask(|| unsafe { connect(device, whole, &mut raw, none) });
            if answer.code != 0 {
                return Err(Shortfall::Broken(format!("connect rc {}: {}", answer.code, answer.words())));
            }
            Ok((!raw.is_null()).then_some(()))
        })?;
        let mut second = null_mut();
        // SAFETY: only asked of plugins that promise an answer (see the row).
        let answer = ask(|| unsafe { connect(device, whole, &mut second, none) });
        // SAFETY: the comm of the first connect, used by nobody else.
        unsafe { close(raw) };
        Ok((answer, second.is_null()))
    }

    /// `isend` with arguments that are all wrong in some way: no comm, a
    /// receiving comm, a negative size. None of these is survived by TCPX.
    pub(super) fn send_any(
        self,
        comm: Option<Comm<'_>>,
        data: Span,
        len: c_int,
        mhandle: &MHandle,
    ) -> Checked<(Answer, bool)> {
        let isend = member!(self, isend);
        let comm = comm.map_or(null_mut(), Comm::as_ptr);
        let (buffer, mut raw) = (data.as_ptr().cast::<c_void>(), null_mut());
        // SAFETY: only asked of plugins that promise an answer (see the row).
        let answer = ask(|| unsafe { isend(comm, buffer, len, 0, mhandle.as_ptr(), &mut raw) });
        Ok((answer, raw.is_null()))
    }

    /// `irecv` of one receive on any comm or none, registered or not. TCPX does
    /// not survive the wrong comm, and was not seen without a registration.
    pub(super) fn receive_any(
        self,
        comm: Option<Comm<'_>>,
        data: Span,
        mhandle: Option<&MHandle>,
    ) -> Checked<(Answer, bool)> {
        let irecv = member!(self, irecv);
        let comm = comm.map_or(null_mut(), Comm::as_ptr);
        let (mut buffer, mut len, mut tag) = (data.as_ptr().cast::<c_void>(), data.len() as c_int, 0);
        let (mut registration, mut raw) = (mhandle.map_or(null_mut(), MHandle::as_ptr), null_mut());
        // SAFETY: only asked of plugins that promise an answer (see the row).
        let answer = ask(|| unsafe { irecv(comm, 1, &mut buffer, &mut len, &mut tag, &mut registration, &mut raw) });
        Ok((answer, raw.is_null()))
    }

    /// `accept` without a device handle, asked until it answers; a comm that it
    /// gives is closed again. TCPX crashes at the first receive of such a comm.
    pub(super) fn accept_bare(
        self,
        listener: &ListenComm,
        mut meanwhile: impl FnMut() -> Checked<()>,
    ) -> Checked<(Answer, bool)> {
        let (accept, close) = (member!(self, accept), member!(self, close_recv));
        let mut raw = null_mut();
        let answer = poll("accept without a device handle answers", PATIENCE, || {
            meanwhile()?;
            // SAFETY: only asked of plugins that promise an answer (see the row).
            let answer = ask(|| unsafe { accept(listener.as_ptr(), &mut raw, null_mut()) });
            Ok((answer.code != 0 || !raw.is_null()).then_some(answer))
        })?;
        let delivered = !raw.is_null();
        // SAFETY: the comm just made, used by nobody else; null is nothing to close.
        let closed = ask(|| unsafe { close(raw) });
        if closed.code != 0 {
            return Err(Shortfall::Broken(format!("closing it is rc {}: {}", closed.code, closed.words())));
        }
        Ok((answer, delivered))
    }
}
