//! The functions of a recorded table, generated for every version from its shape in `tcpx_abi`.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

/// `init`, by its arguments.
macro_rules! tap_init {
    (logger) => {
        unsafe extern "C" fn init<const I: usize>(logger: LoggerArg) -> ResultCode {
            let Some((init, book)) = inner::<I, _>(|net| net.init) else {
                return INTERNAL_ERROR;
            };
            let logger = $crate::logger::interpose(FIRST_LOGGER + I, book, logger);
            // SAFETY: a logger as the caller's, whose lines go there too.
            let code = book.setup(Call::Init, || unsafe { init(logger) });
            refresh::<I>();
            code
        }
    };
    (profiled) => {
        unsafe extern "C" fn init<const I: usize>(
            logger: LoggerArg,
            profiler: tcpx_abi::ProfilerArg,
        ) -> ResultCode {
            let Some((init, book)) = inner::<I, _>(|net| net.init) else {
                return INTERNAL_ERROR;
            };
            let logger = $crate::logger::interpose(FIRST_LOGGER + I, book, logger);
            // SAFETY: a logger as the caller's, whose lines go there too.
            let code = book.setup(Call::Init, || unsafe { init(logger, profiler) });
            refresh::<I>();
            code
        }
    };
    (context) => {
        unsafe extern "C" fn init<const I: usize>(
            context: *mut *mut c_void,
            id: u64,
            config: *mut abi::CommConfig,
            logger: LoggerArg,
            profiler: tcpx_abi::ProfilerArg,
        ) -> ResultCode {
            let Some((init, book)) = inner::<I, _>(|net| net.init) else {
                return INTERNAL_ERROR;
            };
            let logger = $crate::logger::interpose(FIRST_LOGGER + I, book, logger);
            // SAFETY: a logger as the caller's, whose lines go there too.
            let code = book.setup(Call::Init, || unsafe {
                init(context, id, config, logger, profiler)
            });
            refresh::<I>();
            code
        }
    };
}

/// `irecv` and `iflush`, for one buffer or several.
macro_rules! tap_receive {
    ($size:ty, single) => {
        unsafe extern "C" fn irecv<const I: usize>(
            comm: *mut c_void,
            data: *mut c_void,
            size: $size,
            mhandle: *mut c_void,
            request: *mut *mut c_void,
        ) -> ResultCode {
            let Some((irecv, book)) = inner::<I, _>(|net| net.irecv) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { irecv(comm, data, size, mhandle, request) };
            // SAFETY: one size, of ours.
            let post = unsafe { Post::recv(1, &raw const size) };
            // SAFETY: `request` is the caller's to be written.
            unsafe { book.post(comm, post, request, call) }
        }

        unsafe extern "C" fn iflush<const I: usize>(
            comm: *mut c_void,
            data: *mut c_void,
            size: c_int,
            mhandle: *mut c_void,
            request: *mut *mut c_void,
        ) -> ResultCode {
            let Some((iflush, book)) = inner::<I, _>(|net| net.iflush) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { iflush(comm, data, size, mhandle, request) };
            // SAFETY: `request` is the caller's to be written.
            unsafe { book.flush(comm, request, call) }
        }
    };
    ($size:ty, grouped $($phandles:ident)?) => {
        unsafe extern "C" fn irecv<const I: usize>(
            comm: *mut c_void,
            n: c_int,
            data: *mut *mut c_void,
            sizes: *mut $size,
            tags: *mut c_int,
            mhandles: *mut *mut c_void,
            $($phandles: *mut *mut c_void,)?
            request: *mut *mut c_void,
        ) -> ResultCode {
            let Some((irecv, book)) = inner::<I, _>(|net| net.irecv) else { return INTERNAL_ERROR };
            // SAFETY: the caller's array of `n` sizes.
            let post = unsafe { Post::recv(n, sizes) };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { irecv(comm, n, data, sizes, tags, mhandles, $($phandles,)? request) };
            // SAFETY: `request` is the caller's to be written.
            unsafe { book.post(comm, post, request, call) }
        }

        unsafe extern "C" fn iflush<const I: usize>(
            comm: *mut c_void,
            n: c_int,
            data: *mut *mut c_void,
            sizes: *mut c_int,
            mhandles: *mut *mut c_void,
            request: *mut *mut c_void,
        ) -> ResultCode {
            let Some((iflush, book)) = inner::<I, _>(|net| net.iflush) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { iflush(comm, n, data, sizes, mhandles, request) };
            // SAFETY: `request` is the caller's to be written.
            unsafe { book.flush(comm, request, call) }
        }
    };
}

