//! A connection in the making: the plugin's listens, connects and accepts of all its lanes, polled
//! in turn by the endpoint's thread.
#![forbid(unsafe_code)]

use crate::connection::{Arrival, Connection, lost};
use crate::lane::Lane;
use crate::message::Message;
use crate::shared::Shared;
use crate::shared_lane::SharedLane;
use crate::shown::{Channels, next_number};
use crate::transfer::Reply;
use crate::{Error, helper};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tcpx_bootstrap::Duplex;
use tcpx_engine::plugin::{ConnectHandle, Connecting, ListenComm, Net, RecvComm, SendComm};

/// How long pending connects are polled before their state is left to the plugin.
const ENDING: Duration = Duration::from_millis(200);

/// Listeners of one connection, one per lane, that wait for the peer's connects.
pub(crate) struct Listening(Vec<ListenComm>);

impl Listening {
    /// One listener per lane, on the devices in turn, and their handles.
    pub(crate) fn new(shared: &Shared, count: usize) -> Result<(Self, Vec<[u8; 128]>), Error> {
        // Again, because the plugin has loaded its CUDA runtime since the thread began.
        shared.memory.movable.make_current()?;
        let loaded = &shared.loaded;
        let mut made = Self(Vec::with_capacity(count));
        let mut handles = Vec::with_capacity(count);
        for lane in 0..count {
            match loaded.net.listen(loaded.device_of(lane)) {
                Ok((listener, handle)) => {
                    made.0.push(listener);
                    handles.push(handle.0);
                }
                Err(error) => {
                    made.close(&*loaded.net);
                    return Err(Error::Plugin(error.to_string()));
                }
            }
        }
        Ok((made, handles))
    }

    pub(crate) fn close(self, net: &dyn Net) {
        for listener in self.0 {
            let _ = net.close_listen(listener);
        }
    }
}

/// A connection in the making.
pub(crate) struct Joining {
    pub(crate) listening: u64,
    pub(crate) duplex: Duplex,
    pub(crate) handles: Vec<[u8; 128]>,
    pub(crate) peer: IpAddr,
    pub(crate) deadline: Instant,
    /// The caller of `connect`; a connection that a peer made has none.
    pub(crate) reply: Option<Reply<u64>>,
    pub(crate) lanes: Lanes,
}

/// The halves of each lane, as far as they are there.
#[derive(Default)]
pub(crate) struct Lanes {
    listeners: Vec<ListenComm>,
    connecting: Vec<Connecting>,
    sends: Vec<Option<SendComm>>,
    recvs: Vec<Option<RecvComm>>,
}

impl Joining {
    /// Takes the listeners that the peer connects to.
    pub(crate) fn take(&mut self, listening: Option<Listening>) {
        self.lanes.listeners = listening.map(|one| one.0).unwrap_or_default();
        let handles = self.handles.iter();
        self.lanes.connecting = handles
            .map(|handle| Connecting::to(ConnectHandle(*handle)))
            .collect();
        self.lanes.sends.resize_with(self.handles.len(), || None);
        self.lanes
            .recvs
            .resize_with(self.lanes.listeners.len(), || None);
    }

    /// Polls what is pending. Returns whether every lane is there.
    pub(crate) fn turn(&mut self, shared: &Shared) -> Result<bool, Error> {
        let net = &*shared.loaded.net;
        let failed = |error: tcpx_engine::plugin::PluginError| Error::Plugin(error.to_string());
        let lanes = &mut self.lanes;
        for (listener, recv) in lanes.listeners.iter_mut().zip(&mut lanes.recvs) {
            if recv.is_none() {
                *recv = net.accept(listener).map_err(failed)?;
            }
        }
        for (lane, (connecting, send)) in lanes
            .connecting
            .iter_mut()
            .zip(&mut lanes.sends)
            .enumerate()
        {
            if send.is_none() {
                *send = net
                    .connect(shared.loaded.device_of(lane), connecting)
                    .map_err(failed)?;
            }
        }
        let missing = lanes.sends.iter().filter(|send| send.is_none()).count()
            + lanes.recvs.iter().filter(|recv| recv.is_none()).count();
        if missing > 0
            && let Some(why) = self.given_up()
        {
            let peer = self.peer.to_string();
            return Err(Error::Connection { peer, why });
        }
        let lanes = &self.lanes;
        if missing > 0 && Instant::now() > self.deadline {
            let what = format!(
                "{missing} of {} connects and accepts of the plugin",
                2 * lanes.sends.len()
            );
            return Err(Error::Connection {
                peer: self.peer.to_string(),
                why: format!("{what} are not done at the deadline"),
            });
        }
        Ok(missing == 0)
    }

