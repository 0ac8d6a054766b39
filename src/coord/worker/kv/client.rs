//! The end that starts the requests: a thread for each that may be in flight.
//!
//! In a closed loop, a thread takes the next request when its last one has ended. Arrivals at
//! random times come from the plan and do not wait for anything: a request that begins late, since
//! every thread is busy, is timed from its arrival all the same. The end of an operation is the
//! moment that the endpoint's thread saw, so comparing one batch makes no other one longer.
#![forbid(unsafe_code)]

use super::notes::{Landed, Note};
use super::pages::offset;
use super::session::{Ended, SLICE, Session};
use super::words;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tcpx_p2p::{Error, Local, Remote, Transfer};
use tcpx_run_model::latencies::Times;
use tcpx_run_model::results::KvTimes;
use tcpx_run_model::scenario::KvOperation;

/// Before an arrival, the thread yields its CPU instead of sleeping: a sleep ends too late.
const YIELDED: Duration = Duration::from_micros(100);

/// Times of requests and batches, and the bytes that were right.
#[derive(Debug, Clone, Default)]
pub(super) struct Clocks {
    requests: Times,
    batches: Times,
    posts: Times,
    preparations: Times,
    good_bytes: u64,
}

impl Clocks {
    pub(super) fn merge(&mut self, other: &Self) {
        self.requests.merge(&other.requests);
        self.batches.merge(&other.batches);
        self.posts.merge(&other.posts);
        self.preparations.merge(&other.preparations);
        self.good_bytes += other.good_bytes;
    }

    pub(super) fn told(&self) -> KvTimes {
        KvTimes {
            requests: (&self.requests).into(),
            batches: (&self.batches).into(),
            posts: (&self.posts).into(),
            preparations: (&self.preparations).into(),
            good_bytes: self.good_bytes,
        }
    }
}

/// One batch in flight.
struct InFlight {
    transfer: Transfer,
    number: u64,
    posted: Instant,
}

struct Client<'a> {
    session: &'a Session<'a>,
    number: usize,
    iteration: u32,
    clocks: Clocks,
}

