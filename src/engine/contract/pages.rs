//! Unpacks a finished receive: reads its scatter list and copies its bounce pages.
#![forbid(unsafe_code)]

use super::pair::{Pair, Posted};
use super::subject::{Checked, Shortfall};
use crate::gpu::{Scatter, ScatterSource};
use tcpx_abi::unpack::{ENTRIES, LoadMeta};

impl Pair<'_> {
    /// The scatter lists that the receiving end publishes.
    pub(super) fn scatter(&self) -> Checked<ScatterSource> {
        let handle = self
            .receiver()?
            .device_handle()
            .ok_or_else(|| Shortfall::Broken("accept did not fill in the device handle".into()))?;
        ScatterSource::from_host_handle(handle)
            .map_err(|error| Shortfall::Broken(error.to_string()))
    }

    /// Copies a finished receive into its buffer. Returns the number of fragments.
    pub(super) fn unpack(&self, posted: Posted) -> Checked<usize> {
        let source = self.scatter()?;
        let mut scratch = scratch();
        let list = read_list(&source, posted, posted.len, &mut scratch)?;
        self.gather(&list, posted)?;
        Ok(list.len())
    }

    /// Copies the fragments that `list` points to into the message's slot.
    pub(super) fn gather(&self, list: &Scatter<'_>, posted: Posted) -> Checked<()> {
        self.incoming()?.gather(list, posted.message, posted.len)
    }
}

/// A zeroed buffer for one scatter list.
pub(super) fn scratch() -> Box<[LoadMeta; ENTRIES]> {
    Box::new([LoadMeta::default(); ENTRIES])
}

/// The scatter list of a finished receive, checked against the `len` bytes sent.
pub(super) fn read_list<'a>(
    source: &'a ScatterSource,
    posted: Posted,
    len: usize,
    scratch: &'a mut [LoadMeta; ENTRIES],
) -> Checked<Scatter<'a>> {
    source
        .read(posted.nth, len as u64, scratch)
        .map_err(|error| Shortfall::Broken(error.to_string()))
}
