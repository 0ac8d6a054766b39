//! A send or receive comm: its request queue, its sockets, and its calls.
//!
//! Progress happens only inside `test`, which advances the whole comm by one step, for any of
//! its requests; `send` and `recv` implement the step. Then the oldest transmitting request
//! determines the answer, one of exactly four; in the plain flavour every request has its own.
//!
//! Calls that make TCPX 3.1.9 crash or corrupt memory are refused with a log line and code 3: a
//! call for the other side of a comm, a negative size, a null buffer, a message longer than its
//! receive, a device message of too many pages.
//!
//! Not here: raw pointers from C (`export`, `block`), and connection setup.
#![expect(unsafe_code, reason = "requests live where the caller can read them")]

use crate::block::{self, REQUESTS};
use crate::ctrl::Ctrl;
use crate::cuda::Gpu;
use crate::device::Device;
use crate::failed::{BROKEN, Failed, REFUSED};
use crate::fault::{CommFaults, Side};
use crate::group::{GROUP_MAX, Groups};
use crate::helper::{self, Helpers};
use crate::io::pump;
use crate::landing::Landing;
use crate::lane::{Lane, Lanes};
use crate::log::{note, warning};
use crate::mr::Region;
use crate::pages::PagePool;
use crate::plugin::Plugin;
use crate::queue::{Queue, SLOTS, SLOTS_MAX, State, Step};
use crate::settings::{Cuda, Io, PRODUCT};
use crate::stage::Stage;
use crate::stall::Stall;
use crate::unpack::Unpack;
use std::ffi::{c_int, c_void};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tcpx_abi::subsystem::NET;
use tcpx_abi::unpack::Request;

/// `op` of a request.
const SEND: c_int = 0;
const RECV: c_int = 1;

/// A comm. It is stored in a `block::Block`.
pub(crate) struct Comm {
    pub(crate) plugin: &'static Plugin,
    pub(crate) side: Side,
    /// Its address, the caller's comm pointer.
    pub(crate) address: usize,
    requests: *mut Request,
    pub(crate) queue: Queue,
    pub(crate) ctrl: Ctrl,
    pub(crate) lanes: Arc<Lanes>,
    /// What moves its bytes.
    io: Io,
    pub(crate) helpers: Option<Helpers>,
    /// Number of helper threads, if it has any.
    helper_count: usize,
    /// Whether a helper thread of the plain flavour has several data sockets.
    pub(crate) takes_turns: bool,
    /// Data socket that the next chunk tries first.
    pub(crate) next_lane: usize,
    /// Chunks assigned so far.
    pub(crate) chunks: u64,
    /// Polls of a receive whose socket had no room for one more task.
    pub(crate) without_room: u64,
    /// Polls of receives whose payload came on the control socket and had not begun to be read.
    pub(crate) inline_payloads: u64,
    /// Receives that were consumed before they were unpacked.
    pub(crate) not_unpacked: u64,
    /// Headers queued so far.
    pub(crate) headers: u64,
    /// Headers that were written to the socket.
    pub(crate) flushed: u64,
    /// The last header of each slot's request.
    pub(crate) last_header: [u64; SLOTS_MAX],
    /// Plain flavour: slots that `test` has reported done, one bit each.
    answered: u64,
    /// Plain flavour: the request of each buffer.
    pub(crate) groups: Groups,
    /// Plain flavour: the tag of the next announced message.
    pub(crate) tag: c_int,
    /// Bytes of the inline message being received that have arrived.
    pub(crate) inline: Option<usize>,
    /// Bytes assigned since data sockets were last served.
    pub(crate) held_bytes: usize,
    /// Injected fault: headers are delayed until then.
    pub(crate) delayed: Option<Instant>,
    /// Receive comms only.
    pub(crate) unpack: Option<Unpack>,
    /// Send comms with a GPU only.
    pub(crate) stage: Option<Stage>,
    /// Receive comms of the plain flavour that take device memory only.
    pub(crate) landing: Option<Box<Landing>>,
    /// The thread's current GPU when setup began.
    pub(crate) gpu: Option<&'static Gpu>,
    /// Tracks how long a receive has waited for a header.
    pub(crate) stall: Stall,
    pub(crate) faults: Option<Box<CommFaults>>,
    /// Bytes sent per data socket.
    pub(crate) sent: Vec<u64>,
}

// SAFETY: `requests` points into the comm's own block, which outlives it.
unsafe impl Send for Comm {}

