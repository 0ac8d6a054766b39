//! Memory of Python objects: the buffer protocol, or DLPack where an object lacks it, as PyTorch's
//! tensors on the CPU do; GPU memory by `__cuda_array_interface__`, or DLPack. The memory stays as
//! long as the `Buffer`.
#![expect(
    unsafe_code,
    reason = "calls the buffer protocol, and reads the tensor of a DLPack capsule"
)]

use crate::errors::usage;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// `Py_buffer`. PyO3 has it for limited APIs of 3.11 and newer only; its layout and the functions
/// are the same in all of 3.9 to 3.14.
#[repr(C)]
struct RawBuffer {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: isize,
    itemsize: isize,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

/// `PyBUF_FULL_RO`: any layout, also read-only, so that the reason of a refusal is ours to say.
const ANY_LAYOUT: c_int = 0x011C;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut RawBuffer, flags: c_int) -> c_int;
    fn PyBuffer_IsContiguous(view: *const RawBuffer, order: c_char) -> c_int;
    fn PyBuffer_Release(view: *mut RawBuffer);
}

/// A view that is released once. Boxed, because exporters may keep its address.
struct View(Box<RawBuffer>);

// SAFETY: it is created, read and dropped with the GIL held, as a part of a Python object.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: filled by `PyObject_GetBuffer`, released once, and the GIL is held, because
        // Python drops its objects.
        unsafe { PyBuffer_Release(&raw mut *self.0) };
    }
}

/// What keeps the memory.
enum Kept {
    View {
        _view: View,
    },
    /// A capsule that was not consumed: its destructor gives the tensor back.
    Capsule {
        _capsule: Py<PyCapsule>,
    },
    Object {
        _object: Py<PyAny>,
    },
}

/// The memory of an object.
#[pyclass(frozen, module = "tcpxctl._native")]
pub(crate) struct Buffer {
    #[pyo3(get)]
    address: usize,
    #[pyo3(get)]
    nbytes: usize,
    #[pyo3(get)]
    readonly: bool,
    /// Why it is known to be GPU memory; `None` for host memory.
    #[pyo3(get)]
    on_a_gpu: Option<String>,
    _kept: Kept,
}

#[pymethods]
impl Buffer {
    #[new]
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if object.hasattr("__cuda_array_interface__")? {
            return of_cuda_array(object);
        }
        match of_view(object) {
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {}
            made => return made,
        }
        if object.hasattr("__dlpack__")? {
            return of_dlpack(object);
        }
        let kind = object.get_type().name()?;
        Err(usage(
            py,
            format!(
                "an object of type {kind} has no memory to register: pass a NumPy array, a \
                 tensor, or any object with the buffer protocol"
            ),
        ))
    }
}

/// By the CUDA array interface, whose strides are in bytes. Work that a stream has not finished is not
/// waited for.
fn of_cuda_array(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    let py = object.py();
    let wrong = |what: &str| usage(py, format!("__cuda_array_interface__ has no usable {what}"));
    let described = object.getattr("__cuda_array_interface__")?;
    let field = |name: &str| described.get_item(name).map_err(|_| wrong(name));
    let (address, readonly): (usize, bool) = field("data")?.extract().map_err(|_| wrong("data"))?;
    let shape: Vec<i64> = field("shape")?.extract().map_err(|_| wrong("shape"))?;
    let kind: String = field("typestr")?.extract().map_err(|_| wrong("typestr"))?;
    let digits = kind.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let each: i64 = digits.parse().map_err(|_| wrong("typestr"))?;
    let strides: Option<Vec<i64>> = match described.get_item("strides") {
        Ok(strides) => strides.extract().map_err(|_| wrong("strides"))?,
        Err(_) => None,
    };
    if !is_contiguous(&shape, &strides.unwrap_or_default(), each) {
        return Err(not_contiguous(py));
    }
    let each = usize::try_from(each).unwrap_or(0);
    let nbytes = shape.iter().try_fold(each, |product, extent| {
        product.checked_mul(usize::try_from(*extent).ok()?)
    });
    Ok(Buffer {
        address,
        nbytes: nbytes.ok_or_else(|| usage(py, "a tensor with an impossible shape"))?,
        readonly,
        on_a_gpu: Some("it has __cuda_array_interface__".to_owned()),
        _kept: Kept::Object {
            _object: object.clone().unbind(),
        },
    })
}

fn not_contiguous(py: Python<'_>) -> PyErr {
    usage(
        py,
        "the buffer is not contiguous: its bytes have gaps or another order; make a contiguous copy first",
    )
}

