//! Loads a plugin file: inspects it, opens it with dlopen, and chooses a table.
//!
//! `inspect` reads the file and calls nothing, so the coordinator may do it.
//! `Plugin::open` runs the library's constructors: only a worker does that. A
//! plugin is never unloaded, because its detached threads and static destructors
//! outlive any library handle.
#![expect(unsafe_code, reason = "opens a shared object and reads its tables")]

use super::net::{Net, RawTable};
use super::shim::wrap;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::c_void;
use std::path::Path;
use std::sync::Arc;
use tcpx_abi::{SYMBOL_PREFIX, v7};
use tcpx_node::plugin_files::{LoadError, PluginSource, dynamic_of, inspect};
use tcpx_words::abi_version::AbiVersion;

/// A loaded plugin whose `init` has not been called.
pub struct Plugin {
    /// The safe interface to its table.
    pub net: Arc<dyn Net>,
    /// The symbol of the table; `builtin` for the plugin linked into this program.
    pub symbol: String,
    /// Every ncclNet symbol that the library exports, newest first, supported or not.
    pub exports: Vec<String>,
}

impl Plugin {
    /// Loads the plugin of `source` and takes `version`, or else the newest version that
    /// both sides support, as NCCL does. Runs the library's constructors, which may do
    /// anything, so call it in a worker process only.
    pub fn open(source: &PluginSource, version: Option<AbiVersion>) -> Result<Self, LoadError> {
        match (source, version) {
            (PluginSource::Builtin, None | Some(AbiVersion::V7)) => Ok(Self::builtin()),
            (PluginSource::Builtin, Some(wanted)) => Err(LoadError::NoVersion {
                path: "builtin".into(),
                wanted,
                exported: v7::SYMBOL.into(),
            }),
            (PluginSource::File(path), version) => Self::open_file(path, version),
        }
    }

    /// The software plugin that is linked into this program.
    pub fn builtin() -> Self {
        let net = wrap(RawTable::V7(tcpx_soft::table()));
        Self {
            net,
            symbol: "builtin".into(),
            exports: vec![v7::SYMBOL.into()],
        }
    }

    fn open_file(path: &Path, version: Option<AbiVersion>) -> Result<Self, LoadError> {
        inspect(path)?;
        // An absolute path opens the file that was inspected; the loader would search its
        // own paths for a name without a slash.
        let file = std::path::absolute(path).map_err(|error| LoadError::Unreadable {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        // SAFETY: running foreign constructors is what the worker process is for.
        let library =
            unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
                use std::error::Error;
                let why = error
                    .source()
                    .map_or_else(|| error.to_string(), ToString::to_string);
                LoadError::Open {
                    path: path.to_owned(),
                    why: tcpx_words::units::printable(&why),
                }
            })?;
        let plugin = pick(&library, path, version);
        // Never unloaded, even if no table could be used.
        std::mem::forget(library);
        plugin
    }
}

/// Table symbols that the library exports, newest first, supported or not. Asks the loader
/// for each name in the file, because a library may hide symbols while it is loaded.
fn exported(library: &Library, path: &Path) -> Vec<String> {
    let named = dynamic_of(path)
        .map(|dynamic| dynamic.names(SYMBOL_PREFIX))
        .unwrap_or_default();
    let number = |symbol: &String| symbol.strip_prefix(SYMBOL_PREFIX)?.parse::<u32>().ok();
    let mut numbered: Vec<(u32, String)> = named
        .into_iter()
        .filter_map(|symbol| Some((number(&symbol)?, symbol)))
        .collect();
    numbered.retain(|(_, symbol)| address_of(library, symbol).is_some());
    numbered.sort_unstable_by(|one, other| other.cmp(one));
    numbered.into_iter().map(|(_, symbol)| symbol).collect()
}

fn address_of(library: &Library, symbol: &str) -> Option<*mut c_void> {
    // SAFETY: only the address is taken, nothing is read through it.
    let symbol = unsafe { library.get::<*const c_void>(symbol.as_bytes()) }.ok()?;
    Some(symbol.as_raw_ptr()).filter(|address| !address.is_null())
}

