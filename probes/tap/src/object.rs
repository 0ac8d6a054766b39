//! The tap as a shared object: what it does while a program loads it.
//!
//! The table is the exported symbol itself, so it must be complete when `dlopen` returns. A
//! constructor finds the real plugin by `TCPXTAP_PLUGIN`, or else by the rules that the program
//! would have used, loads it, and fills the table as [`crate::v7::wrap`] does. Versions that the
//! plugin does not export are hidden, as are two functions that old programs look up by their C++
//! names; where the plugin has them, a call goes through the tap's version 7 table. If recording is not possible, the table is a copy of the
//! plugin's and the program runs unrecorded. If there is no plugin, `init` fails and logs why.
//!
//! Neither this object nor the plugin is ever unloaded, because the plugin's threads outlive
//! `dlclose`. A program that closes and reloads it finds the plugin in its earlier state.
//!
//! | variable | effect |
//! |---|---|
//! | `TCPXTAP_PLUGIN` | the real plugin: a path, or a name for the loader |
//! | `TCPXTAP_NAME` | first part of the recorder file's name, `tap` |
//! | `TCPXTAP_FOLDER` | where the recorder file goes, `/dev/shm` |
//! | `TCPXTAP_CHANNELS` | most comms open at once, 1024 |
//! | `TCPXTAP_RING_EVENTS` | events kept per channel, 1024 |
//! | `TCPXTAP_LOG_LINES` | log lines kept, 1024 |
//! | `TCPXTAP_REPORT` | a file to which a line is appended: the recorder's path, or why nothing is recorded |
#![expect(unsafe_code, reason = "loads the plugin, and fills an exported table")]

use crate::hide::hide;
use crate::refuse;
use crate::search::{self, Found};
use crate::settings::{Settings, report};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tcpx_abi as abi;
use tcpx_recorder::Recorder;

/// An exported table, filled once before the program can find it.
#[repr(transparent)]
#[derive(Debug)]
pub struct Exported<T>(UnsafeCell<T>);

// SAFETY: written by the constructor only, before `dlopen` returns.
unsafe impl<T> Sync for Exported<T> {}

impl<T> Exported<T> {
    /// The table before the constructor has run.
    pub const fn new(table: T) -> Self {
        Self(UnsafeCell::new(table))
    }
}

/// An exported table of any version.
#[derive(Clone, Copy)]
pub struct Table {
    symbol: &'static CStr,
    address: *mut c_void,
    fill: unsafe fn(*mut c_void, *const c_void, Option<&Arc<Recorder>>) -> *const c_char,
}

/// A function of TCPX that is exported by its C++ name.
#[derive(Clone, Copy)]
pub struct Function {
    /// The name.
    pub symbol: &'static CStr,
    /// Its address.
    pub address: *mut c_void,
}

/// Names of `connect` and `accept` of version 7, as a C++ compiler writes them.
pub const CONNECT: &CStr = c"_Z14tcpxConnect_v5iPvPS_PP24ncclNetDeviceHandle_v7_t";
/// As [`CONNECT`].
pub const ACCEPT: &CStr = c"_Z13tcpxAccept_v5PvPS_PP24ncclNetDeviceHandle_v7_t";

/// `connect` of a table that is filled.
///
/// # Safety
/// As for `connect` of the table.
pub unsafe fn connect(
    table: &Exported<abi::v7::Net>,
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    device: *mut *mut abi::v7::DeviceHandle,
) -> abi::ResultCode {
    // SAFETY: written by the constructor only, which has returned.
    match unsafe { (*table.0.get()).connect } {
        // SAFETY: as promised to this function.
        Some(connect) => unsafe { connect(dev, handle, comm, device) },
        None => abi::result::INTERNAL_ERROR,
    }
}

/// `accept` of a table that is filled.
///
/// # Safety
/// As for `accept` of the table.
pub unsafe fn accept(
    table: &Exported<abi::v7::Net>,
    listener: *mut c_void,
    comm: *mut *mut c_void,
    device: *mut *mut abi::v7::DeviceHandle,
) -> abi::ResultCode {
    // SAFETY: written by the constructor only, which has returned.
    match unsafe { (*table.0.get()).accept } {
        // SAFETY: as promised to this function.
        Some(accept) => unsafe { accept(listener, comm, device) },
        None => abi::result::INTERNAL_ERROR,
    }
}

macro_rules! tables {
    ($(($version:ident $variant:ident $number:literal $symbol:ident))+) => {
        $(
            impl Table {
                /// An exported table of this version.
                pub fn $version(table: &'static Exported<abi::$version::Net>) -> Self {
                    /// # Safety
                    /// `own` is a table of this version that no thread reads yet, `plugin` the
                    /// plugin's, which stays.
                    unsafe fn fill(
                        own: *mut c_void,
                        plugin: *const c_void,
                        recorder: Option<&Arc<Recorder>>,
                    ) -> *const c_char {
                        let own = own.cast::<abi::$version::Net>();
                        let plugin = plugin.cast::<abi::$version::Net>();
                        let wrap = |recorder: &Arc<Recorder>| {
                            // SAFETY: as promised to this function.
                            unsafe { crate::$version::wrap_into(plugin, Arc::clone(recorder), own) }.ok()
                        };
                        if recorder.and_then(wrap).is_none() {
                            // SAFETY: as promised to this function.
                            unsafe { own.copy_from(plugin, 1) };
                        }
                        // SAFETY: as promised to this function.
                        unsafe { (*plugin).name }
                    }
                    const SYMBOL: &CStr =
                        match CStr::from_bytes_with_nul(concat!(stringify!($symbol), "\0").as_bytes()) {
                            Ok(symbol) => symbol,
                            Err(_) => panic!("a symbol has one zero, at its end"),
                        };
                    Self { symbol: SYMBOL, address: table.0.get().cast(), fill }
                }
            }
        )+
    };
}
tcpx_abi::with_versions!(tables);

