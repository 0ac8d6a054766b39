//! `tcpxctl run --like-nixlbench 'OPTIONS'`: the run that NIXL's benchmark would make with these
//! options, and its table.
//!
//! ```console
//! $ tcpxctl run --like-nixlbench '--op_type READ --start_block_size 4096 --max_block_size 65536'
//! ```
//!
//! The initiator is the local end, or the one or the many of the scheme. A thread of nixlbench is a
//! request in flight, `--pipeline_depth` times; each iteration is one vector of `batch_size` blocks.
//! As there, bytes are compared with `--check_consistency` only. Unlike there, blocks are drawn at
//! random from a buffer of as many blocks as are in flight, at most `--total_buffer_size`.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::output::say;
use std::collections::BTreeMap;
use tcpx_run_model::scenario::{Inputs, Resolved, ScenarioError, nearest, resolve};
use tcpx_words::error::Outcome;
use tcpx_words::units::ByteCount;

/// The name of the flag, in messages.
const FLAG: &str = "--like-nixlbench";
/// Blocks above this size have fewer iterations.
const LARGE_BLOCK: u64 = 1 << 20;
/// Iterations that barriers lie around, if the number of all can be divided by it.
const PARTS: u64 = 10;
/// Most combinations of block and batch sizes.
const POINTS_MAX: usize = 1000;

/// Options that choose what runs, with nixlbench's defaults.
const OPTIONS: [(&str, &str); 17] = [
    ("op_type", "WRITE"),
    ("scheme", "pairwise"),
    ("mode", "SG"),
    ("initiator_seg_type", "DRAM"),
    ("target_seg_type", "DRAM"),
    ("check_consistency", "false"),
    ("total_buffer_size", "8589934592"),
    ("start_block_size", "4096"),
    ("max_block_size", "67108864"),
    ("start_batch_size", "1"),
    ("max_batch_size", "1"),
    ("num_iter", "1000"),
    ("warmup_iter", "100"),
    ("large_blk_iter_ftr", "16"),
    ("num_threads", "1"),
    ("pipeline_depth", "1"),
    ("worker_type", "nixl"),
];
const DEVICES: [(&str, &str); 2] = [("num_initiator_dev", "1"), ("num_target_dev", "1")];
/// Options about what tcpxctl has of its own: they are named and change nothing.
const WITHOUT_EFFECT: [&str; 11] = [
    "backend",
    "runtime_type",
    "etcd_endpoints",
    "asio_address",
    "asio_port",
    "benchmark_group",
    "device_list",
    "enable_pt",
    "progress_threads",
    "enable_vmm",
    "use_hugepages",
];
const SWITCHES: [&str; 4] = [
    "check_consistency",
    "enable_pt",
    "enable_vmm",
    "use_hugepages",
];

/// nixlbench's options, checked.
#[derive(Debug)]
pub(crate) struct Like {
    values: BTreeMap<String, String>,
    threads: u64,
    batches: Vec<u64>,
    blocks: Vec<u64>,
}

fn wrong(what: impl std::fmt::Display) -> Failure {
    Failure::new(Outcome::Usage, format!("{FLAG}: {what}"))
}

