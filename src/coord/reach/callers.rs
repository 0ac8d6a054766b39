//! Nodes that call in by themselves: pods or tasks where `tcpxctl serve --call` runs.
//!
//! The coordinator listens with the secret of a file and waits until enough nodes have called. A node
//! starts its agent when the coordinator speaks to it, so it may wait for the others.
#![forbid(unsafe_code)]

use super::call_in::{Roll, take_calls};
use super::{AgentLink, Opening, ReachError, Transport, Unheard, Until};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tcpx_bootstrap::Secret;
use tcpx_words::error::Outcome;

/// A node that is expected to call.
pub struct Caller {
    node: String,
    roll: Arc<Roll>,
    has_called: bool,
    call_max: Duration,
}

/// Waits until `count` nodes have called, or `call_max` has passed: a transport for each, those that have
/// called first, in the order of their names.
///
/// # Errors
/// The listener cannot be used, or the user interrupts.
pub fn callers(
    count: usize,
    listener: TcpListener,
    secret: Secret,
    call_max: Duration,
    interrupted: &AtomicBool,
) -> Result<Vec<Box<dyn Transport>>, ReachError> {
    let roll = Arc::new(Roll::default());
    take_calls(listener, secret, &roll).map_err(|error| {
        let what = format!("cannot listen: {error}");
        ReachError::new("--listen", Outcome::NotRun, what)
            .next("give another --listen ADDRESS:PORT")
    })?;
    let all = roll.wait(Until::after(call_max), interrupted, |calls| {
        (calls.called.len() >= count).then_some(())
    });
    if all == Err(Unheard::Interrupted) {
        return Err(ReachError::interrupted("--listen"));
    }
    let mut nodes = Vec::new();
    roll.change(|calls| nodes.extend(calls.called.keys().take(count).cloned()));
    nodes.sort_unstable_by_key(|name| (name.len(), name.clone()));
    let caller = |index: usize| {
        let node = nodes.get(index).cloned();
        Box::new(Caller {
            has_called: node.is_some(),
            node: node.unwrap_or_else(|| format!("node {} of {count}", index + 1)),
            roll: Arc::clone(&roll),
            call_max,
        }) as Box<dyn Transport>
    };
    Ok((0..count).map(caller).collect())
}

impl Transport for Caller {
    fn node(&self) -> &str {
        &self.node
    }

    fn is_login(&self) -> bool {
        false
    }

    fn open(&self, opening: &mut Opening<'_>) -> Result<AgentLink, ReachError> {
        let lost = |what: String| ReachError::new(&self.node, Outcome::PeerLost, what);
        if !self.has_called {
            let what = format!("did not call in within {} s", self.call_max.as_secs());
            return Err(lost(what).next(
                "check that `tcpxctl serve --call` runs there with this secret and can connect to this machine",
            ));
        }
        // A node whose call broke off calls again.
        let until = Until::after(super::REACH_MAX);
        let call = self.roll.wait(until, opening.interrupted, |calls| {
            calls.called.remove(&self.node)
        });
        match call {
            Ok(call) => call.link().map_err(|error| lost(error.to_string())),
            Err(Unheard::Interrupted) => Err(ReachError::interrupted(&self.node)),
            Err(Unheard::Late | Unheard::Ended) => {
                Err(lost("has called in once, and was used already".into()))
            }
        }
    }
}
