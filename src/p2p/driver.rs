//! The thread of an endpoint: it owns every comm, and callers never touch the plugin.
//!
//! Callers leave commands in a queue and wake the thread if it sleeps. It drives what is connected
//! and what is connecting in turns, spins while data is on its way, and sleeps until a socket or a
//! command wakes it otherwise.
#![forbid(unsafe_code)]

use crate::Error;
use crate::connection::{Connection, Home, Lost, MANY};
use crate::helper::Helpers;
use crate::joining::{Joining, Listening};
use crate::memory::Registration;
use crate::pause::{Pause, Pauses};
use crate::shared::{Command, Shared};
use crate::shared_lane::SharedLane;
use crate::shown::next_number;
use crate::transfer::Reply;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// With few messages in flight it does not spin: another thread is to act, here or in the peer, and needs a
/// CPU. It naps while a plugin has data in flight: nothing wakes the thread for that.
const PAUSE: Pause = Pause {
    spins: 8,
    yields: 200,
    nap: Duration::from_micros(50),
};
/// Sleep with nothing in flight; deadlines are checked this often.
const REST: Duration = Duration::from_millis(50);
/// Why a connection ends where nothing is wrong.
const CLOSED_HERE: &str = "this end closed it";
const ENDPOINT_CLOSED: &str = "its program closed the endpoint";

/// Marks the endpoint as over however the thread ends, and drops what callers still wait for.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let mut commands = self.0.commands();
        self.0.over.store(true, Ordering::Relaxed);
        self.0.stop.store(true, Ordering::Relaxed);
        commands.clear();
    }
}