impl Like {
    /// Reads the options as gflags does: `--name=value`, `--name value`, `--switch`, `--noswitch`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let words = shlex::split(text).ok_or_else(|| wrong("a quote is not closed"))?;
        let defaults = OPTIONS.iter().chain(&DEVICES);
        let mut values: BTreeMap<String, String> = defaults
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let mut words = words.into_iter().peekable();
        if words.peek().is_some_and(|first| !first.starts_with('-')) {
            let program = words.next().unwrap_or_default();
            if !program.ends_with("nixlbench") {
                return Err(wrong(format!("`{program}` is not an option")));
            }
        }
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
                return Err(wrong(format!("`{word}` is not an option")));
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (option.to_owned(), None),
            };
            let off = name
                .strip_prefix("no")
                .filter(|name| SWITCHES.contains(name));
            let (name, value) = match (off, value) {
                (Some(name), None) => (name.to_owned(), "false".to_owned()),
                (_, Some(value)) => (name, value),
                (None, None) if SWITCHES.contains(&name.as_str()) => (name, "true".to_owned()),
                _ => {
                    must_be_known(&name)?;
                    let value = words.next();
                    let value = value.ok_or_else(|| wrong(format!("--{name} has no value")))?;
                    (name, value)
                }
            };
            must_be_known(&name)?;
            if WITHOUT_EFFECT.contains(&name.as_str()) {
                say(&format!("# Note : --{name} {value} has no effect here\n"));
            }
            values.insert(name, value);
        }
        let mut like = Self {
            values,
            threads: 1,
            batches: Vec::new(),
            blocks: Vec::new(),
        };
        like.check()?;
        Ok(like)
    }

    fn word(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    fn one_of<'a>(&self, name: &str, words: &[&'a str]) -> Result<&'a str, Failure> {
        let given = self.word(name);
        let known = words.iter().find(|word| **word == given);
        known.copied().ok_or_else(|| {
            wrong(format!(
                "--{name} is `{given}`, and can be {}",
                words.join(" or ")
            ))
        })
    }

    fn number(&self, name: &str, min: u64, max: u64) -> Result<u64, Failure> {
        let given = self.word(name);
        let number = given.parse().ok();
        number
            .filter(|number| (min..=max).contains(number))
            .ok_or_else(|| {
                wrong(format!(
                    "--{name} is `{given}`, and must be a whole number from {min} to {max}"
                ))
            })
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.one_of("op_type", &["READ", "WRITE"])?;
        self.one_of("scheme", &["pairwise", "manytoone", "onetomany", "tp"])?;
        self.one_of("worker_type", &["nixl"])?;
        let mut types = Vec::new();
        for name in ["initiator_seg_type", "target_seg_type"] {
            types.push(self.one_of(name, &["DRAM", "VRAM"])?);
        }
        if types[0] != types[1] {
            return Err(wrong(
                "--initiator_seg_type and --target_seg_type differ: both ends use the same kind of memory here",
            ));
        }
        if self.word("mode") == "MG" {
            return Err(wrong(
                "--mode MG: an endpoint moves the memory of one GPU; use --mode SG",
            ));
        }
        self.one_of("mode", &["SG"])?;
        self.one_of("check_consistency", &["true", "false"])?;
        let threads = self.number("num_threads", 1, 256)?;
        let depth = self.number("pipeline_depth", 1, 256)?;
        let iterations = self.number("num_iter", 1, 1_000_000)?;
        self.number("warmup_iter", 0, 1_000_000)?;
        self.number("large_blk_iter_ftr", 1, 1_000_000)?;
        if iterations % threads != 0 {
            return Err(wrong(format!(
                "--num_iter {iterations} cannot be divided by --num_threads {threads}"
            )));
        }
        self.threads = threads * depth;
        if self.threads > 256 {
            return Err(wrong(format!(
                "--num_threads {threads} times --pipeline_depth {depth} is more than 256 requests in flight"
            )));
        }
        let buffer = self.number("total_buffer_size", 1, 64 << 30)?;
        self.blocks = self.doubled("block", 1 << 30)?;
        self.batches = self.doubled("batch", 4096)?;
        if let Some(block) = self.blocks.iter().find(|block| **block > buffer) {
            return Err(wrong(format!(
                "a block of {block} bytes does not fit into --total_buffer_size {buffer}"
            )));
        }
        if self.blocks.len() * self.batches.len() > POINTS_MAX {
            return Err(wrong(format!("more than {POINTS_MAX} combinations")));
        }
        self.pattern().map(drop)
    }

    /// `start_*_size` and its doubles up to `max_*_size`.
    fn doubled(&self, of: &str, limit: u64) -> Result<Vec<u64>, Failure> {
        let (first, last) = (format!("start_{of}_size"), format!("max_{of}_size"));
        let (start, max) = (
            self.number(&first, 1, limit)?,
            self.number(&last, 1, limit)?,
        );
        if start > max {
            return Err(wrong(format!(
                "--{first} {start} is more than --{last} {max}"
            )));
        }
        let double = |size: &u64| size.checked_mul(2).filter(|size| *size <= max);
        Ok(std::iter::successors(Some(start), double).collect())
    }

    /// The mesh in which the one or the many initiators run; `None` for a pair.
    fn pattern(&self) -> Result<Option<&'static str>, Failure> {
        let initiators = self.number("num_initiator_dev", 1, 1024)?;
        let targets = self.number("num_target_dev", 1, 1024)?;
        let many_initiators = match self.word("scheme") {
            "manytoone" => true,
            "onetomany" => false,
            // A rank of the smaller side is connected to several of the larger one.
            "tp" if initiators > 1 && targets > 1 => {
                return Err(wrong(format!(
                    "--scheme tp with {initiators} initiators and {targets} targets: one side must have 1"
                )));
            }
            "tp" => initiators > targets,
            _ if initiators > 1 || targets > 1 => {
                return Err(wrong(
                    "several devices in one process: an endpoint moves the memory of one GPU; name more nodes with --hosts instead",
                ));
            }
            _ => return Ok(None),
        };
        // A pattern says where the bytes go: from initiators that write, to initiators that read.
        let from_many = many_initiators == (self.word("op_type") == "WRITE");
        Ok(Some(if from_many {
            "many-to-one"
        } else {
            "one-to-many"
        }))
    }

    /// What the options mean as keys of a scenario, for one size of blocks and batches.
    fn settings(&self, block: u64, batch: u64) -> Result<Vec<String>, Failure> {
        let is_large = block > LARGE_BLOCK;
        let factor = if is_large {
            self.number("large_blk_iter_ftr", 1, 1_000_000)?
        } else {
            1
        };
        let shorter = |name: &str, min: u64| {
            let all = self.number(name, 0, 1_000_000)?;
            Ok::<u64, Failure>((all / factor).max(min.min(all)))
        };
        let (iterations, warmup) = (shorter("num_iter", 1)?, shorter("warmup_iter", 1)?);
        let parts = match iterations {
            all if all % PARTS == 0 && all / PARTS <= 100_000 => PARTS,
            all => all.div_ceil(100_000),
        };
        let requests = iterations / parts;
        let reads = self.word("op_type") == "READ";
        let pattern = self.pattern()?;
        let buffer = self.number("total_buffer_size", 1, 64 << 30)?;
        let cache = (block * batch).saturating_mul(self.threads);
        let memory = match self.word("target_seg_type") {
            "VRAM" => "device",
            _ => "host",
        };
        let mut settings = vec![
            "name=nixlbench".to_owned(),
            "traffic.kind=kv".to_owned(),
            format!("traffic.page={block}"),
            "traffic.page_tokens=1".to_owned(),
            format!("traffic.tokens={batch}"),
            format!("traffic.batch={batch}"),
            "traffic.depth=1".to_owned(),
            format!("traffic.requests={requests}"),
            format!("traffic.concurrency={}", self.threads),
            format!("traffic.op={}", if reads { "pull" } else { "push" }),
            format!("traffic.cache={}", cache.clamp(block, buffer)),
            format!("transfer.iterations={parts}"),
            format!("transfer.warmup={}", warmup.div_ceil(requests)),
            format!("transfer.verify={}", self.word("check_consistency")),
            format!("transfer.memory={memory}"),
        ];
        match pattern {
            Some(pattern) => {
                settings.push(format!("mesh.pattern={pattern}"));
                settings.push("mesh.rails=all".to_owned());
            }
            // The local end is the initiator.
            None if reads => settings.push("transfer.direction=reverse".to_owned()),
            None => {}
        }
        Ok(settings)
    }

    /// One point for each size of blocks and batches; `inputs` has the other flags, which beat the
    /// options.
    pub(crate) fn points(&self, inputs: &Inputs) -> Result<Vec<Resolved>, Failure> {
        let mut points = Vec::new();
        for block in &self.blocks {
            for batch in &self.batches {
                let mut inputs = inputs.clone();
                let settings = self.settings(*block, *batch)?;
                let settings = settings.into_iter().map(|one| (FLAG.to_owned(), one));
                inputs.flags.splice(0..0, settings);
                let found: Result<_, ScenarioError> = resolve(&inputs);
                for mut point in found? {
                    let size = format!("block={} batch={batch}", ByteCount(*block));
                    point.point = format!("{size} {}", point.point).trim().to_owned();
                    points.push(point);
                }
            }
        }
        Ok(points)
    }
}