fn pick(library: &Library, path: &Path, wanted: Option<AbiVersion>) -> Result<Plugin, LoadError> {
    let exports = exported(library, path);
    let newest = exports
        .iter()
        .find_map(|symbol| AbiVersion::of_symbol(symbol));
    let version = match (wanted, newest) {
        (Some(wanted), _) if exports.iter().any(|symbol| symbol == wanted.symbol()) => wanted,
        (Some(wanted), _) => {
            return Err(LoadError::NoVersion {
                path: path.to_owned(),
                wanted,
                exported: list(&exports),
            });
        }
        (None, Some(newest)) => newest,
        (None, None) => {
            return Err(LoadError::NoTable {
                path: path.to_owned(),
                exported: list(&exports),
            });
        }
    };
    let symbol = version.symbol().to_owned();
    let no_table = || LoadError::NoTable {
        path: path.to_owned(),
        exported: list(&exports),
    };
    let address = address_of(library, &symbol).ok_or_else(no_table)?;
    let raw = table(version, address).map_err(|what| LoadError::NotATable {
        path: path.to_owned(),
        symbol: symbol.clone(),
        what,
    })?;
    let net = wrap(raw);
    // A plugin may fill the other members as late as in `init`.
    if net.calls().missing() == Some("init") {
        return Err(LoadError::NullMember {
            path: path.to_owned(),
            symbol,
            member: "init",
        });
    }
    Ok(Plugin {
        net,
        symbol,
        exports,
    })
}

fn list(exports: &[String]) -> String {
    if exports.is_empty() {
        "no ncclNet table".into()
    } else {
        exports.join(", ")
    }
}

/// The table at `address`, or why the symbol is not a table of `version`.
fn table(version: AbiVersion, address: *mut c_void) -> Result<RawTable, String> {
    macro_rules! tables {
        ($(($v:ident $variant:ident $number:literal $symbol:ident))+) => {
            match version {
                $(AbiVersion::$variant => {
                    let table = address.cast::<tcpx_abi::$v::Net>().cast_const();
                    if let Some(what) = wrong_symbol(address, size_of::<tcpx_abi::$v::Net>()) {
                        return Err(what);
                    }
                    // SAFETY: the address of a symbol that is named as this table and is
                    // as long, in a library that is never unloaded.
                    Ok(RawTable::$variant(unsafe { &*table }))
                })+
            }
        };
    }
    tcpx_abi::with_versions!(tables)
}

/// Why the symbol at `address` cannot be a table of `bytes` bytes; `None` if it can.
fn wrong_symbol(address: *mut c_void, bytes: usize) -> Option<String> {
    // RTLD_DL_SYMENT of glibc's dlfcn.h: makes dladdr1 return the symbol table entry.
    const WITH_SYMBOL: i32 = 1;
    // SAFETY: zeroes are a valid `Dl_info`.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let mut entry: *mut c_void = std::ptr::null_mut();
    // SAFETY: both are ours to write.
    let found = unsafe { libc::dladdr1(address, &mut info, &mut entry, WITH_SYMBOL) };
    if found == 0 || info.dli_saddr != address {
        return None;
    }
    // SAFETY: null, or the loader's own entry of a library that stays loaded.
    let entry = unsafe { entry.cast::<libc::Elf64_Sym>().as_ref() }?;
    match entry.st_info & 0xf {
        2 | 10 => return Some("is a function, not a table".into()),
        6 => return Some("is a thread-local variable, not a table".into()),
        _ => {}
    }
    if !address.addr().is_multiple_of(align_of::<usize>()) {
        return Some("is not pointer-aligned".into());
    }
    let has = usize::try_from(entry.st_size).unwrap_or(usize::MAX);
    (has != 0 && has < bytes)
        .then(|| format!("has {has} bytes; a table of this version has {bytes}"))
}
