//! One file per version of the table.

pub mod v10;
pub mod v11;
pub mod v12;
pub mod v4;
pub mod v5;
pub mod v6;
pub mod v7;
pub mod v8;
pub mod v9;