fn must_be_known(name: &str) -> Result<(), Failure> {
    let options = OPTIONS.iter().chain(&DEVICES).map(|(name, _)| *name);
    let known: Vec<&str> = options.chain(WITHOUT_EFFECT).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let failure = wrong(format!("nixlbench's --{name} has no equivalent here"));
    Err(match nearest(name, known.iter().copied()) {
        Some(near) => failure.next(format!("did you mean --{near}?")),
        None => failure.next(format!("the options are --{}", known.join(", --"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_are_refused_with_a_sentence() {
        let check = |text: &str, expected: &str| {
            let said = match Like::parse(text) {
                Ok(_) => "taken".to_owned(),
                // With its next step.
                Err(failure) => format!("{failure:?}"),
            };
            assert!(said.contains(expected), "{text}: {said}");
        };
        check("--op_type READ --scheme=tp --nocheck_consistency", "taken");
        check("nixlbench -backend UCX --check_consistency", "taken");
        check("--colour red", "--colour has no equivalent here");
        check("--op_typ READ", "did you mean --op_type?");
        check(
            "--op_type=SEND",
            "--op_type is `SEND`, and can be READ or WRITE",
        );
        check(
            "--scheme ring",
            "can be pairwise or manytoone or onetomany or tp",
        );
        check("--initiator_seg_type VRAM", "both ends use the same kind");
        check("--initiator_seg_type HBM", "can be DRAM or VRAM");
        check("--mode MG", "moves the memory of one GPU; use --mode SG");
        check("--start_block_size 0", "a whole number from 1 to");
        check("--start_block_size 8K", "--start_block_size is `8K`");
        check(
            "--start_block_size 8192 --max_block_size 4096",
            "--start_block_size 8192 is more than --max_block_size 4096",
        );
        check("--max_batch_size 8192", "a whole number from 1 to 4096");
        check(
            "--num_iter 10 --num_threads 3",
            "cannot be divided by --num_threads 3",
        );
        check(
            "--num_iter 64 --num_threads 64 --pipeline_depth 8",
            "more than 256 requests",
        );
        check("--num_iter", "--num_iter has no value");
        check(
            "--total_buffer_size 1024",
            "does not fit into --total_buffer_size",
        );
        check(
            "--scheme tp --num_initiator_dev 2 --num_target_dev 4",
            "one side must have 1",
        );
        check("--num_initiator_dev 8", "name more nodes with --hosts");
        check("READ", "`READ` is not an option");
        check("--op_type 'READ", "a quote is not closed");
    }

    fn points(text: &str) -> Vec<Resolved> {
        let like = Like::parse(text).expect("options");
        like.points(&Inputs::default()).expect("points")
    }

    #[test]
    fn sizes_double_and_large_blocks_have_fewer_iterations() {
        let points = points(
            "--op_type READ --start_block_size 524288 --max_block_size 2097152 \
             --start_batch_size 2 --max_batch_size 5 --num_iter 160 --warmup_iter 20 --num_threads 2",
        );
        let names: Vec<&str> = points.iter().map(|one| one.point.as_str()).collect();
        let blocks = ["512KiB", "1MiB", "2MiB"];
        let expected: Vec<String> = blocks
            .iter()
            .flat_map(|block| [2, 4].map(|batch| format!("block={block} batch={batch}")))
            .collect();
        assert_eq!(names, expected);
        let of = |at: usize| {
            let (kv, transfer) = (&points[at].scenario.traffic, &points[at].scenario.transfer);
            let kv = kv.as_ref().expect("traffic");
            (
                kv.requests,
                transfer.iterations,
                transfer.warmup,
                kv.concurrency,
            )
        };
        assert_eq!((of(0), of(5)), ((16, 10, 2, 2), (1, 10, 1, 2)));
    }

    #[test]
    fn bytes_go_from_initiators_that_write_and_to_initiators_that_read() {
        let check = |text: &str, pattern: Option<&str>, direction: &str| {
            let small = "--max_block_size 4096 --num_iter 1";
            let point = points(&format!("{text} {small}")).remove(0);
            let mesh = point.scenario.mesh.as_ref().map(|mesh| mesh.pattern.word());
            let transfer = &point.scenario.transfer;
            assert_eq!(
                (mesh, transfer.direction.word()),
                (pattern, direction),
                "{text}"
            );
        };
        check("--op_type WRITE", None, "forward");
        check("--op_type READ", None, "reverse");
        for (scheme, write, read) in [
            ("manytoone", "many-to-one", "one-to-many"),
            ("onetomany", "one-to-many", "many-to-one"),
            ("tp --num_target_dev 4", "one-to-many", "many-to-one"),
            ("tp --num_initiator_dev 4", "many-to-one", "one-to-many"),
        ] {
            check(
                &format!("--op_type WRITE --scheme {scheme}"),
                Some(write),
                "forward",
            );
            check(
                &format!("--op_type READ --scheme {scheme}"),
                Some(read),
                "forward",
            );
        }
    }
}
