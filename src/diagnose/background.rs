//! Judges a run on a thread of its own: the coordinator's agents hear from it while the rules are
//! applied, which takes seconds on a busy machine.
//!
//! Only the newest state waits to be judged, so the queue has one place.
#![forbid(unsafe_code)]

use super::watcher::Watcher;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use tcpx_run_model::event::Event;
use tcpx_run_model::finding::Finding;
use tcpx_run_model::state::RunState;

/// A [`Watcher`] on a thread of its own.
pub struct BackgroundWatcher {
    next: Arc<Next>,
    findings: mpsc::Receiver<Vec<Finding>>,
    thread: JoinHandle<Watcher>,
}

/// What the thread does next.
#[derive(Default)]
struct Next {
    order: Mutex<Order>,
    changed: Condvar,
}

#[derive(Default)]
struct Order {
    /// The newest state that is not judged yet.
    state: Option<Box<RunState>>,
    is_over: bool,
}

impl BackgroundWatcher {
    /// Starts the thread. It first reads the catalogue of log lines, before a stall needs it.
    pub fn start() -> Self {
        let next = Arc::new(Next::default());
        let (to_caller, findings) = mpsc::channel();
        let orders = Arc::clone(&next);
        let thread = std::thread::spawn(move || {
            super::of_state::read_catalogue();
            let mut watcher = Watcher::default();
            while let Some(state) = orders.wait() {
                if let Some(found) = watcher.judge(&state) {
                    // Fails once the run is over, and the findings are those of the watcher then.
                    let _ = to_caller.send(found);
                }
            }
            watcher
        });
        Self {
            next,
            findings,
            thread,
        }
    }

    /// Has the state judged if `event`, which was just applied to it, can change the findings.
    /// Returns the newest findings that the thread has reported since the last call.
    pub fn event(&self, event: &Event, state: &RunState) -> Option<Vec<Finding>> {
        if Watcher::is_cause(event) {
            self.next.order().state = Some(Box::new(state.clone()));
            self.next.changed.notify_one();
        }
        self.findings.try_iter().last()
    }

    /// Ends the thread. Returns the watcher, and the findings that no call of
    /// [`BackgroundWatcher::event`] has returned.
    pub fn finish(self) -> (Watcher, Option<Vec<Finding>>) {
        self.next.order().is_over = true;
        self.next.changed.notify_one();
        let watcher = self
            .thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (watcher, self.findings.try_iter().last())
    }
}

impl Next {
    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next state to judge; `None` at the end, after the last state.
    fn wait(&self) -> Option<Box<RunState>> {
        let is_idle = |order: &mut Order| order.state.is_none() && !order.is_over;
        let order = self.changed.wait_while(self.order(), is_idle);
        order.unwrap_or_else(PoisonError::into_inner).state.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watcher::tests::stalled;

    #[test]
    fn findings_are_reported_while_the_caller_goes_on_and_none_is_lost() {
        let (state, stall) = stalled();
        let mut expected = Watcher::default();
        let expected = expected.event(&stall, &state).expect("a finding");
        let background = BackgroundWatcher::start();
        let early = background.event(&stall, &state);
        let (_, late) = background.finish();
        assert_eq!(early.or(late), Some(expected));
    }

    #[test]
    fn a_run_without_a_stall_is_not_judged() {
        let (state, stall) = stalled();
        let note = tcpx_run_model::event::EventKind::Note("a note".to_owned());
        let background = BackgroundWatcher::start();
        let note = Event::new(stall.ms, tcpx_run_model::ids::Who::Run, note);
        assert_eq!(background.event(&note, &state), None);
        assert_eq!(background.finish().1, None);
    }
}
