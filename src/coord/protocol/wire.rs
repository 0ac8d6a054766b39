//! One JSON document per line over any byte stream, with a bound on the line.
#![forbid(unsafe_code)]

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Most bytes of a message: a sample of 1024 channels is about 400 KiB.
pub(crate) const LINE_MAX: usize = 4 << 20;
/// Bytes kept of a line of plain text.
pub(crate) const TEXT_MAX: usize = 4096;

/// One line that was read.
#[derive(Debug)]
pub(crate) enum Received<T> {
    /// A message.
    Message(T),
    /// Any other line: a banner, or output of the program.
    Text(String),
}

/// Reads lines until the stream ends.
pub(crate) struct Receiver<R> {
    from: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> Receiver<R> {
    /// Over any stream.
    pub(crate) fn new(from: R) -> Self {
        Self {
            from: BufReader::with_capacity(64 * 1024, from),
            line: Vec::new(),
        }
    }

    /// The next line; `None` at the end of the stream.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<Received<T>>> {
        let Some(()) = self.read_line()? else {
            return Ok(None);
        };
        match serde_json::from_slice(&self.line) {
            Ok(message) => Ok(Some(Received::Message(message))),
            Err(_) => Ok(Some(Received::Text(self.text()))),
        }
    }

    /// The next line as text; `None` at the end of the stream.
    pub(crate) fn next_text(&mut self) -> io::Result<Option<String>> {
        Ok(self.read_line()?.map(|()| self.text()))
    }

    fn text(&self) -> String {
        let cut = &self.line[..self.line.len().min(TEXT_MAX)];
        tcpx_words::units::printable(&String::from_utf8_lossy(cut))
    }

    /// Fills `line`; bytes beyond the bound are skipped up to the end of the line.
    fn read_line(&mut self) -> io::Result<Option<()>> {
        self.line.clear();
        let mut any = false;
        loop {
            let available = match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if available.is_empty() {
                return Ok(any.then_some(()));
            }
            any = true;
            let (taken, ended) = match available.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (available.len(), false),
            };
            let room = LINE_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&available[..taken.min(room)]);
            self.from.consume(taken);
            if ended {
                if self.line.last() == Some(&b'\n') {
                    self.line.pop();
                }
                return Ok(Some(()));
            }
        }
    }
}

/// Writes whole lines from any thread.
pub(crate) struct Sender<W> {
    to: Mutex<W>,
}

impl<W: Write> Sender<W> {
    /// Over any stream.
    pub(crate) fn new(to: W) -> Self {
        Self { to: Mutex::new(to) }
    }

    /// Sends one message and flushes.
    pub(crate) fn send<T: Serialize>(&self, message: &T) -> io::Result<()> {
        let line = line(message)?;
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        to.write_all(&line)?;
        to.flush()
    }
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes whole lines in a thread of its own, so that the caller never waits for a reader that was
/// stopped.
pub(crate) struct QueuedSender {
    lines: mpsc::Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    ended: mpsc::Receiver<()>,
}

/// Most bytes that wait to be written.
const WAITING_MAX: usize = 64 << 20;

impl QueuedSender {
    /// Over any stream.
    pub(crate) fn new(mut to: impl Write + Send + 'static) -> Self {
        let (lines, queued) = mpsc::channel::<Vec<u8>>();
        let (to_owner, ended) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let unwritten = Arc::clone(&waiting);
        std::thread::spawn(move || {
            for line in queued {
                if to.write_all(&line).and_then(|()| to.flush()).is_err() {
                    return;
                }
                unwritten.fetch_sub(line.len(), Ordering::Relaxed);
            }
            // Fails only if the owner has stopped waiting.
            let _ = to_owner.send(());
        });
        Self {
            lines,
            waiting,
            ended,
        }
    }

    /// Queues one message.
    ///
    /// # Errors
    /// The stream has failed, or the reader is so far behind that the message was dropped.
    pub(crate) fn send<T: Serialize>(&self, message: &T) -> io::Result<()> {
        let line = line(message)?;
        if self.waiting.load(Ordering::Relaxed) + line.len() > WAITING_MAX {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        self.lines
            .send(line)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Waits until all messages are written, at most `patience`.
    pub(crate) fn finish(self, patience: Duration) {
        drop(self.lines);
        // Without the rest if the reader does not read.
        let _ = self.ended.recv_timeout(patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn banners_are_text_and_messages_are_messages() {
        let mut receiver =
            Receiver::new(&b"Welcome to \x1b[1mnode\n[1,2]\nno newline at the end"[..]);
        assert!(
            matches!(receiver.next::<Vec<u8>>(), Ok(Some(Received::Text(text))) if text == "Welcome to [1mnode")
        );
        assert!(
            matches!(receiver.next::<Vec<u8>>(), Ok(Some(Received::Message(list))) if list == [1, 2])
        );
        assert!(matches!(
            receiver.next::<Vec<u8>>(),
            Ok(Some(Received::Text(_)))
        ));
        assert!(matches!(receiver.next::<Vec<u8>>(), Ok(None)));
    }

    #[test]
    fn a_line_without_end_is_cut_not_kept() {
        let endless = io::repeat(b'x')
            .take(3 * LINE_MAX as u64)
            .chain(&b"\n7\n"[..]);
        let mut receiver = Receiver::new(endless);
        assert!(
            matches!(receiver.next::<u8>(), Ok(Some(Received::Text(text))) if text.len() == TEXT_MAX)
        );
        assert!(matches!(
            receiver.next::<u8>(),
            Ok(Some(Received::Message(7)))
        ));
    }

    #[test]
    fn a_reader_that_has_stopped_does_not_stop_a_queued_sender() {
        // The reading end is never read, so that the writer blocks.
        let (_reader, writer) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let sender = QueuedSender::new(writer);
        let message = "x".repeat(1 << 20);
        let taken = (0..200).take_while(|_| sender.send(&message).is_ok());
        assert!((32..=64).contains(&taken.count()));
        sender.finish(Duration::from_millis(10));
    }

    #[test]
    fn queued_messages_arrive_in_order_before_the_end() {
        let (reader, writer) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let sender = QueuedSender::new(writer);
        (0..100u8).for_each(|number| sender.send(&number).expect("queued"));
        sender.finish(Duration::from_secs(5));
        let mut receiver = Receiver::new(reader);
        for number in 0..100u8 {
            let received = receiver.next::<u8>();
            assert!(matches!(received, Ok(Some(Received::Message(one))) if one == number));
        }
    }

    proptest! {
        #[test]
        fn a_number_arrives_as_it_was_said(number in prop::num::f64::NORMAL) {
            let mut line = Vec::new();
            Sender::new(&mut line).send(&number).expect("memory can be written");
            let received = Receiver::new(&line[..]).next::<f64>();
            prop_assert!(matches!(received, Ok(Some(Received::Message(again))) if again == number));
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut receiver = Receiver::new(&bytes[..]);
            let mut lines = 0;
            while let Ok(Some(_)) = receiver.next::<crate::protocol::message::AgentMessage>() {
                lines += 1;
            }
            prop_assert!(lines <= bytes.len());
        }
    }
}
