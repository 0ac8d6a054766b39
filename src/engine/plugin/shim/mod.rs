//! Wraps a table as a `Net`: `version.rs` implements the calls of each ABI version by its
//! shape, `net_of.rs` implements `Net` over those calls.

mod calls;
mod net_of;
mod properties;
mod version;

use super::net::{Net, RawTable};
pub use calls::{AbiLimits, Answer, Calls, GROUP_MAX, Out};
use std::sync::Arc;

/// Returns the safe interface to a table.
pub fn wrap(table: RawTable) -> Arc<dyn Net> {
    macro_rules! shim {
        ($(($v:ident $variant:ident $number:literal $symbol:ident))+) => {
            match table {
                $(RawTable::$variant(inner) => {
                    Arc::new(net_of::Shim::new(version::$v::Table::new(inner), table))
                })+
            }
        };
    }
    tcpx_abi::with_versions!(shim)
}
