//! Copies C strings of a plugin. A plugin may leave a pointer to freed memory or to an
//! unterminated string, so the kernel reads the bytes and returns an error instead of a crash.
#![expect(unsafe_code, reason = "hands a foreign pointer to the kernel")]

use std::ffi::c_char;

/// Reads do not cross page boundaries, so that everything up to an unmapped page is read.
const PAGE: usize = 4096;

/// What was copied of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Bytes, without the NUL.
    pub length: usize,
    /// Why there are not more.
    pub end: StringEnd,
}

/// What follows the bytes that were copied of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringEnd {
    /// Its NUL.
    Nul,
    /// Unreadable memory: a program that reads the string crashes.
    Unreadable,
    /// More bytes than there is room for.
    MoreThanRoom,
}

/// Copies a C string into `room`, without its NUL and cut to the room. Returns the number of
/// bytes copied; `None` if the pointer is null or its first byte is unreadable.
pub fn copy_string(string: *const c_char, room: &mut [u8]) -> Option<usize> {
    let copied = copy_until_end(string, room)?;
    (copied.length > 0 || copied.end != StringEnd::Unreadable).then_some(copied.length)
}

/// As `copy_string`, with what the string is bounded by; `None` if the pointer is null, or no
/// pipe can be made.
pub fn copy_until_end(string: *const c_char, room: &mut [u8]) -> Option<Copied> {
    if string.is_null() {
        return None;
    }
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return None;
    }
    let copied = through(ends, string.addr(), room);
    for end in ends {
        // SAFETY: ours, and used no more.
        unsafe { libc::close(end) };
    }
    Some(copied)
}

fn through([read, write]: [i32; 2], start: usize, room: &mut [u8]) -> Copied {
    let mut filled = 0;
    let copied = |length, end| Copied { length, end };
    while filled < room.len() {
        let address = start.wrapping_add(filled);
        let wanted = (PAGE - address % PAGE).min(room.len() - filled);
        // SAFETY: the kernel reads, and says EFAULT where nobody may.
        let given = unsafe { libc::write(write, std::ptr::without_provenance(address), wanted) };
        let given = usize::try_from(given).ok().filter(|given| *given > 0);
        let Some(given) = given else {
            return copied(filled, StringEnd::Unreadable);
        };
        let part = &mut room[filled..filled + given];
        // SAFETY: `part` is as long as what was written a moment ago.
        unsafe { libc::read(read, part.as_mut_ptr().cast(), given) };
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            return copied(filled + end, StringEnd::Nul);
        }
        filled += given;
    }
    copied(filled, StringEnd::MoreThanRoom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn strings_are_copied_and_cut_and_bad_pointers_detected() {
        let mut room = [0; 8];
        let ends = |text: &CStr, end| {
            copy_until_end(text.as_ptr(), &mut [0; 4]).map(|one| one.end) == Some(end)
        };
        assert!(ends(c"eth", StringEnd::Nul));
        assert!(ends(c"eth1", StringEnd::MoreThanRoom));
        assert_eq!(copy_string(c"eth1".as_ptr(), &mut room), Some(4));
        assert_eq!(&room[..4], b"eth1");
        assert_eq!(copy_string(c"a long name".as_ptr(), &mut room), Some(8));
        assert_eq!(copy_string(c"".as_ptr(), &mut room), Some(0));
        assert_eq!(copy_string(std::ptr::null(), &mut room), None);
        assert_eq!(
            copy_string(std::ptr::without_provenance(16), &mut room),
            None
        );
    }

    #[test]
    fn a_string_that_runs_into_unmapped_memory_is_copied_up_to_it() {
        // SAFETY: a fresh mapping of two pages.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the first page is ours to write.
        unsafe { start.cast::<u8>().write_bytes(b'x', PAGE) };
        // SAFETY: the second page, inside the mapping.
        let second = unsafe { start.add(PAGE) };
        // SAFETY: nobody uses it.
        unsafe { libc::munmap(second, PAGE) };
        // SAFETY: inside the first page.
        let unterminated = unsafe { start.cast::<c_char>().add(PAGE - 5) };
        let mut room = [0; 64];
        assert_eq!(copy_string(unterminated, &mut room), Some(5));
        assert_eq!(&room[..5], b"xxxxx");
        let copied = copy_until_end(unterminated, &mut room);
        let (length, end) = (5, StringEnd::Unreadable);
        assert_eq!(copied, Some(Copied { length, end }));
        // SAFETY: the first page, used no more.
        unsafe { libc::munmap(start, PAGE) };
    }
}
