//! The keys of a scenario, for suggestions in error messages.
//!
//! They come from the checked-in schema, which a test of `schema.rs` compares with the types: the
//! program needs no generator of schemas.
#![forbid(unsafe_code)]

use serde_json::Value;

const SCHEMA: &str = include_str!("../../../scenarios/schema.json");

/// Every key that a scenario may hold, dotted; tables excluded.
pub(super) fn keys() -> Vec<String> {
    let mut keys = Vec::new();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap_or_default();
    collect(&schema, &mut Vec::new(), &mut keys);
    keys
}

fn collect(schema: &Value, path: &mut Vec<String>, keys: &mut Vec<String>) {
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => {
            for (key, property) in properties {
                path.push(key.clone());
                collect(property, path, keys);
                path.pop();
            }
        }
        None => keys.push(path.join(".")),
    }
}
