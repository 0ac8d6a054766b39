//! Hides an exported table before the program can look it up.
//!
//! A program uses the newest version that a library exports, so the tap must export exactly the
//! versions of its plugin. It is built with a table of every version. While it is being loaded
//! it makes the versions that the plugin lacks undefined in its own symbol table, in this
//! process's image and not in the file. `dlsym` then does not find them. So one object works
//! for every plugin, however a program loads it.
//!
//! The symbol table is on read-only pages without code (`object/build.rs`), and is read-only
//! again afterwards.
#![expect(unsafe_code, reason = "edits a symbol of this object's image")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

/// RTLD_DL_SYMENT of glibc's dlfcn.h: makes dladdr1 return the symbol table entry.
const WITH_SYMBOL: c_int = 1;

/// Makes `symbol` of this object, which is at `address`, undefined.
///
/// # Errors
/// The loader finds another symbol at the address, or the page cannot be made writable.
pub(crate) fn hide(symbol: &CStr, address: *mut c_void) -> Result<(), String> {
    let entry = entry_of(symbol, address).ok_or("the loader does not find the symbol")?;
    let (page, bytes) = pages_of(entry);
    protect(page, bytes, libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: the loader's own entry; only this constructor knows of it yet.
    let hidden = unsafe { &mut *entry };
    // The loader skips a symbol without section and value.
    hidden.st_shndx = 0;
    hidden.st_value = 0;
    hidden.st_size = 0;
    protect(page, bytes, libc::PROT_READ)
}

fn entry_of(symbol: &CStr, address: *mut c_void) -> Option<*mut libc::Elf64_Sym> {
    // SAFETY: zeroes are a valid `Dl_info`.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let mut entry = ptr::null_mut();
    // SAFETY: both are ours to write.
    let found = unsafe { libc::dladdr1(address, &mut info, &mut entry, WITH_SYMBOL) };
    if found == 0 || info.dli_saddr != address || info.dli_sname.is_null() || entry.is_null() {
        return None;
    }
    // SAFETY: the loader's own string.
    let name = unsafe { CStr::from_ptr(info.dli_sname) };
    (name == symbol).then_some(entry.cast())
}

/// The pages that contain an entry.
fn pages_of(entry: *mut libc::Elf64_Sym) -> (*mut c_void, usize) {
    // SAFETY: asks for a constant of the system.
    let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let first = entry.addr() & !(size - 1);
    let behind = (entry.addr() + size_of::<libc::Elf64_Sym>()).next_multiple_of(size);
    (entry.cast::<c_void>().with_addr(first), behind - first)
}

fn protect(page: *mut c_void, bytes: usize, how: c_int) -> Result<(), String> {
    // SAFETY: pages of this object's symbol table, which holds no code.
    if unsafe { libc::mprotect(page, bytes, how) } == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error().to_string())
}