/// The constructor: fills the tables, or leaves tables whose `init` fails.
pub fn start(tables: &[Table], functions: &[Function]) {
    // A panic must not leave a constructor; `init` then fails without a reason.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Err(why) = try_start(tables, functions) {
            report(&format!("not-recorded {why}"));
            refuse::because(&why);
        }
    }));
}

fn try_start(tables: &[Table], functions: &[Function]) -> Result<(), String> {
    let own = tables
        .iter()
        .map(|table| (table.symbol, table.address))
        .collect::<Vec<_>>();
    stay_loaded(own.first().map(|(_, address)| *address));
    let Found {
        library,
        path,
        symbols,
    } = search::plugin(&own)?;
    for function in functions {
        if !search::has(library, function.symbol) {
            // One that cannot be hidden goes through the table all the same.
            let _ = hide(function.symbol, function.address);
        }
    }
    let recorder = match Settings::from_env().recorder() {
        Ok(recorder) => Some(Arc::new(recorder)),
        Err(error) => {
            report(&format!("not-recorded {error}"));
            None
        }
    };
    let mut names = Vec::new();
    for (table, symbol) in tables.iter().zip(symbols) {
        if symbol.is_null() {
            // A table that cannot be hidden fails in `init` and logs why.
            if let Err(why) = hide(table.symbol, table.address) {
                let version = table.symbol.to_string_lossy();
                refuse::because(&format!(
                    "{path} does not export {version}, which cannot be hidden: {why}"
                ));
            }
            continue;
        }
        // SAFETY: the symbol's address is the table, of the version that its name
        // says; plugins are never unloaded; this is the constructor.
        let name = unsafe { (table.fill)(table.address, symbol, recorder.as_ref()) };
        let mut room = [0; 256];
        let length = abi::foreign::copy_string(name, &mut room).unwrap_or(0);
        names.push(String::from_utf8_lossy(&room[..length]).into_owned());
    }
    names.dedup();
    if let Some(recorder) = recorder {
        // If the write fails, the label is missing.
        let _ = recorder.set_plugin(&format!("{} {path}", names.join(" ")));
        report(&format!("recording {}", recorder.path().display()));
    }
    Ok(())
}

/// Keeps the object that contains this address loaded.
fn stay_loaded(address: Option<*mut c_void>) {
    let Some(address) = address else { return };
    // SAFETY: zeroes are a valid `Dl_info`.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is ours to write.
    if unsafe { libc::dladdr(address, &raw mut info) } != 0 && !info.dli_fname.is_null() {
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the loader's own name of an object that is loaded.
        unsafe { libc::dlopen(info.dli_fname, flags) };
    }
}

/// Exports a table of every version. The crate of the shared object passes this macro to
/// `tcpx_abi::with_versions!`.
#[macro_export]
macro_rules! shared_object {
    ($(($version:ident $variant:ident $number:literal $symbol:ident))+) => {
        $(
            /// The table that NCCL and other programs look up.
            #[unsafe(no_mangle)]
            #[expect(non_upper_case_globals, reason = "the name is the ABI's")]
            pub static $symbol: $crate::object::Exported<$crate::abi::$version::Net> =
                $crate::object::Exported::new($crate::$version::without_plugin());
        )+

        /// `tcpxConnect_v5` of a plugin that has it.
        ///
        /// # Safety
        /// As for `connect` of version 7.
        #[unsafe(export_name = "_Z14tcpxConnect_v5iPvPS_PP24ncclNetDeviceHandle_v7_t")]
        pub unsafe extern "C" fn connect_v5(
            dev: ::std::ffi::c_int,
            handle: *mut ::std::ffi::c_void,
            comm: *mut *mut ::std::ffi::c_void,
            device: *mut *mut $crate::abi::v7::DeviceHandle,
        ) -> $crate::abi::ResultCode {
            // SAFETY: as promised to this function.
            unsafe { $crate::object::connect(&ncclNetPlugin_v7, dev, handle, comm, device) }
        }

        /// `tcpxAccept_v5` of a plugin that has it.
        ///
        /// # Safety
        /// As for `accept` of version 7.
        #[unsafe(export_name = "_Z13tcpxAccept_v5PvPS_PP24ncclNetDeviceHandle_v7_t")]
        pub unsafe extern "C" fn accept_v5(
            listener: *mut ::std::ffi::c_void,
            comm: *mut *mut ::std::ffi::c_void,
            device: *mut *mut $crate::abi::v7::DeviceHandle,
        ) -> $crate::abi::ResultCode {
            // SAFETY: as promised to this function.
            unsafe { $crate::object::accept(&ncclNetPlugin_v7, listener, comm, device) }
        }

        extern "C" fn start() {
            use $crate::object::{ACCEPT, CONNECT, Function, Table};
            let functions = [
                Function { symbol: CONNECT, address: connect_v5 as *mut ::std::ffi::c_void },
                Function { symbol: ACCEPT, address: accept_v5 as *mut ::std::ffi::c_void },
            ];
            $crate::object::start(&[$(Table::$version(&$symbol)),+], &functions);
        }

        #[used]
        #[unsafe(link_section = ".init_array")]
        static START: extern "C" fn() = start;
    };
}