/// Expands to the value; used where a version has an argument of that name.
macro_rules! where_there_is {
    ($name:ident, $value:expr) => {
        $value
    };
}

macro_rules! tap_version {
    ($v:ident $variant:ident $number:literal $symbol:ident properties($($property:ident)*)
     widths($reg:ty, $size:ty) init($init:ident) context($($context:ident)?) config($($config:ident)?)
     device($($device:ident)?) tag($($tag:ident)?) phandle($($phandle:ident)?) receive($($receive:ident)+)
     members(($($dma:ident)?) ($($device_mr:ident)?) ($($consumed:ident)?) ($($merge:ident)?)
     ($($finalize:ident)?) ($($attributes:ident)?))) => {
        #[doc = concat!("Records calls through `ncclNet_", stringify!($v), "_t`.")]
        pub mod $v {
            use std::ffi::{c_int, c_void};
            use std::ptr;
            use std::sync::Arc;
            use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
            use tcpx_abi::{$v as abi, LoggerArg, ResultCode, result::INTERNAL_ERROR};
            #[allow(unused_imports, reason = "not every version has calls that are not recorded")]
            use tcpx_abi::uncaught::ends_here;
            use tcpx_recorder::Recorder;
            use tcpx_recorder::format::Call;
            use $crate::book::{Book, Post, RawDevice, Tap};
            use $crate::{TAPS_MAX, TooManyTaps};

            /// Index of the logger of this version's first table; the others follow.
            const FIRST_LOGGER: usize = (tcpx_abi::VERSIONS[0] - $number) as usize * TAPS_MAX;

            /// The state of one wrapped table.
            struct Wrapped {
                /// The plugin's table, which the plugin may fill as late as in `init`.
                source: *const abi::Net,
                /// The table that is called: `source`, or a later copy of it.
                net: AtomicPtr<abi::Net>,
                /// The table given to the program.
                given: *mut abi::Net,
                make: fn(&abi::Net) -> abi::Net,
                book: Book,
            }

            static WRAPPED: [AtomicPtr<Wrapped>; TAPS_MAX] = [const { AtomicPtr::new(ptr::null_mut()) }; TAPS_MAX];
            static NEXT: AtomicUsize = AtomicUsize::new(0);

            /// Returns a table that passes all calls on to `inner` and records them. Its
            /// state and the recorder are never freed, so remove the recorder's file with
            /// [`Recorder::remove`] when done.
            ///
            /// # Errors
            /// The process has already wrapped [`TAPS_MAX`] tables of this version.
            pub fn wrap(
                inner: &'static abi::Net,
                recorder: Arc<Recorder>,
            ) -> Result<(&'static abi::Net, Tap), TooManyTaps> {
                let given = ptr::from_mut(Box::leak(Box::new(without_plugin())));
                // SAFETY: a place of its own, which nobody else knows.
                let tap = unsafe { wrap_into(inner, recorder, given) }?;
                // SAFETY: whole from here on; only `init` may write it once more.
                Ok((unsafe { &*given }, tap))
            }

            /// As [`wrap`], but writes the table to `given`.
            ///
            /// # Safety
            /// `given` points to a table that no thread reads yet and that is never freed.
            pub(crate) unsafe fn wrap_into(
                inner: *const abi::Net,
                recorder: Arc<Recorder>,
                given: *mut abi::Net,
            ) -> Result<Tap, TooManyTaps> {
                let index = NEXT.fetch_add(1, Ordering::Relaxed);
                let make = match index {
                    0 => table::<0>,
                    1 => table::<1>,
                    2 => table::<2>,
                    3 => table::<3>,
                    _ => {
                        NEXT.store(TAPS_MAX, Ordering::Relaxed);
                        return Err(TooManyTaps);
                    }
                };
                let net = AtomicPtr::new(inner.cast_mut());
                let wrapped: &'static Wrapped =
                    Box::leak(Box::new(Wrapped { source: inner, net, given, make, book: Book::new(recorder) }));
                WRAPPED[index].store(ptr::from_ref(wrapped).cast_mut(), Ordering::Release);
                // SAFETY: the plugin's table, as promised to this function.
                let made = make(unsafe { &*inner });
                // SAFETY: as promised to this function.
                unsafe { given.write(made) };
                Ok(Tap { book: &wrapped.book })
            }

            /// After `init`, adds the members that the plugin has filled in there.
            #[cold]
            fn refresh<const I: usize>() {
                // SAFETY: null, or leaked by `wrap`.
                let Some(wrapped) = (unsafe { WRAPPED[I].load(Ordering::Acquire).as_ref() }) else { return };
                // SAFETY: the plugin's table; volatile, because it may have been written since.
                let now = unsafe { wrapped.source.read_volatile() };
                // SAFETY: what the program was given.
                let given = unsafe { wrapped.given.read_volatile() };
                if !has_more(&now, &given) {
                    return;
                }
                wrapped.net.store(Box::leak(Box::new(now)), Ordering::Release);
                // SAFETY: nobody calls anything else of a plugin while its `init` runs.
                unsafe { wrapped.given.write_volatile((wrapped.make)(&now)) };
            }

            /// Whether `now` has members that are null in `then`.
            fn has_more(now: &abi::Net, then: &abi::Net) -> bool {
                let words = |table: &abi::Net| {
                    let place = ptr::from_ref(table).cast::<usize>();
                    // SAFETY: a table is nothing but pointers.
                    unsafe { std::slice::from_raw_parts(place, size_of::<abi::Net>() / size_of::<usize>()) }
                        .iter()
                        .map(|word| *word != 0)
                        .collect::<Vec<_>>()
                };
                words(now) != words(then)
            }

            fn table<const I: usize>(inner: &abi::Net) -> abi::Net {
                abi::Net {
                    name: inner.name,
                    init: inner.init.and(Some(init::<I>)),
                    devices: inner.devices.and(Some(devices::<I>)),
                    get_properties: inner.get_properties.and(Some(get_properties::<I>)),
                    listen: inner.listen.and(Some(listen::<I>)),
                    connect: inner.connect.and(Some(connect::<I>)),
                    accept: inner.accept.and(Some(accept::<I>)),
                    reg_mr: inner.reg_mr.and(Some(reg_mr::<I>)),
                    $($dma: inner.$dma.and(Some($dma::<I>)),)?
                    dereg_mr: inner.dereg_mr.and(Some(dereg_mr::<I>)),
                    isend: inner.isend.and(Some(isend::<I>)),
                    irecv: inner.irecv.and(Some(irecv::<I>)),
                    iflush: inner.iflush.and(Some(iflush::<I>)),
                    test: inner.test.and(Some(test::<I>)),
                    close_send: inner.close_send.and(Some(close_send::<I>)),
                    close_recv: inner.close_recv.and(Some(close_recv::<I>)),
                    close_listen: inner.close_listen.and(Some(close_listen::<I>)),
                    $($device_mr: inner.$device_mr.and(Some($device_mr::<I>)),)?
                    $($consumed: inner.$consumed.and(Some($consumed::<I>)),)?
                    $($merge: inner.$merge.and(Some($merge::<I>)),)?
                    $($finalize: inner.$finalize.and(Some($finalize::<I>)),)?
                    $($attributes: inner.$attributes.and(Some($attributes::<I>)),)?
                }
            }

            /// The table of a tap without a plugin: `init` logs the reason, and every call
            /// fails.
            pub const fn without_plugin() -> abi::Net {
                abi::Net {
                    name: c"tcpxtap-without-plugin".as_ptr(),
                    init: Some(refused::init),
                    devices: Some(refused::devices),
                    get_properties: Some(refused::get_properties),
                    listen: Some(refused::listen),
                    connect: Some(refused::connect),
                    accept: Some(refused::accept),
                    reg_mr: Some(refused::reg_mr),
                    $($dma: None,)?
                    dereg_mr: Some(refused::dereg_mr),
                    isend: Some(refused::isend),
                    irecv: Some(refused::irecv),
                    iflush: Some(refused::iflush),
                    test: Some(refused::test),
                    close_send: Some(refused::close),
                    close_recv: Some(refused::close),
                    close_listen: Some(refused::close),
                    $($device_mr: None,)?
                    $($consumed: None,)?
                    $($merge: None,)?
                    $($finalize: Some(refused::finalize),)?
                    $($attributes: None,)?
                }
            }

            $crate::refuse::calls! { $v widths($reg, $size) init($init) context($($context)?) config($($config)?)
                device($($device)?) tag($($tag)?) phandle($($phandle)?) receive($($receive)+) finalize($($finalize)?) }

            /// The plugin's function and the book to record it in. Never `None` in practice:
            /// a table with constant `I` exists only after its state, and has only the
            /// members of the plugin's table.
            #[inline]
            fn inner<const I: usize, F>(member: impl FnOnce(&abi::Net) -> Option<F>) -> Option<(F, &'static Book)> {
                // SAFETY: null, or leaked by `wrap`.
                let wrapped: &'static Wrapped = unsafe { WRAPPED[I].load(Ordering::Acquire).as_ref() }?;
                // SAFETY: the plugin's table or our picture of it; neither ever goes.
                let net = unsafe { wrapped.net.load(Ordering::Relaxed).as_ref() }?;
                Some((member(net)?, &wrapped.book))
            }

            tap_init!($init);

            unsafe extern "C" fn devices<const I: usize>(count: *mut c_int) -> ResultCode {
                let Some((devices, book)) = inner::<I, _>(|net| net.devices) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                book.setup(Call::Devices, || unsafe { devices(count) })
            }

            unsafe extern "C" fn get_properties<const I: usize>(dev: c_int, props: *mut abi::Properties) -> ResultCode {
                let Some((get_properties, book)) = inner::<I, _>(|net| net.get_properties) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                let code = book.setup(Call::GetProperties, || unsafe { get_properties(dev, props) });
                // SAFETY: null, or the caller's, and just filled in.
                if let (0, Some(props)) = (code, unsafe { props.as_ref() }) {
                    let raw = RawDevice {
                        name: props.name,
                        pci_path: props.pci_path,
                        speed_mbit: props.speed,
                        ptr_support: props.ptr_support,
                        device_type: 0 $(+ where_there_is!($device, props.net_device_type))?,
                    };
                    book.device(dev, &raw);
                }
                code
            }

            unsafe extern "C" fn listen<const I: usize>(
                $($context: *mut c_void,)?
                dev: c_int,
                handle: *mut c_void,
                comm: *mut *mut c_void,
            ) -> ResultCode {
                let Some((listen, book)) = inner::<I, _>(|net| net.listen) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                let call = || unsafe { listen($($context,)? dev, handle, comm) };
                // SAFETY: `comm` is the caller's to be written, `handle` the caller's connect handle.
                unsafe { book.appears(Call::Listen, dev, readable(handle), comm, call) }
            }

            unsafe extern "C" fn connect<const I: usize>(
                $($context: *mut c_void,)?
                dev: c_int,
                $($config: *mut abi::CommConfig,)?
                handle: *mut c_void,
                comm: *mut *mut c_void,
                $($device: *mut *mut abi::DeviceHandle,)?
            ) -> ResultCode {
                let Some((connect, book)) = inner::<I, _>(|net| net.connect) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                let call = || unsafe { connect($($context,)? dev, $($config,)? handle, comm, $($device,)?) };
                // SAFETY: `comm` is the caller's to be written, `handle` the caller's connect handle.
                unsafe { book.appears(Call::Connect, dev, readable(handle), comm, call) }
            }

            /// The handle if it has 128 bytes and may contain addresses; v4's is shorter.
            fn readable(handle: *mut c_void) -> *mut c_void {
                $(return where_there_is!($tag, handle);)?
                #[allow(unreachable_code, reason = "reached in v4")]
                {
                    let _ = handle;
                    ptr::null_mut()
                }
            }

            $(/// Whether the plugin has a call to hand a receive back.
            fn is_consumer<const I: usize>() -> bool {
                where_there_is!($device, inner::<I, _>(|net| net.irecv_consumed).is_some())
            })?

            unsafe extern "C" fn accept<const I: usize>(
                listener: *mut c_void,
                comm: *mut *mut c_void,
                $($device: *mut *mut abi::DeviceHandle,)?
            ) -> ResultCode {
                let Some((accept, book)) = inner::<I, _>(|net| net.accept) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                let call = || unsafe { accept(listener, comm, $($device,)?) };
                // SAFETY: asked after a delivery, when a handle that was given is filled in.
                let unpacks = || false $(|| is_consumer::<I>() && unsafe { $crate::book::is_unpack($device) })?;
                // SAFETY: `comm` is the caller's to be written.
                unsafe { book.accept(listener, comm, unpacks, call) }
            }

            unsafe extern "C" fn reg_mr<const I: usize>(
                comm: *mut c_void,
                data: *mut c_void,
                size: $reg,
                kind: c_int,
                mhandle: *mut *mut c_void,
            ) -> ResultCode {
                let Some((reg_mr, book)) = inner::<I, _>(|net| net.reg_mr) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                book.on_comm(comm, Call::RegMr, || unsafe { reg_mr(comm, data, size, kind, mhandle) })
            }

            $(unsafe extern "C" fn $dma<const I: usize>(
                comm: *mut c_void,
                data: *mut c_void,
                size: usize,
                kind: c_int,
                offset: u64,
                fd: c_int,
                mhandle: *mut *mut c_void,
            ) -> ResultCode {
                let Some((reg_mr, book)) = inner::<I, _>(|net| net.$dma) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                let call = || unsafe { reg_mr(comm, data, size, kind, offset, fd, mhandle) };
                book.on_comm(comm, Call::RegMrDmaBuf, call)
            })?

            unsafe extern "C" fn dereg_mr<const I: usize>(comm: *mut c_void, mhandle: *mut c_void) -> ResultCode {
                let Some((dereg_mr, book)) = inner::<I, _>(|net| net.dereg_mr) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                book.on_comm(comm, Call::DeregMr, || unsafe { dereg_mr(comm, mhandle) })
            }

            unsafe extern "C" fn isend<const I: usize>(
                comm: *mut c_void,
                data: *mut c_void,
                size: $size,
                $($tag: c_int,)?
                mhandle: *mut c_void,
                $($phandle: *mut c_void,)?
                request: *mut *mut c_void,
            ) -> ResultCode {
                let Some((isend, book)) = inner::<I, _>(|net| net.isend) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                let call = || unsafe { isend(comm, data, size, $($tag,)? mhandle, $($phandle,)? request) };
                // SAFETY: `request` is the caller's to be written.
                unsafe { book.post(comm, Post::send(size), request, call) }
            }

            tap_receive!($size, $($receive)+);

            unsafe extern "C" fn test<const I: usize>(
                request: *mut c_void,
                done: *mut c_int,
                sizes: *mut c_int,
            ) -> ResultCode {
                let Some((test, book)) = inner::<I, _>(|net| net.test) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                let call = || unsafe { test(request, done, sizes) };
                // SAFETY: `done` and `sizes` are the caller's to be written.
                unsafe { book.test(request, done, sizes, call) }
            }

            unsafe extern "C" fn close_send<const I: usize>(comm: *mut c_void) -> ResultCode {
                let Some((close, book)) = inner::<I, _>(|net| net.close_send) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                book.close(comm, Call::CloseSend, || unsafe { close(comm) })
            }

            unsafe extern "C" fn close_recv<const I: usize>(comm: *mut c_void) -> ResultCode {
                let Some((close, book)) = inner::<I, _>(|net| net.close_recv) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                book.close(comm, Call::CloseRecv, || unsafe { close(comm) })
            }

            unsafe extern "C" fn close_listen<const I: usize>(comm: *mut c_void) -> ResultCode {
                let Some((close, book)) = inner::<I, _>(|net| net.close_listen) else { return INTERNAL_ERROR };
                // SAFETY: the caller's arguments, as they came.
                book.close(comm, Call::CloseListen, || unsafe { close(comm) })
            }

            $(
                unsafe extern "C" fn $device_mr<const I: usize>(
                    comm: *mut c_void,
                    mhandle: *mut c_void,
                    device_mhandle: *mut *mut c_void,
                ) -> ResultCode {
                    let Some((get, book)) = inner::<I, _>(|net| net.$device_mr) else { return INTERNAL_ERROR };
                    // SAFETY: the caller's arguments, as they came.
                    book.on_comm(comm, Call::GetDeviceMr, || unsafe { get(comm, mhandle, device_mhandle) })
                }
            )?

            $(
                unsafe extern "C" fn $consumed<const I: usize>(
                    comm: *mut c_void,
                    n: c_int,
                    request: *mut c_void,
                ) -> ResultCode {
                    let Some((consumed, book)) = inner::<I, _>(|net| net.$consumed) else { return INTERNAL_ERROR };
                    // SAFETY: the caller's arguments, as they came.
                    book.consumed(comm, || unsafe { consumed(comm, n, request) })
                }
            )?

            // These calls are not about a comm and are not recorded.
            $(
                unsafe extern "C" fn $merge<const I: usize>(dev: *mut c_int, props: *mut abi::VDeviceProps) -> ResultCode {
                    let Some((make, _)) = inner::<I, _>(|net| net.$merge) else { return INTERNAL_ERROR };
                    // SAFETY: the caller's arguments, as they came.
                    ends_here(|| unsafe { make(dev, props) })
                }
            )?

            $(
                unsafe extern "C" fn $finalize<const I: usize>(context: *mut c_void) -> ResultCode {
                    let Some((finalize, _)) = inner::<I, _>(|net| net.$finalize) else { return INTERNAL_ERROR };
                    // SAFETY: the caller's arguments, as they came.
                    ends_here(|| unsafe { finalize(context) })
                }
            )?

            $(
                unsafe extern "C" fn $attributes<const I: usize>(
                    context: *mut c_void,
                    attributes: *mut abi::NetAttr,
                ) -> ResultCode {
                    let Some((set, _)) = inner::<I, _>(|net| net.$attributes) else { return INTERNAL_ERROR };
                    // SAFETY: the caller's arguments, as they came.
                    ends_here(|| unsafe { set(context, attributes) })
                }
            )?
        }
    };
}

tcpx_abi::for_each_version!(tap_version);
