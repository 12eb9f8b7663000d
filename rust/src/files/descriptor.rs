//! Descriptors that Python holds: of an open folder, and those that it passes to functions.

use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pyo3::prelude::*;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;

use crate::columns::wrong;
use crate::files::beneath::{FOLDER, retry};
use crate::sources::as_os_error;

/// Opened and closed by the kernel: an interrupt between an `os.open` and the object that closes the descriptor would leave it open, and an interrupt in a
/// `__del__` is lost.
#[pyclass(frozen, module = "frazil._kernel")]
pub struct Descriptor(OwnedFd);

#[pymethods]
impl Descriptor {
    /// OSError if the folder cannot be opened; without its path, as Python would import pathlib for that, which needs a descriptor.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Descriptor> {
        py.detach(|| retry(|| open(&path, FOLDER, Mode::empty()))).map(Descriptor).map_err(as_os_error)
    }

    /// Opens folder after folder: the path may be longer than the system allows. The root itself is opened again, as two readers of a folder must not share a
    /// position.
    #[staticmethod]
    fn beneath(py: Python<'_>, root: i32, path: PathBuf) -> PyResult<Option<Descriptor>> {
        let root = borrowed(root)?;
        let opened = py.detach(|| {
            let mut folder = retry(|| openat(root, c".", FOLDER, Mode::empty()))?;
            for part in path.as_os_str().as_bytes().split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
                folder = retry(|| openat(&folder, part, FOLDER | OFlags::NOFOLLOW, Mode::empty()))?;
            }
            Ok(Descriptor(folder))
        });
        match opened {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            opened => opened.map(Some).map_err(as_os_error),
        }
    }

    #[getter]
    fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A descriptor that Python passes to a function, and keeps open until it returns.
pub(crate) fn borrowed(root: i32) -> PyResult<BorrowedFd<'static>> {
    if root < 0 {
        return Err(wrong("root: not a descriptor"));
    }
    // SAFETY: the descriptor is the caller's and stays open during the call; if it is not open, every use of it returns an error.
    Ok(unsafe { BorrowedFd::borrow_raw(root) })
}
