//! Endpoint and transfer as Python classes. Each call checks its arguments in `tcpx-p2p`.
#![expect(
    unsafe_code,
    reason = "registers memory that the Python program promises to keep"
)]

use crate::errors::{raised, usage};
use crate::waiting::{in_a_thread, in_slices, limit};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tcpx_p2p::{Accepted, Error, Gpu, Local, MemoryOf, Metadata, Remote, Rights, Settings};

/// A local buffer and a part of a remote one: registration, address, bytes, blob, offset.
type Piece = (u64, usize, usize, PyBackedBytes, u64);

#[pyclass(frozen, module = "tcpxctl._native")]
pub(crate) struct Endpoint {
    open: RwLock<Option<Arc<tcpx_p2p::Endpoint>>>,
}

impl Endpoint {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<tcpx_p2p::Endpoint>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| raised(py, &Error::Closed))
    }

    fn take(&self) -> Option<Arc<tcpx_p2p::Endpoint>> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.take()
    }

    fn start(
        &self,
        py: Python<'_>,
        start: impl FnOnce(&tcpx_p2p::Endpoint) -> Result<tcpx_p2p::Transfer, Error>,
    ) -> PyResult<Transfer> {
        let started = start(&*self.open(py)?);
        Ok(Transfer(started.map_err(|error| raised(py, &error))?))
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(endpoint) = self.take() {
            Python::attach(|py| py.detach(|| drop(endpoint)));
        }
    }
}

fn rights_of(py: Python<'_>, name: &str) -> PyResult<Rights> {
    match name {
        "read" => Ok(Rights::Read),
        "write" => Ok(Rights::Write),
        "both" => Ok(Rights::Both),
        _ => Err(usage(
            py,
            format!("rights are \"read\", \"write\" or \"both\", not {name:?}"),
        )),
    }
}

fn local((registration, address, len): (u64, usize, usize)) -> Local {
    Local {
        registration,
        address,
        len,
    }
}

fn pair((registration, address, len, blob, offset): &Piece) -> (Local, Remote<'_>) {
    let remote = Remote {
        blob,
        offset: *offset,
    };
    (local((*registration, *address, *len)), remote)
}

fn pairs(pieces: &[Piece]) -> Vec<(Local, Remote<'_>)> {
    pieces.iter().map(pair).collect()
}

#[pymethods]
impl Endpoint {
    #[new]
    #[pyo3(signature = (*, name=None, plugin=None, address=None, port=0, lanes=None, chunk=None,
                        gpu=None, host_too=false, secret_file=None, connect_within=None, stall_after=None,
                        program=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python call")]
    fn new(
        py: Python<'_>,
        name: Option<String>,
        plugin: Option<String>,
        address: Option<&str>,
        port: u16,
        lanes: Option<usize>,
        chunk: Option<usize>,
        gpu: Option<&str>,
        host_too: bool,
        secret_file: Option<PathBuf>,
        connect_within: Option<f64>,
        stall_after: Option<f64>,
        program: Option<PathBuf>,
    ) -> PyResult<Self> {
        let failed = |error: Error| raised(py, &error);
        let mut settings = Settings::from_environment().map_err(failed)?;
        if let Some(address) = address {
            let parsed = address.parse::<IpAddr>();
            let wrong = |_| usage(py, format!("`{address}` is no IP address"));
            settings.address = Some(parsed.map_err(wrong)?);
        }
        if let Some(file) = secret_file {
            settings.secret = Some(tcpx_p2p::read_secret(&file).map_err(failed)?);
        }
        settings.name = name.unwrap_or(settings.name);
        settings.plugin = plugin.unwrap_or(settings.plugin);
        settings.port = port;
        settings.lanes = lanes.unwrap_or(settings.lanes);
        settings.chunk = chunk.unwrap_or(settings.chunk);
        settings.connect_within = limit(py, connect_within)?.unwrap_or(settings.connect_within);
        settings.stall_after = limit(py, stall_after)?.unwrap_or(settings.stall_after);
        if let Some(gpu) = gpu {
            let wanted = gpu.parse::<Gpu>();
            let wanted = wanted.map_err(|error| usage(py, error.to_string()))?;
            settings.memory = match host_too {
                true => MemoryOf::Either(wanted),
                false => MemoryOf::Gpu(wanted),
            };
        }
        settings.program = program;
        let made = py.detach(|| tcpx_p2p::Endpoint::new(&settings));
        Ok(Self {
            open: RwLock::new(Some(Arc::new(made.map_err(failed)?))),
        })
    }

