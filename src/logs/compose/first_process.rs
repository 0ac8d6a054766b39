//! Of two processes of one host, the one that failed before the other one lost its connection to it.
#![forbid(unsafe_code)]

use super::Compose;
use super::ranking::{CALL_CHAIN, PEER_CLOSED, is_of_own_host};
use crate::report::SignatureFinding;
use crate::seen::SeenLines;
use crate::signature::{Role, Severity};

/// The result of NCCL for what another process did.
const REMOTE: &str = "-> 6";
const FAILED_FIRST: &str = "it is before other processes of its host lost their connections";

impl Compose<'_> {
    /// Where processes lost a connection to their own host, and another process of it had calls of NCCL that failed
    /// before, that one failed first.
    pub(super) fn tell_of_first_process(&self, findings: &mut Vec<SignatureFinding>) {
        let is_lost = |one: &SignatureFinding| {
            one.signature == PEER_CLOSED && one.role != Role::Consequence && is_of_own_host(one)
        };
        let Some(lost) = findings.iter().find(|one| is_lost(one)).cloned() else {
            return;
        };
        let is_before = |one: &SignatureFinding| {
            one.role != Role::Consequence
                && one.severity <= Severity::Error
                && one.first.file == lost.first.file
                && one.first.line < lost.first.line
        };
        let mut signatures = self.catalogue.signatures.iter().zip(0_u32..);
        let Some((signature, number)) = signatures.find(|(one, _)| one.name == CALL_CHAIN) else {
            return;
        };
        if findings.iter().any(is_before) {
            return;
        }
        let mut parts: Vec<(u32, &SeenLines)> = self
            .tally
            .seen
            .iter()
            .filter(|((one, _), _)| *one == number)
            .map(|((_, speaker), seen)| (*speaker, seen))
            .collect();
        parts.sort_by_key(|(_, seen)| seen.first);
        let host = |name: &str| name.split(['.', ':']).next().map(str::to_owned);
        let of_host = lost.processes.first().and_then(|name| host(name));
        let fails_first = |(speaker, seen): &(u32, &SeenLines)| {
            let (name, place) = (self.name(*speaker), self.place(seen.first, None));
            place.file == lost.first.file
                && place.line < lost.first.line
                && host(&name) == of_host
                && !lost.processes.contains(&name)
                && memchr::memmem::find(&seen.sample, REMOTE.as_bytes()).is_none()
        };
        let Some(at) = parts.iter().position(fails_first) else {
            return;
        };
        let (speaker, seen) = parts.remove(at);
        let first = self.finding(number, signature, &[(speaker, seen, None)]);
        for one in findings.iter_mut().filter(|one| is_lost(one)) {
            one.role = Role::Consequence;
        }
        findings.retain(|one| one.signature != CALL_CHAIN);
        let others: Vec<_> = parts
            .into_iter()
            .map(|(speaker, seen)| (speaker, seen, None))
            .collect();
        if !others.is_empty() {
            let others = self.finding(number, signature, &others);
            findings.push(SignatureFinding {
                role: Role::Consequence,
                ..others
            });
        }
        findings.push(SignatureFinding {
            role: Role::General,
            meaning: format!("{}; {FAILED_FIRST}", first.meaning),
            ..first
        });
    }
}