/// By the buffer protocol; a `TypeError` where the object lacks it.
fn of_view(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    let py = object.py();
    let mut raw = Box::new(RawBuffer {
        buf: null_mut(),
        obj: null_mut(),
        len: 0,
        itemsize: 0,
        readonly: 1,
        ndim: 0,
        format: null_mut(),
        shape: null_mut(),
        strides: null_mut(),
        suboffsets: null_mut(),
        internal: null_mut(),
    });
    // SAFETY: the GIL is held, the object is alive, and the view is ours to write.
    let code = unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *raw, ANY_LAYOUT) };
    if code != 0 {
        let error = PyErr::fetch(py);
        return Err(match error.is_instance_of::<PyBufferError>(py) {
            true => usage(py, format!("the object does not show its memory: {error}")),
            false => error,
        });
    }
    let view = View(raw);
    // SAFETY: the view was filled and is not released yet.
    if unsafe { PyBuffer_IsContiguous(&raw const *view.0, b'C' as c_char) } == 0 {
        return Err(not_contiguous(py));
    }
    Ok(Buffer {
        address: view.0.buf.addr(),
        nbytes: usize::try_from(view.0.len).unwrap_or(0),
        readonly: view.0.readonly != 0,
        on_a_gpu: None,
        _kept: Kept::View { _view: view },
    })
}

/// `DLTensor` of DLPack 0.x and 1.x.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// Devices whose memory the CPU reads: CPU, and host memory pinned for CUDA or ROCm.
const HOST: [i32; 3] = [1, 3, 11];
/// CUDA, also managed.
const CUDA: [i32; 2] = [2, 13];
/// More dimensions than any library has.
const DIMENSIONS_MAX: i32 = 64;

fn of_dlpack(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    let py = object.py();
    let (kind, number): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    let on_a_gpu = (!HOST.contains(&kind)).then(|| format!("DLPack device {kind}:{number}"));
    if on_a_gpu.is_some() && !CUDA.contains(&kind) {
        return Err(usage(
            py,
            format!(
                "a tensor on DLPack device {kind}:{number}: memory of the host and of CUDA devices is moved"
            ),
        ));
    }
    let refused = |error: PyErr| usage(py, format!("the tensor does not show its memory: {error}"));
    let capsule = object.call_method0("__dlpack__").map_err(refused)?;
    let capsule = capsule.cast_into::<PyCapsule>().map_err(PyErr::from)?;
    let tensor = capsule
        .pointer_checked(Some(c"dltensor"))?
        .cast::<DlTensor>();
    // SAFETY: a capsule of this name begins with a tensor, which lives as long as the capsule.
    let tensor = unsafe { tensor.as_ref() };
    if !(0..=DIMENSIONS_MAX).contains(&tensor.ndim) || (tensor.ndim > 0 && tensor.shape.is_null()) {
        return Err(usage(py, format!("a tensor of {} dimensions", tensor.ndim)));
    }
    let dimensions = tensor.ndim as usize;
    let shape = numbers(tensor.shape, dimensions);
    let strides = numbers(tensor.strides, dimensions);
    if !is_contiguous(shape, strides, 1) {
        return Err(not_contiguous(py));
    }
    let element = usize::from(tensor.bits) * usize::from(tensor.lanes);
    let bits = shape.iter().try_fold(element, |product, extent| {
        product.checked_mul(usize::try_from(*extent).ok()?)
    });
    let bits = bits.ok_or_else(|| usage(py, "a tensor with an impossible shape"))?;
    let offset = usize::try_from(tensor.byte_offset).unwrap_or(usize::MAX);
    let address = match tensor.data.addr() {
        0 => 0,
        start => start.saturating_add(offset),
    };
    Ok(Buffer {
        address,
        nbytes: bits.div_ceil(8),
        readonly: false,
        on_a_gpu,
        _kept: Kept::Capsule {
            _capsule: capsule.unbind(),
        },
    })
}

/// Shape or strides; none where the pointer is null.
fn numbers<'a>(start: *const i64, count: usize) -> &'a [i64] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: a number per dimension, as DLPack asks, alive as long as the capsule that the
    // caller holds.
    unsafe { std::slice::from_raw_parts(start, count) }
}

/// Whether elements follow each other in C order, with strides in units of `each`. No strides means
/// that they do.
fn is_contiguous(shape: &[i64], strides: &[i64], each: i64) -> bool {
    let mut expected = each;
    let is_empty = shape.contains(&0);
    let dimensions = shape.iter().zip(strides).rev();
    is_empty
        || dimensions.into_iter().all(|(extent, stride)| {
            let fits = *extent == 1 || *stride == expected;
            expected = expected.saturating_mul(*extent);
            fits
        })
}
