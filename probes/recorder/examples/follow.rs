//! Reads recorder files as a live view does, every counter and the newest events of every
//! channel, so that a benchmark can measure the cost for the writer.
//!
//! ```text
//! follow PARENT PREFIX HZ SECONDS
//! ```
//!
//! Follows every file in the user's folder below PARENT whose name begins with PREFIX, including
//! new ones, and prints at the end how many snapshots it took and the time of one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tcpx_recorder::{Reader, list};

/// Events read of each channel, as many as a screen shows.
const EVENTS: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [parent, prefix, hz, seconds] = &arguments[..] else {
        return Err("PARENT PREFIX HZ SECONDS".into());
    };
    let (every, seconds) = (
        Duration::from_secs_f64(1.0 / hz.parse::<f64>()?),
        seconds.parse()?,
    );
    let (started, mut readers, mut pictures) =
        (Instant::now(), BTreeMap::<PathBuf, Reader>::new(), 0u32);
    let mut busy = Duration::ZERO;
    while started.elapsed() < Duration::from_secs(seconds) {
        let began = Instant::now();
        for found in list(Path::new(parent))? {
            let name = found
                .path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with(prefix.as_str()) && !readers.contains_key(&found.path) {
                readers.insert(found.path.clone(), Reader::open(&found.path)?);
            }
        }
        for reader in readers.values_mut() {
            for sample in reader.snapshot()?.channels {
                reader.events(&sample, EVENTS)?;
            }
            pictures += 1;
        }
        busy += began.elapsed();
        std::thread::sleep(every.saturating_sub(began.elapsed()));
    }
    let each = busy.as_micros() as f64 / f64::from(pictures.max(1));
    println!(
        "files={} pictures={pictures} us_per_picture={each:.1}",
        readers.len()
    );
    Ok(())
}
