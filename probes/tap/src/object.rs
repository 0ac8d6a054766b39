//! The tap as a shared object: what it does while a program loads it.
//!
//! The table is the exported symbol itself, so it must be complete when `dlopen` returns. A
//! constructor finds the real plugin by `TCPXTAP_PLUGIN`, or else by the rules that the program
//! would have used, loads it, and fills the table as [`crate::v7::wrap`] does. Versions that the
//! plugin does not export are hidden. If recording is not possible, the table is a copy of the
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
use std::ffi::{CStr, c_char, c_void};
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
pub fn start(tables: &[Table]) {
    // A panic must not leave a constructor; `init` then fails without a reason.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Err(why) = try_start(tables) {
            report(&format!("not-recorded {why}"));
            refuse::because(&why);
        }
    }));
}

fn try_start(tables: &[Table]) -> Result<(), String> {
    let own = tables
        .iter()
        .map(|table| (table.symbol, table.address))
        .collect::<Vec<_>>();
    stay_loaded(own.first().map(|(_, address)| *address));
    let Found { path, symbols } = search::plugin(&own)?;
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

        extern "C" fn start() {
            $crate::object::start(&[$($crate::object::Table::$version(&$symbol)),+]);
        }

        #[used]
        #[unsafe(link_section = ".init_array")]
        static START: extern "C" fn() = start;
    };
}