/// What the thread owns.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    listening: HashMap<u64, Listening>,
    joining: Vec<Joining>,
    connections: BTreeMap<u64, Connection>,
    helpers: Helpers,
    releasing: Vec<(Arc<Registration>, Reply<()>)>,
    /// When connections that do not move were looked for.
    checked_at: Instant,
    pauses: Pauses,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            helpers: Helpers::new(Arc::clone(&shared)),
            shared,
            listening: HashMap::new(),
            joining: Vec::new(),
            connections: BTreeMap::new(),
            releasing: Vec::new(),
            checked_at: Instant::now(),
            pauses: Pauses::new(PAUSE),
        }
    }

    /// Runs until the endpoint is closed.
    pub(crate) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _over = Over(&shared);
        // The plugin uses the thread's current GPU. An error is said by the next `Listening`.
        let _ = shared.memory.movable.make_current();
        let mut idle = 0;
        while !shared.stop.load(Ordering::Relaxed) {
            if self.turn() {
                idle = 0;
                continue;
            }
            idle += 1;
            let lanes = self.connections.values().flat_map(Connection::lanes);
            let pause = self
                .pauses
                .with_left(lanes.filter_map(SharedLane::left_here));
            if idle <= pause.spins && self.in_flight() > MANY {
                std::hint::spin_loop();
            } else if idle <= pause.yields {
                std::thread::yield_now();
            } else {
                self.sleep(pause.nap);
            }
        }
        self.close();
    }

    /// Messages that a plugin carries.
    fn in_flight(&self) -> usize {
        self.connections.values().map(Connection::in_flight).sum()
    }

    fn turn(&mut self) -> bool {
        let mut moved = false;
        if self.shared.asked.swap(false, Ordering::Acquire) {
            let commands = std::mem::take(&mut *self.shared.commands());
            for command in commands {
                self.obey(command);
            }
            moved = true;
        }
        self.shared.news.swap(false, Ordering::SeqCst);
        moved |= self.join();
        moved |= self.each(Connection::listen);
        // Before this thread moves what has just been asked for.
        self.lend();
        moved |= self.each(Connection::turn);
        self.release();
        // Also while other connections keep the thread from sleeping.
        if self.checked_at.elapsed() >= REST {
            self.checked_at = Instant::now();
            self.give_up_stalled();
        }
        moved
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Listen { count, reply } => {
                let made = Listening::new(&self.shared, count);
                let made = made.map(|(listening, handles)| {
                    let number = next_number();
                    self.listening.insert(number, listening);
                    (number, handles)
                });
                let _ = reply.send(made);
            }
            Command::Forget { listening } => {
                if let Some(listening) = self.listening.remove(&listening) {
                    listening.close(&*self.shared.loaded.net);
                }
            }
            Command::Join(mut joining) => {
                joining.take(self.listening.remove(&joining.listening));
                self.joining.push(*joining);
            }
            Command::Operate {
                connection,
                operation,
                completion,
            } => match self.connections.get_mut(&connection) {
                Some(connection) => connection.start(operation, completion),
                None => completion.finish(Err(Error::no_connection(connection))),
            },
            Command::Disconnect { connection, reply } => {
                let _ = reply.send(match self.connections.remove(&connection) {
                    Some(found) => {
                        self.end(found, CLOSED_HERE, true);
                        Ok(())
                    }
                    None => Err(Error::no_connection(connection)),
                });
            }
            Command::Release {
                registration,
                reply,
            } => self.releasing.push((registration, reply)),
        }
    }

    /// Takes connections that are being made one step further.
    fn join(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(joining) = self.joining.get_mut(at) {
            match joining.turn(&self.shared) {
                Ok(false) => {
                    at += 1;
                    continue;
                }
                Ok(true) => {
                    let joining = self.joining.swap_remove(at);
                    let (number, connection) = joining.finish(&self.shared);
                    self.connections.insert(number, connection);
                }
                Err(error) => self.joining.swap_remove(at).fail(&self.shared, error),
            }
            moved = true;
        }
        moved
    }

    /// Takes a step of every connection; those that fail end.
    fn each(&mut self, step: impl Fn(&mut Connection, &Home<'_>) -> Result<bool, Lost>) -> bool {
        let shared = &self.shared;
        let note = |connection, bytes| shared.notes.push((connection, bytes));
        let warn = |text: &str| shared.warn(text);
        let home = Home {
            warn: &warn,
            net: &*shared.loaded.net,
            seal: &shared.seal,
            memory: &shared.memory,
            note: &note,
        };
        let mut moved = false;
        let mut lost = Vec::new();
        for (number, connection) in &mut self.connections {
            match step(connection, &home) {
                Ok(advanced) => {
                    moved |= advanced;
                    if let Some(arrival) = connection.arrived() {
                        shared.introduce(*number, &connection.peer, arrival);
                    }
                }
                Err(why) => lost.push((*number, why)),
            }
        }
        for (number, why) in lost {
            if let Some(connection) = self.connections.remove(&number) {
                self.end(connection, &why, true);
            }
            moved = true;
        }
        moved
    }

    /// Lends lanes with much to move to helpers, where this thread would move one after the other.
    fn lend(&mut self) {
        let all = || self.connections.values().flat_map(Connection::lanes);
        if self.shared.threads == 1 || all().filter(|lane| lane.is_active()).nth(1).is_none() {
            return;
        }
        for (helper, lane) in all().filter_map(SharedLane::lend) {
            self.helpers.lend(helper, lane);
        }
    }

    fn end(&self, connection: Connection, why: &str, tell: bool) {
        let number = connection.number;
        // Also where the peer says one of these.
        let is_normal = [CLOSED_HERE, ENDPOINT_CLOSED]
            .iter()
            .any(|normal| why.ends_with(normal));
        if !is_normal {
            let peer = &connection.peer.name;
            let text = format!("connection {number} with endpoint `{peer}` ended: {why}");
            self.shared.warn(&text);
        }
        self.shared.peers().remove(&number);
        connection.close(&*self.shared.loaded.net, why, tell);
    }

    /// Lets go of removed registrations that no operation uses any more.
    fn release(&mut self) {
        let (connections, net) = (&mut self.connections, &*self.shared.loaded.net);
        self.releasing.retain(|(registration, reply)| {
            if registration.is_held() {
                return true;
            }
            for connection in connections.values_mut() {
                connection.release(net, registration.number);
            }
            let _ = reply.send(Ok(()));
            false
        });
    }

    /// Sleeps until something may have happened: for `nap` while messages are on their way.
    fn sleep(&mut self, nap: Duration) {
        let is_busy =
            !self.joining.is_empty() || self.connections.values().any(Connection::is_busy);
        self.shared.asleep.store(true, Ordering::SeqCst);
        if self.shared.commands().is_empty()
            && !self.shared.news.load(Ordering::SeqCst)
            && !self.shared.stop.load(Ordering::SeqCst)
        {
            let input = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let sockets = self
                .connections
                .values()
                .map(|one| input(one.duplex().as_fd()));
            let mut all: Vec<_> = sockets.chain([input(self.shared.waker.as_fd())]).collect();
            let at_most = if is_busy { nap } else { REST };
            let timeout = Timespec::try_from(at_most).unwrap_or_default();
            // An interrupted wait is a short one.
            let _ = poll(&mut all, Some(&timeout));
        }
        self.shared.asleep.store(false, Ordering::SeqCst);
        let mut count = [0; 8];
        // Fails where the sleep ended by itself: the counter is 0.
        let _ = rustix::io::read(&self.shared.waker, &mut count);
    }

    fn give_up_stalled(&mut self) {
        let (now, allowed) = (Instant::now(), self.shared.stall_after);
        let stalled = self.connections.iter();
        let stalled =
            stalled.filter_map(|(number, one)| Some((*number, one.stalled(now, allowed)?)));
        for (number, why) in stalled.collect::<Vec<_>>() {
            if let Some(connection) = self.connections.remove(&number) {
                self.end(connection, &why, true);
            }
        }
    }

    fn close(mut self) {
        for connection in std::mem::take(&mut self.connections).into_values() {
            self.end(connection, ENDPOINT_CLOSED, true);
        }
        for joining in std::mem::take(&mut self.joining) {
            joining.fail(&self.shared, Error::Closed);
        }
        for (_, listening) in std::mem::take(&mut self.listening) {
            listening.close(&*self.shared.loaded.net);
        }
        self.release();
    }
}
