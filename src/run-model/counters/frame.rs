//! Freeze-frames: counters, sockets, NICs, threads and logs around a worker, taken on both nodes
//! when a stall is declared, before anything is stopped.
//!
//! Bounded in size; the caller bounds the time. A part that cannot be read holds the reason.
#![forbid(unsafe_code)]

use super::ChannelNow;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::time::Instant;
use tcpx_node::{
    Fact, NicNow, Root, TcpSocket, Thread, kernel_log_tail, local_addresses, manager_log_tail,
    sockets_of,
};
use tcpx_words::units::printable;

/// Value of the key `schema`.
const SCHEMA: &str = "tcpxctl.frame/1";

/// A worker and its node at the time of a stall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// `tcpxctl.frame/1`
    pub schema: String,
    /// When it was taken, by the node's clock, microseconds since 1970.
    pub at_us: u64,
    /// Time to take it, milliseconds.
    pub took_ms: f64,
    /// Process id of the worker.
    pub pid: u32,
    /// The plugin call that has not returned.
    pub in_call: Option<String>,
    /// Counters of every channel, from the recorder.
    pub channels: Vec<ChannelNow>,
    /// TCP sockets of the worker.
    pub sockets: Fact<Vec<TcpSocket>>,
    /// The interfaces of its plugin's devices.
    pub nics: Vec<NicNow>,
    /// The IP addresses of its node's interfaces; unknown in frames of older versions.
    #[serde(default = "not_recorded")]
    pub addresses: Fact<Vec<IpAddr>>,
    /// Its threads.
    pub threads: Fact<Vec<Thread>>,
    /// The newest lines of the kernel's log.
    pub kernel_log: Fact<Vec<String>>,
    /// The newest lines of the receive manager's log.
    pub manager_log: Fact<Vec<String>>,
}

fn not_recorded() -> Fact<Vec<IpAddr>> {
    Fact::unknown("not recorded by this version")
}

impl Frame {
    /// Reads a frame's file.
    ///
    /// # Errors
    /// It is damaged, or of another version.
    pub(crate) fn parse(bytes: &[u8]) -> io::Result<Self> {
        let frame: Self = serde_json::from_slice(bytes)?;
        if frame.schema != SCHEMA {
            let found = printable(&frame.schema);
            let why = format!("it has schema {found}; this tcpxctl reads {SCHEMA}");
            return Err(io::Error::other(why));
        }
        Ok(frame)
    }

    /// Takes a freeze-frame. The caller, which has the recorder open, gives the counters.
    pub fn take(
        pid: u32,
        nics: &[String],
        channels: Vec<ChannelNow>,
        in_call: Option<String>,
    ) -> Self {
        let (root, began) = (Root::live(), Instant::now());
        let mut frame = Self {
            schema: SCHEMA.into(),
            at_us: tcpx_words::units::now_us(),
            took_ms: 0.0,
            pid,
            in_call,
            channels,
            sockets: sockets_of(&root, pid),
            nics: nics.iter().map(|name| NicNow::read(&root, name)).collect(),
            addresses: local_addresses(),
            threads: Thread::read_all(&root, pid),
            kernel_log: kernel_log_tail(),
            manager_log: manager_log_tail(&root),
        };
        frame.took_ms = began.elapsed().as_secs_f64() * 1e3;
        frame
    }

    /// Whether all threads of the process are stopped, as by SIGSTOP; `None` if unknown.
    pub fn is_stopped(&self) -> Option<bool> {
        let threads = self.threads.known().filter(|threads| !threads.is_empty())?;
        Some(threads.iter().all(Thread::is_stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_with_its_sockets_and_survives_json() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let here = std::net::TcpStream::connect(listener.local_addr().expect("an address"))
            .expect("connected");
        let frame = Frame::take(std::process::id(), &["lo".into()], Vec::new(), None);
        let local = here.local_addr().expect("bound");
        assert!(
            frame
                .sockets
                .known()
                .expect("ours")
                .iter()
                .any(|socket| socket.local == local)
        );
        assert!(
            frame.nics[0]
                .counters
                .iter()
                .any(|(name, _)| name == "rx_bytes")
        );
        assert_eq!(frame.is_stopped(), Some(false));
        let json = serde_json::to_string(&frame).expect("written");
        assert_eq!(serde_json::from_str::<Frame>(&json).expect("read"), frame);
    }

    #[test]
    fn a_frame_of_a_process_that_has_ended_holds_reasons() {
        let frame = Frame::take(u32::MAX - 1, &["no-such".into()], Vec::new(), None);
        assert!(frame.sockets.why().is_some() && frame.threads.why().is_some());
        assert_eq!(
            (frame.is_stopped(), frame.nics[0].counters.len()),
            (None, 0)
        );
    }
}
