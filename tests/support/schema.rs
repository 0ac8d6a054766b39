//! Documents checked against `docs/schemas`.
//!
//! The check is stricter than the schema: where a schema lists an object's keys, the object has
//! no others, so a new or renamed key needs its schema. Only the keywords that schemars writes
//! into these files are known, and any other one panics. The crates that know all keywords bring
//! a second `getrandom`, which `deny.toml` refuses.

use serde_json::Value;
use std::path::Path;

/// Panics unless `document` is valid for the schema that it names.
pub(crate) fn check(document: &Value) {
    let kind = document["schema"]
        .as_str()
        .unwrap_or_else(|| panic!("names no schema: {document:#}"));
    let name = format!("docs/schemas/{}.json", kind.replace('/', "-"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let schema: Value = serde_json::from_str(&text).unwrap();
    let mut mistakes = Vec::new();
    let root = Validator { root: &schema };
    root.validate(&schema, document, "", &mut mistakes);
    assert!(
        mistakes.is_empty(),
        "not valid for {name}:\n{}\n{document:#}",
        mistakes.join("\n")
    );
}

struct Validator<'a> {
    root: &'a Value,
}

impl Validator<'_> {
    fn validate(&self, schema: &Value, value: &Value, at: &str, mistakes: &mut Vec<String>) {
        let Value::Object(keywords) = schema else {
            assert_eq!(schema, &Value::Bool(true), "a schema is an object or true");
            return;
        };
        for (keyword, argument) in keywords {
            if let Some(mistake) = self.breaks(keyword, argument, schema, value, at, mistakes) {
                mistakes.push(format!("{at}: {mistake}: {value}"));
            }
        }
    }

    /// Why `value` breaks this keyword; mistakes deeper inside are added to `mistakes`.
    fn breaks(
        &self,
        keyword: &str,
        argument: &Value,
        schema: &Value,
        value: &Value,
        at: &str,
        mistakes: &mut Vec<String>,
    ) -> Option<String> {
        let holds = match keyword {
            "$schema" | "$defs" | "title" | "description" | "default" => true,
            "$ref" => {
                let pointer = argument.as_str().unwrap().strip_prefix('#').unwrap();
                self.validate(self.root.pointer(pointer).unwrap(), value, at, mistakes);
                true
            }
            "type" => match argument {
                Value::Array(types) => types.iter().any(|name| is_of_type(name, value)),
                name => is_of_type(name, value),
            },
            "const" => value == argument,
            "enum" => argument.as_array().unwrap().contains(value),
            "anyOf" | "oneOf" => self.matches_any(argument, value, at),
            "minimum" => value
                .as_f64()
                .is_none_or(|n| n >= argument.as_f64().unwrap()),
            "maximum" => value
                .as_f64()
                .is_none_or(|n| n <= argument.as_f64().unwrap()),
            "minItems" => length(value).is_none_or(|n| n >= argument.as_u64().unwrap()),
            "maxItems" => length(value).is_none_or(|n| n <= argument.as_u64().unwrap()),
            "required" => {
                let keys = argument.as_array().unwrap().iter();
                let missing: Vec<&str> = keys
                    .filter_map(Value::as_str)
                    .filter(|key| value.get(key).is_none())
                    .collect();
                if !missing.is_empty() && value.is_object() {
                    return Some(format!("lacks {}", missing.join(", ")));
                }
                true
            }
            "properties" => {
                for (key, below) in argument.as_object().unwrap() {
                    if let Some(member) = value.get(key) {
                        self.validate(below, member, &format!("{at}/{key}"), mistakes);
                    }
                }
                for (key, _) in value.as_object().into_iter().flatten() {
                    if argument.get(key).is_none() && schema.get("additionalProperties").is_none() {
                        mistakes.push(format!("{at}: the schema has no key {key}"));
                    }
                }
                true
            }
            "additionalProperties" => {
                let others = value.as_object().into_iter().flatten();
                for (key, member) in
                    others.filter(|(key, _)| schema["properties"][key.as_str()].is_null())
                {
                    if argument == &Value::Bool(false) {
                        mistakes.push(format!("{at}: unknown key {key}"));
                    } else {
                        self.validate(argument, member, &format!("{at}/{key}"), mistakes);
                    }
                }
                true
            }
            "items" => {
                let first = schema["prefixItems"].as_array().map_or(0, Vec::len);
                for (index, item) in value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .enumerate()
                    .skip(first)
                {
                    self.validate(argument, item, &format!("{at}/{index}"), mistakes);
                }
                true
            }
            "prefixItems" => {
                let items = value.as_array().into_iter().flatten();
                for ((index, item), below) in items.enumerate().zip(argument.as_array().unwrap()) {
                    self.validate(below, item, &format!("{at}/{index}"), mistakes);
                }
                true
            }
            other => panic!("the keyword {other} is not checked"),
        };
        (!holds).then(|| format!("breaks {keyword} {argument}"))
    }

    fn matches_any(&self, schemas: &Value, value: &Value, at: &str) -> bool {
        schemas.as_array().unwrap().iter().any(|schema| {
            let mut mistakes = Vec::new();
            self.validate(schema, value, at, &mut mistakes);
            mistakes.is_empty()
        })
    }
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type {other} is not checked"),
    }
}

fn length(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}
