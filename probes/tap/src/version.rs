//! The functions of a recorded table, written once for every version whose
//! calls differ in types only.

/// `$abi` is the module of `tcpx_abi`, `$size` the type of `regMr`'s size,
/// `$loggers` the first logger of this version's tables.
macro_rules! tap_version {
    ($abi:path, $size:ty, $loggers:literal) => {
        use std::ffi::{c_int, c_void};
        use std::ptr;
        use std::sync::Arc;
        use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
        use tcpx_abi::{LoggerArg, NET_DEVICE_UNPACK, ResultCode, result::INTERNAL_ERROR};
        use tcpx_recorder::Recorder;
        use tcpx_recorder::format::Call;
        use $abi as abi;
        use $crate::book::{Book, Post, RawDevice, Tap};
        use $crate::{TAPS_MAX, TooManyTaps};

        /// What the functions with constant `I` record for.
        struct Wrapped {
            net: &'static abi::Net,
            book: Book,
        }

        static WRAPPED: [AtomicPtr<Wrapped>; TAPS_MAX] = [const { AtomicPtr::new(ptr::null_mut()) }; TAPS_MAX];
        static NEXT: AtomicUsize = AtomicUsize::new(0);

        /// A table that does what `inner` does and records it. The state behind
        /// it is never freed; neither is the recorder, so remove its file with
        /// [`Recorder::remove`] when done.
        ///
        /// # Errors
        /// This process has wrapped [`TAPS_MAX`] tables of this version.
        pub fn wrap(
            inner: &'static abi::Net,
            recorder: Arc<Recorder>,
        ) -> Result<(&'static abi::Net, Tap), TooManyTaps> {
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
            let wrapped: &'static Wrapped = Box::leak(Box::new(Wrapped { net: inner, book: Book::new(recorder) }));
            WRAPPED[index].store(ptr::from_ref(wrapped).cast_mut(), Ordering::Release);
            Ok((Box::leak(Box::new(make(inner))), Tap { book: &wrapped.book }))
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
                reg_mr_dma_buf: inner.reg_mr_dma_buf.and(Some(reg_mr_dma_buf::<I>)),
                dereg_mr: inner.dereg_mr.and(Some(dereg_mr::<I>)),
                isend: inner.isend.and(Some(isend::<I>)),
                irecv: inner.irecv.and(Some(irecv::<I>)),
                iflush: inner.iflush.and(Some(iflush::<I>)),
                test: inner.test.and(Some(test::<I>)),
                close_send: inner.close_send.and(Some(close_send::<I>)),
                close_recv: inner.close_recv.and(Some(close_recv::<I>)),
                close_listen: inner.close_listen.and(Some(close_listen::<I>)),
                get_device_mr: inner.get_device_mr.and(Some(get_device_mr::<I>)),
                irecv_consumed: inner.irecv_consumed.and(Some(irecv_consumed::<I>)),
            }
        }

        /// The table of a tap that has no plugin: `init` says why to the logger it
        /// is given, and every call is refused.
        pub const fn without_plugin() -> abi::Net {
            abi::Net {
                name: c"tcpxtap-without-plugin".as_ptr(),
                init: Some($crate::refuse::init),
                devices: Some(refused::devices),
                get_properties: Some(refused::get_properties),
                listen: Some(refused::listen),
                connect: Some(refused::connect),
                accept: Some(refused::accept),
                reg_mr: Some(refused::reg_mr),
                reg_mr_dma_buf: None,
                dereg_mr: Some(refused::dereg_mr),
                isend: Some(refused::isend),
                irecv: Some(refused::irecv),
                iflush: Some(refused::iflush),
                test: Some(refused::test),
                close_send: Some(refused::close),
                close_recv: Some(refused::close),
                close_listen: Some(refused::close),
                get_device_mr: None,
                irecv_consumed: None,
            }
        }

        $crate::refuse::calls! { abi, $size }

        /// The inner function and the book to write in. `None` cannot happen: a
        /// table with constant `I` exists only once its state is there, and has
        /// only the members that the inner one has.
        #[inline]
        fn inner<const I: usize, F>(member: impl FnOnce(&abi::Net) -> Option<F>) -> Option<(F, &'static Book)> {
            // SAFETY: null, or leaked by `wrap` and never changed since.
            let wrapped: &'static Wrapped = unsafe { WRAPPED[I].load(Ordering::Acquire).as_ref() }?;
            Some((member(wrapped.net)?, &wrapped.book))
        }

        unsafe extern "C" fn init<const I: usize>(logger: LoggerArg) -> ResultCode {
            let Some((init, book)) = inner::<I, _>(|net| net.init) else { return INTERNAL_ERROR };
            let logger = $crate::logger::interpose($loggers + I, book, logger);
            // SAFETY: a logger as the caller's, whose lines go there too.
            book.setup(Call::Init, || unsafe { init(logger) })
        }

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
                    device_type: props.net_device_type,
                };
                // SAFETY: the strings are the plugin's and stay.
                unsafe { book.device(dev, &raw) };
            }
            code
        }

        unsafe extern "C" fn listen<const I: usize>(
            dev: c_int,
            handle: *mut c_void,
            comm: *mut *mut c_void,
        ) -> ResultCode {
            let Some((listen, book)) = inner::<I, _>(|net| net.listen) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { listen(dev, handle, comm) };
            // SAFETY: `comm` is the caller's to be written, `handle` the caller's connect handle.
            unsafe { book.appears(Call::Listen, dev, handle, comm, call) }
        }

        unsafe extern "C" fn connect<const I: usize>(
            dev: c_int,
            handle: *mut c_void,
            comm: *mut *mut c_void,
            device_handle: *mut *mut abi::DeviceHandle,
        ) -> ResultCode {
            let Some((connect, book)) = inner::<I, _>(|net| net.connect) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { connect(dev, handle, comm, device_handle) };
            // SAFETY: `comm` is the caller's to be written, `handle` the caller's connect handle.
            unsafe { book.appears(Call::Connect, dev, handle, comm, call) }
        }

        unsafe extern "C" fn accept<const I: usize>(
            listener: *mut c_void,
            comm: *mut *mut c_void,
            device_handle: *mut *mut abi::DeviceHandle,
        ) -> ResultCode {
            let Some((accept, book)) = inner::<I, _>(|net| net.accept) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { accept(listener, comm, device_handle) };
            // SAFETY: asked after a delivery, when a handle that was given is filled in.
            let unpacks = || unsafe { is_unpack(device_handle) };
            // SAFETY: `comm` is the caller's to be written.
            unsafe { book.accept(listener, comm, unpacks, call) }
        }

        /// # Safety
        /// Null, or a pointer to null or to a device handle.
        unsafe fn is_unpack(device_handle: *const *mut abi::DeviceHandle) -> bool {
            // SAFETY: as promised to this function.
            let Some(handle) = (unsafe { device_handle.as_ref() }) else { return false };
            // SAFETY: as promised to this function.
            let Some(handle) = (unsafe { handle.as_ref() }) else { return false };
            handle.net_device_type == NET_DEVICE_UNPACK
        }

        unsafe extern "C" fn reg_mr<const I: usize>(
            comm: *mut c_void,
            data: *mut c_void,
            size: $size,
            kind: c_int,
            mhandle: *mut *mut c_void,
        ) -> ResultCode {
            let Some((reg_mr, book)) = inner::<I, _>(|net| net.reg_mr) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            book.on_comm(comm, Call::RegMr, || unsafe { reg_mr(comm, data, size, kind, mhandle) })
        }

        unsafe extern "C" fn reg_mr_dma_buf<const I: usize>(
            comm: *mut c_void,
            data: *mut c_void,
            size: usize,
            kind: c_int,
            offset: u64,
            fd: c_int,
            mhandle: *mut *mut c_void,
        ) -> ResultCode {
            let Some((reg_mr, book)) = inner::<I, _>(|net| net.reg_mr_dma_buf) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { reg_mr(comm, data, size, kind, offset, fd, mhandle) };
            book.on_comm(comm, Call::RegMrDmaBuf, call)
        }

        unsafe extern "C" fn dereg_mr<const I: usize>(comm: *mut c_void, mhandle: *mut c_void) -> ResultCode {
            let Some((dereg_mr, book)) = inner::<I, _>(|net| net.dereg_mr) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            book.on_comm(comm, Call::DeregMr, || unsafe { dereg_mr(comm, mhandle) })
        }

        unsafe extern "C" fn isend<const I: usize>(
            comm: *mut c_void,
            data: *mut c_void,
            size: c_int,
            tag: c_int,
            mhandle: *mut c_void,
            request: *mut *mut c_void,
        ) -> ResultCode {
            let Some((isend, book)) = inner::<I, _>(|net| net.isend) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { isend(comm, data, size, tag, mhandle, request) };
            // SAFETY: `request` is the caller's to be written.
            unsafe { book.post(comm, Post::send(size), request, call) }
        }

        unsafe extern "C" fn irecv<const I: usize>(
            comm: *mut c_void,
            n: c_int,
            data: *mut *mut c_void,
            sizes: *mut c_int,
            tags: *mut c_int,
            mhandles: *mut *mut c_void,
            request: *mut *mut c_void,
        ) -> ResultCode {
            let Some((irecv, book)) = inner::<I, _>(|net| net.irecv) else { return INTERNAL_ERROR };
            // SAFETY: the caller's array of `n` sizes.
            let post = unsafe { Post::recv(n, sizes) };
            // SAFETY: the caller's arguments, as they came.
            let call = || unsafe { irecv(comm, n, data, sizes, tags, mhandles, request) };
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

        unsafe extern "C" fn get_device_mr<const I: usize>(
            comm: *mut c_void,
            mhandle: *mut c_void,
            device_mhandle: *mut *mut c_void,
        ) -> ResultCode {
            let Some((get, book)) = inner::<I, _>(|net| net.get_device_mr) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            book.on_comm(comm, Call::GetDeviceMr, || unsafe { get(comm, mhandle, device_mhandle) })
        }

        unsafe extern "C" fn irecv_consumed<const I: usize>(
            comm: *mut c_void,
            n: c_int,
            request: *mut c_void,
        ) -> ResultCode {
            let Some((consumed, book)) = inner::<I, _>(|net| net.irecv_consumed) else { return INTERNAL_ERROR };
            // SAFETY: the caller's arguments, as they came.
            book.consumed(comm, || unsafe { consumed(comm, n, request) })
        }
    };
}
