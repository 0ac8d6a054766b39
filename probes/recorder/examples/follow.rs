//! Reads a recorder file as a live view does, so that a benchmark can tell what
//! that costs the writer: every counter and the newest events of every channel.
//!
//! ```text
//! follow PARENT PREFIX HZ SECONDS
//! ```
//!
//! Takes every file below PARENT's folder whose name begins with PREFIX, as they
//! appear, and says at the end how many pictures it took and how long one took.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tcpx_recorder::{Reader, list};

/// Events of each channel that a screen has room for.
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
