//! An operation as its caller sees it: not done, done, or failed.
#![forbid(unsafe_code)]

use crate::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Looks at an operation before its waiter sleeps: some tens of microseconds.
const LOOKS: u32 = 100;

#[derive(Default)]
struct State {
    end: Mutex<End>,
    is_over: AtomicBool,
    over: Condvar,
    /// When the operation ended.
    at: OnceLock<Instant>,
}

#[derive(Default)]
struct End {
    result: Option<Result<u64, Error>>,
    /// Whether a caller sleeps until it is there: waking it costs the endpoint's thread a system call.
    is_awaited: bool,
}

impl State {
    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the endpoint's thread answers a caller that waits.
pub(crate) type Reply<T> = SyncSender<Result<T, Error>>;

/// An operation in progress. Dropping it does not end the operation.
#[derive(Clone)]
pub struct Transfer(Arc<State>);

/// The other half of a [`Transfer`]: finishes it once, at the latest when dropped.
pub(crate) struct Completion(Arc<State>);

/// A transfer that has just begun.
pub(crate) fn begin() -> (Transfer, Completion) {
    let state = Arc::<State>::default();
    (Transfer(Arc::clone(&state)), Completion(state))
}

impl Completion {
    pub(crate) fn finish(self, result: Result<u64, Error>) {
        self.set(result);
    }

    fn set(&self, result: Result<u64, Error>) {
        let mut end = self.0.end();
        if end.result.is_none() {
            let _ = self.0.at.set(Instant::now());
            end.result = Some(result);
            self.0.is_over.store(true, Ordering::Release);
            if end.is_awaited {
                self.0.over.notify_all();
            }
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.set(Err(Error::Closed));
    }
}

impl Transfer {
    /// Whether the operation is done; never waits. If it is not, the CPU is given away once: programs
    /// poll in a loop, and the endpoint's thread, or the peer's, may need the CPU to finish it.
    ///
    /// # Errors
    /// The operation has failed.
    pub fn poll(&self) -> Result<bool, Error> {
        if !self.0.is_over.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        if !self.0.is_over.load(Ordering::Acquire) {
            return Ok(false);
        }
        match &self.0.end().result {
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(_)) => Ok(true),
            None => Ok(false),
        }
    }

    /// When the operation ended, seen by the endpoint's thread: a caller that looks later does not
    /// make it longer. `None` before that.
    pub fn ended_at(&self) -> Option<Instant> {
        self.0.at.get().copied()
    }

    /// Waits until the operation is done and returns its bytes.
    ///
    /// # Errors
    /// The operation has failed, or is not done after `allowed`; it goes on in that case.
    pub fn wait(&self, allowed: Duration) -> Result<u64, Error> {
        for _ in 0..LOOKS {
            if self.0.is_over.load(Ordering::Acquire) {
                break;
            }
            std::thread::yield_now();
        }
        let until = Instant::now().checked_add(allowed);
        let mut end = self.0.end();
        loop {
            if let Some(result) = &end.result {
                return result.clone();
            }
            let left = until.map_or(Duration::from_secs(3600), |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                let what = "the operation".to_owned();
                return Err(Error::TimedOut { what, allowed });
            }
            end.is_awaited = true;
            let waited = self.0.over.wait_timeout(end, left);
            end = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl std::fmt::Debug for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transfer({:?})", self.0.end().result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_finished_once_and_at_the_latest_when_its_driver_is_gone() {
        let (transfer, completion) = begin();
        assert_eq!((transfer.poll(), transfer.ended_at()), (Ok(false), None));
        let soon = transfer.wait(Duration::from_millis(1));
        assert!(matches!(soon, Err(Error::TimedOut { .. })));
        completion.finish(Ok(7));
        assert_eq!(transfer.poll(), Ok(true));
        assert_eq!(transfer.wait(Duration::ZERO), Ok(7));
        assert!(transfer.ended_at().is_some_and(|at| at <= Instant::now()));
        let (transfer, completion) = begin();
        drop(completion);
        assert_eq!(transfer.wait(Duration::ZERO), Err(Error::Closed));
    }
}
