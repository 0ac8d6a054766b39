//! The JSON Schema of a scenario file, for editors: made from the same types a
//! file is read into, and kept in `scenarios/schema.json`.
#![forbid(unsafe_code)]

use super::checked::{PluginChoice, PluginTable, Scenario};
use super::sweep::may_sweep;
use super::topology::CpuSet;
use super::variables::Variables;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The schema, as JSON.
pub(super) fn json_schema() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<Scenario>()
        .to_value();
    schema["title"] = json!("tcpxctl scenario");
    // A file must give its name.
    schema["required"] = json!(["name"]);
    if let Some(name) = schema
        .pointer_mut("/properties/name")
        .and_then(Value::as_object_mut)
    {
        name.remove("default");
    }
    refine(&mut Vec::new(), &mut schema);
    schema
}

/// Adapts the schema to TOML: there is no null, and a key that can be swept takes a list.
fn refine(path: &mut Vec<String>, schema: &mut Value) {
    drop_null(schema);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (key, property) in properties {
            path.push(key.clone());
            refine(path, property);
            path.pop();
        }
    } else if may_sweep(path) && path.first().is_none_or(|table| table != "env") {
        let_sweep(schema);
    }
}

fn drop_null(schema: &mut Value) {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            schema["type"] = only.clone();
        }
    }
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.retain(|word| !word.is_null());
    }
    if let Some(options) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        options.retain(|option| option.get("type").is_none_or(|name| name != "null"));
    }
}

/// Allows one value of this schema, or a list of them.
fn let_sweep(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let about: Vec<_> = ["description", "default"]
        .iter()
        .filter_map(|key| object.remove_entry(*key))
        .collect();
    let one = Value::Object(std::mem::take(object));
    let list = json!({ "type": "array", "items": one, "minItems": 1 });
    object.insert("anyOf".to_owned(), json!([one, list]));
    object.extend(about);
}

/// A type whose form in a file its Rust definition does not show.
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
    CpuSet: { "type": "string", "pattern": "^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$" },
}

impl JsonSchema for PluginChoice {
    fn schema_name() -> Cow<'static, str> {
        "PluginChoice".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        PluginTable::json_schema(generator)
    }
}

impl JsonSchema for Variables {
    fn schema_name() -> Cow<'static, str> {
        "Variables".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = json!({ "type": ["string", "integer", "boolean"] });
        let value = json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] });
        let table = json!({ "type": "object", "additionalProperties": value });
        let told = |mut table: Value, what: &str| {
            table["description"] = json!(what);
            table
        };
        let by_node = json!({ "type": "object", "additionalProperties": table });
        json_schema!({
            "type": "object",
            "properties": {
                "send": told(table.clone(), "Variables of the workers that send only, such as `env.send.NCCL_DEBUG`; they beat those of both ends."),
                "recv": told(table, "Variables of the workers that receive only; they beat those of both ends."),
                "node": told(by_node, "Variables of the workers on one node, by its host name: `env.node.a3-0.NCCL_DEBUG`; they beat all others.")
            },
            "additionalProperties": value
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/schema.json");
        let current = format!("{:#}\n", json_schema());
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &current).expect("scenarios/schema.json is writable");
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            stored == current,
            "run `UPDATE_SCHEMA=1 cargo test schema` and look at the difference"
        );
    }

    /// Whole numbers that the schema bounds, one below and one above included.
    #[test]
    fn the_schema_and_the_rules_draw_the_same_bounds() {
        let schema = json_schema();
        let of = |table: &'static str| {
            let keys = schema["properties"][table]["properties"].as_object();
            let keys = keys.expect("properties").iter();
            keys.map(move |(key, property)| (table, key, property))
        };
        let mut tried = 0;
        for (table, key, property) in of("transfer").chain(of("traffic")) {
            let one = &property["anyOf"][0];
            let (Some(min), Some(max)) = (one["minimum"].as_u64(), one["maximum"].as_u64()) else {
                continue;
            };
            for (value, expected) in [
                (min.checked_sub(1), false),
                (Some(min), true),
                (Some(max), true),
                (Some(max + 1), false),
            ] {
                let Some(value) = value else { continue };
                let mut scenario = serde_json::to_value(Scenario::default()).expect("serialises");
                if table == "traffic" {
                    // Small enough that only the key's own bound counts.
                    scenario["traffic"] = json!({
                        "head_size": 1, "kv_heads": 64, "tokens": 1, "requests": 1, "batch": 1,
                        "depth": 1, "concurrency": 1, "layers": 1, "cache": "64GiB",
                    });
                }
                scenario[table][key] = json!(value);
                assert_eq!(
                    Scenario::from_json(&scenario.to_string()).is_ok(),
                    expected,
                    "{key} = {value}"
                );
                tried += 1;
            }
        }
        assert!(tried >= 15, "{tried}");
    }

    #[test]
    fn every_rule_is_about_an_existing_key() {
        let keys = super::super::keys::keys();
        let is_known = |key: &str| {
            keys.iter()
                .any(|known| known == key || known.starts_with(&format!("{key}.")))
        };
        for rule in super::super::rules::all() {
            assert!(is_known(rule.key), "{}", rule.key);
        }
    }
}
