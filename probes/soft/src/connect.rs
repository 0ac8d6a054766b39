//! `connect`, one step at a time: no threads and no blocking.
//!
//! The first call with a handle creates a connector and writes a token into bytes 80..88 of the
//! caller's buffer, by which later calls find the connector. It is removed when it returns a
//! comm or fails, so reusing the buffer is refused with a log line and code 3; the real plugin
//! reads freed memory. Sockets are connected in the real plugin's order: control first, then the
//! data sockets from the last to the first, each with an exchange of states.
//!
//! A caller may give up without a call, so a connector that was not stepped for a minute is
//! dropped at the next call.
//!
//! Refused connections are retried every millisecond for twenty seconds. There is no other
//! deadline: as with the real plugin, the caller decides how long to wait for the peer.
#![forbid(unsafe_code)]

use crate::comm::{Parts, flow};
use crate::cuda::Gpu;
use crate::failed::{BROKEN, Failed, REFUSED};
use crate::fault::{CommFaults, Side, scatter};
use crate::log::{note, warning};
use crate::plugin::Plugin;
use crate::settings::{Connect, PRODUCT};
use crate::socket;
use crate::wire::{HANDLE_BYTES, Handle, Hello, Purpose, Session};
use crate::words::Words;
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::c_int;
use std::hash::{Hash, Hasher};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tcpx_abi::subsystem::{INIT, NET};

/// State of a socket that the ends exchange: usable.
pub(crate) const STATE_OK: u32 = 0;
/// State: retry this socket.
pub(crate) const STATE_PENDING: u32 = 1;
/// State: give up.
pub(crate) const STATE_FAILED: u32 = 2;

/// The real plugin's fixed wait before each socket.
pub(crate) const SOCKET_WAIT: Duration = Duration::from_millis(100);
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
const REFUSED_FOR: Duration = Duration::from_secs(20);
const PENDING_PAUSE: Duration = Duration::from_millis(10);
const TIMEOUTS_MAX: u32 = 3;
const BLOCKING_FOR: Duration = Duration::from_secs(60);
const BLOCKING_PAUSE: Duration = Duration::from_millis(1);
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// Connectors between calls, by token.
static CONNECTORS: Mutex<BTreeMap<u64, Connector>> = Mutex::new(BTreeMap::new());

/// The result of one call of `connect`.
pub(crate) struct Call {
    /// A new token, to be written to the handle.
    pub token: Option<u64>,
    /// The comm's parts, `None` while they are not complete, or an error.
    pub outcome: Result<Option<Parts>, Failed>,
}

/// One call of `connect` with a handle whose token is `token`. With `TCPXSOFT_CONNECT=blocking`
/// it returns with the comm, unless that takes more than 60 s.
pub(crate) fn connect(
    plugin: &'static Plugin,
    device: c_int,
    bytes: &[u8; HANDLE_BYTES],
    token: u64,
) -> Call {
    let mut call = connect_once(plugin, device, bytes, token);
    let (token, until) = (call.token.unwrap_or(token), Instant::now() + BLOCKING_FOR);
    while plugin.settings.connect == Connect::Blocking
        && matches!(call.outcome, Ok(None))
        && Instant::now() < until
    {
        std::thread::sleep(BLOCKING_PAUSE);
        call.outcome = connect_once(plugin, device, bytes, token).outcome;
    }
    call
}

fn connect_once(
    plugin: &'static Plugin,
    device: c_int,
    bytes: &[u8; HANDLE_BYTES],
    token: u64,
) -> Call {
    if token == 0 {
        return match begin(plugin, device, bytes) {
            Err(failed) => Call {
                token: None,
                outcome: Err(failed),
            },
            Ok((token, connector)) => Call {
                token: Some(token),
                outcome: step(token, connector),
            },
        };
    }
    let found = CONNECTORS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(&token);
    let outcome = match found {
        Some(connector) => step(token, connector),
        None => {
            warning!(
                c"softConnect",
                "{PRODUCT} : connect with a handle that was used before, token {token:#x}"
            );
            Err(REFUSED)
        }
    };
    Call {
        token: None,
        outcome,
    }
}

