//! Segments: bytes created by the kernel, lent to Python without a copy.

use std::ffi::c_int;
use std::ptr;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::memory::Growing;

/// Frozen bytes; their memory returns to a pool when the segment is dropped.
#[pyclass(frozen, module = "frazil._kernel")]
pub struct Segment(Growing);

impl Segment {
    pub fn new(bytes: Growing) -> Segment {
        Segment(bytes)
    }
}

#[pymethods]
impl Segment {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// # Safety
    /// Called by Python with a view to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let bytes = slf.get().0.bytes();
        let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: Python's view; the bytes do not move or change while the object lives (it is frozen), and the view holds the object. Marked as
        // read-only, so a request to write is refused.
        if unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) } == 0 {
            return Ok(());
        }
        // SAFETY: as above; a refused view holds nothing.
        unsafe { (*view).obj = ptr::null_mut() };
        Err(PyErr::fetch(slf.py()))
    }
}
