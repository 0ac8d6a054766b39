//! What can be wrong with a transfer: names that people can quote, and the texts about
//! each.
//!
//! `build.rs` generates both from `probes/conditions/*.toml`, so every name that a rule
//! uses is a name of the catalogue.
#![forbid(unsafe_code)]

use serde::Serialize;
use tcpx_run_model::finding::Severity;
use tcpx_run_model::scenario::nearest;

include!(concat!(env!("OUT_DIR"), "/conditions.rs"));

/// Everything the catalogue says about one condition.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CatalogueEntry {
    /// The condition that it is about.
    pub name: Condition,
    /// Severity of its findings, unless another finding explains them.
    pub severity: Severity,
    /// It stops a transfer; the others end it or spoil its result.
    pub stalls: bool,
    /// What a person sees.
    pub symptom: &'static str,
    /// What is wrong, in one sentence.
    pub meaning: &'static str,
    /// What the rule looks at.
    pub detected: &'static str,
    /// Likely causes, the likeliest first.
    pub causes: &'static [&'static str],
    /// How to make it happen.
    pub reproduce: &'static str,
    /// No software on one machine can cause it: its rehearsal judges recorded or
    /// constructed evidence.
    pub simulated: bool,
    /// What to do about it.
    pub fix: &'static str,
    /// Settings that `fix` recommends, as variable or scenario key and value.
    pub recommends: &'static [(&'static str, &'static str)],
    /// What to do where all of these are in force already.
    pub otherwise: Option<&'static str>,
    /// Where the facts behind it are.
    pub reference: &'static str,
    /// Conditions that it causes: a finding of one of these is a symptom of this one.
    pub explains: &'static [Condition],
    /// What would tell it from conditions that look the same.
    pub decided_by: Option<&'static str>,
    /// `scenarios/repro/NAME.toml`.
    #[serde(skip)]
    pub scenario: &'static str,
    /// `scenarios/repro/evidence/NAME.json`, for a simulated condition.
    #[serde(skip)]
    pub evidence: Option<&'static str>,
}

impl Condition {
    /// Its entry in the catalogue.
    pub fn entry(self) -> &'static CatalogueEntry {
        &ENTRIES[self as usize]
    }

    /// The condition with this name, such as `window-never-consumed`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.word() == name)
    }

    /// Names that `written` may have meant: the nearest, then those that contain it.
    pub fn suggestions(written: &str) -> Vec<&'static str> {
        let names = || Self::ALL.iter().map(|one| one.word());
        let mut suggestions: Vec<&str> = nearest(written, names()).into_iter().collect();
        if written.len() >= 3 {
            let containing = names().filter(|name| name.contains(written));
            suggestions.extend(containing.filter(|name| nearest(written, names()) != Some(name)));
        }
        suggestions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue_source::parse;
    use proptest::prelude::*;

    #[test]
    fn every_condition_has_its_own_entry() {
        for condition in Condition::ALL {
            assert_eq!(condition.entry().name, *condition);
            assert_eq!(Condition::from_name(condition.word()), Some(*condition));
        }
    }

    #[test]
    fn a_name_that_is_nearly_right_is_suggested() {
        let check = |written, expected: &[&str]| {
            assert_eq!(Condition::suggestions(written), expected);
        };
        check("window-never-consume", &["window-never-consumed"]);
        check("consumed", &["window-never-consumed", "consumed-early"]);
        check("", &[]);
        check("banana", &[]);
    }

    const ONE: &str = "[[condition]]\nname = 'a'\nseverity = 'info'\nsymptom = 's'\nmeaning = 'm'\ndetected = 'd'\n\
                       causes = ['c']\nreproduce = 'r'\nfix = 'f'\nreference = 'x'\n";

    fn parsed(text: &str) -> Result<usize, String> {
        let entries = parse(&[("x.toml".to_owned(), text.to_owned())])?;
        Ok(entries.len())
    }

    #[test]
    fn bad_data_is_refused_with_its_file() {
        let check = |text: &str, part: &str| {
            let error = parsed(text).unwrap_err();
            assert!(
                error.starts_with("x.toml: ") && error.contains(part),
                "{error}"
            );
        };
        check(&ONE.replace("'a'", "'A b'"), "lowercase letters");
        check(&ONE.replace("'info'", "'terrible'"), "unknown variant");
        check(&ONE.replace("fix", "mend"), "unknown field");
        check(&ONE.replace("['c']", "[]"), "has no causes");
        check(&ONE.replace("'s'", "' s'"), "padded");
        check(&format!("{ONE}{ONE}"), "`a` is defined twice");
        let explains = |name| parsed(&format!("{ONE}explains = ['{name}']\n"));
        assert!(explains("b").unwrap_err().contains("`a` explains `b`"));
        assert!(explains("a").unwrap_err().contains("`a` explains `a`"));
        assert_eq!(parsed(ONE), Ok(1));
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(text in "\\PC{0,200}", cut in 0usize..ONE.len(), with in "[ -~\n]{0,12}") {
            for text in [text, format!("{}{with}{}", &ONE[..cut], &ONE[cut..])] {
                let _ = parsed(&text);
            }
        }
    }
}
