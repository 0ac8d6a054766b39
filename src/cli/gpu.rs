//! `tcpxctl gpu`: measures each policy of unpacking received fragments on a GPU against a plain
//! copy of the same bytes in the same run.
//!
//! ```text
//! $ tcpxctl gpu
//! # GPU 0 : NVIDIA H200, 0000:04:00.0, CUDA 13.0
//! #    chunk  fragment  count  batch  policy  time(us)     GB/s  of copy  verified
//!    524288      4096    128     16  kernel    140.10  1915.98     0.90  yes
//! ```
//!
//! It needs a GPU and no plugin. Every row's result is verified on the GPU.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{Columns, print, print_json};
use clap::Args;
use serde::Serialize;
use std::num::NonZeroUsize;
use tcpx_engine::gpu::bench::{self, BenchSetup, LatencyRow, PayloadRow, UnpackRow};
use tcpx_engine::gpu::{CudaDevice, CudaMemory, Unpack, Wanted, cuda_node};
use tcpx_words::error::Outcome;
use tcpx_words::units::ByteCount;

#[derive(Args)]
pub(crate) struct Arguments {
    /// GPU to measure: its CUDA ordinal or PCI address.
    #[arg(long, value_name = "GPU", default_value = "0")]
    gpu: Wanted,
    /// Chunk size; may be repeated.
    #[arg(long, value_name = "SIZE", default_values = ["64KiB", "512KiB", "4MiB"], value_parser = some_bytes)]
    chunk: Vec<ByteCount>,
    /// Fragment size; may be repeated.
    #[arg(long, value_name = "SIZE", default_values = ["4KiB", "8KiB", "1448B"], value_parser = some_bytes)]
    fragment: Vec<ByteCount>,
    /// Chunks per launch; may be repeated.
    #[arg(long, value_name = "COUNT", default_values = ["1", "4", "16", "128"])]
    batch: Vec<NonZeroUsize>,
    /// Bytes unpacked in one round.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = some_bytes)]
    total: ByteCount,
    /// Number of rounds; the table has their medians.
    #[arg(long, value_name = "COUNT", default_value = "9")]
    rounds: NonZeroUsize,
}

/// A size above 0.
fn some_bytes(text: &str) -> Result<ByteCount, String> {
    match text.parse::<ByteCount>() {
        Ok(ByteCount(0)) => Err("the size must be at least 1 byte".into()),
        read => read.map_err(|error| error.to_string()),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GpuDocument<'a> {
    schema: &'static str,
    cuda: &'a str,
    #[cfg_attr(test, schemars(with = "super::schemas::Object"))]
    gpu: &'a CudaDevice,
    dma_buf_export: Option<String>,
    rows: Vec<MeasuredRow<'a>>,
    #[cfg_attr(test, schemars(with = "super::schemas::Object"))]
    payload: &'a PayloadRow,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::Object>"))]
    latency: &'a [LatencyRow],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MeasuredRow<'a> {
    #[serde(flatten)]
    #[cfg_attr(
        test,
        schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")
    )]
    row: &'a UnpackRow,
    gb_per_s: f64,
    of_copy: f64,
}

/// The shape that payload and latency are measured with.
const CHUNK: usize = 512 << 10;
const FRAGMENT: usize = 4096;

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let cuda = cuda_node()?.cuda;
    let memory = CudaMemory::open(&arguments.gpu)?;
    let export = memory.dma_buf_export();
    if !common.json {
        print(&heading(
            memory.device(),
            &cuda,
            export.as_ref().err().map(ToString::to_string),
        ));
    }
    let sizes = |counts: &[ByteCount]| counts.iter().map(|count| count.as_usize()).collect();
    let setup = BenchSetup {
        chunks: sizes(&arguments.chunk),
        fragments: sizes(&arguments.fragment),
        batches: arguments.batch.iter().map(|batch| batch.get()).collect(),
        total: arguments.total.as_usize(),
        rounds: arguments.rounds.get(),
    };
    let rows = bench::rows(&memory, &setup)?;
    let payload = bench::payload(&memory, CHUNK, setup.total, setup.rounds)?;
    let latency = [Unpack::Kernel, Unpack::D2d, Unpack::Host]
        .map(|how| bench::latency(&memory, how, CHUNK, FRAGMENT));
    let latency = latency.into_iter().collect::<Result<Vec<_>, _>>()?;
    if common.json {
        let measured = rows.iter().map(|row| MeasuredRow {
            row,
            gb_per_s: row.gb_per_s(),
            of_copy: row.of_copy(),
        });
        print_json(&GpuDocument {
            schema: "tcpxctl.gpu/1",
            cuda: &cuda,
            gpu: memory.device(),
            dma_buf_export: export.err().map(|error| error.to_string()),
            rows: measured.collect(),
            payload: &payload,
            latency: &latency,
        });
    } else {
        print(&format!("{}{}", table(&rows), closing(&payload, &latency)));
    }
    if rows.iter().all(|row| row.verified) {
        return Ok(Ending::PASSED);
    }
    let message = "an unpack policy left wrong bytes: see WRONG in the table";
    Err(Failure::new(Outcome::Failed, message).in_result())
}

fn heading(gpu: &CudaDevice, cuda: &str, no_export: Option<String>) -> String {
    let export = no_export.unwrap_or_else(|| "works".into());
    format!(
        "# GPU {} : {}, {}, CUDA {cuda}, {} multiprocessors\n# dma-buf export : {export}\n#\n",
        gpu.ordinal, gpu.name, gpu.pci_address, gpu.multiprocessors
    )
}

fn table(rows: &[UnpackRow]) -> String {
    let names = [
        "chunk", "fragment", "count", "batch", "policy", "time(us)", "GB/s", "of copy", "verified",
    ];
    let mut columns = Columns::new(&names);
    for row in rows {
        columns.row([
            ByteCount(row.chunk as u64).to_string(),
            ByteCount(row.fragment as u64).to_string(),
            row.fragments.to_string(),
            row.batch.to_string(),
            word(row.policy).to_owned(),
            format!("{:.1}", row.nanoseconds as f64 / 1e3),
            format!("{:.1}", row.gb_per_s()),
            format!("{:.3}", row.of_copy()),
            if row.verified { "yes" } else { "WRONG" }.to_owned(),
        ]);
    }
    columns.render()
}

fn word(policy: Unpack) -> &'static str {
    match policy {
        Unpack::Kernel => "kernel",
        Unpack::D2d => "d2d",
        Unpack::Host => "host",
        Unpack::None => "none",
    }
}

fn closing(payload: &PayloadRow, latency: &[LatencyRow]) -> String {
    let rate = |nanoseconds: u64| payload.bytes as f64 / nanoseconds as f64;
    let mut text = format!(
        "#\n# Payload : fill {:.0} GB/s, verify {:.0} GB/s, copy {:.0} GB/s; both {:.3} of the copy\n",
        rate(payload.fill_nanoseconds),
        rate(payload.verify_nanoseconds),
        rate(payload.copy_nanoseconds),
        payload.of_copy()
    );
    text.push_str("# One chunk of 512 KiB in 128 fragments, microseconds on the host's clock\n");
    let mut columns = Columns::new(&["policy", "queue p50", "launch p50", "seen p50", "seen p99"]);
    for row in latency {
        let us = |time: f64| format!("{time:.1}");
        columns.row([
            word(row.policy).to_owned(),
            us(row.queue_us_p50),
            us(row.launch_us_p50),
            us(row.seen_us_p50),
            us(row.seen_us_p99),
        ]);
    }
    text + &columns.render()
}