    /// Ends every connection and the endpoint's threads.
    fn close(&self, py: Python<'_>) {
        let endpoint = self.take();
        py.detach(|| drop(endpoint));
    }

    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let metadata = self.open(py)?.metadata().to_bytes();
        Ok(PyBytes::new(py, &metadata))
    }

    /// Number, name, address, port, GPU and PCI address of the endpoint of some metadata.
    #[staticmethod]
    fn parse_metadata(
        py: Python<'_>,
        metadata: &[u8],
    ) -> PyResult<(u64, String, String, u16, Option<u32>, String)> {
        let parsed = Metadata::parse(metadata).map_err(|error| usage(py, error.to_string()))?;
        let (ip, port) = (parsed.address.ip().to_string(), parsed.address.port());
        Ok((
            parsed.endpoint,
            parsed.name,
            ip,
            port,
            parsed.gpu,
            parsed.bdf,
        ))
    }

    fn connect(&self, py: Python<'_>, metadata: &[u8]) -> PyResult<u64> {
        let metadata = Metadata::parse(metadata).map_err(|error| usage(py, error.to_string()))?;
        let endpoint = self.open(py)?;
        in_a_thread(py, move || endpoint.connect(&metadata))
    }

    /// The number, address, GPU and name of the next peer that connected.
    fn accept(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
    ) -> PyResult<(u64, String, Option<u32>, String)> {
        let (endpoint, allowed) = (self.open(py)?, limit(py, timeout)?);
        let Accepted {
            connection,
            ip,
            peer,
        } = in_slices(py, allowed, |slice| endpoint.accept(slice))?;
        Ok((connection, ip.to_string(), peer.gpu, peer.name))
    }

    /// Name and address of a connection's peer; `None` once the connection has ended.
    fn peer(&self, py: Python<'_>, connection: u64) -> PyResult<Option<(String, String)>> {
        let peer = self.open(py)?.peer(connection);
        Ok(peer.map(|(peer, ip)| (peer.name, ip.to_string())))
    }

    fn disconnect(&self, py: Python<'_>, connection: u64) -> PyResult<()> {
        let endpoint = self.open(py)?;
        let ended = py.detach(|| endpoint.disconnect(connection));
        ended.map_err(|error| raised(py, &error))
    }

    /// The memory stays as it is until `deregister` has returned. `on_a_gpu` says why it is known to
    /// be GPU memory.
    #[pyo3(signature = (address, nbytes, on_a_gpu=None))]
    fn register(
        &self,
        py: Python<'_>,
        address: usize,
        nbytes: usize,
        on_a_gpu: Option<&str>,
    ) -> PyResult<u64> {
        let endpoint = self.open(py)?;
        if let (Some(known), Some(why)) = (on_a_gpu, endpoint.without_gpu()) {
            return Err(usage(
                py,
                format!(
                    "the buffer is GPU memory ({known}), and {why}: name the GPU when you make the endpoint, or copy the buffer to the CPU"
                ),
            ));
        }
        // Asking the kernel about many pages takes a while.
        let made = py.detach(|| {
            let start = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: the Python program keeps the memory, or `tcpxctl.p2p.Memory` keeps the
            // object that owns it.
            unsafe { endpoint.register(start, nbytes) }
        });
        made.map_err(|error| raised(py, &error))
    }

    fn deregister(&self, py: Python<'_>, registration: u64) -> PyResult<()> {
        let endpoint = self.open(py)?;
        let ended = py.detach(|| endpoint.deregister(registration));
        ended.map_err(|error| raised(py, &error))
    }

    fn registrations(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open(py)?.registrations())
    }

    fn advertise<'py>(
        &self,
        py: Python<'py>,
        buffer: (u64, usize, usize),
        rights: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let rights = rights_of(py, rights)?;
        let blob = self.open(py)?.advertise(local(buffer), rights);
        let blob = blob.map_err(|error| raised(py, &error))?;
        Ok(PyBytes::new(py, &blob))
    }

    fn read(&self, py: Python<'_>, connection: u64, pieces: Vec<Piece>) -> PyResult<Transfer> {
        self.start(py, |endpoint| endpoint.read(connection, &pairs(&pieces)))
    }

    fn write(&self, py: Python<'_>, connection: u64, pieces: Vec<Piece>) -> PyResult<Transfer> {
        self.start(py, |endpoint| endpoint.write(connection, &pairs(&pieces)))
    }

    fn send(
        &self,
        py: Python<'_>,
        connection: u64,
        buffer: (u64, usize, usize),
    ) -> PyResult<Transfer> {
        self.start(py, |endpoint| endpoint.send(connection, local(buffer)))
    }

    fn receive(
        &self,
        py: Python<'_>,
        connection: u64,
        buffer: (u64, usize, usize),
    ) -> PyResult<Transfer> {
        self.start(py, |endpoint| endpoint.receive(connection, local(buffer)))
    }

    fn notify(&self, py: Python<'_>, connection: u64, message: &[u8]) -> PyResult<Transfer> {
        self.start(py, |endpoint| endpoint.notify(connection, message))
    }

    /// The connection and the bytes of the oldest unread notification.
    fn notification<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<(u64, Bound<'py, PyBytes>)> {
        let (endpoint, allowed) = (self.open(py)?, limit(py, timeout)?);
        let (connection, message) = in_slices(py, allowed, |slice| {
            let none = || Error::TimedOut {
                what: "a notification".into(),
                allowed: slice,
            };
            endpoint.notification(slice).ok_or_else(none)
        })?;
        Ok((connection, PyBytes::new(py, &message)))
    }
}

/// An operation in progress.
#[pyclass(frozen, module = "tcpxctl._native")]
pub(crate) struct Transfer(tcpx_p2p::Transfer);

#[pymethods]
impl Transfer {
    /// Whether the operation is done; never waits.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        let polled = py.detach(|| self.0.poll());
        polled.map_err(|error| raised(py, &error))
    }

    /// Waits until the operation is done and returns its bytes.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<u64> {
        let allowed = limit(py, timeout)?;
        in_slices(py, allowed, |slice: Duration| self.0.wait(slice))
    }
}
