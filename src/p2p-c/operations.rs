//! Memory and transfers.

use crate::Handle;
use crate::arguments::{bytes, fill, put, reference, slice};
use crate::result::{Failure, guarded};
use std::ffi::{c_int, c_void};
use std::time::Duration;
use tcpx_p2p::{BLOB_LEN, Endpoint, Error, Local, NOTE_MAX, PIECES_MAX, Remote, Rights, Transfer};

/// Most transfers that were started and not yet waited for.
const TRANSFERS_MAX: usize = 1 << 20;

impl Handle {
    /// Starts a transfer and keeps it under a number, if there is room for one.
    fn start(
        &self,
        begin: impl FnOnce(&Endpoint) -> Result<Transfer, Error>,
    ) -> Result<u64, Failure> {
        let mut transfers = self.transfers();
        if transfers.1.len() >= TRANSFERS_MAX {
            let (what, max) = ("transfers that were not waited for", TRANSFERS_MAX);
            return Err(Error::TooMany { what, max }.into());
        }
        let transfer = begin(&self.endpoint)?;
        transfers.0 += 1;
        let number = transfers.0;
        transfers.1.insert(number, transfer);
        Ok(number)
    }

    fn transfer(&self, number: u64) -> Result<Transfer, Failure> {
        let transfers = self.transfers();
        let found = transfers.1.get(&number).cloned();
        found.ok_or_else(|| {
            Failure::usage(format!(
                "transfer {number} does not exist or was waited for"
            ))
        })
    }
}

/// Bytes of a blob.
pub const TCPXP2P_BLOB_BYTES: usize = 64;
/// Most bytes of a notification.
pub const TCPXP2P_NOTIFICATION_MAX: usize = 65536;
const _: () = assert!(TCPXP2P_BLOB_BYTES == BLOB_LEN && TCPXP2P_NOTIFICATION_MAX == NOTE_MAX);

/// A blob allows to read its range.
pub const TCPXP2P_READ: c_int = 1;
/// A blob allows to write its range.
pub const TCPXP2P_WRITE: c_int = 2;
/// A blob allows both.
pub const TCPXP2P_BOTH: c_int = 3;

/// A buffer here, and the part of an advertised range that it is read from or written to.
#[repr(C)]
pub struct Piece {
    /// of the buffer
    pub registration: u64,
    /// first byte of the buffer
    pub address: *mut c_void,
    /// bytes
    pub len: usize,
    /// TCPXP2P_BLOB_BYTES bytes
    pub blob: *const u8,
    /// from the start of the advertised range
    pub offset: u64,
}

type Start = fn(&Endpoint, u64, &[(Local, Remote<'_>)]) -> Result<Transfer, Error>;

fn local(registration: u64, address: *const c_void, len: usize) -> Local {
    Local {
        registration,
        address: address.addr(),
        len,
    }
}

fn move_pieces(
    start: Start,
    endpoint: *const Handle,
    connection: u64,
    pieces: *const Piece,
    count: usize,
    transfer: *mut u64,
) -> c_int {
    guarded(|| {
        let handle = reference("endpoint", endpoint)?;
        // Before any of them is looked at.
        if count > PIECES_MAX {
            return Err(Failure::usage(format!(
                "{count} pieces: 1 to {PIECES_MAX} are possible"
            )));
        }
        let mut all = Vec::with_capacity(count);
        for piece in slice("pieces", pieces, count)? {
            let blob = bytes("blob", piece.blob, BLOB_LEN)?;
            let remote = Remote {
                blob,
                offset: piece.offset,
            };
            all.push((local(piece.registration, piece.address, piece.len), remote));
        }
        put("transfer", transfer, 0)?;
        let number = handle.start(|endpoint| start(endpoint, connection, &all))?;
        put("transfer", transfer, number)
    })
}

/// The memory stays mapped and writable until tcpxp2p_deregister has returned as often. What a GPU
/// still writes to a buffer is not waited for: synchronize its stream before a transfer reads it.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_register(
    endpoint: *const Handle,
    address: *mut c_void,
    len: usize,
    registration: *mut u64,
) -> c_int {
    guarded(|| {
        let handle = reference("endpoint", endpoint)?;
        put("registration", registration, 0)?;
        // SAFETY: the memory stays until it is deregistered, as the header asks.
        let number = unsafe { handle.endpoint.register(address.cast(), len) }?;
        put("registration", registration, number)
    })
}

/// Waits until nothing uses the memory. If it fails with TCPXP2P_TIMED_OUT, the memory must stay.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_deregister(endpoint: *const Handle, registration: u64) -> c_int {
    guarded(|| {
        Ok(reference("endpoint", endpoint)?
            .endpoint
            .deregister(registration)?)
    })
}

/// The blob of a range, with which a peer can use it. `rights` is TCPXP2P_READ, _WRITE or _BOTH.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_advertise(
    endpoint: *const Handle,
    registration: u64,
    address: *const c_void,
    len: usize,
    rights: c_int,
    blob: *mut [u8; TCPXP2P_BLOB_BYTES],
) -> c_int {
    guarded(|| {
        let rights = match rights {
            TCPXP2P_READ => Rights::Read,
            TCPXP2P_WRITE => Rights::Write,
            TCPXP2P_BOTH => Rights::Both,
            other => {
                return Err(Failure::usage(format!(
                    "rights {other}: 1 is read, 2 write, 3 both"
                )));
            }
        };
        let handle = reference("endpoint", endpoint)?;
        let made = handle
            .endpoint
            .advertise(local(registration, address, len), rights)?;
        put("blob", blob, made)
    })
}

