//! Agents that call in: the coordinator listens, and each node proves the secret and says its name.
//!
//! A call stays on the roll until the run takes it. A node that calls again replaces its earlier call:
//! its agent may have ended meanwhile.
#![forbid(unsafe_code)]

use super::{AgentLink, LOOK_EVERY, Unheard, Until, line};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;
use tcpx_bootstrap::{PendingLimits, Proven, Purpose, Reader, Secret, Strangers, Writer};
use tcpx_node::{NodeFacts, Root};

/// Connections that have not proved the secret: the agents of an allocation call at the same time.
const STRANGERS: PendingLimits = PendingLimits {
    at_once_max: 256,
    time_max: Duration::from_secs(5),
};
/// Longest time between two looks at whether calls are still wanted.
const SLICE: Duration = Duration::from_millis(100);
/// Longest time from the proof to the name.
const NAME_MAX: Duration = Duration::from_secs(5);
/// Most calls on the roll, and most that are asked for their names.
const CALLS_MAX: usize = 4096;

/// A node that has called.
pub(super) struct Call {
    reader: Reader,
    writer: Writer,
}

/// What is known of the nodes that are to call.
#[derive(Default)]
pub(super) struct Calls {
    /// By the name that the node said.
    pub(super) called: BTreeMap<String, Call>,
    /// Answers of shell lines that became no agent, by node.
    pub(super) answers: BTreeMap<String, String>,
    /// Why no further node will call: the program that started the agents has ended.
    pub(super) ended: Option<String>,
    /// The first lines that this program printed, without the answers.
    pub(super) said: Vec<String>,
}

/// The calls, for those who wait for them.
#[derive(Default)]
pub(super) struct Roll {
    calls: Mutex<Calls>,
    changed: Condvar,
}

impl Roll {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the roll, and tells all who wait.
    pub(super) fn change(&self, how: impl FnOnce(&mut Calls)) {
        how(&mut self.calls());
        self.changed.notify_all();
    }

    /// The first value that `look` finds.
    pub(super) fn wait<T>(
        &self,
        until: Until,
        interrupted: &AtomicBool,
        mut look: impl FnMut(&mut Calls) -> Option<T>,
    ) -> Result<T, Unheard> {
        let mut calls = self.calls();
        loop {
            if let Some(found) = look(&mut calls) {
                return Ok(found);
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(Unheard::Interrupted);
            }
            if until.is_past() {
                return Err(Unheard::Late);
            }
            let waited = self
                .changed
                .wait_timeout(calls, until.left().min(LOOK_EVERY));
            calls = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Takes calls until the last owner of the roll is gone. Returns the port.
///
/// # Errors
/// The listener cannot be used.
pub(super) fn take_calls(
    listener: TcpListener,
    secret: Secret,
    roll: &Arc<Roll>,
) -> io::Result<u16> {
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let roll = Arc::downgrade(roll);
    thread::spawn(move || {
        let mut strangers = Strangers::new(&listener, STRANGERS, &secret, Purpose::Call);
        while roll.strong_count() > 0 {
            match strangers.serve(None, SLICE) {
                Ok(Some(proven)) => {
                    let roll = Weak::clone(&roll);
                    thread::spawn(move || answer(proven, &roll));
                }
                Ok(None) => {}
                // Out of descriptors: some are closed as runs and calls end.
                Err(_) => thread::sleep(SLICE),
            }
        }
    });
    Ok(port)
}

/// Takes a call: the node says its name. A call that breaks off is repeated by the node.
fn answer(proven: Proven, roll: &Weak<Roll>) {
    let Ok((mut reader, writer)) = proven.welcome() else {
        return;
    };
    let timed = |most| writer.connection()?.set_read_timeout(most);
    let Some(name) = timed(Some(NAME_MAX)).ok().and_then(|()| line(&mut reader)) else {
        return;
    };
    if timed(None).is_err() {
        return;
    }
    let call = Call { reader, writer };
    if let Some(roll) = roll.upgrade() {
        roll.change(|calls| {
            if calls.called.len() < CALLS_MAX {
                calls.called.insert(name, call);
            }
        });
    }
}

/// The addresses at which nodes may reach this machine: that of its own name first.
pub(super) fn own_addresses() -> Vec<IpAddr> {
    let facts = NodeFacts::read(&Root::live());
    let named = facts.host.name.known().map(|name| (name.as_str(), 0));
    let named = named.and_then(|name| name.to_socket_addrs().ok());
    let named = named.into_iter().flatten().map(|address| address.ip());
    let nics = facts.nics.known().map(Vec::as_slice).unwrap_or_default();
    let of_nics = nics.iter().flat_map(|nic| nic.addresses.known());
    let of_nics = of_nics.flatten().copied();
    let mut all: Vec<IpAddr> = Vec::new();
    for address in named.chain(of_nics) {
        let is_usable = match address {
            IpAddr::V4(v4) => !v4.is_link_local(),
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        };
        if is_usable && !address.is_loopback() && !all.contains(&address) {
            all.push(address);
        }
    }
    // A machine without a network has agents on itself.
    all.push(IpAddr::V4(Ipv4Addr::LOCALHOST));
    all
}

impl Call {
    /// The streams of the agent that has called.
    pub(super) fn link(self) -> io::Result<AgentLink> {
        super::join::link(self.reader, self.writer)
    }
}
