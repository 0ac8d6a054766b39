//! Lists of nodes as Slurm writes them: `a,b,c`, `a3-[0-3,7]`, `r[1-2]n[01-16]`.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use tcpx_words::error::NextStep;

/// Most nodes in a list. A typing error in a range must not become millions of names.
pub const NODES_MAX: usize = 16_384;
/// Longest number that is folded or expanded, so that it fits an integer.
const DIGITS_MAX: usize = 18;

/// Why a text is no list of nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    /// Nothing between two commas, or nothing at all.
    #[error("a name is empty in the node list {list:?}")]
    Empty {
        /// The whole list.
        list: String,
    },
    /// A name with a character that no host name has.
    #[error("{name:?} is no node name: {letter:?} is not allowed in it")]
    Letter {
        /// The name as written.
        name: String,
        /// Its first bad character.
        letter: char,
    },
    /// `[` without `]`, or the reverse.
    #[error("the brackets of {name:?} are not in pairs")]
    Brackets {
        /// The name as written.
        name: String,
    },
    /// Between brackets is no number and no range of numbers.
    #[error("{range:?} in {name:?} is no number and no range of numbers such as 0-15")]
    Range {
        /// The name as written.
        name: String,
        /// The part that is wrong.
        range: String,
    },
    /// More nodes than any cluster has.
    #[error("{name:?} makes the list longer than {NODES_MAX} nodes")]
    TooMany {
        /// The name as written.
        name: String,
    },
}

impl NextStep for BadList {
    fn next_step(&self) -> Option<String> {
        let step = match self {
            Self::Empty { .. } => "write names with one comma between them, as in a,b,c",
            Self::Letter { .. } | Self::TooMany { .. } => return None,
            Self::Brackets { .. } | Self::Range { .. } => {
                "write ranges as Slurm does, as in a3-[0-3,7]"
            }
        };
        Some(step.to_owned())
    }
}

/// The names of a list, in its order. A name that is there twice is twice in the result.
pub fn parse(list: &str) -> Result<Vec<String>, BadList> {
    let mut names = Vec::new();
    for name in split_outside_brackets(list) {
        let name = name.trim();
        if name.is_empty() {
            let list = list.to_owned();
            return Err(BadList::Empty { list });
        }
        names.extend(expand(name, NODES_MAX - names.len())?);
    }
    Ok(names)
}

fn split_outside_brackets(list: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    list.split(move |letter| {
        match letter {
            '[' => is_inside = true,
            ']' => is_inside = false,
            _ => {}
        }
        letter == ',' && !is_inside
    })
}

/// The names that one name with brackets stands for, at most `most`.
fn expand(name: &str, most: usize) -> Result<Vec<String>, BadList> {
    let mut names = vec![String::new()];
    let mut rest = name;
    while !rest.is_empty() {
        let plain = rest.find(['[', ']']).unwrap_or(rest.len());
        check_letters(name, &rest[..plain])?;
        let mut endings = vec![rest[..plain].to_owned()];
        rest = &rest[plain..];
        if !rest.is_empty() {
            let inside = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let (ranges, after) = inside.ok_or_else(|| BadList::Brackets {
                name: name.to_owned(),
            })?;
            let start = endings.remove(0);
            for range in ranges.split(',') {
                let numbers = numbers(name, range.trim(), most - endings.len())?;
                endings.extend(numbers.into_iter().map(|number| format!("{start}{number}")));
            }
            rest = after;
        }
        if names.len().saturating_mul(endings.len()) > most {
            return Err(BadList::TooMany {
                name: name.to_owned(),
            });
        }
        let longer = names
            .iter()
            .flat_map(|name| endings.iter().map(move |end| format!("{name}{end}")));
        names = longer.collect();
    }
    Ok(names)
}

/// Whether a text is the name of one node.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && check_letters(text, text).is_ok()
}

/// Letters of host names, addresses and `user@host`. All of them are harmless in a shell.
fn check_letters(name: &str, part: &str) -> Result<(), BadList> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "-._:@%".contains(letter);
    match part.chars().find(|&letter| !is_good(letter)) {
        Some(letter) => Err(BadList::Letter {
            name: name.to_owned(),
            letter,
        }),
        None => Ok(()),
    }
}

/// `7`, `0-15` or `001-128`: as wide as the first number is written.
fn numbers(name: &str, range: &str, most: usize) -> Result<Vec<String>, BadList> {
    let bad = || BadList::Range {
        name: name.to_owned(),
        range: range.to_owned(),
    };
    let number = |text: &str| -> Option<u64> {
        let is_number = (1..=DIGITS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok())?
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (low, high) = (
        number(first).ok_or_else(bad)?,
        number(last).ok_or_else(bad)?,
    );
    if low > high {
        return Err(bad());
    }
    if high - low >= most as u64 {
        return Err(BadList::TooMany {
            name: name.to_owned(),
        });
    }
    let width = first.len();
    Ok((low..=high)
        .map(|number| format!("{number:0width$}"))
        .collect())
}

/// Folds names into one list: sorted, each once, numbers at the end of a name as ranges.
pub fn fold<Name: AsRef<str>>(names: &[Name]) -> String {
    let names: BTreeSet<&str> = names.iter().map(AsRef::as_ref).collect();
    let mut folded: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        let (start, digits) = split_number(name);
        folded.entry(start).or_default().push(digits);
    }
    let folded = folded.into_iter().map(|(start, digits)| {
        // A name without a number, of which the set holds one.
        let plain = digits
            .iter()
            .filter(|digits| digits.is_empty())
            .map(|_| start.to_owned());
        let numbers: Vec<&str> = digits
            .iter()
            .copied()
            .filter(|digits| !digits.is_empty())
            .collect();
        let ranges = match &numbers[..] {
            [] => None,
            [one] => Some(format!("{start}{one}")),
            many => Some(format!("{start}[{}]", ranges(many))),
        };
        plain.chain(ranges).collect::<Vec<String>>().join(",")
    });
    folded.collect::<Vec<String>>().join(",")
}

