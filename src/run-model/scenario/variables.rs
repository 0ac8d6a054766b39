//! The `[env]` table: variables for both ends, by role, by node.
//!
//! Values may be written as text, whole numbers or booleans; they are text from
//! here on. Later tables win: both ends, then the role, then the node.
#![forbid(unsafe_code)]

use serde::de::{self, Deserialize, Deserializer, MapAccess};
use std::collections::BTreeMap;
use std::fmt;
use tcpx_words::side::Side;

/// Variables by name.
pub type EnvTable = BTreeMap<String, String>;

/// The `[env]` table.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Variables {
    /// For every worker.
    #[serde(flatten)]
    pub all: EnvTable,
    /// For the workers that send: `[env.send]`.
    #[serde(skip_serializing_if = "EnvTable::is_empty")]
    pub send: EnvTable,
    /// For the workers that receive: `[env.recv]`.
    #[serde(skip_serializing_if = "EnvTable::is_empty")]
    pub recv: EnvTable,
    /// By node name: `[env.node.NAME]`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node: BTreeMap<String, EnvTable>,
}

impl Variables {
    /// The variables of the worker on `node` with role `side`.
    pub fn worker(&self, side: Side, node: &str) -> EnvTable {
        let role = match side {
            Side::Send => &self.send,
            Side::Recv => &self.recv,
        };
        let tables = [Some(&self.all), Some(role), self.node.get(node)];
        tables
            .into_iter()
            .flatten()
            .flatten()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Whether a variable is set for one role or for one node only, so that the ends may differ.
    pub fn is_one_sided(&self, name: &str) -> bool {
        let mut tables = [&self.send, &self.recv]
            .into_iter()
            .chain(self.node.values());
        tables.any(|table| table.contains_key(name))
    }

    /// How many variables there are in all tables, and the bytes they hold.
    pub(super) fn size(&self) -> (usize, usize) {
        let variables = self.tables().flat_map(|(_, table)| table);
        variables.fold((0, 0), |(count, bytes), (name, value)| {
            (count + 1, bytes + name.len() + value.len())
        })
    }

    /// Every table with the key it stands under.
    pub(super) fn tables(&self) -> impl Iterator<Item = (Vec<String>, &EnvTable)> {
        let key = |parts: &[&str]| {
            parts
                .iter()
                .map(|part| (*part).to_owned())
                .collect::<Vec<_>>()
        };
        let roles = [
            (key(&["env"]), &self.all),
            (key(&["env", "send"]), &self.send),
            (key(&["env", "recv"]), &self.recv),
        ];
        roles.into_iter().chain(
            self.node
                .iter()
                .map(move |(name, table)| (key(&["env", "node", name]), table)),
        )
    }
}

/// A value as written; text from here on.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, a whole number or a boolean")
            }
            fn visit_str<E>(self, value: &str) -> Result<Text, E> {
                Ok(Text(value.to_owned()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }
            // The plugin reads integers: true is 1.
            fn visit_bool<E>(self, value: bool) -> Result<Text, E> {
                Ok(Text(u8::from(value).to_string()))
            }
        }
        from.deserialize_any(Visitor)
    }
}

fn plain(table: BTreeMap<String, Text>) -> EnvTable {
    table
        .into_iter()
        .map(|(name, text)| (name, text.0))
        .collect()
}

// By hand, because a flattened map would lose where in the file a value stands.
impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Variables;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of environment variables")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Variables, A::Error> {
                let mut variables = Variables::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "send" => variables.send = plain(map.next_value()?),
                        "recv" => variables.recv = plain(map.next_value()?),
                        "node" => {
                            let nodes: BTreeMap<String, BTreeMap<String, Text>> =
                                map.next_value()?;
                            variables.node = nodes
                                .into_iter()
                                // A node without variables is not written out, so it is not kept either.
                                .filter(|(_, table)| !table.is_empty())
                                .map(|(name, table)| (name, plain(table)))
                                .collect();
                        }
                        _ => {
                            let value: Text = map.next_value()?;
                            variables.all.insert(key, value.0);
                        }
                    }
                }
                Ok(variables)
            }
        }
        from.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_specific_table_wins() {
        let text = r#"
            A = 1
            B = 1
            C = 1
            send = { B = "send", C = "send" }
            recv = { D = true }
            node = { n0 = { C = "n0" } }
        "#;
        let variables: Variables = toml::from_str(text).expect("parses");
        let worker = |side, node| format!("{:?}", variables.worker(side, node));
        assert_eq!(
            worker(Side::Send, "n0"),
            r#"{"A": "1", "B": "send", "C": "n0"}"#
        );
        assert_eq!(
            worker(Side::Recv, "n1"),
            r#"{"A": "1", "B": "1", "C": "1", "D": "1"}"#
        );
    }

    #[test]
    fn variables_survive_json() {
        let text = "A = 1\nsend.B = 2\nnode.\"10.0.1.25\".C = 3";
        let variables: Variables = toml::from_str(text).expect("parses");
        let json = serde_json::to_string(&variables).expect("serialises");
        assert_eq!(
            serde_json::from_str::<Variables>(&json).expect("reads back"),
            variables
        );
    }
}
