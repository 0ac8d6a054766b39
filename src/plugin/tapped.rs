//! The same plugin, every call recorded.
#![forbid(unsafe_code)]

use super::net::{Net, RawTable};
use super::shim::{wrap_v7, wrap_v8};
use std::sync::Arc;
use tcpx_recorder::Recorder;
use tcpx_tap::{Tap, TooManyTaps, v7, v8};

/// Puts the tap between us and `net`'s table.
///
/// # Errors
/// This process has wrapped as many tables as one may.
pub fn tapped(net: &dyn Net, recorder: Arc<Recorder>) -> Result<(Arc<dyn Net>, Tap), TooManyTaps> {
    match net.table() {
        RawTable::V7(table) => v7::wrap(table, recorder).map(|(table, tap)| (wrap_v7(table), tap)),
        RawTable::V8(table) => v8::wrap(table, recorder).map(|(table, tap)| (wrap_v8(table), tap)),
    }
}
