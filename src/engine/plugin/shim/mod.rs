//! Table to `Net`. A version's file says where it differs (`v4.rs` to `v12.rs`,
//! by `version.rs`); `net_of.rs` is what all of them make of the calls.

mod calls;
mod net_of;
mod properties;
#[macro_use]
mod version;
mod v10;
mod v11;
mod v12;
mod v4;
mod v5;
mod v6;
mod v7;
mod v8;
mod v9;

use super::net::{Net, RawTable};
pub use calls::{Answer, Calls, Facts, GROUP_MAX, Out};
use std::sync::Arc;

/// The safe face of a table.
pub fn wrap(table: RawTable) -> Arc<dyn Net> {
    macro_rules! shim {
        ($($variant:ident $version:ident)+) => {
            match table {
                $(RawTable::$variant(inner) => Arc::new(net_of::Shim::new($version::Table::new(inner), table)),)+
            }
        };
    }
    shim!(V4 v4 V5 v5 V6 v6 V7 v7 V8 v8 V9 v9 V10 v10 V11 v11 V12 v12)
}
