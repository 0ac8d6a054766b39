//! Every check, embedded in the binary, in the order in which the doctor prints them.
#![forbid(unsafe_code)]

use super::check::{Check, Layer, Severity};
use std::collections::BTreeSet;

/// `probes/node/*.toml`, from the machine up.
const FILES: [(&str, &str); 9] = [
    (
        "machine.toml",
        include_str!("../../../probes/node/machine.toml"),
    ),
    ("gpu.toml", include_str!("../../../probes/node/gpu.toml")),
    ("nic.toml", include_str!("../../../probes/node/nic.toml")),
    (
        "topology.toml",
        include_str!("../../../probes/node/topology.toml"),
    ),
    (
        "manager.toml",
        include_str!("../../../probes/node/manager.toml"),
    ),
    (
        "plugin.toml",
        include_str!("../../../probes/node/plugin.toml"),
    ),
    (
        "environment.toml",
        include_str!("../../../probes/node/environment.toml"),
    ),
    (
        "process.toml",
        include_str!("../../../probes/node/process.toml"),
    ),
    ("peer.toml", include_str!("../../../probes/node/peer.toml")),
];
const FILE_BYTES_MAX: usize = 1 << 20;
const CHECKS_MAX: usize = 256;

/// A file of checks that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct CatalogueError {
    /// Which file.
    pub file: String,
    /// What is wrong with the file; for TOML errors the parser's message.
    pub problem: String,
}

/// All layers, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    /// From the machine up.
    pub layers: Vec<Layer>,
}

impl Catalogue {
    /// The checks embedded in the binary.
    ///
    /// # Errors
    /// An embedded file does not parse; a test makes sure that all do.
    pub fn embedded() -> Result<Self, CatalogueError> {
        Self::parse(&FILES)
    }

    /// Only the critical checks, whose failure means that nothing moves. They run before
    /// every transfer.
    ///
    /// # Errors
    /// As [`Catalogue::embedded`].
    pub fn critical() -> Result<Self, CatalogueError> {
        let mut catalogue = Self::embedded()?;
        for layer in &mut catalogue.layers {
            layer
                .checks
                .retain(|check| check.severity == Severity::Critical);
        }
        Ok(catalogue)
    }

    /// Parses `files`, pairs of file name and TOML text.
    ///
    /// # Errors
    /// The first file that is too large, does not parse, defines a check twice, or has a
    /// check that needs one not defined before it.
    pub(crate) fn parse(files: &[(&str, &str)]) -> Result<Self, CatalogueError> {
        let mut known = BTreeSet::new();
        let layers = files
            .iter()
            .map(|(file, text)| layer(file, text, &mut known))
            .collect::<Result<_, _>>()?;
        Ok(Self { layers })
    }

    /// Every check with its layer.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (&Layer, &Check)> {
        self.layers
            .iter()
            .flat_map(|layer| layer.checks.iter().map(move |check| (layer, check)))
    }
}

fn layer(file: &str, text: &str, known: &mut BTreeSet<String>) -> Result<Layer, CatalogueError> {
    let wrong = |problem: String| CatalogueError {
        file: file.to_owned(),
        problem,
    };
    if text.len() > FILE_BYTES_MAX {
        return Err(wrong(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    let layer: Layer = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    for check in &layer.checks {
        if let Some(missing) = check.needs.iter().find(|needed| !known.contains(*needed)) {
            return Err(wrong(format!(
                "check `{}` needs `{missing}`, which is not defined before it",
                check.id
            )));
        }
        if known.len() >= CHECKS_MAX {
            return Err(wrong(format!("more than {CHECKS_MAX} checks")));
        }
        if !known.insert(check.id.clone()) {
            return Err(wrong(format!("check `{}` is defined twice", check.id)));
        }
    }
    Ok(layer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_embedded_check_has_an_id_and_all_texts() {
        let catalogue = Catalogue::embedded().unwrap();
        let checks: Vec<&Check> = catalogue.checks().map(|(_, check)| check).collect();
        assert!(checks.len() >= 40, "{}", checks.len());
        for check in checks {
            let kebab = |text: &str| {
                text.chars().all(|letter| {
                    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
                })
            };
            assert!(kebab(&check.id), "{}", check.id);
            for text in [&check.title, &check.why, &check.next_step, &check.prevents] {
                assert!(
                    !text.is_empty() && !text.contains('\n') && text.trim() == text,
                    "{}: {text:?}",
                    check.id
                );
            }
        }
    }

    #[test]
    fn a_critical_check_needs_only_critical_ones() {
        let files: BTreeSet<String> = Catalogue::critical()
            .unwrap()
            .checks()
            .map(|(_, check)| check.id.clone())
            .collect();
        let catalogue = Catalogue::critical().unwrap();
        for (_, check) in catalogue.checks() {
            assert!(
                check.needs.iter().all(|needed| files.contains(needed)),
                "{}",
                check.id
            );
        }
    }

    const ONE: &str = "layer = 'x'\ntitle = 'X'\n[[check]]\nid = 'a'\ntitle = 't'\nreads = 'a.b'\nmust = { equals = 1 }\nseverity = 'low'\nwhy = 'w'\ndo = 'd'\nprevents = 'p'\n";

    #[test]
    fn an_error_in_a_check_names_its_file() {
        let check = |text: &str, part: &str| {
            let error = Catalogue::parse(&[("x.toml", text)])
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("x.toml: ") && error.contains(part),
                "{error}"
            );
        };
        check(&ONE.replace("a.b", "a b"), "not a path to a fact");
        check(&ONE.replace("equals", "is"), "unknown variant");
        check(&ONE.replace("'low'", "'terrible'"), "unknown variant");
        check(&ONE.replace("why", "because"), "unknown field");
        check(&format!("{ONE}needs = ['b']\n"), "needs `b`");
        check(
            &format!("{ONE}{}", ONE.split_once("title = 'X'\n").unwrap().1),
            "check `a` is defined twice",
        );
        assert!(Catalogue::parse(&[("x.toml", ONE)]).is_ok());
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_rejected(
            text in prop_oneof!["\\PC{0,200}", "[a-z=\\[\\]'\"{}. \n]{0,200}"],
            cut in 0usize..ONE.len(),
            with in "[ -~\n]{0,12}",
        ) {
            let mutated = format!("{}{with}{}", &ONE[..cut], &ONE[cut..]);
            for text in [text, mutated] {
                if let Ok(catalogue) = Catalogue::parse(&[("x.toml", &text)]) {
                    prop_assert!(catalogue.checks().count() <= CHECKS_MAX);
                }
            }
        }
    }
}