/// Starts to read from advertised ranges. `transfer` is for tcpxp2p_poll and tcpxp2p_wait.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_read(
    endpoint: *const Handle,
    connection: u64,
    pieces: *const Piece,
    count: usize,
    transfer: *mut u64,
) -> c_int {
    move_pieces(
        Endpoint::read,
        endpoint,
        connection,
        pieces,
        count,
        transfer,
    )
}

/// Starts to write to advertised ranges.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_write(
    endpoint: *const Handle,
    connection: u64,
    pieces: *const Piece,
    count: usize,
    transfer: *mut u64,
) -> c_int {
    move_pieces(
        Endpoint::write,
        endpoint,
        connection,
        pieces,
        count,
        transfer,
    )
}

/// Starts to send to the peer's next receive, which must be as long.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_send(
    endpoint: *const Handle,
    connection: u64,
    registration: u64,
    address: *const c_void,
    len: usize,
    transfer: *mut u64,
) -> c_int {
    guarded(|| {
        put("transfer", transfer, 0)?;
        let from = local(registration, address, len);
        let number =
            reference("endpoint", endpoint)?.start(|endpoint| endpoint.send(connection, from))?;
        put("transfer", transfer, number)
    })
}

/// Starts to receive the peer's next send.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_receive(
    endpoint: *const Handle,
    connection: u64,
    registration: u64,
    address: *mut c_void,
    len: usize,
    transfer: *mut u64,
) -> c_int {
    guarded(|| {
        put("transfer", transfer, 0)?;
        let into = local(registration, address, len);
        let number = reference("endpoint", endpoint)?
            .start(|endpoint| endpoint.receive(connection, into))?;
        put("transfer", transfer, number)
    })
}

/// Starts to leave a message, of up to TCPXP2P_NOTIFICATION_MAX bytes, in the peer's queue.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_notify(
    endpoint: *const Handle,
    connection: u64,
    message: *const u8,
    len: usize,
    transfer: *mut u64,
) -> c_int {
    guarded(|| {
        put("transfer", transfer, 0)?;
        let message = bytes("message", message, len)?;
        let number = reference("endpoint", endpoint)?
            .start(|endpoint| endpoint.notify(connection, message))?;
        put("transfer", transfer, number)
    })
}

/// The oldest unread notification. `capacity` is at least TCPXP2P_NOTIFICATION_MAX.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_notification(
    endpoint: *const Handle,
    timeout_ms: u64,
    connection: *mut u64,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> c_int {
    guarded(|| {
        // Taken from the queue, a notification without room for all of it would be lost.
        if capacity < NOTE_MAX {
            return Err(Failure::usage(format!(
                "a buffer of {capacity} bytes: a notification has up to {NOTE_MAX}"
            )));
        }
        put("connection", connection, 0)?;
        fill(buffer, capacity, len, &[])?;
        let allowed = Duration::from_millis(timeout_ms);
        let what = "a notification".to_owned();
        let heard = reference("endpoint", endpoint)?
            .endpoint
            .notification(allowed);
        let (from, message) = heard.ok_or(Error::TimedOut { what, allowed })?;
        put("connection", connection, from)?;
        fill(buffer, capacity, len, &message)
    })
}

/// Never waits. `done` is 0 or 1. A transfer that is done or has failed is reported once.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_poll(endpoint: *const Handle, transfer: u64, done: *mut c_int) -> c_int {
    guarded(|| {
        let handle = reference("endpoint", endpoint)?;
        put("done", done, 0)?;
        let polled = handle.transfer(transfer)?.poll();
        if !matches!(polled, Ok(false)) {
            handle.transfers().1.remove(&transfer);
        }
        put("done", done, c_int::from(polled?))
    })
}

/// TCPXP2P_TIMED_OUT: the transfer goes on. Any other result is reported once.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_wait(endpoint: *const Handle, transfer: u64, timeout_ms: u64) -> c_int {
    guarded(|| {
        let handle = reference("endpoint", endpoint)?;
        let waited = handle
            .transfer(transfer)?
            .wait(Duration::from_millis(timeout_ms));
        if !matches!(waited, Err(Error::TimedOut { .. })) {
            handle.transfers().1.remove(&transfer);
        }
        waited?;
        Ok(())
    })
}
