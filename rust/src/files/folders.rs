//! Folders: those that Python holds open, and those of names beneath a root, which are checked, opened, created if they are missing. Files in them are not touched.

use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pyo3::prelude::*;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, Result as System};

use crate::columns::wrong;
use crate::files::beneath::{FOLDER, is_plain, resolve_beneath, retry};
use crate::sources::as_os_error;

pub(crate) const TRIES: usize = 1024; // how often a folder may be removed by others meanwhile

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

/// Whether missing folders are created, and synced to the medium before anything is in them.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Make {
    Nothing,
    Loose,
    Durable,
}

/// The folder that was entered last, as neighbours are mostly in one folder.
#[derive(Default)]
pub(crate) struct LastFolder(Option<(String, OwnedFd)>);

impl LastFolder {
    /// The folder of a name, and its last component.
    pub fn enter<'a>(&'a mut self, root: BorrowedFd<'a>, name: &'a str, make: Make) -> System<(BorrowedFd<'a>, &'a str)> {
        let Some((path, base)) = name.rsplit_once('/') else { return Ok((root, name)) };
        let held = match self.0.take() {
            Some(held) if held.0 == path => held,
            _ => (path.to_owned(), open_folder(root, path, make)?),
        };
        Ok((self.0.insert(held).1.as_fd(), base))
    }
}

/// Raises ValueError for an invalid name of a file beneath a root.
pub(crate) fn check_names(names: &[String], what: &str) -> PyResult<()> {
    match names.iter().find(|name| !is_plain(name)) {
        Some(name) => Err(wrong(format!("{what}: {name:?} is not the name of a file beneath the root"))),
        None => Ok(()),
    }
}

/// The folder of a path. NOENT if it is missing, or, if it is to be created, if another process removes it at the same time.
pub(crate) fn open_folder(root: BorrowedFd<'_>, path: &str, make: Make) -> System<OwnedFd> {
    let mut tries = 0;
    loop {
        let opened = match resolve_beneath(root, path, FOLDER, Mode::empty()) {
            Err(Errno::NOENT) if make != Make::Nothing => make_folders(root, path, make == Make::Durable),
            opened => opened,
        };
        tries += 1;
        if make == Make::Nothing || tries == TRIES || !matches!(opened, Err(Errno::NOENT)) {
            return opened;
        }
    }
}

/// Creates the missing folders of a path, one after the other; NOENT if another process removes them at the same time.
fn make_folders(root: BorrowedFd<'_>, path: &str, durable: bool) -> System<OwnedFd> {
    let mut folder: Option<OwnedFd> = None;
    for part in path.split('/') {
        let here = folder.as_ref().map_or(root, |fd| fd.as_fd());
        let open = || retry(|| openat(here, part, FOLDER | OFlags::NOFOLLOW, Mode::empty()));
        let mut opened = open();
        if let Err(Errno::NOENT) = opened {
            match retry(|| rustix::fs::mkdirat(here, part, Mode::from_raw_mode(0o777))) {
                Ok(()) | Err(Errno::EXIST) if durable => sync_names(here)?, // another writer that created it may not have synced it yet
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            opened = open();
        }
        folder = Some(opened?);
    }
    folder.ok_or(Errno::INVAL)
}

/// Learns of writes that failed later: a network file system reports a full disk or a used-up quota only when a descriptor is closed. It does so for each one,
/// so a copy of the descriptor is closed, and the file keeps its lock.
#[allow(unsafe_code)]
pub(crate) fn flush(file: BorrowedFd<'_>) -> System<()> {
    let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(file, 0) else { return Ok(()) }; // too many files are open
    // SAFETY: the descriptor is ours, and nothing uses it any more.
    match unsafe { libc::close(copy.into_raw_fd()) } {
        0 => Ok(()),
        _ => match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::INTR) => Ok(()), // it is closed
            error => Err(error.unwrap_or(Errno::IO)),
        },
    }
}

/// Learns of earlier writes that failed; durable: and writes the file to the medium.
pub(crate) fn settle(file: BorrowedFd<'_>, durable: bool) -> System<()> {
    if durable { sync(file) } else { flush(file) }
}

/// On macOS fsync does not write to the medium; rustix has the call that does.
pub(crate) fn sync(file: BorrowedFd<'_>) -> System<()> {
    #[cfg(target_vendor = "apple")]
    if retry(|| rustix::fs::fcntl_fullfsync(file)).is_ok() {
        return Ok(());
    }
    retry(|| rustix::fs::fsync(file))
}

/// Syncs the names in a folder. Some disks have no such call (INVAL): their names are as safe as they can be.
pub(crate) fn sync_names(folder: BorrowedFd<'_>) -> System<()> {
    match sync(folder) {
        Err(Errno::INVAL) => Ok(()),
        done => done,
    }
}
