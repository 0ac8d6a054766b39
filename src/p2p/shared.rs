//! What an endpoint's callers and its thread share: commands one way, connections, notifications
//! and replies the other.
#![forbid(unsafe_code)]

use crate::Error;
use crate::blob::Seal;
use crate::connection::{Arrival, NOTES_MAX, Peer};
use crate::fork::Origin;
use crate::joining::Joining;
use crate::loaded::Loaded;
use crate::memory::{Memory, Registration};
use crate::message::Message;
use crate::pending::Operation;
use crate::pieces::LocalPiece;
use crate::transfer::{Completion, Reply};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tcpx_recorder::LogLine;

/// Longest wait of a caller before it looks again whether the endpoint is closed.
const SLICE: Duration = Duration::from_millis(50);
/// NCCL's level of warnings.
const WARN: i32 = 2;
/// Commands that wait for the thread.
const COMMANDS_MAX: usize = 16 * 1024;

/// What callers ask of the thread.
pub(crate) enum Command {
    Listen {
        count: usize,
        reply: Reply<(u64, Vec<[u8; 128]>)>,
    },
    Forget {
        listening: u64,
    },
    Join(Box<Joining>),
    Operate {
        connection: u64,
        operation: Operation,
        completion: Completion,
    },
    Disconnect {
        connection: u64,
        reply: Reply<()>,
    },
    Release {
        registration: Arc<Registration>,
        reply: Reply<()>,
    },
}

/// A connection that a peer made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its number.
    pub connection: u64,
    /// The peer's address.
    pub ip: IpAddr,
    /// The peer.
    pub peer: Peer,
}

/// What the thread and the callers share.
pub(crate) struct Shared {
    name: String,
    origin: Origin,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) memory: Memory,
    pub(crate) seal: Seal,
    pub(crate) hello: Message,
    pub(crate) chunk: usize,
    pub(crate) stall_after: Duration,
    pub(crate) scratch: LocalPiece,
    /// Threads that drive lanes, the endpoint's own included.
    pub(crate) threads: usize,
    commands: Mutex<VecDeque<Command>>,
    /// Whether there are commands, so that the thread takes the lock only then.
    pub(crate) asked: AtomicBool,
    pub(crate) waker: OwnedFd,
    pub(crate) asleep: AtomicBool,
    /// Whether a helper has done messages that the thread has not seen.
    pub(crate) news: AtomicBool,
    /// The endpoint is closing; every wait ends.
    pub(crate) stop: AtomicBool,
    /// The thread has ended.
    pub(crate) over: AtomicBool,
    /// The last peer that was turned away, and why, until a wait for a peer has told it.
    turned_away: Mutex<Option<String>>,
    pub(crate) peers: Mutex<HashMap<u64, (Peer, IpAddr)>>,
    pub(crate) accepted: Queue<Accepted>,
    pub(crate) notes: Queue<(u64, Vec<u8>)>,
}

/// A bounded queue that callers wait for.
pub(crate) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    more: Condvar,
    max: usize,
}

impl<T> Queue<T> {
    pub(crate) fn new(max: usize) -> Self {
        let (items, more) = (Mutex::default(), Condvar::new());
        Self { items, more, max }
    }

    /// False: it is full.
    pub(crate) fn push(&self, item: T) -> bool {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        if items.len() >= self.max {
            return false;
        }
        items.push_back(item);
        self.more.notify_one();
        true
    }

    /// Replaces the oldest item where the queue is full.
    pub(crate) fn push_over(&self, item: T) {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        if items.len() >= self.max {
            items.pop_front();
        }
        items.push_back(item);
        self.more.notify_one();
    }

    /// The oldest item; waits for one until `allowed` has passed or `stop` is set.
    pub(crate) fn pop(&self, allowed: Duration, stop: &AtomicBool) -> Option<T> {
        let started = Instant::now();
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(item) = items.pop_front() {
                return Some(item);
            }
            let left = allowed.saturating_sub(started.elapsed());
            if left.is_zero() || stop.load(Ordering::Relaxed) {
                return None;
            }
            let waited = self.more.wait_timeout(items, left.min(SLICE));
            items = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What an endpoint's shared state begins with.
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) memory: Memory,
    pub(crate) seal: Seal,
    pub(crate) hello: Message,
    pub(crate) chunk: usize,
    pub(crate) stall_after: Duration,
    pub(crate) scratch: LocalPiece,
    pub(crate) threads: usize,
}

