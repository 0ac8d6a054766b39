//! [`super::calls::Calls`] for every ABI version, generated from its shape (see `tcpx_abi`'s
//! list of versions). The code compiles only if shape and transcribed table agree.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

/// Reads a member of the plugin's table at the time of the call.
macro_rules! member {
    ($shim:ident.$member:ident) => {{
        // SAFETY: the table is a library's that is never unloaded.
        let place = unsafe { &raw const (*$shim.0).$member };
        // SAFETY: as above. Volatile, because the plugin may write it inside `init`.
        unsafe { place.read_volatile() }
    }};
}

/// Expands to the expression; used where a version has an argument of that name.
macro_rules! where_there_is {
    ($name:ident, $value:expr) => {
        $value
    };
}

macro_rules! call_init {
    (logger $init:ident $context:ident $logger:ident $profiler:ident) => {{
        let _ = ($context, $profiler);
        // SAFETY: as promised to this function.
        unsafe { $init($logger) }
    }};
    (profiled $init:ident $context:ident $logger:ident $profiler:ident) => {{
        let _ = $context;
        // SAFETY: as promised to this function.
        unsafe { $init($logger, $profiler) }
    }};
    (context $init:ident $context:ident $logger:ident $profiler:ident) => {{
        let mut config = abi::CommConfig {
            traffic_class: tcpx_abi::TRAFFIC_CLASS_UNDEFINED,
        };
        // SAFETY: as promised to this function; the configuration is read before it returns.
        unsafe { $init($context, COMM_ID, &mut config, $logger, $profiler) }
    }};
}

macro_rules! receives {
    ($size:ty, single) => {
        #[inline]
        unsafe fn irecv(
            &self,
            comm: *mut c_void,
            data: *mut c_void,
            size: usize,
            _: *mut c_int,
            mhandle: *mut c_void,
            request: Out,
        ) -> Answer {
            let irecv = member!(self.irecv)?;
            // SAFETY: as promised to this function.
            Some(unsafe { irecv(comm, data, size as $size, mhandle, request) })
        }

        unsafe fn irecv_grouped(
            &self,
            _: *mut c_void,
            _: c_int,
            _: Out,
            _: &[usize; GROUP_MAX],
            _: *mut c_int,
            _: Out,
            _: Out,
        ) -> Answer {
            None
        }

        unsafe fn iflush(
            &self,
            comm: *mut c_void,
            _: c_int,
            data: Out,
            sizes: *mut c_int,
            mhandles: Out,
            request: Out,
        ) -> Answer {
            let iflush = member!(self.iflush)?;
            // SAFETY: each array has at least one element, as promised to this function.
            let data = unsafe { data.read() };
            // SAFETY: as above.
            let size = unsafe { sizes.read() };
            // SAFETY: as above.
            let mhandle = unsafe { mhandles.read() };
            // SAFETY: as promised to this function.
            Some(unsafe { iflush(comm, data, size, mhandle, request) })
        }
    };
    ($size:ty, grouped $($phandles:ident)?) => {
        #[inline]
        unsafe fn irecv(
            &self,
            comm: *mut c_void,
            mut data: *mut c_void,
            size: usize,
            tag: *mut c_int,
            mut mhandle: *mut c_void,
            request: Out,
        ) -> Answer {
            let irecv = member!(self.irecv)?;
            let mut size = size as $size;
            $(let mut $phandles = null_mut();)?
            // SAFETY: one receive, so every array is one element of ours.
            Some(unsafe { irecv(comm, 1, &mut data, &mut size, tag, &mut mhandle, $(&mut $phandles,)? request) })
        }

        unsafe fn irecv_grouped(
            &self,
            comm: *mut c_void,
            n: c_int,
            data: Out,
            sizes: &[usize; GROUP_MAX],
            tags: *mut c_int,
            mhandles: Out,
            request: Out,
        ) -> Answer {
            let irecv = member!(self.irecv)?;
            let mut sizes = sizes.map(|size| size as $size);
            $(let mut $phandles = [null_mut(); GROUP_MAX];)?
            let sizes = sizes.as_mut_ptr();
            // SAFETY: arrays as promised to this function.
            Some(unsafe { irecv(comm, n, data, sizes, tags, mhandles, $($phandles.as_mut_ptr(),)? request) })
        }

        unsafe fn iflush(
            &self,
            comm: *mut c_void,
            n: c_int,
            data: Out,
            sizes: *mut c_int,
            mhandles: Out,
            request: Out,
        ) -> Answer {
            let iflush = member!(self.iflush)?;
            // SAFETY: as promised to this function.
            Some(unsafe { iflush(comm, n, data, sizes, mhandles, request) })
        }
    };
}