fn begin(
    plugin: &'static Plugin,
    device: c_int,
    bytes: &[u8; HANDLE_BYTES],
) -> Result<(u64, Connector), Failed> {
    let random: [u8; 16] = socket::random().map_err(|error| system("getrandom", &error))?;
    let [token, session] =
        [0, 8].map(|at| u64::from_le_bytes(random[at..at + 8].try_into().unwrap_or_default()));
    let connector = Connector::new(plugin, device, bytes, session.to_le_bytes())?;
    Ok((scatter(token).max(1), connector))
}

/// Steps a connector that was taken from the table, and puts it back unless it ended.
fn step(token: u64, mut connector: Connector) -> Result<Option<Parts>, Failed> {
    let now = Instant::now();
    connector.stepped = now;
    while connector.advance(now)? {
        if connector.index.is_none() {
            return connector.finish().map(Some);
        }
    }
    let mut connectors = CONNECTORS.lock().unwrap_or_else(PoisonError::into_inner);
    connectors.retain(|_, other| !other.is_abandoned(now));
    connectors.insert(token, connector);
    Ok(None)
}

/// The stage of the current socket.
enum Stage {
    /// Waits for its start time.
    Wait,
    /// Waits for the TCP connection.
    Dial,
    /// Sends the hello.
    Greet(Words),
    /// Receives the acceptor's state.
    Hear(Words),
    /// Sends this end's state and the index.
    Answer(Words, bool),
}

struct Connector {
    plugin: &'static Plugin,
    device: usize,
    handle: Handle,
    session: Session,
    faults: Option<Box<CommFaults>>,
    gpu: Option<&'static Gpu>,
    /// The current socket; `None` once all are connected.
    index: Option<usize>,
    stage: Stage,
    socket: Option<TcpStream>,
    ctrl: Option<TcpStream>,
    /// Data sockets connected so far, from the last index to the first.
    data: Vec<TcpStream>,
    not_before: Instant,
    refused_since: Option<Instant>,
    timeouts: u32,
    attempts: u32,
    stepped: Instant,
}

impl Connector {
    fn new(
        plugin: &'static Plugin,
        device: c_int,
        bytes: &[u8; HANDLE_BYTES],
        session: Session,
    ) -> Result<Self, Failed> {
        let function = c"softConnect";
        let Some((device, _)) = plugin.device(device) else {
            warning!(
                function,
                "{PRODUCT} : connect from device {device}, there are {}",
                plugin.devices.len()
            );
            return Err(REFUSED);
        };
        let handle = Handle::decode(bytes).map_err(|error| {
            warning!(function, "{PRODUCT} : connect with a bad handle: {error}");
            REFUSED
        })?;
        let gpu = plugin.gpu()?;
        let now = Instant::now();
        let faults = plugin
            .settings
            .fault
            .of_comm(Side::Send, plugin.begin(Side::Send));
        let mut connector = Self {
            plugin,
            device,
            handle,
            session,
            faults,
            gpu,
            index: Some(handle.sockets),
            stage: Stage::Wait,
            socket: None,
            ctrl: None,
            data: Vec::new(),
            not_before: now,
            refused_since: None,
            timeouts: 0,
            attempts: 0,
            stepped: now,
        };
        connector.next_socket(Some(handle.sockets), now);
        Ok(connector)
    }

    /// Does the next step. `false` if nothing can be done now.
    fn advance(&mut self, now: Instant) -> Result<bool, Failed> {
        let Some(index) = self.index else {
            return Ok(false);
        };
        if self.faults.as_ref().is_some_and(|faults| faults.hangs()) {
            return Ok(false);
        }
        match std::mem::replace(&mut self.stage, Stage::Wait) {
            Stage::Wait => self.dial(index, now),
            Stage::Dial => self.dialled(index, now),
            Stage::Greet(words) => self.greet(words),
            Stage::Hear(words) => self.hear(words, index),
            Stage::Answer(words, ok) => self.answer(words, ok, index, now),
        }
    }

    fn dial(&mut self, index: usize, now: Instant) -> Result<bool, Failed> {
        if now < self.not_before {
            return Ok(false);
        }
        if self.attempts >= self.plugin.settings.attempts {
            warning!(c"softConnect", "{PRODUCT} failed to connect socket");
            return Err(REFUSED);
        }
        let (from, to) = self.ends(index);
        if from.is_ipv4() != to.is_ipv4() {
            warning!(
                c"softConnect",
                "{PRODUCT} : cannot connect from {from} to {to}: different address families"
            );
            return Err(REFUSED);
        }
        match socket::connect(from, to, self.plugin.settings.congestion.as_deref()) {
            Ok(stream) => {
                self.socket = Some(stream);
                self.stage = Stage::Dial;
                Ok(true)
            }
            Err(error) => self.undialled(&error, index, now),
        }
    }

