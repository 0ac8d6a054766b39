//! Finds the plugin that the program would have loaded.
//!
//! If `TCPXTAP_PLUGIN` is set, only that plugin is tried. Otherwise the places are tried that
//! programs and NCCL try, skipping the tap itself.
#![expect(unsafe_code, reason = "dlopen, dlsym and dlerror")]

use std::env;
use std::ffi::{CStr, CString, OsString, c_char, c_void};
use std::os::unix::ffi::OsStringExt;

/// A loaded plugin.
pub(crate) struct Found {
    /// The loader's handle, never closed.
    pub library: *mut c_void,
    /// The name passed to the loader.
    pub path: String,
    /// The requested symbols, in order; null for a missing one.
    pub symbols: Vec<*const c_void>,
}

/// Variables with which programs name the plugin.
const VARIABLES: [&str; 2] = ["UCCL_TCPX_PLUGIN_PATH", "NCCL_GPUDIRECTTCPX_PLUGIN_PATH"];

/// Paths where TCPX is usually installed.
const PLACES: [&str; 4] = [
    "/usr/local/tcpx/lib64/libnccl-net-tcpx.so",
    "/var/lib/tcpx/lib64/libnccl-net-tcpx.so",
    "/usr/local/tcpx/lib64/libnccl-net.so",
    "/var/lib/tcpx/lib64/libnccl-net.so",
];

/// Loads the plugin. `own` are this object's symbols and their addresses.
pub(crate) fn plugin(own: &[(&CStr, *mut c_void)]) -> Result<Found, String> {
    if let Some(named) = text_of("TCPXTAP_PLUGIN") {
        return load(&named, own)
            .map_err(|why| format!("cannot load the plugin of TCPXTAP_PLUGIN: {why}"));
    }
    let mut tried = Vec::new();
    for candidate in candidates() {
        match load(&candidate, own) {
            Ok(found) => return Ok(found),
            Err(why) => tried.push(why),
        }
    }
    Err(format!(
        "found no plugin; tried {}; set TCPXTAP_PLUGIN to its path",
        tried.join("; ")
    ))
}

fn text_of(variable: &str) -> Option<String> {
    env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(lossy)
}

fn lossy(text: OsString) -> String {
    String::from_utf8_lossy(&text.into_vec()).into_owned()
}

/// Paths and library names to try, in order.
fn candidates() -> Vec<String> {
    let mut all: Vec<String> = VARIABLES.iter().filter_map(|name| text_of(name)).collect();
    let list = text_of("NCCL_NET_PLUGIN").unwrap_or_default();
    for name in list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty() && *name != "none")
    {
        // Like NCCL since 2.21, try the name itself first.
        if name.contains('/') || name.contains(".so") {
            all.push(name.to_owned());
        }
        all.push(format!("libnccl-net-{name}.so"));
    }
    all.push("libnccl-net.so".to_owned());
    all.extend(PLACES.map(str::to_owned));
    all
}

fn load(name: &str, own: &[(&CStr, *mut c_void)]) -> Result<Found, String> {
    let path = CString::new(name).map_err(|_| format!("{name:?} has a zero in it"))?;
    // SAFETY: the program would have loaded it; its constructors run as they would have.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(last_error().unwrap_or_else(|| name.to_owned()));
    }
    // SAFETY: an open library, never closed, and strings that end in zeroes.
    let symbols: Vec<_> = own
        .iter()
        .map(|(symbol, _)| unsafe { libc::dlsym(library, symbol.as_ptr()) })
        .collect();
    if own
        .iter()
        .zip(&symbols)
        .any(|((_, address), symbol)| address == symbol)
    {
        return Err(format!("{name} is the tap itself"));
    }
    if symbols.iter().all(|symbol| symbol.is_null()) {
        return Err(format!(
            "{name} exports none of the versions that the tap knows"
        ));
    }
    Ok(Found {
        library,
        path: name.to_owned(),
        symbols: symbols.into_iter().map(<*mut c_void>::cast_const).collect(),
    })
}

/// Whether a library that is open exports `symbol`.
pub(crate) fn has(library: *mut c_void, symbol: &CStr) -> bool {
    // SAFETY: an open library, and a string that ends in a zero.
    !unsafe { libc::dlsym(library, symbol.as_ptr()) }.is_null()
}

fn last_error() -> Option<String> {
    // SAFETY: the loader's own string, valid until this thread's next call of it.
    let error = unsafe { libc::dlerror() };
    // SAFETY: null, or such a string.
    (!error.is_null()).then(|| unsafe { text(error) })
}

/// # Safety
/// Null, or a string that ends in a zero.
pub(crate) unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: as promised to this function.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}
