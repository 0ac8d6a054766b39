//! Records every call of a plugin.
#![forbid(unsafe_code)]

use super::net::{Net, RawTable};
use super::shim::wrap;
use std::sync::Arc;
use tcpx_recorder::Recorder;
use tcpx_tap::{Tap, TooManyTaps};

/// Wraps `net`'s table in the tap, which records every call to `recorder`.
///
/// # Errors
/// The process has already wrapped `tcpx_tap::TAPS_MAX` tables of this version.
pub fn tapped(net: &dyn Net, recorder: Arc<Recorder>) -> Result<(Arc<dyn Net>, Tap), TooManyTaps> {
    macro_rules! tap {
        ($(($v:ident $variant:ident $number:literal $symbol:ident))+) => {
            match net.table() {
                $(RawTable::$variant(table) => {
                    let (table, tap) = tcpx_tap::$v::wrap(table, recorder)?;
                    Ok((wrap(RawTable::$variant(table)), tap))
                })+
            }
        };
    }
    tcpx_abi::with_versions!(tap)
}
