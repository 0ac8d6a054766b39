//! The Rust half of the logger callback: a process-wide sink for formatted lines. The C ABI has
//! no user pointer for the callback, so there is one sink per process; lines of several plugins
//! in one process cannot be distinguished.
#![cfg_attr(
    feature = "logger",
    expect(
        unsafe_code,
        reason = "hands a callback to C and takes C strings from it"
    )
)]

#[cfg(feature = "logger")]
mod with_c {
    use crate::Logger;
    use std::ffi::{CStr, c_char, c_int, c_ulong};
    use std::panic::catch_unwind;
    use std::sync::OnceLock;

    /// One formatted line, unmodified.
    #[derive(Debug, Clone, Copy)]
    pub struct Line<'a> {
        /// One of [`crate::level`], or anything else the plugin passed.
        pub level: c_int,
        /// Subsystem bits.
        pub flags: c_ulong,
        /// The `file` argument of the log call; TCPX passes the pretty function name.
        pub file: &'a [u8],
        /// Source line in that file.
        pub line: c_int,
        /// The formatted message.
        pub text: &'a [u8],
    }

    type Sink = Box<dyn Fn(Line<'_>) + Send + Sync>;
    static SINK: OnceLock<Sink> = OnceLock::new();

    type RawSink = extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, usize);

    unsafe extern "C" {
        fn tcpx_abi_set_sink(sink: RawSink);
        fn tcpx_abi_log(
            level: c_int,
            flags: c_ulong,
            file: *const c_char,
            line: c_int,
            format: *const c_char,
            ...
        );
    }

    extern "C" fn deliver(
        level: c_int,
        flags: c_ulong,
        file: *const c_char,
        line: c_int,
        text: *const c_char,
        length: usize,
    ) {
        let _ = catch_unwind(|| {
            let Some(sink) = SINK.get() else { return };
            let file = if file.is_null() {
                &b""[..]
            } else {
                // SAFETY: the plugin passes a literal or a string that outlives the call.
                unsafe { CStr::from_ptr(file) }.to_bytes()
            };
            // SAFETY: `logger.c` passes `length` bytes that live until it returns.
            let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
            sink(Line {
                level,
                flags,
                file,
                line,
                text,
            });
        });
    }

    /// Makes `sink` receive every line of every plugin of this process, and returns the callback
    /// for `init`. The first sink stays in effect; later calls return the same callback and drop
    /// their argument.
    pub fn install(sink: impl Fn(Line<'_>) + Send + Sync + 'static) -> Logger {
        let _ = SINK.set(Box::new(sink));
        // SAFETY: stores a function pointer that lives as long as the process.
        unsafe { tcpx_abi_set_sink(deliver) };
        tcpx_abi_log
    }
}

#[cfg(feature = "logger")]
pub use with_c::{Line, install};
