//! Pointers from C: checked for null, and everything else as the header asks of callers.

use crate::result::Failure;
use std::ffi::{CStr, c_char};

fn null(name: &str) -> Failure {
    Failure::usage(format!("{name} is a null pointer"))
}

/// What `pointer` points to.
pub(crate) fn reference<'a, T>(name: &str, pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: null, or valid for the call, as the header asks.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// What a call of this library has given out by `Box::into_raw`; `None` for null.
pub(crate) fn owned<T>(pointer: *mut T) -> Option<Box<T>> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: from `Box::into_raw`, given back once, and used by no other thread, as the header asks.
    Some(unsafe { Box::from_raw(pointer) })
}

/// `len` values; none may be null. More than memory can hold, or a start that no value can have, is an
/// argument that was not initialised.
pub(crate) fn slice<'a, T>(name: &str, start: *const T, len: usize) -> Result<&'a [T], Failure> {
    match (start.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(name)),
        _ if len > isize::MAX as usize / size_of::<T>() => Err(Failure::usage(format!(
            "{name}: {len} are more than memory holds"
        ))),
        _ if !start.is_aligned() => Err(Failure::usage(format!("{name} is not pointer-aligned"))),
        // SAFETY: `len` values that are valid for the call, as the header asks.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(start, len) }),
    }
}

/// `len` bytes.
pub(crate) fn bytes<'a>(name: &str, start: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    slice(name, start, len)
}

/// Text; `None` for null.
pub(crate) fn text<'a>(name: &str, start: *const c_char) -> Result<Option<&'a str>, Failure> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: ends with a zero, as the header asks.
    let text = unsafe { CStr::from_ptr(start) }.to_str();
    text.map(Some)
        .map_err(|_| Failure::usage(format!("{name} is not UTF-8")))
}

/// Writes a result.
pub(crate) fn put<T>(name: &str, place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(null(name));
    }
    // SAFETY: room for one value, as the header asks.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Copies `content` into a buffer of the caller and writes its length, also if it does not fit.
pub(crate) fn fill(
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
    content: &[u8],
) -> Result<(), Failure> {
    put("len", len, content.len())?;
    if content.len() > capacity {
        let (needed, has) = (content.len(), capacity);
        return Err(Failure::usage(format!(
            "{needed} bytes do not fit into a buffer of {has}"
        )));
    }
    if buffer.is_null() {
        return Err(null("buffer"));
    }
    // SAFETY: the buffer has `capacity` bytes, as the header asks, and is not ours.
    unsafe { buffer.copy_from_nonoverlapping(content.as_ptr(), content.len()) };
    Ok(())
}