/// The result of connection setup.
pub(crate) struct Parts {
    /// The plugin instance.
    pub plugin: &'static Plugin,
    /// The side of the comm.
    pub side: Side,
    /// Device index.
    pub device: usize,
    /// The control socket.
    pub ctrl: TcpStream,
    /// The data sockets by index.
    pub data: Vec<TcpStream>,
    /// Injected faults.
    pub faults: Option<Box<CommFaults>>,
    /// The thread's current GPU when setup began.
    pub gpu: Option<&'static Gpu>,
}

/// A buffer to post.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer {
    /// First byte.
    pub data: *mut c_void,
    /// Number of bytes.
    pub size: c_int,
    /// The registered memory that contains the bytes.
    pub region: Region,
    /// Plain flavour: the tag that a message must have.
    pub tag: c_int,
}

impl Buffer {
    /// An empty buffer.
    pub(crate) const NONE: Self = Self {
        data: std::ptr::null_mut(),
        size: 0,
        region: Region {
            base: 0,
            length: 0,
            kind: 0,
        },
        tag: 0,
    };
}

/// The resources of a comm for device memory.
pub(crate) struct DeviceSide {
    pool: Option<&'static PagePool>,
    unpack: Option<Unpack>,
    stage: Option<Stage>,
    landing: Option<Box<Landing>>,
}

impl DeviceSide {
    /// Creates the pages and slots of a receiver, or the buffers of a sender.
    pub(crate) fn for_parts(parts: &Parts) -> Result<Self, Failed> {
        let none = Self {
            pool: None,
            unpack: None,
            stage: None,
            landing: None,
        };
        let settings = &parts.plugin.settings;
        Ok(match (parts.side, parts.gpu) {
            (Side::Send, gpu) => Self {
                stage: gpu.map(Stage::new).transpose()?,
                ..none
            },
            (Side::Recv, _) if settings.is_plain() && settings.cuda == Cuda::Off => none,
            (Side::Recv, gpu) if settings.is_plain() => Self {
                landing: Some(Box::new(Landing::new(gpu)?)),
                ..none
            },
            (Side::Recv, Some(gpu)) => {
                let pool = parts.plugin.pool_on(gpu)?;
                Self {
                    pool: Some(pool),
                    unpack: Some(Unpack::on_gpu(pool)?),
                    ..none
                }
            }
            (Side::Recv, None) => {
                let pool = parts.plugin.pool();
                Self {
                    pool,
                    unpack: Some(Unpack::new(pool)),
                    ..none
                }
            }
        })
    }
}

impl Comm {
    /// A comm over connected sockets, at `address`, with its `requests`.
    pub(crate) fn new(
        parts: Parts,
        memory: DeviceSide,
        address: usize,
        requests: *mut Request,
    ) -> Self {
        let Parts {
            plugin,
            side,
            device,
            ctrl,
            data,
            faults,
            gpu,
        } = parts;
        let settings = &plugin.settings;
        let DeviceSide {
            pool,
            unpack,
            stage,
            landing,
        } = memory;
        let lanes: Vec<Lane> = data
            .into_iter()
            .enumerate()
            .map(|(index, stream)| {
                let flow = flow(&stream, side);
                Lane::new(
                    stream,
                    flow,
                    faults.as_ref().and_then(|faults| faults.of_socket(index)),
                )
            })
            .collect();
        let ctrl_flow = flow(&ctrl, side);
        let helper_count = settings.threads.min(lanes.len());
        let takes_turns = helper::takes_turns(settings, lanes.len());
        Self {
            plugin,
            side,
            address,
            requests,
            queue: Queue::with_slots(if settings.is_plain() {
                SLOTS_MAX
            } else {
                SLOTS
            }),
            answered: 0,
            groups: Groups::default(),
            tag: 0,
            ctrl: Ctrl::new(ctrl, ctrl_flow),
            sent: vec![0; lanes.len()],
            lanes: Arc::new(Lanes {
                all: lanes,
                side,
                pool,
                comm: address,
                device,
                interface: plugin.devices.get(device).map_or(String::new(), name_of),
                enough: helper::enough(takes_turns),
                patience: settings.report_data.then_some(settings.patience),
                stop: AtomicBool::new(false),
            }),
            io: settings.io,
            helpers: None,
            helper_count,
            takes_turns,
            next_lane: 0,
            chunks: 0,
            without_room: 0,
            inline_payloads: 0,
            not_unpacked: 0,
            headers: 0,
            flushed: 0,
            last_header: [0; SLOTS_MAX],
            inline: None,
            held_bytes: 0,
            delayed: None,
            unpack,
            stage,
            landing,
            gpu,
            stall: Stall::default(),
            faults,
        }
    }

