//! Unpacks the receives of one comm into buffers of a program that the engine is part of.
//!
//! The transfers of a run unpack into slots of the engine's own (`transfer/slots`), and compare
//! there; here a buffer is any registered span of a GPU, and nothing is compared.
#![forbid(unsafe_code)]

use super::{
    DeviceMemory, Lane, LaneSetup, MemoryError, ScatterError, ScatterSource, Span, Unpack, Work,
};
use tcpx_abi::unpack::{ENTRIES, LoadMeta};
use tcpx_abi::v7::DeviceHandle;

/// Why a receive is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The plugin published an inconsistent scatter list.
    #[error("the scatter list of a receive is invalid: {0}")]
    Scatter(#[from] ScatterError),
    /// A GPU operation failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// The unpacking of one comm, in the order of its receives.
pub struct Unpacker {
    lane: Box<dyn Lane>,
    source: ScatterSource,
    scratch: Box<[LoadMeta; ENTRIES]>,
}

impl Unpacker {
    /// For at most `jobs` receives at once of at most `chunk` bytes each. `None`: the memory is
    /// not unpacked by a GPU.
    ///
    /// # Errors
    /// The comm has no unpack queue, or the GPU lacks memory.
    pub fn new(
        memory: &dyn DeviceMemory,
        handle: &DeviceHandle,
        jobs: usize,
        chunk: usize,
    ) -> Result<Option<Self>, UnpackError> {
        let setup = LaneSetup {
            jobs,
            chunk,
            unpack: Unpack::Kernel,
            pattern: None,
        };
        let Some(lane) = memory.lane(&setup)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            lane,
            source: memory.scatter_source(handle)?,
            scratch: Box::new([LoadMeta::default(); ENTRIES]),
        }))
    }

    /// Queues the unpacking of the comm's `number`-th finished receive, counted from 0, into
    /// `span`, which it fills.
    ///
    /// # Errors
    /// The scatter list does not describe as many bytes.
    pub fn queue(&mut self, number: u64, span: Span) -> Result<(), UnpackError> {
        let list = self
            .source
            .read(number, span.len() as u64, &mut self.scratch)?;
        Ok(self.lane.queue(&Work::Take {
            list: Some(&list),
            span,
            verify: None,
            guard: 0,
        })?)
    }

    /// Launches what is queued.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn launch(&mut self) -> Result<(), UnpackError> {
        Ok(self.lane.launch()?)
    }

    /// Whether the oldest unreported receive is unpacked: its bytes are visible to every later
    /// work on the GPU. Reports each receive once; does not wait.
    ///
    /// # Errors
    /// The GPU failed.
    pub fn passed(&mut self) -> Result<bool, UnpackError> {
        Ok(self.lane.passed()?.is_some())
    }
}