/// Calls whose signature is the same in every version.
macro_rules! same_calls {
    ($($name:ident($($argument:ident: $type:ty),*);)+) => {
        $(
            #[inline]
            unsafe fn $name(&self, $($argument: $type),*) -> Answer {
                let $name = member!(self.$name)?;
                // SAFETY: as promised to this function.
                Some(unsafe { $name($($argument),*) })
            }
        )+
    };
}

macro_rules! version_calls {
    ($v:ident $variant:ident $number:literal $symbol:ident properties($($property:ident)*)
     widths($reg:ty, $size:ty) init($init:ident) context($($context:ident)?) config($($config:ident)?)
     device($($device:ident)?) tag($($tag:ident)?) phandle($($phandle:ident)?) receive($($receive:ident)+)
     members(($($dma:ident)?) ($($device_mr:ident)?) ($($consumed:ident)?) ($($merge:ident)?)
     ($($finalize:ident)?) ($($attributes:ident)?))) => {
        pub(super) mod $v {
            use super::super::calls::*;
            use crate::plugin::net::DeviceHandle;
            use std::ffi::{c_char, c_int, c_void};
            #[allow(unused_imports, reason = "not every version has a pointer to leave out")]
            use std::ptr::null_mut;
            use tcpx_abi::{$v as abi, LoggerArg, ProfilerArg, newest};

            /// The plugin's table, in the plugin's memory.
            pub(crate) struct Table(*const abi::Net);

            // SAFETY: functions of a library that stays loaded; ncclNet says which thread may
            // call what and when.
            unsafe impl Send for Table {}
            // SAFETY: as above.
            unsafe impl Sync for Table {}

            impl Table {
                pub(crate) fn new(table: &'static abi::Net) -> Self {
                    Self(table)
                }
            }

            /// The communicator id passed to `init`, for plugins that keep state per communicator.
            #[allow(dead_code, reason = "only versions with a context name their communicator")]
            const COMM_ID: u64 = 0x7c9c_0001;

            impl Version for Table {
                const LIMITS: AbiLimits = AbiLimits {
                    version: $number,
                    symbol: abi::SYMBOL,
                    message_max: <$size>::MAX as usize,
                    registration_max: <$reg>::MAX as usize,
                    groups: $number > 4,
                    asks_again: $number > 4,
                    has_context: $number > 10,
                };
            }

            impl Calls for Table {
                fn limits(&self) -> AbiLimits {
                    Self::LIMITS
                }

                fn name(&self) -> *const c_char {
                    member!(self.name)
                }

                fn missing(&self) -> Option<&'static str> {
                    let absent = [
                        ("init", member!(self.init).is_none()),
                        ("devices", member!(self.devices).is_none()),
                        ("getProperties", member!(self.get_properties).is_none()),
                        ("listen", member!(self.listen).is_none()),
                        ("connect", member!(self.connect).is_none()),
                        ("accept", member!(self.accept).is_none()),
                        ("regMr", member!(self.reg_mr).is_none()),
                        ("deregMr", member!(self.dereg_mr).is_none()),
                        ("isend", member!(self.isend).is_none()),
                        ("irecv", member!(self.irecv).is_none()),
                        ("test", member!(self.test).is_none()),
                        ("closeSend", member!(self.close_send).is_none()),
                        ("closeRecv", member!(self.close_recv).is_none()),
                        ("closeListen", member!(self.close_listen).is_none()),
                    ];
                    absent.iter().find(|(_, absent)| *absent).map(|(member, _)| *member)
                }

                fn consumes(&self) -> bool {
                    false $(|| member!(self.$consumed).is_some())?
                }

                unsafe fn init(&self, context: Out, logger: LoggerArg, profiler: ProfilerArg) -> Answer {
                    let init = member!(self.init)?;
                    Some(call_init!($init init context logger profiler))
                }

                unsafe fn properties(&self, device: c_int, properties: &mut newest::Properties) -> Answer {
                    let get_properties = member!(self.get_properties)?;
                    let mut own = abi::Properties::ZERO;
                    // SAFETY: the struct is this version's own, and ours to write.
                    let code = unsafe { get_properties(device, &mut own) };
                    super::super::properties::$v(&own, properties);
                    Some(code)
                }

                unsafe fn listen(&self, context: *mut c_void, device: c_int, handle: *mut c_void, comm: Out) -> Answer {
                    let _ = context;
                    let listen = member!(self.listen)?;
                    // SAFETY: as promised to this function.
                    Some(unsafe { listen($(where_there_is!($context, context),)? device, handle, comm) })
                }

                unsafe fn connect(
                    &self,
                    context: *mut c_void,
                    device: c_int,
                    handle: *mut c_void,
                    comm: Out,
                    device_handle: *mut *mut DeviceHandle,
                ) -> Answer {
                    let _ = (context, device_handle);
                    let connect = member!(self.connect)?;
                    $(let mut $config = abi::CommConfig { traffic_class: tcpx_abi::TRAFFIC_CLASS_UNDEFINED };)?
                    // SAFETY: as promised to this function; a configuration is read before it returns.
                    Some(unsafe {
                        connect(
                            $(where_there_is!($context, context),)?
                            device,
                            $(&mut $config,)?
                            handle,
                            comm,
                            $(where_there_is!($device, device_handle),)?
                        )
                    })
                }

                unsafe fn accept(&self, listener: *mut c_void, comm: Out, device_handle: *mut *mut DeviceHandle) -> Answer {
                    let _ = device_handle;
                    let accept = member!(self.accept)?;
                    // SAFETY: as promised to this function.
                    Some(unsafe { accept(listener, comm, $(where_there_is!($device, device_handle),)?) })
                }

                unsafe fn reg_mr(
                    &self,
                    comm: *mut c_void,
                    data: *mut c_void,
                    size: usize,
                    kind: c_int,
                    mhandle: Out,
                ) -> Answer {
                    let reg_mr = member!(self.reg_mr)?;
                    // SAFETY: as promised to this function.
                    Some(unsafe { reg_mr(comm, data, size as $reg, kind, mhandle) })
                }

                #[inline]
                unsafe fn isend(
                    &self,
                    comm: *mut c_void,
                    data: *mut c_void,
                    size: usize,
                    tag: c_int,
                    mhandle: *mut c_void,
                    request: Out,
                ) -> Answer {
                    let _ = tag;
                    let isend = member!(self.isend)?;
                    // SAFETY: as promised to this function.
                    Some(unsafe {
                        isend(
                            comm,
                            data,
                            size as $size,
                            $(where_there_is!($tag, tag),)?
                            mhandle,
                            $(where_there_is!($phandle, null_mut()),)?
                            request,
                        )
                    })
                }

                receives!($size, $($receive)+);

                same_calls! {
                    devices(count: *mut c_int);
                    dereg_mr(comm: *mut c_void, mhandle: *mut c_void);
                    test(request: *mut c_void, done: *mut c_int, sizes: *mut c_int);
                    close_send(comm: *mut c_void);
                    close_recv(comm: *mut c_void);
                    close_listen(comm: *mut c_void);
                }

                #[inline]
                unsafe fn irecv_consumed(&self, comm: *mut c_void, n: c_int, request: *mut c_void) -> Answer {
                    let _ = (comm, n, request);
                    $(
                        let consumed = member!(self.$consumed)?;
                        // SAFETY: as promised to this function.
                        return Some(unsafe { consumed(comm, n, request) });
                    )?
                    #[allow(unreachable_code, reason = "reached in versions without the member")]
                    None
                }

                unsafe fn finalize(&self, context: *mut c_void) -> Answer {
                    let _ = context;
                    $(
                        let finalize = member!(self.$finalize)?;
                        // SAFETY: as promised to this function.
                        return Some(unsafe { finalize(context) });
                    )?
                    #[allow(unreachable_code, reason = "reached in versions without the member")]
                    None
                }
            }
        }
    };
}

tcpx_abi::for_each_version!(version_calls);
