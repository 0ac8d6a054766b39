//! `tcpxctl._native`: endpoints for Python. The package in `tcpxctl/` is what programs import.
//!
//! Every call that waits gives up the GIL and looks for signals, so that Ctrl-C ends it. PyO3
//! turns a panic into a Python exception.
//!
//! Not here: names, defaults and results of the Python interface, which are Python.

mod buffer;
mod endpoint;
mod errors;
mod waiting;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("NOTE_MAX", tcpx_p2p::NOTE_MAX)?;
    module.add_class::<buffer::Buffer>()?;
    module.add_class::<endpoint::Endpoint>()?;
    module.add_class::<endpoint::Transfer>()
}
