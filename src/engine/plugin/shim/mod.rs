//! Table to `Net`: `version.rs` makes the calls of each version by its shape,
//! `net_of.rs` is what all of them make of the calls.

mod calls;
mod net_of;
mod properties;
mod version;

use super::net::{Net, RawTable};
pub use calls::{Answer, Calls, Facts, GROUP_MAX, Out};
use std::sync::Arc;

/// The safe face of a table.
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
