//! Writes `events.jsonl` in a thread of its own.
//!
//! One write can take seconds while other processes flush to the same disk. The coordinator must
//! not wait for it, because agents give up on a coordinator that is silent for 8 s.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Most bytes queued for writing; further lines are dropped and counted.
const WAITING_MAX: usize = 64 << 20;
/// Longest time to write the rest of the queue at the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time for which lines are gathered for one write.
const GATHERING: Duration = Duration::from_millis(50);

pub(super) struct EventWriter {
    to_writer: mpsc::Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    ended: mpsc::Receiver<io::Result<()>>,
    /// Dropping it makes the writer stop gathering.
    gathering: mpsc::Sender<()>,
    lost: u64,
}

impl EventWriter {
    pub(super) fn new(file: File) -> Self {
        let (to_writer, lines) = mpsc::channel();
        let (to_owner, ended) = mpsc::channel();
        let (gathering, until) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let for_writer = Arc::clone(&waiting);
        std::thread::spawn(move || {
            drop(to_owner.send(write_all(file, &lines, &until, &for_writer)))
        });
        Self {
            to_writer,
            waiting,
            ended,
            gathering,
            lost: 0,
        }
    }

    /// Queues a line; never blocks.
    pub(super) fn push(&mut self, line: Vec<u8>) {
        if self.waiting.load(Ordering::Relaxed) + line.len() > WAITING_MAX {
            self.lost += 1;
            return;
        }
        self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        // If the writer has failed, `end` returns its error.
        let _ = self.to_writer.send(line);
    }

    /// Waits until the queue is written.
    ///
    /// # Errors
    /// The first write error, a timeout, or dropped lines.
    pub(super) fn end(self) -> io::Result<()> {
        drop((self.to_writer, self.gathering));
        let slow = |_| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "events.jsonl could not be written completely within 5 s",
            ))
        };
        self.ended.recv_timeout(PATIENCE).unwrap_or_else(slow)?;
        if self.lost == 0 {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{} events were dropped: events.jsonl could not be written fast enough",
            self.lost
        )))
    }
}

fn write_all(
    mut file: File,
    lines: &mpsc::Receiver<Vec<u8>>,
    until: &mpsc::Receiver<()>,
    waiting: &AtomicUsize,
) -> io::Result<()> {
    while let Ok(mut text) = lines.recv() {
        // Waking for each line would cost a wake-up per event.
        let _ = until.recv_timeout(GATHERING);
        lines.try_iter().for_each(|line| text.extend(line));
        file.write_all(&text)?;
        waiting.fetch_sub(text.len(), Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn lines_arrive_in_order_and_before_the_end() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut lines = EventWriter::new(file.reopen().expect("opened"));
        (0..1000).for_each(|number| lines.push(format!("{number}\n").into_bytes()));
        lines.end().expect("written");
        let text = std::fs::read_to_string(file.path()).expect("read");
        assert!(
            text.lines()
                .map(|line| line.parse::<u32>())
                .eq((0..1000).map(Ok))
        );
    }

    #[test]
    fn a_full_disk_is_an_error_at_the_end_only() {
        let full = OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("opened");
        let mut lines = EventWriter::new(full);
        (0..10).for_each(|_| lines.push(b"x\n".to_vec()));
        assert_eq!(
            lines.end().map_err(|error| error.kind()),
            Err(io::ErrorKind::StorageFull)
        );
    }

    #[test]
    fn the_queue_is_bounded() {
        // The reading end is never read, so the writer blocks.
        let (_reader, writer) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let mut lines = EventWriter::new(File::from(std::os::fd::OwnedFd::from(writer)));
        (0..200).for_each(|_| lines.push(vec![b'x'; 1 << 20]));
        assert!(lines.lost >= 100, "{} lost", lines.lost);
    }
}
