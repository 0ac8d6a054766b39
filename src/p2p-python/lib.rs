//! `tcpxctl._native`: endpoints for Python. The package in `tcpxctl/` is what programs import.
//! PyO3 turns a panic into a Python exception.

mod buffer;
mod errors;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<buffer::Buffer>()
}
