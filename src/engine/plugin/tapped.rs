//! The same plugin, every call recorded.
#![forbid(unsafe_code)]

use super::net::{Net, RawTable};
use super::shim::wrap;
use std::sync::Arc;
use tcpx_recorder::Recorder;
use tcpx_tap::{Tap, TooManyTaps, v4, v5, v6, v7, v8, v9, v10, v11, v12};

/// Puts the tap between us and `net`'s table.
///
/// # Errors
/// This process has wrapped as many tables as one may.
pub fn tapped(net: &dyn Net, recorder: Arc<Recorder>) -> Result<(Arc<dyn Net>, Tap), TooManyTaps> {
    macro_rules! tap {
        ($($variant:ident $version:ident)+) => {
            match net.table() {
                $(RawTable::$variant(table) => {
                    let (table, tap) = $version::wrap(table, recorder)?;
                    Ok((wrap(RawTable::$variant(table)), tap))
                })+
            }
        };
    }
    tap!(V4 v4 V5 v5 V6 v6 V7 v7 V8 v8 V9 v9 V10 v10 V11 v11 V12 v12)
}