    /// The first request.
    pub(crate) fn requests(&self) -> *mut Request {
        self.requests
    }

    /// The request of a slot.
    pub(crate) fn request(&mut self, slot: usize) -> &mut Request {
        // SAFETY: `&mut self` keeps every other borrow of ours away, and the
        // caller reads between calls.
        unsafe { &mut *self.place(slot) }
    }

    /// Swaps the requests of two slots, neither of which has started.
    pub(crate) fn swap_requests(&mut self, one: usize, other: usize) {
        let first = *self.request(one);
        *self.request(one) = *self.request(other);
        *self.request(other) = first;
    }

    fn pointer(&self, slot: usize) -> *mut c_void {
        self.place(slot).cast()
    }

    fn place(&self, slot: usize) -> *mut Request {
        // SAFETY: one of those in our block.
        unsafe { self.requests.add(slot % REQUESTS) }
    }

    /// `isend` and `irecv`: queues the request and does nothing else.
    pub(crate) fn post(&mut self, side: Side, buffer: &Buffer) -> Result<*mut c_void, Failed> {
        let length = self.check_post(side, buffer)?;
        let Some(slot) = self.queue.take(Step::Post) else {
            if self.plugin.settings.is_plain() {
                return Ok(std::ptr::null_mut());
            }
            warning!(c"softPost", "{PRODUCT} : unable to allocate requests");
            return Err(REFUSED);
        };
        self.place_buffer(slot, side, buffer, length)?;
        self.groups.open(slot, buffer.tag);
        Ok(self.pointer(slot))
    }

    /// Plain flavour: posts a receive of one to [`GROUP_MAX`] buffers, all or none.
    pub(crate) fn post_group(&mut self, buffers: &[Buffer]) -> Result<*mut c_void, Failed> {
        let mut lengths = [0; GROUP_MAX];
        for (length, buffer) in lengths.iter_mut().zip(buffers) {
            *length = self.check_post(Side::Recv, buffer)?;
        }
        if self.queue.free() < buffers.len() {
            return Ok(std::ptr::null_mut());
        }
        let mut first = None;
        for (length, buffer) in lengths.into_iter().zip(buffers) {
            let Some(slot) = self.queue.take(Step::Post) else {
                return Err(REFUSED);
            };
            self.place_buffer(slot, Side::Recv, buffer, length)?;
            match first {
                None => self.groups.open(slot, buffer.tag),
                Some(request) => self.groups.add(request, slot, buffer.tag),
            }
            first = first.or(Some(slot));
        }
        first.map(|slot| self.pointer(slot)).ok_or(REFUSED)
    }

    /// Checks a buffer and returns its number of bytes.
    fn check_post(
        &self,
        side: Side,
        &Buffer {
            data, size, region, ..
        }: &Buffer,
    ) -> Result<usize, Failed> {
        let function = c"softPost";
        if side != self.side {
            warning!(
                function,
                "{PRODUCT} : {} on a comm of the other side, {:#x}",
                word(side),
                self.address
            );
            return Err(REFUSED);
        }
        let Ok(length) = usize::try_from(size) else {
            warning!(function, "{PRODUCT} : {} of {size} bytes", word(side));
            return Err(REFUSED);
        };
        if data.is_null() && size > 0 {
            warning!(
                function,
                "{PRODUCT} : {} of {size} bytes at a null pointer",
                word(side)
            );
            return Err(REFUSED);
        }
        if region.kind != tcpx_abi::PTR_HOST && !region.contains(data as usize, length) {
            warning!(
                function,
                "{PRODUCT} : {data:p} and {size} bytes lie outside the registration"
            );
            return Err(REFUSED);
        }
        Ok(length)
    }

