//! Whose memory an endpoint moves, and which memory a buffer is.
#![forbid(unsafe_code)]

use crate::Error;
use std::ops::Range;
use std::sync::Arc;
use tcpx_engine::gpu::{CudaMemory, DeviceMemory, Wanted};

/// Whose memory an endpoint moves.
#[derive(Debug, Clone, Default)]
pub enum MemoryOf {
    /// The host's.
    #[default]
    Host,
    /// A GPU's only.
    Gpu(Wanted),
    /// A GPU's and the host's, as each buffer is; the host's only on a node where the GPU cannot be
    /// used.
    Either(Wanted),
    /// Only that of a GPU which the program has opened.
    Opened(Arc<CudaMemory>),
}

/// The memory that an endpoint can move.
pub(crate) struct Movable {
    gpu: Option<Arc<CudaMemory>>,
    /// The GPU that the plugin wants current in each thread that calls it.
    current: Option<Arc<CudaMemory>>,
    host: bool,
    /// Why there is no GPU, where one was named.
    why_not: Option<String>,
}

impl Movable {
    /// Opens the GPU.
    ///
    /// # Errors
    /// It cannot be used, and the endpoint is to move only its memory.
    pub(crate) fn open(whose: &MemoryOf) -> Result<Self, Error> {
        let (gpu, host, why_not) = match whose {
            MemoryOf::Host => (None, true, None),
            MemoryOf::Gpu(wanted) => {
                let opened = CudaMemory::open(wanted);
                let opened = opened.map_err(|error| Error::Plugin(error.to_string()))?;
                (Some(Arc::new(opened)), false, None)
            }
            MemoryOf::Opened(gpu) => (Some(Arc::clone(gpu)), false, None),
            MemoryOf::Either(wanted) => match CudaMemory::open(wanted) {
                Ok(opened) => (Some(Arc::new(opened)), true, None),
                Err(error) => (None, true, Some(error.to_string())),
            },
        };
        Ok(Self {
            current: gpu.clone(),
            gpu,
            host,
            why_not,
        })
    }

    /// Without a GPU of its own, an endpoint makes the one current for which its plugin was loaded.
    pub(crate) fn follow(&mut self, gpu: Option<&Arc<CudaMemory>>) {
        if self.current.is_none() {
            self.current = gpu.cloned();
        }
    }

    pub(crate) fn gpu(&self) -> Option<&Arc<CudaMemory>> {
        self.gpu.as_ref()
    }

    /// Number and PCI address of the GPU.
    pub(crate) fn device(&self) -> Option<(u32, String)> {
        let device = self.gpu.as_ref()?.device();
        Some((device.ordinal as u32, device.pci_address.to_string()))
    }

    /// Makes the GPU current in the calling thread: plugins use the current one.
    pub(crate) fn make_current(&self) -> Result<(), Error> {
        let Some(gpu) = &self.current else {
            return Ok(());
        };
        gpu.make_current()
            .map_err(|error| Error::Plugin(error.to_string()))
    }

    /// The pages of the GPU that hold a buffer; `None` for host memory, which is not asked whether it
    /// is mapped. An error if this endpoint does not move the buffer.
    pub(crate) fn pages(&self, address: usize, len: usize) -> Result<Option<Range<usize>>, Error> {
        let Some(gpu) = &self.gpu else {
            return Ok(None);
        };
        let pages = gpu.pages(address as u64, len);
        match pages.map_err(|error| Error::Usage(error.to_string()))? {
            Some(pages) => Ok(Some(pages.start as usize..pages.end as usize)),
            None if self.host => Ok(None),
            None => Err(Error::Usage(format!(
                "the buffer at {address:#x} is not memory of {}, and this endpoint moves no other: make the tensor there, or an endpoint without a GPU",
                gpu.describe()
            ))),
        }
    }

    /// Why memory of a GPU is not moved; `None` if it is.
    pub(crate) fn without_gpu(&self) -> Option<String> {
        match (&self.gpu, &self.why_not) {
            (Some(_), _) => None,
            (None, Some(why)) => Some(format!("the GPU of this endpoint cannot be used: {why}")),
            (None, None) => Some("this endpoint moves host memory".to_owned()),
        }
    }

    /// What to add where host memory turned out not to be mapped.
    pub(crate) fn remark(&self) -> String {
        match &self.why_not {
            Some(why) => format!("; if they are a GPU's, that cannot be used: {why}"),
            None => String::new(),
        }
    }
}

impl Default for Movable {
    fn default() -> Self {
        Self {
            gpu: None,
            current: None,
            host: true,
            why_not: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_of_the_host_asks_no_driver() {
        let movable = Movable::open(&MemoryOf::Host).expect("no GPU is needed");
        assert_eq!(movable.pages(4096, 1), Ok(None));
        assert_eq!((movable.device(), movable.remark()), (None, String::new()));
    }
}
