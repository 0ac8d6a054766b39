//! What can be wrong with a transfer, as `probes/conditions/*.toml` has it: names
//! that people can quote, and what there is to say about each.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use tcpx_run_model::finding::Severity;
use tcpx_run_model::scenario::nearest;

const FILES: [(&str, &str); 7] = [
    (
        "progress.toml",
        include_str!("../../probes/conditions/progress.toml"),
    ),
    (
        "slots.toml",
        include_str!("../../probes/conditions/slots.toml"),
    ),
    (
        "connection.toml",
        include_str!("../../probes/conditions/connection.toml"),
    ),
    (
        "endings.toml",
        include_str!("../../probes/conditions/endings.toml"),
    ),
    (
        "network.toml",
        include_str!("../../probes/conditions/network.toml"),
    ),
    (
        "topology.toml",
        include_str!("../../probes/conditions/topology.toml"),
    ),
    (
        "measurement.toml",
        include_str!("../../probes/conditions/measurement.toml"),
    ),
];
const FILE_BYTES_MAX: usize = 1 << 20;

/// One thing that can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Condition {
    /// Stable, in small letters, digits and dashes.
    pub name: String,
    /// How bad it is.
    pub severity: Severity,
    /// What a person sees.
    pub symptom: String,
    /// What is the matter, in one sentence.
    pub meaning: String,
    /// What the rule looks at.
    pub detected: String,
    /// Likely causes, the likeliest first.
    pub causes: Vec<String>,
    /// How to make it happen.
    pub reproduce: String,
    /// No software on one machine brings it about: it is rehearsed with evidence
    /// that was recorded or written down.
    #[serde(default)]
    pub simulated: bool,
    /// What to do about it.
    pub fix: String,
    /// Where the facts behind it are.
    pub reference: String,
    /// Conditions that it brings about: where it is found they are no causes.
    #[serde(default)]
    pub explains: Vec<String>,
    /// What would tell it from others that look the same.
    #[serde(default)]
    pub decided_by: Option<String>,
}

/// A file of conditions that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct CatalogueError {
    /// Which file.
    pub file: String,
    /// What is wrong, in the parser's words where they are its.
    pub problem: String,
}

/// All conditions, in the order in which people read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// By family: progress, slots, connection, endings, network, topology, measurement.
    pub conditions: Vec<Condition>,
}

impl Catalogue {
    /// The embedded one; a test holds its files against [`Catalogue::parse`].
    pub fn embedded() -> &'static Self {
        static EMBEDDED: LazyLock<Catalogue> = LazyLock::new(|| {
            Catalogue::parse(&FILES).unwrap_or_else(|_| Catalogue {
                conditions: Vec::new(),
            })
        });
        &EMBEDDED
    }

    /// Files with their names.
    ///
    /// # Errors
    /// The first file that is too large, does not parse, or has a condition that
    /// is there twice, badly named or lacks a text.
    pub fn parse(files: &[(&str, &str)]) -> Result<Self, CatalogueError> {
        let mut conditions = Vec::<Condition>::new();
        for (file, text) in files {
            for condition in file_of(file, text)? {
                let problem = if conditions.iter().any(|known| known.name == condition.name) {
                    Some("is there twice".to_owned())
                } else {
                    condition.problem()
                };
                if let Some(problem) = problem {
                    let problem = format!("`{}` {problem}", condition.name);
                    return Err(CatalogueError {
                        file: (*file).to_owned(),
                        problem,
                    });
                }
                conditions.push(condition);
            }
        }
        Ok(Self { conditions })
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.name == name)
    }

    /// Names that were perhaps meant: the nearest, and those that have what was written in them.
    pub fn like(&self, written: &str) -> Vec<&str> {
        let names = || {
            self.conditions
                .iter()
                .map(|condition| condition.name.as_str())
        };
        let near = nearest(written, names());
        let with = names()
            .filter(|name| written.len() >= 3 && name.contains(written) && Some(*name) != near);
        near.into_iter().chain(with).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    condition: Vec<Condition>,
}

fn file_of(file: &str, text: &str) -> Result<Vec<Condition>, CatalogueError> {
    let wrong = |problem: String| CatalogueError {
        file: file.to_owned(),
        problem,
    };
    if text.len() > FILE_BYTES_MAX {
        return Err(wrong(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    toml::from_str::<File>(text)
        .map(|file| file.condition)
        .map_err(|error| wrong(error.to_string()))
}

impl Condition {
    fn problem(&self) -> Option<String> {
        let in_name =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if self.name.is_empty() || !self.name.chars().all(in_name) {
            return Some("has a name of other than small letters, digits and dashes".into());
        }
        let texts = [
            &self.symptom,
            &self.meaning,
            &self.detected,
            &self.reproduce,
            &self.fix,
            &self.reference,
        ];
        let is_text = |text: &String| {
            !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control)
        };
        if !texts.into_iter().chain(&self.causes).all(is_text) || self.causes.is_empty() {
            return Some("lacks a text, or has one of several lines".into());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_embedded_conditions_are_many_and_complete() {
        let catalogue = Catalogue::parse(&FILES).unwrap();
        assert!(
            catalogue.conditions.len() >= 25,
            "{}",
            catalogue.conditions.len()
        );
        assert_eq!(&catalogue, Catalogue::embedded());
        for condition in &catalogue.conditions {
            for explained in &condition.explains {
                assert!(
                    catalogue.get(explained).is_some() && *explained != condition.name,
                    "{explained}"
                );
            }
        }
    }

    #[test]
    fn a_name_that_is_nearly_right_is_offered() {
        let like = |written| Catalogue::embedded().like(written);
        assert_eq!(like("window-never-consume"), ["window-never-consumed"]);
        assert_eq!(
            like("consumed"),
            ["window-never-consumed", "consumed-early"]
        );
        assert!(like("").is_empty() && like("banana").is_empty());
    }

    const ONE: &str = "[[condition]]\nname = 'a'\nseverity = 'info'\nsymptom = 's'\nmeaning = 'm'\ndetected = 'd'\n\
                       causes = ['c']\nreproduce = 'r'\nfix = 'f'\nreference = 'x'\n";

    #[test]
    fn bad_data_is_refused_with_its_file() {
        let check = |text: &str, part: &str| {
            let error = Catalogue::parse(&[("x.toml", text)])
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("x.toml: ") && error.contains(part),
                "{error}"
            );
        };
        check(&ONE.replace("'a'", "'A b'"), "small letters");
        check(&ONE.replace("'info'", "'terrible'"), "unknown variant");
        check(&ONE.replace("fix", "mend"), "unknown field");
        check(&ONE.replace("['c']", "[]"), "lacks a text");
        check(&format!("{ONE}{ONE}"), "`a` is there twice");
        assert!(Catalogue::parse(&[("x.toml", ONE)]).is_ok());
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(text in "\\PC{0,200}", cut in 0usize..ONE.len(), with in "[ -~\n]{0,12}") {
            for text in [text, format!("{}{with}{}", &ONE[..cut], &ONE[cut..])] {
                let _ = Catalogue::parse(&[("x.toml", &text)]);
            }
        }
    }
}