    fn dialled(&mut self, index: usize, now: Instant) -> Result<bool, Failed> {
        let Some(stream) = &self.socket else {
            return Err(REFUSED);
        };
        match socket::connected(stream) {
            Ok(false) => {
                self.stage = Stage::Dial;
                Ok(false)
            }
            Ok(true) => {
                stream
                    .set_nodelay(true)
                    .map_err(|error| system("setsockopt", &error))?;
                let purpose = if self.is_ctrl() {
                    Purpose::Ctrl
                } else {
                    self.bound_send_buffer(stream, index);
                    Purpose::Data
                };
                let hello = Hello {
                    purpose,
                    index,
                    nonce: self.handle.nonce,
                    session: self.session,
                };
                self.stage = Stage::Greet(Words::outgoing(&hello.encode()));
                self.refused_since = None;
                Ok(true)
            }
            Err(error) => self.undialled(&error, index, now),
        }
    }

    /// A refused option costs speed only.
    fn bound_send_buffer(&self, stream: &TcpStream, index: usize) {
        if self.plugin.bounds_send_buffer(&self.ends(index).1)
            && let Err(error) = socket::bound_send_buffer(stream)
        {
            note!(
                NET,
                c"softConnect",
                "{PRODUCT} : send buffer of socket {index} not bounded : {}",
                socket::words(&error)
            );
        }
    }

    /// Handles a failed connection: retries or fails.
    fn undialled(&mut self, error: &io::Error, index: usize, now: Instant) -> Result<bool, Failed> {
        let again = match error.kind() {
            ErrorKind::ConnectionRefused => {
                now - *self.refused_since.get_or_insert(now) < REFUSED_FOR
            }
            ErrorKind::TimedOut => {
                self.timeouts += 1;
                self.timeouts < TIMEOUTS_MAX
            }
            _ => false,
        };
        if !again {
            let (from, to) = self.ends(index);
            warning!(
                c"softConnect",
                "Connect to {to} from {from} failed : {}",
                socket::words(error)
            );
            return Err(BROKEN);
        }
        self.socket = None;
        self.not_before = now + REFUSED_PAUSE;
        Ok(false)
    }

    fn greet(&mut self, mut words: Words) -> Result<bool, Failed> {
        let Some(stream) = &self.socket else {
            return Err(REFUSED);
        };
        let sent = words.send(stream).map_err(|error| self.lost(&error))?;
        self.stage = if sent {
            Stage::Hear(Words::incoming(4))
        } else {
            Stage::Greet(words)
        };
        Ok(sent)
    }

    fn hear(&mut self, mut words: Words, index: usize) -> Result<bool, Failed> {
        let Some(stream) = self.talk() else {
            return Err(REFUSED);
        };
        let heard = words.receive(stream).map_err(|error| self.lost(&error))?;
        self.stage = match (heard, words.word(0)) {
            (false, _) => Stage::Hear(words),
            (true, STATE_OK) => Stage::Answer(
                Words::outgoing(&[STATE_OK, index as u32].map(u32::to_le_bytes).concat()),
                true,
            ),
            (true, STATE_PENDING) => Stage::Answer(Words::outgoing(&STATE_OK.to_le_bytes()), false),
            (true, _) => {
                warning!(c"softConnect", "{PRODUCT} failed to connect socket");
                return Err(REFUSED);
            }
        };
        Ok(heard)
    }

    fn answer(
        &mut self,
        mut words: Words,
        ok: bool,
        index: usize,
        now: Instant,
    ) -> Result<bool, Failed> {
        let Some(stream) = self.talk() else {
            return Err(REFUSED);
        };
        if !words.send(stream).map_err(|error| self.lost(&error))? {
            self.stage = Stage::Answer(words, ok);
            return Ok(false);
        }
        if !ok {
            self.socket = None;
            self.attempts += 1;
            self.not_before = now + PENDING_PAUSE;
            return Ok(true);
        }
        self.keep(index);
        self.next_socket(index.checked_sub(1), now);
        Ok(true)
    }

