//! Findings on the rows of nccl-tests: values that were wrong, and a bandwidth that falls.
#![forbid(unsafe_code)]

use super::{Compose, shown};
use crate::measured::ToldRow;
use crate::report::SignatureFinding;
use crate::seen::Place;
use crate::signature::{Role, Severity, Signature};

/// The signature of the sum that nccl-tests prints below its table, which has the causes and what to do.
const SUM: &str = "nccl-tests-wrong";
const WRONG_ROWS: &str = "nccl-tests-wrong-rows";
const FALLS: &str = "nccl-tests-bandwidth-falls";

/// Words of a call of NCCL in which CUDA failed, without CUDA's reason.
const UNHANDLED: &str = "unhandled cuda error";
const NO_MEMORY: &str = "nearly all memory of a GPU is in use: nccl-tests lowered its largest size to what its own buffers can have, and what NCCL or CUDA allocates did not fit beside them";
const SMALLER: &str = "run it again with half of the largest size (`-e`), and look with `nvidia-smi` for other programs on the GPUs; if it fails too, the first `NCCL WARN` of every rank names the CUDA error";

impl Compose<'_> {
    /// Findings on files with rows that have wrong values, where no sum below the table tells it. That is given the first
    /// row.
    pub(super) fn wrong_rows(&self, findings: &mut Vec<SignatureFinding>) {
        for (file, measured) in self.tally.ends.measured() {
            let Some((told, rows)) = &measured.wrong else {
                continue;
            };
            let (finding, row) = (self.of_row(*file, told), &told.row);
            let [out_of_place, in_place] = row.wrong;
            let said = format!(
                "rows with wrong values: {rows}; the first is of size {}, with {out_of_place} wrong out of place and {in_place} in place",
                row.size
            );
            let is_of_file = |one: &&mut SignatureFinding| {
                one.signature == SUM && one.first.file == finding.first.file
            };
            if let Some(sum) = findings.iter_mut().find(is_of_file) {
                sum.meaning = format!("{}; {said}", sum.meaning);
                continue;
            }
            let sum = Signature::named(&self.catalogue.signatures, SUM);
            findings.push(SignatureFinding {
                signature: WRONG_ROWS.to_owned(),
                severity: Severity::Error,
                count: *rows,
                meaning: format!(
                    "values of the collectives were wrong, data was corrupted on its way: {said}"
                ),
                causes: sum.map(|one| one.causes.clone()).unwrap_or_default(),
                next_step: sum.and_then(|one| one.next.clone()),
                ..finding
            });
        }
    }

    /// Findings on files whose bus bandwidth falls with the size: told where nothing else is.
    pub(super) fn bandwidth_falls(&self) -> Vec<SignatureFinding> {
        let files = self.tally.ends.measured();
        let falls = files.filter_map(|(file, measured)| Some((*file, measured.fall.as_ref()?)));
        let falls = falls.map(|(file, fall)| SignatureFinding {
            signature: FALLS.to_owned(),
            severity: Severity::Info,
            count: fall.rows,
            meaning: format!(
                "the bus bandwidth falls from {:.2} GB/s at size {} to {:.2} GB/s at size {}; rows below a third of it: {}",
                fall.from.bandwidth, fall.from.size, fall.to.row.bandwidth, fall.to.row.size, fall.rows
            ),
            causes: [
                "larger sizes go another way (protocol, algorithm, channels), and a link, a NIC or a GPU of that is slow",
                "packets are dropped under load: no flow control (PFC, ECN) on the switches, or buffers of sockets that are too small",
            ]
            .map(str::to_owned)
            .to_vec(),
            next_step: Some(
                "run the sizes around the fall alone with NCCL_DEBUG=INFO, then with NCCL_PROTO=Simple and with other values of NCCL_ALGO: what keeps the bandwidth names the way; count drops on the NICs (`ethtool -S`, `rdma statistic`) before and after it"
                    .to_owned(),
            ),
            ..self.of_row(file, &fall.to)
        });
        falls.collect()
    }

    /// Names the memory of the GPUs first where nccl-tests lowered its largest size and a call of CUDA failed behind that.
    pub(super) fn tell_of_reduced_size(&self, findings: &mut [SignatureFinding]) {
        let is_it = |one: &&mut SignatureFinding| {
            one.severity < Severity::Warning && one.sample.contains(UNHANDLED)
        };
        if !self.tally.fronts.has_reduced_size() {
            return;
        }
        for finding in findings.iter_mut().filter(is_it) {
            finding.causes.insert(0, NO_MEMORY.to_owned());
            finding.next_step = Some(SMALLER.to_owned());
        }
    }

    /// A finding at a row; what it means is to be added.
    fn of_row(&self, file: u32, told: &ToldRow) -> SignatureFinding {
        let line = told.line;
        let place = self.place(Place { file, line }, None);
        SignatureFinding {
            signature: String::new(),
            severity: Severity::Info,
            role: Role::Cause,
            count: 1,
            processes: vec![self.name(told.speaker)],
            first: place.clone(),
            last: place,
            phase: None,
            meaning: String::new(),
            causes: Vec::new(),
            next_step: None,
            versions: "nccl-tests".to_owned(),
            polls: None,
            sample: shown(&told.text),
            before: Vec::new(),
            after: None,
        }
    }
}
