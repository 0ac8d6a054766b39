//! Options for creating a recorder, and the errors of creating one.
#![forbid(unsafe_code)]

use crate::format::{
    self, CAPACITY_MAX, LOG_ENTRIES, LOG_ENTRIES_MAX, RING_EVENTS, RING_EVENTS_MAX,
};
use crate::map::Shape;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Name, labels and sizes of a new recorder.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// First part of the file's name: 1 to 64 of `A-Z a-z 0-9 . _ -`, not
    /// starting with a dot. Two recorders of one process need two names.
    pub name: &'a str,
    /// Most comms open at once, listen comms included; 1 to [`CAPACITY_MAX`].
    /// Only slots that were used take memory.
    pub capacity: u32,
    /// The role of the process, for display: `send worker`. Cut at 64 bytes.
    pub role: &'a str,
    /// The plugin, for display. Cut at 256 bytes; [`crate::Recorder::set_plugin`] sets it later.
    pub plugin: &'a str,
    /// The folder to use if `/dev/shm` is not usable.
    pub fallback: Option<&'a Path>,
    /// Keep the file when the recorder is dropped, and exclude it from sweeps.
    pub keep: bool,
    /// Call events kept per channel, 32 bytes each; rounded up to a power of
    /// two, at most [`RING_EVENTS_MAX`]. 0 for none.
    pub ring_events: u32,
    /// Lines of the plugin's log, 512 bytes each; at most [`LOG_ENTRIES_MAX`].
    pub log_entries: u32,
}

impl<'a> Options<'a> {
    /// Options with room for 1024 comms, 1024 events of each (35 KiB per channel) and 1024 log
    /// lines.
    pub const fn new(name: &'a str) -> Self {
        Self {
            name,
            capacity: 1024,
            role: "",
            plugin: "",
            fallback: None,
            keep: false,
            ring_events: RING_EVENTS,
            log_entries: LOG_ENTRIES,
        }
    }

    pub(crate) fn check(&self) -> Result<(), CreateError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let named = (1..=64).contains(&self.name.len())
            && self.name.bytes().all(plain)
            && !self.name.starts_with('.');
        if !named {
            return Err(CreateError::BadName(self.name.to_owned()));
        }
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(CreateError::BadCapacity(self.capacity));
        }
        if self.ring_events > RING_EVENTS_MAX || self.log_entries > LOG_ENTRIES_MAX {
            return Err(CreateError::TooLong {
                ring_events: self.ring_events,
                log_entries: self.log_entries,
            });
        }
        Ok(())
    }

    /// The options as owned values, for creating the same file again after a fork.
    pub(crate) fn blueprint(&self) -> Blueprint {
        Blueprint {
            name: self.name.to_owned(),
            capacity: self.capacity,
            role: self.role.to_owned(),
            plugin: self.plugin.to_owned(),
            keep: self.keep,
            ring_events: if self.ring_events == 0 {
                0
            } else {
                self.ring_events.next_power_of_two()
            },
            log_entries: self.log_entries,
        }
    }
}

/// Owned [`Options`], without the place.
#[derive(Debug)]
pub(crate) struct Blueprint {
    pub name: String,
    pub capacity: u32,
    pub role: String,
    pub plugin: String,
    pub keep: bool,
    pub ring_events: u32,
    pub log_entries: u32,
}

impl Blueprint {
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            capacity: self.capacity,
            ring_events: self.ring_events,
            log_entries: self.log_entries,
        }
    }
}

/// Why a recorder could not be created.
#[derive(Debug)]
pub enum CreateError {
    /// The name is empty, too long, or holds other than `A-Z a-z 0-9 . _ -`.
    BadName(String),
    /// The capacity is 0 or more than [`CAPACITY_MAX`].
    BadCapacity(u32),
    /// More events or log lines than a file can hold.
    TooLong {
        /// Requested events per channel.
        ring_events: u32,
        /// Requested log lines.
        log_entries: u32,
    },
    /// No place is usable; each with its error.
    NoPlace(Vec<(PathBuf, io::Error)>),
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(name) => {
                write!(
                    f,
                    "invalid recorder name {name:?}: expected 1 to 64 letters, digits, dots, dashes or underscores, not starting with a dot"
                )
            }
            Self::BadCapacity(capacity) => {
                write!(
                    f,
                    "a recorder cannot hold {capacity} channels, expected 1 to {}",
                    format::CAPACITY_MAX
                )
            }
            Self::TooLong {
                ring_events,
                log_entries,
            } => write!(
                f,
                "a recorder cannot hold {ring_events} events per channel and {log_entries} log lines, at most \
                 {RING_EVENTS_MAX} and {LOG_ENTRIES_MAX}"
            ),
            Self::NoPlace(reasons) => {
                f.write_str("cannot create the flight recorder")?;
                for (at, (parent, reason)) in reasons.iter().enumerate() {
                    let before = if at == 0 { ": " } else { "; " };
                    write!(
                        f,
                        "{before}{} below {}: {reason}",
                        crate::folder_name(),
                        parent.display()
                    )?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for CreateError {}
