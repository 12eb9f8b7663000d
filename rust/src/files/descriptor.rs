//! An open descriptor that Python holds.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use pyo3::prelude::*;

use crate::columns::wrong;

/// Closed when nobody holds it any more. No Python code runs for that: an interrupt that comes in a `__del__` is lost.
#[pyclass(frozen, module = "frazil._kernel")]
struct Descriptor(OwnedFd);

#[pymethods]
impl Descriptor {
    #[new]
    #[allow(unsafe_code)]
    fn new(fd: i32) -> PyResult<Descriptor> {
        if fd < 0 {
            return Err(wrong("fd: not a descriptor"));
        }
        // SAFETY: the caller opened it and gives it away (the contract), so nobody else closes it.
        Ok(Descriptor(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    #[getter]
    fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Descriptor>()
}
