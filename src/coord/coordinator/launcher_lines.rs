//! What a launcher printed during a run, for the record: the same line of every node once. All
//! lines are in the events.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// Most lines that a run keeps of what its launcher printed.
const LINES_MAX: usize = 8;

/// Of lines that differ in numbers only, the first, with the number of the others. In the order of the first lines.
pub(super) fn folded(lines: &[String]) -> Vec<String> {
    let mut kinds = BTreeMap::<String, usize>::new();
    let mut firsts: Vec<(&String, usize)> = Vec::new();
    for line in lines {
        let shape = line.split(|letter: char| letter.is_ascii_digit());
        let shape: Vec<&str> = shape.filter(|part| !part.is_empty()).collect();
        let at = *kinds.entry(shape.join("0")).or_insert(firsts.len());
        match firsts.get_mut(at) {
            Some((_, more)) => *more += 1,
            None => firsts.push((line, 0)),
        }
    }
    let shown = |(line, more): (&String, usize)| match more {
        0 => line.clone(),
        more => format!("{line} (and {more} more like it)"),
    };
    firsts.into_iter().take(LINES_MAX).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_every_node_is_kept_once() {
        let of_node = |node: u32| format!("slurmstepd-node{node}: error: couldn't chdir to `/j'");
        let mut lines: Vec<String> = (0..10).map(|line| of_node(7 + line / 2)).collect();
        lines.push("srun: error: Node failure on node7".into());
        lines.push(of_node(3));
        lines.push("srun: error: node7: task 7: Killed".into());
        assert_eq!(
            folded(&lines),
            [
                "slurmstepd-node7: error: couldn't chdir to `/j' (and 10 more like it)",
                "srun: error: Node failure on node7",
                "srun: error: node7: task 7: Killed",
            ]
        );
    }

    #[test]
    fn of_many_kinds_the_first_are_kept() {
        let lines: Vec<String> = ('a'..='z').map(String::from).collect();
        assert_eq!(folded(&lines), ["a", "b", "c", "d", "e", "f", "g", "h"]);
    }
}
