//! Files that a user names to be written, opened so that a named pipe without a reader cannot hold
//! the program for ever.
//!
//! Once a reader is there, it may be as slow as it likes: it is a pager, or a program that works.
#![forbid(unsafe_code)]

use crate::input::{self, PIPE_SILENCE_MAX};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two looks for a reader: the kernel does not tell a writer that one has come.
const LOOKS_APART: Duration = Duration::from_millis(20);

/// Opens a pipe or a device to write it. A named pipe waits [`PIPE_SILENCE_MAX`] for its reader.
///
/// # Errors
/// It cannot be opened, or nothing reads it.
pub fn open(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().write(true), path, PIPE_SILENCE_MAX)
}

/// As [`open`]; a file is made if there is none, and emptied if there is one.
///
/// # Errors
/// As for [`open`].
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    opened(&mut options, path, PIPE_SILENCE_MAX)
}

fn opened(options: &mut OpenOptions, path: &Path, reader_within: Duration) -> io::Result<File> {
    let deadline = Instant::now() + reader_within;
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    loop {
        match options.open(path) {
            Err(error) if error.raw_os_error() == Some(NO_READER) => {}
            opened => {
                let file = opened?;
                rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
                return Ok(file);
            }
        }
        if Instant::now() >= deadline {
            let why = format!(
                "it is a named pipe, and nothing read it for {} s",
                reader_within.as_secs()
            );
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        if input::is_interrupted() {
            return Err(input::given_up());
        }
        std::thread::sleep(LOOKS_APART);
    }
}

/// What to do about an error of a limit of this process, which is the same for every place.
pub fn limit_to_raise(error: &io::Error) -> Option<&'static str> {
    Some(match rustix::io::Errno::from_io_error(error)? {
        rustix::io::Errno::FBIG => "raise the limit on the size of files (`ulimit -f unlimited`)",
        rustix::io::Errno::MFILE => "raise the limit on open files (`ulimit -n`)",
        rustix::io::Errno::NFILE => {
            "close files of other processes: the system's table of open files is full (fs.file-max)"
        }
        _ => return None,
    })
}

/// What opening a pipe without a reader answers.
const NO_READER: i32 = rustix::io::Errno::NXIO.raw_os_error();

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_pipe_is_written_once_it_has_a_reader_and_given_up_without_one() {
        let path = std::env::temp_dir().join(format!("tcpxctl-output-{}", std::process::id()));
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("a named pipe");
        let error = opened(
            OpenOptions::new().write(true),
            &path,
            Duration::from_millis(1),
        )
        .expect_err("nothing reads it");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let reading = path.clone();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            let mut pipe = File::open(reading).expect("opened");
            pipe.read_to_string(&mut text).expect("read");
            text
        });
        let mut to = open(&path).expect("opened");
        // More than a pipe holds: the writer waits for the reader.
        to.write_all(&[b'x'; 1 << 18]).expect("written");
        drop(to);
        assert_eq!(reader.join().expect("no panic").len(), 1 << 18);
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_file_is_made_or_emptied() {
        let path = std::env::temp_dir().join(format!("tcpxctl-created-{}", std::process::id()));
        for text in ["a long text", "short"] {
            let mut to = create(&path).expect("opened");
            to.write_all(text.as_bytes()).expect("written");
        }
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "short");
        std::fs::remove_file(path).expect("removed");
    }
}
