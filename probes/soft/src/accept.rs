//! `listen` and `accept`, one step at a time: no threads and no blocking.
//!
//! One listener serves one comm, as in TCPX 3.1.9. A second accept is refused with a log line
//! and code 3; the real plugin frees memory twice.
//!
//! A connection must first send a hello with the handle's nonce. Connections that have not done
//! so are limited in number, bytes and time, and are closed without disturbing the comm that is
//! being set up. A connection whose hello has the right nonce but another session, sent by
//! another holder of the handle, is closed too.
#![forbid(unsafe_code)]

use crate::comm::{Parts, flow};
use crate::connect::{
    SOCKET_WAIT, STATE_FAILED, STATE_OK, STATE_PENDING, flow_id, system, through,
};
use crate::cuda::Gpu;
use crate::failed::{BROKEN, Failed, REFUSED};
use crate::fault::{CommFaults, Side};
use crate::log::{note, warning};
use crate::plugin::Plugin;
use crate::settings::PRODUCT;
use crate::socket;
use crate::wire::{HELLO_BYTES, Handle, Hello, Nonce, Purpose, SOCKETS_MAX, Session};
use crate::words::Words;
use std::ffi::c_int;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tcpx_abi::subsystem::{INIT, NET};

/// Most connections that have not sent a hello.
const STRANGERS_MAX: usize = 16;
/// Longest time until such a connection must have sent its hello: TCP delivers it late where the network loses segments.
const STRANGER_TIME: Duration = Duration::from_secs(60);
/// The same if other connections are waiting.
const STRANGER_GRACE: Duration = Duration::from_millis(100);

/// A listen comm.
pub(crate) struct Listener {
    plugin: &'static Plugin,
    device: usize,
    nonce: Nonce,
    ctrl_listener: TcpListener,
    data_listener: TcpListener,
    sockets: usize,
    strangers: Vec<Stranger>,
    faults: Option<Box<CommFaults>>,
    gpu: Option<&'static Gpu>,
    /// Set once accept has returned a comm or failed; the listener cannot be used any more.
    used: bool,
    started: bool,
    index: Option<usize>,
    stage: Stage,
    session: Option<Session>,
    socket: Option<TcpStream>,
    ctrl: Option<TcpStream>,
    /// Data sockets accepted so far, from the last index to the first.
    data: Vec<TcpStream>,
    not_before: Instant,
    attempts: u32,
}

/// A connection that has not sent its hello.
struct Stranger {
    stream: TcpStream,
    words: Words,
    since: Instant,
}

enum Stage {
    /// Waits for the socket's start time, then for a connection with the right hello.
    Meet,
    /// Sends this end's state.
    Tell(Words, u32),
    /// Receives the connector's state.
    Hear(Words, u32),
    /// Receives the index that the connector sends if both states are OK.
    Index(Words),
}

impl Listener {
    /// `listen`: creates two sockets on ephemeral ports and the handle with their addresses.
    pub(crate) fn new(plugin: &'static Plugin, device: c_int) -> Result<(Self, Handle), Failed> {
        let function = c"softListen";
        let Some((device, found)) = plugin.device(device) else {
            warning!(
                function,
                "{PRODUCT} : listen on device {device}, there are {}",
                plugin.devices.len()
            );
            return Err(REFUSED);
        };
        let gpu = plugin.gpu()?;
        let settings = &plugin.settings;
        let sockets = sockets(settings.threads, settings.sockets_per_thread);
        let address = found.interface.address;
        let ctrl_address = plugin.ctrl.as_ref().map_or(address, |ctrl| ctrl.address);
        let congestion = settings.congestion.as_deref();
        let failed = |error| {
            warning!(
                function,
                "net dev {device}, listen FAILED (no flow steering)"
            );
            system("listen", &error)
        };
        let data_listener = socket::listen(address, congestion).map_err(failed)?;
        let ctrl_listener = socket::listen(ctrl_address, congestion).map_err(failed)?;
        let handle = Handle {
            data: data_listener.local_addr().map_err(failed)?,
            ctrl: ctrl_listener.local_addr().map_err(failed)?,
            sockets,
            threads: settings.threads,
            redirect_ctrl: plugin.ctrl.is_some(),
            nonce: socket::random().map_err(failed)?,
        };
        let (port, fd) = (handle.data.port(), data_listener.as_raw_fd());
        note!(
            INIT,
            function,
            "{PRODUCT}: dev {device} listen port {port}, fd {fd}"
        );
        let listener = Self {
            plugin,
            device,
            nonce: handle.nonce,
            ctrl_listener,
            data_listener,
            sockets,
            strangers: Vec::new(),
            faults: settings.fault.of_comm(Side::Recv, plugin.begin(Side::Recv)),
            gpu,
            used: false,
            started: false,
            index: Some(sockets),
            stage: Stage::Meet,
            session: None,
            socket: None,
            ctrl: None,
            data: Vec::new(),
            not_before: Instant::now(),
            attempts: 0,
        };
        Ok((listener, handle))
    }