/// Starts every request of an iteration and returns once all have ended.
pub(super) fn run_iteration(session: &Session<'_>, iteration: u32) -> Result<Clocks, Ended> {
    let arrivals = session.plan.arrivals(iteration);
    let (next, began) = (AtomicUsize::new(0), Instant::now());
    let drive = |number: usize| {
        let mut client = Client {
            session,
            number,
            iteration,
            clocks: Clocks::default(),
        };
        loop {
            let request = next.fetch_add(1, Ordering::Relaxed);
            if request >= session.plan.requests() {
                return Ok(client.clocks);
            }
            let arrival = match arrivals.as_ref().and_then(|all| all.get(request)) {
                Some(after) => sleep_until(session, began + *after),
                None => Ok(Instant::now()),
            };
            let ended = arrival.and_then(|arrival| client.request(request, arrival));
            if let Err(ended) = ended {
                session.failed.store(true, Ordering::Relaxed);
                return Err(ended);
            }
        }
    };
    let clients = session.kv.concurrency as usize;
    let ended: Vec<Result<Clocks, Ended>> = std::thread::scope(|scope| {
        let drive = &drive;
        let threads = (0..clients).map(|number| scope.spawn(move || drive(number)));
        let threads: Vec<_> = threads.collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = Clocks::default();
    let mut failure = None;
    for one in ended {
        match one {
            Ok(clocks) => all.merge(&clocks),
            // A client that stopped because another failed has nothing to say.
            Err(Ended::Stopped) => failure = failure.or(Some(Ended::Stopped)),
            Err(cause) => failure = Some(cause),
        }
    }
    failure.map_or(Ok(all), Err)
}

/// Returns `at`, when it is then or later.
fn sleep_until(session: &Session<'_>, at: Instant) -> Result<Instant, Ended> {
    loop {
        let left = at.saturating_duration_since(Instant::now());
        if session.is_over() {
            return Err(Ended::Stopped);
        }
        match left {
            Duration::ZERO => return Ok(at),
            left if left > YIELDED => std::thread::sleep((left - YIELDED).min(SLICE)),
            _ => std::thread::yield_now(),
        }
    }
}

impl Client<'_> {
    fn request(&mut self, request: usize, arrival: Instant) -> Result<(), Ended> {
        let depth = self.session.kv.depth as usize;
        let mut in_flight = VecDeque::with_capacity(depth);
        let (mut last, mut is_right) = (arrival, true);
        for number in 0..self.session.plan.batches(request) {
            if in_flight.len() == depth {
                self.finish(request, &mut in_flight, &mut last, &mut is_right)?;
            }
            let posted = self.post(request, number)?;
            in_flight.push_back(posted);
        }
        while !in_flight.is_empty() {
            self.finish(request, &mut in_flight, &mut last, &mut is_right)?;
        }
        self.clocks
            .requests
            .add(last.saturating_duration_since(arrival));
        if is_right {
            self.clocks.good_bytes += self.session.plan.bytes_of(request);
        }
        Ok(())
    }

    /// Number of the places of a batch.
    fn place(&self, number: u64) -> usize {
        let depth = self.session.kv.depth as usize;
        self.number * depth + number as usize % depth
    }

    /// First place of a batch in the memory that it lands in.
    fn first_place(&self, number: u64) -> usize {
        let place = match self.session.kv.op {
            // Every client that pulls has a region of its own.
            KvOperation::Pull => number as usize % self.session.kv.depth as usize,
            KvOperation::Push => self.place(number),
        };
        place * self.session.batch_places()
    }

    fn post(&mut self, request: usize, number: u64) -> Result<InFlight, Ended> {
        let session = self.session;
        let started = Instant::now();
        let bytes = session.plan.page_bytes() as usize;
        let places = self.first_place(number)..;
        let pages = session.plan.pages(self.iteration, request, number);
        let pages = places.zip(pages.map(|page| page as usize));
        let missing = words::no_memory;
        let transfer;
        let prepared;
        match session.kv.op {
            KvOperation::Pull => {
                let (into, from) = session
                    .places
                    .get(self.number)
                    .zip(session.peer_cache.as_ref())
                    .ok_or_else(missing)?;
                let pieces: Vec<(Local, Remote<'_>)> = pages
                    .map(|(place, page)| {
                        let offset = offset(page, bytes);
                        (into.local(place), Remote { blob: from, offset })
                    })
                    .collect();
                prepared = Instant::now();
                transfer = session.endpoint.read(session.connection, &pieces)?;
            }
            KvOperation::Push => {
                let (from, to) = session
                    .cache
                    .zip(session.peer_places.as_ref())
                    .ok_or_else(missing)?;
                let pieces: Vec<(Local, Remote<'_>)> = pages
                    .map(|(place, page)| {
                        let offset = offset(place, bytes);
                        (from.local(page), Remote { blob: to, offset })
                    })
                    .collect();
                prepared = Instant::now();
                transfer = session.endpoint.write(session.connection, &pieces)?;
            }
        }
        self.clocks.preparations.add(prepared - started);
        self.clocks.posts.add(prepared.elapsed());
        Ok(InFlight {
            transfer,
            number,
            posted: prepared,
        })
    }

    /// Waits for the oldest batch, and compares it or has it compared.
    fn finish(
        &mut self,
        request: usize,
        in_flight: &mut VecDeque<InFlight>,
        last: &mut Instant,
        is_right: &mut bool,
    ) -> Result<(), Ended> {
        let Some(batch) = in_flight.pop_front() else {
            return Ok(());
        };
        let ended = self.wait(&batch.transfer)?;
        self.clocks
            .batches
            .add(ended.saturating_duration_since(batch.posted));
        *last = (*last).max(ended);
        let session = self.session;
        let wrong = match (session.kv.op, session.places.get(self.number)) {
            (KvOperation::Pull, Some(places)) => {
                let pages = session.plan.pages(self.iteration, request, batch.number);
                let first = self.first_place(batch.number);
                session.book(places, first, self.iteration, pages)?
            }
            (KvOperation::Push, _) if session.verify => {
                self.have_compared(request, batch.number)?
            }
            _ => false,
        };
        *is_right &= !wrong;
        Ok(())
    }

    fn have_compared(&self, request: usize, number: u64) -> Result<bool, Ended> {
        let session = self.session;
        let place = self.place(number);
        let note = Note::Check(Landed {
            iteration: self.iteration,
            request: request as u32,
            batch: number as u32,
            place: place as u32,
        });
        session
            .endpoint
            .notify(session.connection, &note.encode())?;
        session.answers.take(place, || session.is_over())
    }

    fn wait(&self, transfer: &Transfer) -> Result<Instant, Ended> {
        loop {
            match transfer.wait(SLICE) {
                Ok(_) => return Ok(transfer.ended_at().unwrap_or_else(Instant::now)),
                Err(Error::TimedOut { .. }) if self.session.is_over() => {
                    return Err(Ended::Stopped);
                }
                Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