    fn place_buffer(
        &mut self,
        slot: usize,
        side: Side,
        buffer: &Buffer,
        length: usize,
    ) -> Result<(), Failed> {
        let &Buffer {
            data, size, region, ..
        } = buffer;
        let request = self.request(slot);
        request.data = data;
        request.op = if side == Side::Send { SEND } else { RECV };
        request.mem_type = region.kind;
        request.next_sock_id = 0;
        request.next_size = 0;
        request.offset = 0;
        request.size = size;
        request.size_pending = if side == Side::Send { size } else { -1 };
        request.gpu_mem_fd = -1;
        request.gpu_mem_off = (data as usize).wrapping_sub(region.base) as c_int;
        request.slot.active = 0;
        if region.kind != tcpx_abi::PTR_HOST
            && let Some(stage) = &mut self.stage
        {
            stage.fetch(slot, data as u64, length)?;
        }
        Ok(())
    }

    /// `test`: advances the comm by one step, then the oldest request determines the answer.
    pub(crate) fn test(&mut self, slot: usize) -> Result<bool, Failed> {
        self.progress()?;
        let Some(front) = self.queue.oldest(State::Transmitting) else {
            return Ok(false);
        };
        if front != slot {
            let send = i32::from(self.side == Side::Send);
            let (given, expected) = (self.pointer(slot), self.pointer(front));
            warning!(
                c"softTest",
                "{PRODUCT} : test called with invalid request, send {send}, r {given:p}, ni {expected:p}"
            );
            return Err(REFUSED);
        }
        if self.request(front).size_pending != 0 {
            return Ok(false);
        }
        match self.side {
            Side::Send => Ok(self.finish_send(front)),
            Side::Recv => self.finish_recv(front),
        }
    }

    /// `test` of the plain flavour: takes any request in any order. A request is done once all
    /// its buffers are.
    pub(crate) fn test_any(&mut self, request: usize) -> Result<bool, Failed> {
        self.progress()?;
        if request >= SLOTS_MAX {
            return self
                .landing
                .as_mut()
                .map_or(Ok(false), |landing| landing.finish(request - SLOTS_MAX));
        }
        if !self.groups.is_open(request) {
            return Ok(false);
        }
        let mut whole = 0;
        for slot in self.groups.slots(request) {
            if !self.is_whole(slot) {
                return Ok(false);
            }
            whole |= 1 << slot;
        }
        self.answered |= whole;
        self.groups.close(request);
        self.land(request);
        self.release_answered();
        Ok(true)
    }

    /// Moves messages that arrived for device memory to the list of messages to flush.
    fn land(&mut self, request: usize) {
        let Some(mut landing) = self.landing.take() else {
            return;
        };
        for slot in self.groups.slots(request) {
            landing.arrived(slot, self.request(slot).data);
        }
        self.landing = Some(landing);
    }

    /// `iflush` of the plain flavour. Null if there is nothing to flush.
    pub(crate) fn flush(&mut self, places: &[*mut c_void]) -> Result<*mut c_void, Failed> {
        let begun = self
            .landing
            .as_mut()
            .map_or(Ok(None), |landing| landing.flush(places))?;
        Ok(begun.map_or(std::ptr::null_mut(), |flush| {
            self.pointer(SLOTS_MAX + flush)
        }))
    }

    fn is_whole(&mut self, slot: usize) -> bool {
        self.queue.is_in(slot, State::Transmitting)
            && self.request(slot).size_pending == 0
            && (self.side == Side::Recv || self.is_announced(slot))
    }

    /// Frees slots in posting order, except those whose request the caller still waits for.
    fn release_answered(&mut self) {
        let may_go = |comm: &Self, slot: &usize| {
            comm.answered >> slot & 1 == 1 && !comm.groups.is_open(*slot)
        };
        while let Some(front) = self
            .queue
            .oldest(State::Transmitting)
            .filter(|front| may_go(self, front))
        {
            self.answered &= !(1 << front);
            self.queue.take(Step::Finish);
            self.queue.take(Step::Release);
        }
    }

    /// Calls `tell` with the bytes of each buffer of a request that `test_any` has just
    /// reported done.
    pub(crate) fn sizes(&mut self, request: usize, mut tell: impl FnMut(usize, c_int)) {
        if request >= SLOTS_MAX {
            return;
        }
        for (place, slot) in self.groups.slots(request).enumerate() {
            tell(place, self.request(slot).size);
        }
    }

    fn progress(&mut self) -> Result<(), Failed> {
        if let Some(faults) = &self.faults
            && faults.stopped(self.chunks)
            && !self.lanes.all.iter().any(Lane::has_work)
            && self.ctrl.is_flushed()
        {
            return self.reap();
        }
        match self.side {
            Side::Send => self.progress_send(),
            Side::Recv => self.progress_recv(),
        }
    }

