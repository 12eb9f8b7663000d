//! The descriptor of an open folder, which Python holds.

use std::os::fd::AsRawFd;
use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};

use crate::files::beneath::retry;

/// Opened and closed by the kernel: an interrupt that comes between an `os.open` and the object that closes the descriptor would leave it open, and one that comes in a
/// `__del__` is lost.
#[pyclass(frozen, module = "frazil._kernel")]
struct Descriptor(OwnedFd);

#[pymethods]
impl Descriptor {
    /// OSError where the folder cannot be opened; without its path, as Python would import pathlib for that, which needs a descriptor.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Descriptor> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = py.detach(|| retry(|| open(&path, flags, Mode::empty())));
        opened.map(Descriptor).map_err(|error| PyOSError::new_err((error.raw_os_error(), error.to_string())))
    }

    #[getter]
    fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Descriptor>()
}
