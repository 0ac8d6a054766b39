//! Files that a user names, opened so that a named pipe cannot hold the program for ever.
//!
//! Pipes are read like files. A named pipe that is silent for [`PIPE_SILENCE_MAX`] is an error: opening
//! or reading one without a writer would never return. A pipe that a shell passes as a file
//! (`<(command)`) has a writer or ends, so it may be silent as long as its command runs, like stdin.
//! A device that is no terminal is an error too: it may have no end (`/dev/zero`).
//! A wait for a named pipe also ends with the signal that [`end_waits_with`] is told of.
#![forbid(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Longest time that a named pipe may be silent.
pub const PIPE_SILENCE_MAX: Duration = Duration::from_secs(10);

/// Time between two looks at the flag of [`end_waits_with`]: a signal may arrive in another thread.
const LOOKS_APART: Duration = Duration::from_millis(50);

/// Set by a signal, if this process catches signals.
static SIGNAL: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// Whether a wait or other work has ended because of the signal.
static WAS_GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Waits for named pipes end once `signal` is set. Only the first call has an effect.
pub fn end_waits_with(signal: Arc<AtomicBool>) {
    let _ = SIGNAL.set(signal);
}

/// Notes that other work has ended because of the signal, and returns its error.
pub fn stopped_by_signal() -> io::Error {
    WAS_GIVEN_UP.store(true, Ordering::Relaxed);
    io::Error::other("a signal ended the writing of it")
}

/// Whether a wait for a named pipe, or other work, has ended because of the signal.
pub fn was_given_up() -> bool {
    WAS_GIVEN_UP.load(Ordering::Relaxed)
}

pub(crate) fn is_interrupted() -> bool {
    is_set(SIGNAL.get())
}

fn is_set(signal: Option<&Arc<AtomicBool>>) -> bool {
    signal.is_some_and(|signal| signal.load(Ordering::Relaxed))
}

/// The error of a wait that ends with the signal. It has not the kind `Interrupted`, after which a
/// read is tried again.
pub(crate) fn given_up() -> io::Error {
    WAS_GIVEN_UP.store(true, Ordering::Relaxed);
    io::Error::other("it is a named pipe, and a signal ended the wait for it")
}

/// The type of the file system of pipes without a name: PIPEFS_MAGIC of linux/magic.h.
const PIPE_OF_SHELL: rustix::fs::FsWord = 0x5049_5045;

/// Devices of memory have this major number; of them, `/dev/null` has this minor one.
const MEMORY_DEVICES: u32 = 1;
const NULL_DEVICE: u32 = 3;

/// A file, or a named pipe that is given up when it is silent.
#[derive(Debug)]
pub struct Input {
    file: File,
    silence_max: Option<Duration>,
    signal: Option<Arc<AtomicBool>>,
}

/// Refuses a character device that is neither a terminal nor `/dev/null`, as it may have no end.
///
/// # Errors
/// It is such a device, or the file system cannot be asked.
pub fn refuse_device(file: &(impl AsFd + IsTerminal)) -> io::Result<()> {
    let stat = rustix::fs::fstat(file)?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    let device = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    if !is_device || device == (MEMORY_DEVICES, NULL_DEVICE) || file.is_terminal() {
        return Ok(());
    }
    let why = "it is a device and may have no end; name a file or a pipe";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Opens a file to read it, without a wait for the writer of a named pipe.
///
/// # Errors
/// It cannot be opened, or is a device that may have no end.
pub fn open(path: &Path) -> io::Result<Input> {
    opened(path, PIPE_SILENCE_MAX)
}

fn opened(path: &Path, silence_max: Duration) -> io::Result<Input> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    refuse_device(&file)?;
    let is_pipe = file.metadata()?.file_type().is_fifo();
    let is_of_shell = is_pipe && rustix::fs::fstatfs(&file)?.f_type == PIPE_OF_SHELL;
    if is_of_shell {
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    }
    Ok(Input {
        file,
        silence_max: (is_pipe && !is_of_shell).then_some(silence_max),
        signal: SIGNAL.get().cloned(),
    })
}

impl Input {
    /// What the file system says about the file.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn metadata(&self) -> io::Result<std::fs::Metadata> {
        self.file.metadata()
    }

    /// Waits until the pipe has bytes or its last writer has closed it.
    fn wait(&self, silence_max: Duration) -> io::Result<()> {
        let deadline = Instant::now() + silence_max;
        loop {
            if is_set(self.signal.as_ref()) {
                return Err(given_up());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let until = Timespec::try_from(left.min(LOOKS_APART)).map_err(io::Error::other)?;
            let mut pipe = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut pipe, Some(&until)) {
                Ok(0) if left > LOOKS_APART => {}
                Ok(0) => {
                    let silence = format!(
                        "it is a named pipe, and nothing was written to it for {} s",
                        silence_max.as_secs()
                    );
                    return Err(io::Error::new(io::ErrorKind::TimedOut, silence));
                }
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(silence_max) = self.silence_max {
            self.wait(silence_max)?;
        }
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;

    fn pipe(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tcpxctl-{name}-{}", std::process::id()));
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a named pipe");
        path
    }

    #[test]
    fn a_pipe_without_a_writer_is_given_up() {
        let path = pipe("silent");
        let mut input = opened(&path, Duration::from_millis(1)).expect("opened");
        let error = input.read(&mut [0; 8]).expect_err("nothing was written");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_signal_ends_the_wait() {
        let path = pipe("signal");
        let mut input = opened(&path, Duration::from_secs(3600)).expect("opened");
        let signal = Arc::new(AtomicBool::new(false));
        input.signal = Some(Arc::clone(&signal));
        let later = std::thread::spawn(move || signal.store(true, Ordering::Relaxed));
        let error = input.read_to_end(&mut Vec::new()).expect_err("a signal");
        assert!(error.to_string().contains("a signal ended"), "{error}");
        assert!(was_given_up());
        later.join().expect("no panic");
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_pipe_of_a_shell_may_be_silent() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let mut input = opened(path.as_ref(), Duration::ZERO).expect("opened");
        let writing = std::thread::spawn(move || {
            // Later than the silence that a named pipe may have here.
            std::thread::sleep(Duration::from_millis(20));
            (&writer).write_all(b"a line\n").expect("written");
        });
        let mut text = String::new();
        input.read_to_string(&mut text).expect("read");
        assert_eq!(text, "a line\n");
        writing.join().expect("no panic");
    }

    #[test]
    fn a_device_without_an_end_is_refused() {
        for path in ["/dev/zero", "/dev/urandom"] {
            let error = open(path.as_ref()).expect_err("no end");
            assert!(error.to_string().contains("may have no end"), "{error}");
        }
        let mut text = String::new();
        let null = open("/dev/null".as_ref()).and_then(|mut file| file.read_to_string(&mut text));
        assert_eq!(null.expect("an end"), 0);
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let path = pipe("written");
        let mut input = open(&path).expect("opened");
        let writing = path.clone();
        let writer = std::thread::spawn(move || {
            let mut pipe = OpenOptions::new()
                .write(true)
                .open(writing)
                .expect("opened");
            pipe.write_all(b"a line\n").expect("written");
        });
        let mut text = String::new();
        input.read_to_string(&mut text).expect("read");
        assert_eq!(text, "a line\n");
        writer.join().expect("no panic");
        std::fs::remove_file(path).expect("removed");
    }
}
