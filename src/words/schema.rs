//! JSON schemas of types that serialize differently from their Rust definition.
#![forbid(unsafe_code)]

use crate::abi_version::AbiVersion;
use crate::error::Outcome;
use crate::progress::Idle;
use crate::units::{ByteCount, TimeSpan};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

macro_rules! written_as {
    ($($name:ident: $schema:tt,)+) => {$(
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )+};
}

written_as! {
    // A pattern and not the list of versions: a newer program may support more.
    AbiVersion: { "type": "string", "pattern": "^v[0-9]+$" },
    ByteCount: {
        "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^[0-9]+ *([KMGT]iB|[kKMGT]B|[KMG]|B)?$" }
        ]
    },
    TimeSpan: { "type": "string", "pattern": "^[0-9]+ *(ns|us|ms|s|m|h)$" },
    Idle: { "type": "string", "pattern": "^(adaptive|spin|yield|sleep:[0-9]+ *(ns|us|ms|s|m|h))$" },
    Outcome: {
        "enum": ["passed", "failed", "stalled", "plugin-died", "peer-lost", "not-run", "interrupted"]
    },
}
