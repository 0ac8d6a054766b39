//! Calls that TCPX 3.1.9 does not survive: a double free, a use after free, or a buffer
//! overrun. The software plugin refuses them with rc 3.
//!
//! Only rows marked `never_on_google` make these calls. A plugin that does not refuse them
//! may crash, which ends only the row's own worker process.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

use super::calls::{Answer, Guarded, Raw, ask};
use super::subject::{Checked, PATIENCE, Shortfall, poll};
use crate::gpu::Span;
use crate::plugin::{Comm, ConnectHandle, DeviceHandle, ListenComm, MHandle};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

impl Raw<'_> {
    /// `accept` on a listener that has already returned a comm. TCPX aborts.
    pub(super) fn accept_again(self, listener: &ListenComm) -> Checked<(Answer, bool)> {
        let mut device = DeviceHandle {
            net_device_type: 0,
            net_device_version: 0,
            handle: null_mut(),
            size: 0,
            needs_proxy_progress: 0,
        };
        let (mut raw, mut pointer) = (null_mut(), &raw mut device);
        // SAFETY: only asked of plugins that promise an answer (see the row).
        let answer = ask("accept", || unsafe {
            self.0.accept(listener.as_ptr(), &mut raw, &mut pointer)
        })?;
        Ok((answer, raw.is_null()))
    }

    /// Calls `connect` with one handle buffer until it returns a comm, then once more.
    /// TCPX reads freed memory. `meanwhile` drives the other end.
    pub(super) fn connect_twice(
        self,
        device: c_int,
        handle: ConnectHandle,
        mut meanwhile: impl FnMut() -> Checked<()>,
    ) -> Checked<(Answer, bool)> {
        let mut buffer = Guarded {
            handle: handle.0,
            behind: [0; 512],
        };
        let whole = (&raw mut buffer).cast::<c_void>();
        let none: *mut *mut DeviceHandle = &mut null_mut();
        let mut raw = null_mut();
        poll("connect", PATIENCE, || {
            meanwhile()?;
            // SAFETY: as `Net::connect`; the buffer stays where it is.
            let answer = ask("connect", || unsafe {
                self.0.connect(null_mut(), device, whole, &mut raw, none)
            })?;
            if answer.code != 0 {
                return Err(Shortfall::Broken(format!(
                    "connect rc {}: {}",
                    answer.code,
                    answer.words()
                )));
            }
            Ok((!raw.is_null()).then_some(()))
        })?;
        let mut second = null_mut();
        // SAFETY: only asked of plugins that promise an answer (see the row).
        let answer = ask("connect", || unsafe {
            self.0.connect(null_mut(), device, whole, &mut second, none)
        })?;
        // SAFETY: the comm of the first connect, used by nobody else.
        unsafe { self.0.close_send(raw) };
        Ok((answer, second.is_null()))
    }

    /// `isend` with a null comm, a receiving comm or a negative size. TCPX survives none
    /// of them.
    pub(super) fn send_any(
        self,
        comm: Option<Comm<'_>>,
        data: Span,
        len: c_int,
        mhandle: &MHandle,
    ) -> Checked<(Answer, bool)> {
        let comm = comm.map_or(null_mut(), Comm::as_ptr);
        let (buffer, mut raw) = (data.as_ptr().cast::<c_void>(), null_mut());
        // SAFETY: only asked of plugins that promise an answer (see the row).
        let answer = ask("isend", || unsafe {
            self.0
                .isend(comm, buffer, len as usize, 0, mhandle.as_ptr(), &mut raw)
        })?;
        Ok((answer, raw.is_null()))
    }

    /// `irecv` of one receive on any comm or null, registered or not. TCPX does not survive
    /// the wrong comm, and was not tried without a registration.
    pub(super) fn receive_any(
        self,
        comm: Option<Comm<'_>>,
        data: Span,
        mhandle: Option<&MHandle>,
    ) -> Checked<(Answer, bool)> {
        let comm = comm.map_or(null_mut(), Comm::as_ptr);
        let (buffer, mut tag) = (data.as_ptr().cast::<c_void>(), 0);
        let (registration, mut raw) = (mhandle.map_or(null_mut(), MHandle::as_ptr), null_mut());
        // SAFETY: only asked of plugins that promise an answer (see the row).
        let call = || unsafe {
            self.0
                .irecv(comm, buffer, data.len(), &mut tag, registration, &mut raw)
        };
        let answer = ask("irecv", call)?;
        Ok((answer, raw.is_null()))
    }

    /// Calls `accept` without a device handle until it returns an error or a comm, and
    /// closes that comm. TCPX crashes in the first receive on such a comm.
    pub(super) fn accept_bare(
        self,
        listener: &ListenComm,
        mut meanwhile: impl FnMut() -> Checked<()>,
    ) -> Checked<(Answer, bool)> {
        let mut raw = null_mut();
        let answer = poll("accept without a device handle answers", PATIENCE, || {
            meanwhile()?;
            // SAFETY: only asked of plugins that promise an answer (see the row).
            let answer = ask("accept", || unsafe {
                self.0.accept(listener.as_ptr(), &mut raw, null_mut())
            })?;
            Ok((answer.code != 0 || !raw.is_null()).then_some(answer))
        })?;
        let delivered = !raw.is_null();
        // SAFETY: the comm just made, used by nobody else; null is nothing to close.
        let closed = ask("closeRecv", || unsafe { self.0.close_recv(raw) })?;
        if closed.code != 0 {
            return Err(Shortfall::Broken(format!(
                "closing it is rc {}: {}",
                closed.code,
                closed.words()
            )));
        }
        Ok((answer, delivered))
    }
}
