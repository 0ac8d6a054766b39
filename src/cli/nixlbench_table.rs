//! The table of NIXL's benchmark, as `compare` and `logs` read it.
//!
//! There, the time of a transfer is that from the call that posts it until it is done, and the
//! average latency is that of a block: a thread's whole time by the number of its blocks.
#![forbid(unsafe_code)]

use std::fmt::Write;
use tcpx_run_model::latencies::Latencies;
use tcpx_run_model::record::{KvRecord, RunRecord};

/// nixlbench's table.
pub(crate) fn table(runs: &[RunRecord]) -> String {
    let heads = [
        "Block Size (B)",
        "Batch Size",
        "B/W (GB/Sec)",
        "Avg Lat. (us)",
        "Avg Prep (us)",
        "P99 Prep (us)",
        "Avg Post (us)",
        "P99 Post (us)",
        "Avg Tx (us)",
        "P99 Tx (us)",
    ];
    let line = |cells: &[String]| {
        let mut line = String::new();
        for (number, cell) in cells.iter().enumerate() {
            let width = if number == 0 { 20 } else { 15 };
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:<width$}");
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(&heads.map(str::to_owned));
    text.push_str(&"-".repeat(155));
    text.push('\n');
    for run in runs {
        text.extend(row(run).map(|cells| line(&cells)));
    }
    text
}

/// The row of a run that measured something.
fn row(run: &RunRecord) -> Option<Vec<String>> {
    let traffic = run.scenario.resolved.traffic.as_ref()?;
    let measured = || {
        run.transfers
            .iter()
            .filter(|one| one.kv.is_some() && one.seconds > 0.0)
    };
    measured().next()?;
    let of = |pick: fn(&KvRecord) -> &Latencies| {
        Latencies::merged(measured().filter_map(|one| one.kv.as_deref()).map(pick))
    };
    let each: f64 = measured().map(|one| one.gb_per_s).sum();
    let together = run.sums.as_ref().map(|sums| sums.gb_per_s);
    let seconds = measured().map(|one| one.seconds).fold(0.0, f64::max);
    let (batches, posts) = (of(|kv| &kv.times.batches), of(|kv| &kv.times.posts));
    let preparations = of(|kv| &kv.times.preparations);
    let transfers = measured().count() as f64;
    let blocks = batches.count as f64 / transfers * f64::from(traffic.batch);
    // As there: of each thread, the whole time by the number of its blocks.
    let average = seconds * 1e6 * f64::from(traffic.concurrency) / blocks.max(1.0);
    let p99 = |times: &Latencies| times.us.map_or(0.0, |us| us.p99);
    let mut cells = vec![
        traffic.shape().page_bytes.to_string(),
        traffic.batch.to_string(),
        format!(
            "{:.6}",
            if transfers > 1.0 {
                together.unwrap_or(each)
            } else {
                each
            }
        ),
        format!("{average:.1}"),
    ];
    for times in [&preparations, &posts, &batches] {
        cells.push(format!("{:.1}", times.mean_us));
        cells.push(format!("{:.1}", p99(times)));
    }
    Some(cells)
}