    /// Stores the current socket, which is connected.
    fn keep(&mut self, index: usize) {
        let Some(stream) = self.socket.take() else {
            return;
        };
        let flow = flow(&stream, Side::Send);
        let (cpu, napi) = socket::arrival(&stream);
        note!(
            INIT,
            c"softAsyncConnect",
            "{PRODUCT}: connected  ({index}) [{}:{flow}] through {} (no flow steering), fd {} cpu {cpu} napi_id {napi}",
            flow_id(&flow),
            through(self.is_ctrl()),
            stream.as_raw_fd()
        );
        if self.is_ctrl() {
            self.ctrl = Some(stream);
        } else {
            self.data.push(stream);
        }
    }

    fn next_socket(&mut self, index: Option<usize>, now: Instant) {
        self.index = index;
        self.attempts = 0;
        self.timeouts = 0;
        self.stage = Stage::Wait;
        self.not_before = if self.plugin.settings.real_waits {
            now + SOCKET_WAIT
        } else {
            now
        };
        if let Some(index) = index {
            let through = through(self.is_ctrl());
            note!(
                INIT,
                c"softAsyncConnect",
                "{PRODUCT}: connecting ({index}) through {through}"
            );
        }
    }

    fn finish(mut self) -> Result<Parts, Failed> {
        note!(
            INIT,
            c"softAsyncConnect",
            "{PRODUCT}: Connected {} socks",
            self.data.len()
        );
        self.data.reverse();
        let ctrl = self.ctrl.take().ok_or(REFUSED)?;
        let (plugin, device, data, faults, gpu) =
            (self.plugin, self.device, self.data, self.faults, self.gpu);
        Ok(Parts {
            plugin,
            side: Side::Send,
            device,
            ctrl,
            data,
            faults,
            gpu,
        })
    }

    fn is_abandoned(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.stepped) >= ABANDONED_AFTER
    }

    fn is_ctrl(&self) -> bool {
        self.ctrl.is_none()
    }

    /// The socket on which states are exchanged: the control socket, once connected.
    fn talk(&self) -> Option<&TcpStream> {
        self.ctrl.as_ref().or(self.socket.as_ref())
    }

    fn ends(&self, index: usize) -> (SocketAddr, SocketAddr) {
        let device = self.plugin.devices[self.device].interface.address;
        if index == self.handle.sockets {
            (
                self.plugin
                    .ctrl
                    .as_ref()
                    .map_or(device, |ctrl| ctrl.address),
                self.handle.ctrl,
            )
        } else {
            (device, self.handle.data)
        }
    }

    fn lost(&self, error: &io::Error) -> Failed {
        warning!(
            c"softConnect",
            "{PRODUCT} : peer lost while connecting : {}",
            socket::words(error)
        );
        BROKEN
    }
}

/// The name of a kind of socket in log lines.
pub(crate) fn through(ctrl: bool) -> &'static str {
    if ctrl { "host" } else { "cuda" }
}

/// A hash of a flow string, the same on every run.
pub(crate) fn flow_id(flow: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    flow.hash(&mut hasher);
    hasher.finish()
}

/// Logs a failed system call.
pub(crate) fn system(call: &str, error: &io::Error) -> Failed {
    warning!(
        c"softSocket",
        "Call to {call} failed : {}",
        socket::words(error)
    );
    BROKEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connector_is_given_up_a_minute_after_its_last_step() {
        let pairs = [("TCPXSOFT_SOCKET_IFNAME", "=lo")];
        let plugin: &'static Plugin = Box::leak(Box::new(
            Plugin::start(crate::settings::Settings::from_pairs(&pairs)).unwrap(),
        ));
        let here = "127.0.0.1:9".parse().unwrap();
        let handle = Handle {
            data: here,
            ctrl: here,
            sockets: 1,
            threads: 1,
            redirect_ctrl: false,
            nonce: [1; 16],
        };
        let connector = Connector::new(plugin, 0, &handle.encode(), [2; 8]).unwrap();
        let after = |seconds| connector.stepped + Duration::from_secs(seconds);
        assert!(!connector.is_abandoned(after(59)));
        assert!(connector.is_abandoned(after(60)));
    }
}