/// A name and the number at its end.
fn split_number(name: &str) -> (&str, &str) {
    let start = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    match &name[start.len()..] {
        digits if digits.len() <= DIGITS_MAX => (start, digits),
        _ => (name, ""),
    }
}

/// `0-3,7`. Numbers with leading zeros are in ranges of their own width.
fn ranges(numbers: &[&str]) -> String {
    let padded: BTreeSet<usize> = numbers
        .iter()
        .filter(|number| number.starts_with('0') && number.len() > 1)
        .map(|number| number.len())
        .collect();
    // 10 belongs to 08 and 09 if those are there, and to 8 and 9 if not.
    let mut sorted: Vec<(usize, u64)> = numbers
        .iter()
        .filter_map(|number| {
            let width = if padded.contains(&number.len()) {
                number.len()
            } else {
                1
            };
            Some((width, number.parse().ok()?))
        })
        .collect();
    sorted.sort_unstable();
    let runs = sorted
        .chunk_by(|(width, number), (next_width, next)| width == next_width && number + 1 == *next);
    let runs = runs.filter_map(|run| {
        let (&(width, first), &(_, last)) = (run.first()?, run.last()?);
        Some(if first == last {
            format!("{first:0width$}")
        } else {
            format!("{first:0width$}-{last:0width$}")
        })
    });
    runs.collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_list_with_ranges_is_expanded() {
        let check = |list: &str, names: &str| {
            assert_eq!(parse(list).unwrap().join(" "), names, "{list}");
        };
        check("a", "a");
        check("a,b, c", "a b c");
        check("a3-[0-3,7]", "a3-0 a3-1 a3-2 a3-3 a3-7");
        check("n[08-11]", "n08 n09 n10 n11");
        check("r[1-2]n[1,3]x,z", "r1n1x r1n3x r2n1x r2n3x z");
        check("10.0.1.25,me@10.0.0.226:22", "10.0.1.25 me@10.0.0.226:22");
        check("a,a", "a a");
    }

    #[test]
    fn what_is_no_list_is_refused_with_the_part_that_is_wrong() {
        let check = |list: &str, says: &str| {
            assert_eq!(parse(list).unwrap_err().to_string(), says, "{list}");
        };
        check("", "a name is empty in the node list \"\"");
        check("a,,b", "a name is empty in the node list \"a,,b\"");
        check("a3-[0-", "the brackets of \"a3-[0-\" are not in pairs");
        check("a3-0]", "the brackets of \"a3-0]\" are not in pairs");
        check(
            "a[[1]]",
            "\"[1\" in \"a[[1]]\" is no number and no range of numbers such as 0-15",
        );
        check(
            "a[3-1]",
            "\"3-1\" in \"a[3-1]\" is no number and no range of numbers such as 0-15",
        );
        check(
            "a[]",
            "\"\" in \"a[]\" is no number and no range of numbers such as 0-15",
        );
        check("a;b", "\"a;b\" is no node name: ';' is not allowed in it");
        check(
            "a[0-9999999]",
            "\"a[0-9999999]\" makes the list longer than 16384 nodes",
        );
        check(
            "a[0-999]b[0-999]",
            "\"a[0-999]b[0-999]\" makes the list longer than 16384 nodes",
        );
        assert_eq!(parse("a[0-16383]").unwrap().len(), NODES_MAX);
        assert!(parse("b,a[0-16383]").is_err());
    }

    #[test]
    fn names_are_folded_as_slurm_writes_them() {
        let check = |names: &str, list: &str| {
            let names: Vec<&str> = names.split(' ').collect();
            assert_eq!(fold(&names), list);
        };
        check("a3-7 a3-0 a3-1 a3-2 a3-3", "a3-[0-3,7]");
        check("a3-7", "a3-7");
        check("n08 n09 n10 n11", "n[08-11]");
        check("n8 n9 n10 n100", "n[8-10,100]");
        check("n8 n08 n9 n09", "n[8-9,08-09]");
        check("a b a", "a,b");
        check("node node0 node1", "node,node[0-1]");
        check("x1y2 x1y3 x2y2", "x1y[2-3],x2y2");
        check(
            "a3-99999999999999999999 a3-99999999999999999998",
            "a3-99999999999999999998,a3-99999999999999999999",
        );
        assert_eq!(fold::<&str>(&[]), "");
    }

    proptest! {
        #[test]
        fn what_is_folded_is_read_back(
            names in prop::collection::btree_set("[ab]{0,1}[0-9]{0,1}[a.-][0-9]{0,3}", 1..60),
        ) {
            let given: Vec<&String> = names.iter().collect();
            let mut read = parse(&fold(&given)).unwrap();
            read.sort();
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), given);
        }

        #[test]
        fn any_text_is_parsed_or_refused(list in prop_oneof!["\\PC{0,60}", "[a-c0-9,\\[\\]-]{0,40}"]) {
            if let Ok(names) = parse(&list) {
                prop_assert!(names.len() <= NODES_MAX);
                let folded: BTreeSet<String> = parse(&fold(&names)).unwrap().into_iter().collect();
                prop_assert_eq!(folded, names.into_iter().collect::<BTreeSet<String>>());
            }
        }
    }
}