    /// Whether a request is not yet completely assigned to tasks.
    pub(crate) fn has_unassigned(&self) -> bool {
        self.queue
            .oldest(State::Active)
            .or(self.queue.oldest(State::Posted))
            .is_some()
    }

    /// Moves bytes once on every data socket, unless helper threads do.
    pub(crate) fn move_data(&mut self) {
        self.held_bytes = 0;
        if self.helpers.is_some() {
            return;
        }
        for lane in self.lanes.all.iter().filter(|lane| lane.has_work()) {
            // SAFETY: without a helper this thread is the only mover, and the
            // memory of posted requests is valid until they are done.
            unsafe { pump(&self.lanes, lane) };
        }
    }

    /// Wakes the helper threads, if there are any, after a task was assigned.
    pub(crate) fn alert(&mut self) -> Result<(), Failed> {
        if self.io == Io::Auto {
            self.choose_io();
        }
        if self.io == Io::Inline {
            return Ok(());
        }
        if self.helpers.is_none() {
            let count = self.helper_count;
            let is_only = count == 1 && self.plugin.settings.is_plain();
            let polls_long = is_only || self.takes_turns;
            let spins = helper::spins(self.plugin.cpus, block::count() * count, polls_long);
            let helpers = Helpers::start(Arc::clone(&self.lanes), count, spins);
            self.helpers = Some(helpers.map_err(|error| {
                warning!(c"softHelper", "{PRODUCT} : no helper thread: {error}");
                BROKEN
            })?);
        }
        self.helpers.iter().for_each(Helpers::wake);
        Ok(())
    }

    fn choose_io(&mut self) {
        let (cpus, comms) = (self.plugin.cpus, block::count());
        self.io = helper::choose(cpus, comms);
        let choice = if self.io == Io::Helper {
            "helper"
        } else {
            "inline"
        };
        note!(
            NET,
            c"softHelper",
            "{PRODUCT} : comm {:#x} io auto: {choice}, {comms} comms and {cpus} CPUs in this process",
            self.address
        );
    }

    /// Records the tasks that were finished.
    pub(crate) fn reap(&mut self) -> Result<(), Failed> {
        let mut arrived = 0_u64;
        for index in 0..self.lanes.all.len() {
            while let Some(task) = self.lanes.all[index].reap() {
                match self.side {
                    Side::Send => self.sent[index] += task.length as u64,
                    Side::Recv => {
                        self.received(&task);
                        arrived |= 1 << task.slot;
                    }
                }
                self.request(task.slot).size_pending -= task.length as c_int;
            }
        }
        self.fetch(arrived)
    }

    /// The size of a request, which is all that TCPX's `iflush` returns.
    pub(crate) fn size_of(&mut self, slot: usize) -> c_int {
        self.request(slot).size
    }

    /// `closeSend` and `closeRecv`: closes the comm and drops outstanding requests.
    pub(crate) fn close(mut self) {
        if let Some(helpers) = self.helpers.take() {
            helpers.end();
        }
        let function = c"softClose";
        if let Some(unpack) = &self.unpack {
            let (head, tail) = unpack.head_and_tail();
            note!(NET, function, "head {head} tail {tail}");
            if head != tail {
                warning!(
                    function,
                    "head {head} tail {tail} some pages not yet freed?"
                );
            }
        }
        for (index, bytes) in self
            .sent
            .iter()
            .enumerate()
            .filter(|(_, bytes)| **bytes > 0)
        {
            note!(
                NET,
                function,
                "Socket {index} total bytes: {bytes}, passive = 0"
            );
        }
        note!(
            NET,
            function,
            "All bytes: {}",
            self.sent.iter().sum::<u64>()
        );
    }
}

fn word(side: Side) -> &'static str {
    match side {
        Side::Send => "isend",
        Side::Recv => "irecv",
    }
}

fn name_of(device: &Device) -> String {
    device.interface.name.clone()
}

/// `<local><port>->...`, with the local end first on both sides.
pub(crate) fn flow(stream: &TcpStream, side: Side) -> String {
    let end = |address: std::io::Result<std::net::SocketAddr>| match address {
        Ok(address) => format!("{}<{}>", address.ip(), address.port()),
        Err(_) => "<0>".to_owned(),
    };
    let (local, remote) = (end(stream.local_addr()), end(stream.peer_addr()));
    match side {
        Side::Send => format!("{local}->{remote} tx"),
        Side::Recv => format!("{local}<-{remote} rx"),
    }
}
