//! Settings of the shared object, from the environment. Invalid values are ignored, because a
//! setting of the tap must not end the user's program.
#![forbid(unsafe_code)]

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use tcpx_recorder::format::{
    CAPACITY_MAX, LOG_ENTRIES, LOG_ENTRIES_MAX, RING_EVENTS, RING_EVENTS_MAX,
};
use tcpx_recorder::{CreateError, Options, Recorder};

/// Most recorder files of one process with the same name; a program may load several copies of
/// the tap.
const SAME_NAME_MAX: u32 = 16;

#[derive(Debug)]
pub(crate) struct Settings {
    name: String,
    folder: Option<PathBuf>,
    channels: u32,
    ring_events: u32,
    log_lines: u32,
}

impl Settings {
    pub(crate) fn from_env() -> Self {
        let number = |variable: &str, default: u32, most: u32| {
            let value = env::var(variable)
                .ok()
                .and_then(|text| text.trim().parse::<u32>().ok());
            value.unwrap_or(default).min(most)
        };
        Self {
            name: env::var("TCPXTAP_NAME")
                .ok()
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "tap".to_owned()),
            folder: env::var_os("TCPXTAP_FOLDER")
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from),
            channels: number("TCPXTAP_CHANNELS", 1024, CAPACITY_MAX).max(1),
            ring_events: number("TCPXTAP_RING_EVENTS", RING_EVENTS, RING_EVENTS_MAX),
            log_lines: number("TCPXTAP_LOG_LINES", LOG_ENTRIES, LOG_ENTRIES_MAX),
        }
    }

    /// Creates a recorder whose file is kept, under the first free name.
    pub(crate) fn recorder(&self) -> Result<Recorder, CreateError> {
        let role = format!("tap in {}", program());
        let fallback = env::temp_dir();
        let mut copy = 1;
        loop {
            let name = if copy == 1 {
                self.name.clone()
            } else {
                format!("{}.{copy}", self.name)
            };
            let options = Options {
                capacity: self.channels,
                role: &role,
                fallback: Some(&fallback),
                keep: true,
                ring_events: self.ring_events,
                log_entries: self.log_lines,
                ..Options::new(&name)
            };
            let made = match &self.folder {
                Some(folder) => Recorder::create_in(folder, &options),
                None => Recorder::create(&options),
            };
            match made {
                Err(error) if is_taken(&error) && copy < SAME_NAME_MAX => copy += 1,
                settled => return settled,
            }
        }
    }
}

fn is_taken(error: &CreateError) -> bool {
    let CreateError::NoPlace(reasons) = error else {
        return false;
    };
    reasons
        .iter()
        .any(|(_, reason)| reason.kind() == io::ErrorKind::AlreadyExists)
}

/// Name and pid of the program.
fn program() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    format!("{} ({})", name.trim(), std::process::id())
}

/// Appends a line to the file of `TCPXTAP_REPORT`, if set. `tcpxctl tap` reads it.
pub(crate) fn report(line: &str) {
    let Some(path) = env::var_os("TCPXTAP_REPORT") else {
        return;
    };
    let file = OpenOptions::new()
        .append(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    // A report that cannot be written must not affect the program.
    if let Ok(mut file) = file {
        let _ = file
            .write_all(format!("{} {}\n", std::process::id(), line.replace('\n', " ")).as_bytes());
    }
}