    /// Why the peer has given up, if it has. What it says otherwise is for the connection.
    fn given_up(&mut self) -> Option<String> {
        let filled = self.duplex.fill();
        match Message::decode(self.duplex.received()) {
            Ok(Some((Message::Bye { why }, _))) => Some(format!("given up by the peer: {why}")),
            _ => filled.err().map(|error| lost(&error)),
        }
    }

    /// The connection, once every lane is there.
    pub(crate) fn finish(mut self, shared: &Shared) -> (u64, Connection) {
        let net = &*shared.loaded.net;
        for listener in self.lanes.listeners.drain(..) {
            let _ = net.close_listen(listener);
        }
        let number = next_number();
        let sends = self.lanes.sends.into_iter().flatten();
        let recvs = self.lanes.recvs.into_iter().flatten();
        let sends = sends.map(|comm| Lane::sender(net, comm, shared.chunk));
        let recvs = recvs.map(|comm| {
            let gpu = shared.memory.movable.gpu().cloned();
            Lane::receiver(net, comm, shared.chunk, gpu)
        });
        let channels = Channels::take(self.handles.len() as u32);
        let named = |(mut lane, channel): (Lane, u32)| {
            lane.name(channel, number, shared.loaded.tap);
            let threads = shared.threads;
            SharedLane::new(lane, helper::of_channel(channel, threads), threads)
        };
        let sends = sends.zip(channels.first()..).map(named).collect();
        let recvs = recvs.zip(channels.first()..).map(named).collect();
        let scratch = shared.scratch.held.clone();
        let mut connection =
            Connection::new(number, self.duplex, sends, recvs, shared.chunk, scratch);
        connection.channels = Some(channels);
        connection.hello(&shared.hello);
        connection.arrival = Some(Arrival {
            ip: self.peer,
            reply: self.reply.take(),
        });
        (number, connection)
    }

    /// Closes everything and says why.
    pub(crate) fn fail(mut self, shared: &Shared, error: Error) {
        let mut bye = Vec::new();
        let why = error.to_string();
        Message::Bye { why }.encode(&mut bye);
        // One attempt: the peer also sees the connection end.
        let _ = self.duplex.queue(&bye).and_then(|()| self.duplex.flush());
        let net = &*shared.loaded.net;
        let Lanes {
            listeners,
            mut connecting,
            sends,
            recvs,
        } = self.lanes;
        end_pending(shared, &mut connecting, &sends);
        for listener in listeners {
            let _ = net.close_listen(listener);
        }
        for comm in sends.into_iter().flatten() {
            let _ = net.close_send(comm);
        }
        for comm in recvs.into_iter().flatten() {
            let _ = net.close_recv(comm);
        }
        self.duplex.shut_down();
        if let Some(reply) = self.reply {
            let _ = reply.send(Err(error));
        }
    }
}

/// The ABI has no call that cancels a connect: each is polled until it returns a comm, which is
/// closed, or an error, after which the plugin has freed everything.
fn end_pending(shared: &Shared, connecting: &mut [Connecting], sends: &[Option<SendComm>]) {
    let net = &*shared.loaded.net;
    let until = Instant::now() + ENDING;
    let mut pending: Vec<usize> = (0..sends.len())
        .filter(|lane| sends[*lane].is_none())
        .collect();
    while !pending.is_empty() && Instant::now() < until {
        pending.retain(|lane| {
            match net.connect(shared.loaded.device_of(*lane), &mut connecting[*lane]) {
                Ok(None) => true,
                Ok(Some(comm)) => {
                    let _ = net.close_send(comm);
                    false
                }
                Err(_) => false,
            }
        });
        std::thread::yield_now();
    }
}
