//! What is said about a part, and in which words.
#![forbid(unsafe_code)]

use super::subject::{Names, Place, Subject};
use serde::{Deserialize, Serialize};
use tcpx_words::word_set;

word_set! {
    /// How far a finding can be trusted.
    pub enum Standing {
        /// Retests with good partners show it, too.
        Confirmed = "confirmed",
        /// It was not measured again, or not often enough.
        Suspected = "suspected",
    }
}

/// What is wrong with a part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Defect {
    /// It is slower than the others.
    Slow {
        /// Its rate divided by that of the others.
        ratio: f64,
    },
    /// Its measurements failed.
    Dead {
        /// How many failed.
        missing: usize,
    },
    /// It loses segments, far more than the others.
    Lossy {
        /// The share of segments that it lost.
        share: f64,
        /// The share that the others lost.
        others: f64,
        /// Its rate divided by that of the others, if it is slow, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ratio: Option<f64>,
    },
}

/// One part that is slow or dead, or loses segments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The part.
    pub subject: Subject,
    /// What is wrong with it.
    #[serde(flatten)]
    pub defect: Defect,
    /// How many measurements it rests on.
    pub measurements: usize,
    /// From 0 to 1: that this is not chance.
    pub confidence: f64,
    /// Whether it was retested.
    pub standing: Standing,
}

/// What a mesh's measurements say.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribution {
    /// The part that explains most first; dead ones before all others.
    pub findings: Vec<Finding>,
    /// Parts that looked slow at first, and that second measurements do not confirm: of the part itself, or of
    /// nearly all others like it.
    pub cleared: Vec<Finding>,
    /// How much measurements scatter without any of this: 0.1 is 10 %.
    pub scatter: f64,
    /// Measurements with a rate.
    pub measured: usize,
    /// Measurements without one.
    pub missing: usize,
}

impl Finding {
    /// One sentence: `rail eth3 of a3-7 sends at 61 % of the others`.
    pub fn words(&self, names: &Names<'_>) -> String {
        let (subject, verb) = names.subject_and_verb(self.subject);
        match self.defect {
            Defect::Slow { ratio } => {
                format!("{subject} {verb} at {:.0} % of the others", ratio * 100.0)
            }
            Defect::Dead { missing: 1 } if self.measurements == 1 => {
                format!("{subject}: its only measurement is missing")
            }
            Defect::Dead { missing } if missing == self.measurements => {
                format!("{subject}: all {missing} measurements are missing")
            }
            Defect::Dead { missing } => format!(
                "{subject}: {missing} of {} measurements are missing",
                self.measurements
            ),
            Defect::Lossy {
                share,
                others,
                ratio,
            } => {
                let of = self.subject.segments();
                let slow = ratio
                    .map(|ratio| format!(", and runs at {:.0} % of the others", ratio * 100.0));
                format!(
                    "{subject} loses {:.1} % of {of} (the others {:.1} %){}",
                    share * 100.0,
                    others * 100.0,
                    slow.unwrap_or_default()
                )
            }
        }
    }
}

impl Attribution {
    /// The nodes that a confirmed finding names, or one of whose rails it names: what a scheduler
    /// should leave out. A pair or a group names no node.
    pub fn nodes_at_fault(&self) -> Vec<usize> {
        let confirmed = self
            .findings
            .iter()
            .filter(|finding| finding.standing == Standing::Confirmed);
        let mut nodes: Vec<usize> = confirmed
            .filter_map(|finding| match finding.subject.place {
                Place::Node { node } | Place::Rail { node, .. } => Some(node),
                _ => None,
            })
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::Way;
    use crate::groups::Groups;

    fn finding(place: Place, defect: Defect, measurements: usize, standing: Standing) -> Finding {
        let way = Way::Sends;
        Finding {
            subject: Subject { place, way },
            defect,
            measurements,
            confidence: 1.0,
            standing,
        }
    }

    #[test]
    fn a_finding_is_one_sentence() {
        let (nodes, rails) = (["a3-7".to_owned()], ["eth1".to_owned()]);
        let names = Names {
            nodes: &nodes,
            rails: &rails,
            groups: &Groups::default(),
        };
        let rail = Place::Rail { node: 0, rail: 0 };
        let check = |defect, measurements, says: &str| {
            let finding = finding(rail, defect, measurements, Standing::Suspected);
            assert_eq!(finding.words(&names), says);
        };
        check(
            Defect::Slow { ratio: 0.614 },
            15,
            "rail eth1 of a3-7 sends at 61 % of the others",
        );
        check(
            Defect::Dead { missing: 1 },
            1,
            "rail eth1 of a3-7: its only measurement is missing",
        );
        check(
            Defect::Dead { missing: 8 },
            8,
            "rail eth1 of a3-7: all 8 measurements are missing",
        );
        check(
            Defect::Dead { missing: 7 },
            8,
            "rail eth1 of a3-7: 7 of 8 measurements are missing",
        );
        let lossy = |ratio| Defect::Lossy {
            share: 0.0512,
            others: 0.0004,
            ratio,
        };
        check(
            lossy(None),
            15,
            "rail eth1 of a3-7 loses 5.1 % of the segments that it sends (the others 0.0 %)",
        );
        check(
            lossy(Some(0.8)),
            15,
            "rail eth1 of a3-7 loses 5.1 % of the segments that it sends (the others 0.0 %), and runs at \
             80 % of the others",
        );
    }

    #[test]
    fn nodes_at_fault_are_those_of_confirmed_nodes_and_rails() {
        let dead = |place, standing| finding(place, Defect::Dead { missing: 8 }, 8, standing);
        let attribution = Attribution {
            findings: vec![
                dead(Place::Node { node: 5 }, Standing::Confirmed),
                dead(Place::Rail { node: 2, rail: 1 }, Standing::Confirmed),
                dead(Place::Rail { node: 5, rail: 1 }, Standing::Confirmed),
                dead(Place::Node { node: 3 }, Standing::Suspected),
                dead(Place::Pair { a: 0, b: 1 }, Standing::Confirmed),
            ],
            cleared: Vec::new(),
            scatter: 0.1,
            measured: 0,
            missing: 40,
        };
        assert_eq!(attribution.nodes_at_fault(), [2, 5]);
    }
}
