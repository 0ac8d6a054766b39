//! `libtcpxp2p.so`: endpoints for C. `scripts/header` makes the header, `tcpxp2p.h`, of the public items
//! here and their comments, which say what callers promise.
//!
//! Every function returns a result; `tcpxp2p_last_error` has the words for the calling thread. A
//! panic becomes the result `TCPXP2P_INTERNAL`. Every function may be called from any thread.
#![expect(unsafe_code, reason = "exports functions to C")]

mod arguments;
pub mod operations;
pub mod result;

use arguments::{bytes, owned, put, reference, text};
use result::{Failure, guarded};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tcpx_p2p::{Endpoint, Gpu, MemoryOf, Metadata, Settings, Transfer};

/// An endpoint, and the transfers that its program has not waited for.
pub struct Handle {
    endpoint: Endpoint,
    transfers: Mutex<(u64, BTreeMap<u64, Transfer>)>,
}

impl Handle {
    fn transfers(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Transfer>)> {
        self.transfers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Zero and null stand for the default.
#[repr(C)]
pub struct Options {
    /// sizeof(tcpxp2p_options)
    pub size: usize,
    /// in errors and views
    pub name: *const c_char,
    /// auto, soft, builtin, a name or a path
    pub plugin: *const c_char,
    /// IP address to listen on
    pub address: *const c_char,
    /// in place of TCPXP2P_SECRET and TCPXP2P_SECRET_FILE
    pub secret_file: *const c_char,
    /// bytes of one message of the plugin
    pub chunk: usize,
    /// comms of a connection in each direction
    pub lanes: u32,
    /// port to listen on
    pub port: u16,
    /// CUDA device number or PCI address: it moves memory of this GPU only
    pub gpu: *const c_char,
}

impl Options {
    fn settings(&self) -> Result<Settings, Failure> {
        if self.size != size_of::<Self>() {
            let size = self.size;
            return Err(Failure::usage(format!(
                "options of {size} bytes: this library knows {}; set `size` to sizeof(tcpxp2p_options)",
                size_of::<Self>()
            )));
        }
        let mut settings = Settings::from_environment()?;
        if let Some(name) = text("name", self.name)? {
            settings.name = name.to_owned();
        }
        if let Some(plugin) = text("plugin", self.plugin)? {
            settings.plugin = plugin.to_owned();
        }
        if let Some(address) = text("address", self.address)? {
            let parsed = address.parse();
            let wrong = |_| Failure::usage(format!("`{address}` is no IP address"));
            settings.address = Some(parsed.map_err(wrong)?);
        }
        if let Some(file) = text("secret_file", self.secret_file)? {
            settings.secret = Some(tcpx_p2p::read_secret(Path::new(file))?);
        }
        if self.chunk != 0 {
            settings.chunk = self.chunk;
        }
        if self.lanes != 0 {
            settings.lanes = self.lanes as usize;
        }
        settings.port = self.port;
        if let Some(gpu) = text("gpu", self.gpu)? {
            let wanted = gpu.parse::<Gpu>();
            let wanted = wanted.map_err(|error| Failure::usage(error.to_string()))?;
            settings.memory = MemoryOf::Gpu(wanted);
        }
        Ok(settings)
    }
}

/// Makes an endpoint. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_create(options: *const Options, endpoint: *mut *mut Handle) -> c_int {
    guarded(|| {
        let settings = match reference("options", options) {
            Ok(options) => options.settings()?,
            Err(_) => Settings::from_environment()?,
        };
        // Checked before the endpoint is made, which would otherwise have no owner.
        put("endpoint", endpoint, std::ptr::null_mut())?;
        let handle = Box::new(Handle {
            endpoint: Endpoint::new(&settings)?,
            transfers: Mutex::default(),
        });
        put("endpoint", endpoint, Box::into_raw(handle))
    })
}

/// Ends every connection of the endpoint. No other call may use it at the same time or later.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_destroy(endpoint: *mut Handle) -> c_int {
    guarded(|| {
        drop(owned(endpoint));
        Ok(())
    })
}

/// What another endpoint needs to connect. As confidential as the advertised memory. Writes the
/// length also if the buffer is too small.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_metadata(
    endpoint: *const Handle,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> c_int {
    guarded(|| {
        let metadata = reference("endpoint", endpoint)?
            .endpoint
            .metadata()
            .to_bytes();
        arguments::fill(buffer, capacity, len, &metadata)
    })
}

/// Connects to the endpoint of the metadata.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_connect(
    endpoint: *const Handle,
    metadata: *const u8,
    len: usize,
    connection: *mut u64,
) -> c_int {
    guarded(|| {
        let handle = reference("endpoint", endpoint)?;
        let metadata = Metadata::parse(bytes("metadata", metadata, len)?);
        let metadata = metadata.map_err(|error| Failure::usage(error.to_string()))?;
        put("connection", connection, 0)?;
        put(
            "connection",
            connection,
            handle.endpoint.connect(&metadata)?,
        )
    })
}

/// The oldest connection that a peer made.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_accept(
    endpoint: *const Handle,
    timeout_ms: u64,
    connection: *mut u64,
) -> c_int {
    guarded(|| {
        let handle = reference("endpoint", endpoint)?;
        // Taken from the queue, a connection without a place for its number would be lost.
        put("connection", connection, 0)?;
        let accepted = handle.endpoint.accept(Duration::from_millis(timeout_ms))?;
        put("connection", connection, accepted.connection)
    })
}

/// Ends a connection: every operation on it fails on both ends.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_disconnect(endpoint: *const Handle, connection: u64) -> c_int {
    guarded(|| {
        Ok(reference("endpoint", endpoint)?
            .endpoint
            .disconnect(connection)?)
    })
}