    /// One call of `accept`. Returns the comm's parts, or `None` while they are not complete.
    pub(crate) fn accept(&mut self) -> Result<Option<Parts>, Failed> {
        if self.used {
            warning!(
                c"softAccept",
                "{PRODUCT} : accept on a listen comm that was used before"
            );
            return Err(REFUSED);
        }
        let outcome = self.step(Instant::now());
        self.used = !matches!(outcome, Ok(None));
        outcome
    }

    fn step(&mut self, now: Instant) -> Result<Option<Parts>, Failed> {
        if !self.started {
            self.started = true;
            if self.plugin.settings.attempts == 0 {
                return Err(refused());
            }
            self.next_socket(Some(self.sockets), now);
        }
        if self.faults.as_ref().is_some_and(|faults| faults.hangs()) {
            return Ok(None);
        }
        while let Some(index) = self.index {
            if !self.advance(index, now)? {
                return Ok(None);
            }
        }
        if now < self.not_before {
            return Ok(None);
        }
        let ctrl = self.ctrl.take().ok_or(REFUSED)?;
        let mut data = std::mem::take(&mut self.data);
        data.reverse();
        let faults = self.faults.take();
        Ok(Some(Parts {
            plugin: self.plugin,
            side: Side::Recv,
            device: self.device,
            ctrl,
            data,
            faults,
            gpu: self.gpu,
        }))
    }

    /// Accepts new connections on the listener of the current socket, and closes those that
    /// took too long. Every connection gets enough time for its hello, so a flood of
    /// connections delays a comm but cannot prevent it.
    fn admit(&mut self, now: Instant) {
        self.strangers
            .retain(|stranger| now < stranger.since + STRANGER_TIME);
        loop {
            if self.strangers.len() == STRANGERS_MAX {
                if now < self.strangers[0].since + STRANGER_GRACE {
                    return;
                }
                self.strangers.remove(0);
            }
            let listener = if self.ctrl.is_none() {
                &self.ctrl_listener
            } else {
                &self.data_listener
            };
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            // An error on one connection only closes that connection.
            if stream.set_nonblocking(true).is_ok() {
                self.strangers.push(Stranger {
                    stream,
                    words: Words::incoming(HELLO_BYTES),
                    since: now,
                });
            }
        }
    }

    /// The connection for the current socket, if it has sent its hello.
    fn meet(&mut self, index: usize) -> Option<TcpStream> {
        let wanted = if self.ctrl.is_none() {
            Purpose::Ctrl
        } else {
            Purpose::Data
        };
        let mut at = 0;
        while at < self.strangers.len() {
            let stranger = &mut self.strangers[at];
            match stranger.words.receive(&stranger.stream) {
                Ok(false) => at += 1,
                Err(_) => drop(self.strangers.remove(at)),
                Ok(true) => {
                    let Stranger { stream, words, .. } = self.strangers.remove(at);
                    if let Some(hello) = self.recognise(&words, wanted, index) {
                        self.session = Some(hello.session);
                        self.strangers.clear();
                        return Some(stream);
                    }
                }
            }
        }
        None
    }

    fn recognise(&self, words: &Words, wanted: Purpose, index: usize) -> Option<Hello> {
        let hello = Hello::decode(words.whole(), &self.nonce).ok();
        let ours = hello
            .filter(|hello| (hello.purpose, hello.index) == (wanted, index))
            .filter(|hello| self.session.is_none_or(|session| session == hello.session));
        if ours.is_none() {
            note!(
                NET,
                c"softAccept",
                "{PRODUCT}: closed a connection that is not ours"
            );
        }
        ours
    }

    fn advance(&mut self, index: usize, now: Instant) -> Result<bool, Failed> {
        match std::mem::replace(&mut self.stage, Stage::Meet) {
            Stage::Meet => {
                if now < self.not_before {
                    return Ok(false);
                }
                self.admit(now);
                let Some(stream) = self.meet(index) else {
                    return Ok(false);
                };
                if self.ctrl.is_none() {
                    stream
                        .set_nodelay(true)
                        .map_err(|error| system("setsockopt", &error))?;
                }
                self.socket = Some(stream);
                let state = self.verdict();
                self.stage = Stage::Tell(Words::outgoing(&state.to_le_bytes()), state);
                Ok(true)
            }
            Stage::Tell(mut words, state) => {
                let told = words.send(self.talk()?).map_err(|error| lost(&error))?;
                self.stage = if told {
                    Stage::Hear(Words::incoming(4), state)
                } else {
                    Stage::Tell(words, state)
                };
                if told && state == STATE_FAILED {
                    self.say_unsteered();
                    return Err(refused());
                }
                Ok(told)
            }
            Stage::Hear(mut words, state) => {
                let heard = words.receive(self.talk()?).map_err(|error| lost(&error))?;
                let theirs = words.word(0);
                self.stage = if heard {
                    Stage::Index(Words::incoming(4))
                } else {
                    Stage::Hear(words, state)
                };
                if heard && (state, theirs) != (STATE_OK, STATE_OK) {
                    self.again()
                } else {
                    Ok(heard)
                }
            }
            Stage::Index(mut words) => {
                let heard = words.receive(self.talk()?).map_err(|error| lost(&error))?;
                if !heard {
                    self.stage = Stage::Index(words);
                    return Ok(false);
                }
                if words.word(0) as usize != index {
                    warning!(
                        c"softAccept",
                        "{PRODUCT} : socket {} arrived for {index}",
                        words.word(0)
                    );
                    return Err(REFUSED);
                }
                self.keep(index);
                self.next_socket(index.checked_sub(1), now);
                Ok(true)
            }
        }
    }

