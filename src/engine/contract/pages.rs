//! From pages into place: the scatter list of a finished receive.
#![forbid(unsafe_code)]

use super::pair::{Pair, Posted};
use super::subject::{Checked, Shortfall};
use crate::gpu::{Scatter, ScatterSource};
use tcpx_abi::unpack::{ENTRIES, LoadMeta};

impl Pair<'_> {
    /// Where the receiving end publishes its scatter lists.
    pub(super) fn scatter(&self) -> Checked<ScatterSource> {
        let handle = self
            .receiver()?
            .device_handle()
            .ok_or_else(|| Shortfall::Broken("accept kept no device handle".into()))?;
        ScatterSource::from_host_handle(handle)
            .map_err(|error| Shortfall::Broken(error.to_string()))
    }

    /// Copies a finished receive from its pages into place; how many fragments.
    pub(super) fn unpack(&self, posted: Posted) -> Checked<usize> {
        let source = self.scatter()?;
        let mut scratch = scratch();
        let list = read_list(&source, posted, posted.len, &mut scratch)?;
        self.gather(&list, posted)?;
        Ok(list.len())
    }

    /// Copies what a scatter list points to now into the message's place.
    pub(super) fn gather(&self, list: &Scatter<'_>, posted: Posted) -> Checked<()> {
        self.incoming()?.gather(list, posted.message, posted.len)
    }
}

/// Room for a scatter list.
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