impl Shared {
    pub(crate) fn new(start: Start) -> std::io::Result<Self> {
        Ok(Self {
            name: start.name,
            origin: Origin::here(),
            loaded: start.loaded,
            memory: start.memory,
            seal: start.seal,
            hello: start.hello,
            chunk: start.chunk,
            stall_after: start.stall_after,
            scratch: start.scratch,
            threads: start.threads,
            commands: Mutex::default(),
            asked: AtomicBool::new(false),
            waker: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            asleep: AtomicBool::new(false),
            news: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            over: AtomicBool::new(false),
            turned_away: Mutex::default(),
            peers: Mutex::default(),
            accepted: Queue::new(NOTES_MAX),
            notes: Queue::new(NOTES_MAX),
        })
    }

    pub(crate) fn commands(&self) -> MutexGuard<'_, VecDeque<Command>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process is a fork of the one that made the endpoint.
    pub(crate) fn is_in_a_fork(&self) -> bool {
        self.origin.is_elsewhere()
    }

    /// Fails in a fork, before a lock is taken that another thread may have held when it was made.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.is_in_a_fork() {
            return Err(Error::Usage(
                "this process is a fork of the one that made the endpoint, and has none of its threads: \
                 make endpoints after a fork"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Leaves a command for the thread.
    pub(crate) fn ask(&self, command: Command) -> Result<(), Error> {
        self.check_process()?;
        let mut commands = self.commands();
        if self.over.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        if commands.len() >= COMMANDS_MAX {
            let (what, max) = (
                "operations that wait for the endpoint's thread",
                COMMANDS_MAX,
            );
            return Err(Error::TooMany { what, max });
        }
        commands.push_back(command);
        self.asked.store(true, Ordering::Release);
        drop(commands);
        self.wake();
        Ok(())
    }

    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            // A full counter has woken the thread already.
            let _ = rustix::io::write(&self.waker, &1u64.to_ne_bytes());
        }
    }

    /// Tells the thread that a helper has done messages.
    pub(crate) fn tell_driver(&self) {
        self.news.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Leaves a command and waits for its reply.
    pub(crate) fn call<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> Command,
        what: &str,
        allowed: Duration,
    ) -> Result<T, Error> {
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        self.ask(command(reply))?;
        match answer.recv_timeout(allowed) {
            Ok(answer) => answer,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Err(Error::Closed),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                let what = what.to_owned();
                Err(Error::TimedOut { what, allowed })
            }
        }
    }

    /// Gives a connection to the caller that waits for it, or to `accept`.
    pub(crate) fn introduce(&self, connection: u64, peer: &Peer, arrival: Arrival) {
        let (ip, peer) = (arrival.ip, peer.clone());
        self.peers().insert(connection, (peer.clone(), ip));
        match arrival.reply {
            Some(reply) => drop(reply.send(Ok(connection))),
            None => self.accepted.push_over(Accepted {
                connection,
                ip,
                peer,
            }),
        }
    }

    /// Writes a warning into the flight recorder's log, which `watch` shows: what a peer was refused has
    /// no caller here who could be told.
    pub(crate) fn warn(&self, text: &str) {
        if let Some(tap) = self.loaded.tap {
            tap.recorder().log(&LogLine {
                level: WARN,
                flags: 0,
                function: format!("endpoint {}", self.name).as_bytes(),
                line: 0,
                text: text.as_bytes(),
            });
        }
    }

    /// Warns of a peer that was turned away, and keeps the warning for the next caller that waits for a peer in vain.
    pub(crate) fn turn_away(&self, text: &str) {
        self.warn(text);
        *self
            .turned_away
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
    }

    /// The last peer that was turned away and was not told yet.
    pub(crate) fn take_turned_away(&self) -> Option<String> {
        self.turned_away
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    pub(crate) fn peers(&self) -> MutexGuard<'_, HashMap<u64, (Peer, IpAddr)>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
