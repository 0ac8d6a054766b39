//! Two numbers of a line that tell more beside each other: ranks that came and ranks that were expected.
#![forbid(unsafe_code)]

use super::Reason;
use regex::bytes::{Captures, Regex};
use std::sync::LazyLock;

/// How programs write both numbers.
static COUNTS: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    let regex = |words: &str| Regex::new(&format!("(?i-u){words}")).expect("a sound regex");
    [
        regex(concat!(
            r"worker_count\W{1,3}(?P<came>\d+).{0,40}world_size\W{1,3}(?P<all>\d+)",
            r"|\b(?P<came2>\d+) ?/ ?(?P<all2>\d+) (?:clients?|workers?|ranks?|nodes?|processes|peers?|members?|agents?)\b.{0,24}\b(?:join|arriv|connect|ready|register|came|start|check)",
            r"|\b(?P<came3>\d+) (?:out )?of (?:the )?(?P<all3>\d+) (?:\w+ )?(?:clients?|workers?|ranks?|nodes?|processes|peers?|members?|agents?|tasks?|participants?)\b.{0,24}\b(?:join|arriv|connect|ready|register|came|start|check)",
        )),
        regex(concat!(
            r"world_size\W{1,3}(?P<all>\d+).{0,40}(?:worker_count|arrived|joined|num_workers)\W{1,3}(?P<came>\d+)",
            r"|\b(?:expected|expecting|waiting for|want(?:ed)?|needs?)\W{1,3}(?P<all2>\d+) (?:\w+ )?(?:clients?|workers?|ranks?|nodes?|processes|peers?|members?|agents?|tasks?|participants?)\b.{0,24}\b(?:got|have|only|joined|arrived|came|found|but)\W{1,3}(?:only )?(?P<came2>\d+)\b",
        )),
    ]
});

const FEWER: Reason = Reason {
    words: "",
    cause: "fewer ranks came than the job has: the others did not start, failed before, or look for another address",
    next: "count the processes that run on each node; read the log of the ranks that did not come, up to its end",
};
const MORE: Reason = Reason {
    words: "",
    cause: "more ranks came than the job has: workers were restarted in the same store, or two jobs use one address and port",
    next: "read the first failure before the restart; end the processes of earlier jobs, and give each job a port of its own",
};

/// All reasons of this file.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Reason> {
    [&FEWER, &MORE].into_iter()
}

/// What the two numbers of a line tell; nothing if they are equal.
pub(super) fn of(line: &[u8]) -> Option<&'static Reason> {
    let found = COUNTS.iter().find_map(|counts| counts.captures(line))?;
    let (came, all) = (
        number(&found, ["came", "came2", "came3"])?,
        number(&found, ["all", "all2", "all3"])?,
    );
    match came.cmp(&all) {
        std::cmp::Ordering::Less => Some(&FEWER),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(&MORE),
    }
}

fn number(found: &Captures<'_>, names: [&str; 3]) -> Option<u64> {
    let text = names.iter().find_map(|name| found.name(name))?;
    str::from_utf8(text.as_bytes()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_came_are_compared_with_those_that_were_expected() {
        let check = |line: &str, part: Option<&str>| {
            let cause = of(line.as_bytes()).map(|reason| reason.cause);
            let is_right = match part {
                Some(part) => cause.is_some_and(|cause| cause.starts_with(part)),
                None => cause.is_none(),
            };
            assert!(is_right, "{line}: {cause:?}");
        };
        check(
            "for key: store_based_barrier_key:1 (world_size=4, worker_count=8, timeout=0:30:00)",
            Some("more"),
        );
        check(
            "for key: store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)",
            Some("fewer"),
        );
        check(
            "Waiting in store based barrier to initialize process group for rank: 0, key: a (world_size=4, num_workers_joined=1, timeout=0:30:00)",
            Some("fewer"),
        );
        check(
            "Timed out after 301 seconds waiting for clients. 3/4 clients joined.",
            Some("fewer"),
        );
        check("Only 7 of 8 workers have joined", Some("fewer"));
        check("expected 16 ranks, but got 8", Some("fewer"));
        check("expected 2 nodes but found 3", Some("more"));
        check("4/4 clients joined", None);
        check("epoch 3/4 done", None);
    }
}
