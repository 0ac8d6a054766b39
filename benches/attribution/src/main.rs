//! Simulates meshes with planted faults and prints how many are named, and how many names are wrong.
//!
//! ```text
//! cargo run --release -p tcpx-attribution
//! cargo run --release -p tcpx-attribution -- --nodes 1024 --pattern pairs --scatter 10 --noise lognormal --faults 4 --seeds 1
//! ```
#![forbid(unsafe_code)]

use clap::Parser;
use std::time::Instant;
use tcpx_fleet::simulate::{Fault, Mesh, Noise, Score, run};
use tcpx_words::pattern::Pattern;

#[derive(Parser)]
#[command(about = "Simulates meshes with planted faults and prints precision and recall")]
struct Arguments {
    /// Numbers of nodes
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256, 1024])]
    nodes: Vec<usize>,
    /// The pattern; without it, pairs up to 256 nodes and sampled above
    #[arg(long, value_parser = |text: &str| word(Pattern::ALL, Pattern::word, text))]
    pattern: Option<Pattern>,
    /// Scatter of the measurements in percent
    #[arg(long, value_delimiter = ',', default_values_t = [5, 10, 20])]
    scatter: Vec<u32>,
    /// How they scatter; without it, in every way
    #[arg(long, value_parser = |text: &str| word(Noise::ALL, Noise::word, text))]
    noise: Option<Noise>,
    /// Numbers of faults
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    faults: Vec<usize>,
    /// Runs of each kind and number of faults
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Print what is wrong or missed in each run
    #[arg(long)]
    verbose: bool,
}

/// The variant of a set of words with this word.
fn word<T: Copy>(all: &[T], word: fn(T) -> &'static str, text: &str) -> Result<T, String> {
    let found = all.iter().find(|&&one| word(one) == text);
    let words: Vec<&str> = all.iter().map(|&one| word(one)).collect();
    found
        .copied()
        .ok_or_else(|| format!("expected one of {}", words.join(", ")))
}

fn main() {
    let arguments = Arguments::parse();
    println!(
        "{:>5} {:8} {:12} {:>7}  {:20} {:>6} {:>9} {:>6} {:>8}",
        "nodes", "pattern", "noise", "scatter", "faults", "runs", "precision", "recall", "s/run"
    );
    for &nodes in &arguments.nodes {
        let default = if nodes > 256 {
            Pattern::Sampled
        } else {
            Pattern::Pairs
        };
        let pattern = arguments.pattern.unwrap_or(default);
        for &noise in Noise::ALL
            .iter()
            .filter(|&&noise| arguments.noise.is_none_or(|one| one == noise))
        {
            for &percent in &arguments.scatter {
                let scatter = f64::from(percent) / 100.0;
                let mesh = Mesh {
                    nodes,
                    rails: 4,
                    group: (nodes / 32).max(8),
                    pattern,
                    noise,
                    scatter,
                    hides: false,
                };
                rows(&mesh, percent, &arguments);
            }
        }
    }
}

/// One row for runs without a fault, one for each kind, and two for all kinds together.
fn rows(mesh: &Mesh, percent: u32, arguments: &Arguments) {
    let row = |mesh: &Mesh, name: &str, kinds: &[Fault], numbers: &[usize]| {
        let started = Instant::now();
        let (mut score, mut runs) = (Score::default(), 0u32);
        for &faults in numbers {
            for seed in 0..arguments.seeds {
                let (one, found, planted) = run(mesh, kinds, faults, seed);
                if arguments.verbose && (one.wrong > 0 || one.missed > 0) {
                    println!("seed {seed}: planted {planted:?}");
                    for finding in &found.findings {
                        println!("    {finding:?}");
                    }
                    for finding in &found.cleared {
                        println!("    cleared {finding:?}");
                    }
                }
                score.add(one);
                runs += 1;
            }
        }
        let seconds = started.elapsed().as_secs_f64() / f64::from(runs.max(1));
        let Mesh {
            nodes,
            pattern,
            noise,
            ..
        } = mesh;
        let (precision, recall) = (score.precision(), score.recall());
        println!(
            "{nodes:5} {pattern:8} {noise:12} {percent:>5} %  {name:20} {runs:6} {precision:9.4} {recall:6.4} {seconds:8.2}"
        );
    };
    row(mesh, "none", &[Fault::Rail], &[0, 0, 0, 0]);
    for &kind in Fault::ALL {
        // More than a quarter of the groups behind slow trunks would be a slow mesh.
        let most = if kind == Fault::Group {
            mesh.nodes / mesh.group / 4
        } else {
            usize::MAX
        };
        let numbers: Vec<usize> = arguments
            .faults
            .iter()
            .copied()
            .filter(|&faults| faults <= most)
            .collect();
        row(mesh, kind.word(), &[kind], &numbers);
    }
    let each = [Fault::ALL.len()];
    row(mesh, "one of each kind", Fault::ALL, &each);
    // A trunk at 60 % hides a node at 70 % from all that are not behind it.
    let hiding = Mesh {
        hides: true,
        ..mesh.clone()
    };
    row(&hiding, "the same, anywhere", Fault::ALL, &each);
}