    /// This end's state for the current socket. It is always OK for the control socket.
    fn verdict(&self) -> u32 {
        let refusals = self
            .faults
            .as_ref()
            .filter(|_| self.ctrl.is_some())
            .and_then(|faults| faults.refuses());
        match refusals {
            None => STATE_OK,
            Some(0) => STATE_FAILED,
            Some(times) if u64::from(self.attempts) < times => STATE_PENDING,
            Some(_) => STATE_OK,
        }
    }

    /// Logs the real plugin's line about a refused flow steering rule.
    fn say_unsteered(&self) {
        let ends = self
            .socket
            .as_ref()
            .and_then(|socket| Some((socket.local_addr().ok()?, socket.peer_addr().ok()?)));
        if let Some((local, peer)) = ends {
            warning!(
                c"softUpdateFlowSteerRule",
                "update flow steering rule: local {}<{}> <- remote {}<{}>, \
                 failed against receive-datapath-manager: refused on purpose",
                local.ip(),
                local.port(),
                peer.ip(),
                peer.port()
            );
        }
    }

    /// Retries the current socket after the two ends disagreed on its state.
    fn again(&mut self) -> Result<bool, Failed> {
        self.socket = None;
        self.stage = Stage::Meet;
        self.attempts += 1;
        if self.attempts >= self.plugin.settings.attempts {
            Err(refused())
        } else {
            Ok(true)
        }
    }

    fn keep(&mut self, index: usize) {
        let Some(stream) = self.socket.take() else {
            return;
        };
        let flow = flow(&stream, Side::Recv);
        let (cpu, napi) = socket::arrival(&stream);
        let ctrl = self.ctrl.is_none();
        note!(
            INIT,
            c"softAsyncAccept",
            "{PRODUCT}: accepted  ({index}) [{}:{flow}] through {}, fd {} cpu {cpu} napi_id {napi}",
            flow_id(&flow),
            through(ctrl),
            stream.as_raw_fd()
        );
        if ctrl {
            self.ctrl = Some(stream);
        } else {
            self.data.push(stream);
        }
    }

    fn next_socket(&mut self, index: Option<usize>, now: Instant) {
        self.index = index;
        self.attempts = 0;
        self.stage = Stage::Meet;
        let settings = &self.plugin.settings;
        let wait = match index {
            Some(_) => SOCKET_WAIT,
            None => settings.steering_wait,
        };
        self.not_before = if settings.real_waits { now + wait } else { now };
        match index {
            Some(index) => {
                let through = through(self.ctrl.is_none());
                note!(
                    INIT,
                    c"softAsyncAccept",
                    "{PRODUCT}: accepting ({index}) through {through}"
                );
            }
            None => note!(
                INIT,
                c"softAsyncAccept",
                "{PRODUCT}: Accepted {} socks",
                self.sockets
            ),
        }
    }

    fn talk(&self) -> Result<&TcpStream, Failed> {
        self.ctrl.as_ref().or(self.socket.as_ref()).ok_or(REFUSED)
    }
}

/// Number of data sockets of a comm: as configured, at most eight. With nine or more threads
/// there are none, as in the real plugin.
fn sockets(threads: usize, mut per_thread: usize) -> usize {
    if threads * per_thread > SOCKETS_MAX {
        per_thread = SOCKETS_MAX / threads;
        warning!(
            c"softListen",
            "{PRODUCT} : the total number of sockets is greater than the maximum allowed, \
             setting TCPX_NSOCKS_PERTHREAD to {per_thread}"
        );
    }
    note!(
        INIT,
        c"softListen",
        "{PRODUCT}: Using {threads} threads and {per_thread} sockets per thread"
    );
    threads * per_thread
}

fn refused() -> Failed {
    warning!(c"softAccept", "{PRODUCT} failed accept socket");
    REFUSED
}

fn lost(error: &std::io::Error) -> Failed {
    warning!(
        c"softAccept",
        "{PRODUCT} : peer lost while accepting : {}",
        socket::words(error)
    );
    BROKEN
}

#[cfg(test)]
mod tests {
    use super::sockets;

    #[test]
    fn eight_sockets_are_shared_among_the_threads() {
        let check =
            |threads, per_thread, expected| assert_eq!(sockets(threads, per_thread), expected);
        check(1, 1, 1);
        check(2, 4, 8);
        check(3, 4, 6);
        check(8, 8, 8);
        check(9, 1, 0);
    }
}
