//! The sources of bytes: objects beneath a root folder, and buffers in memory. The callers decide what is read, and when.

use std::ops::Deref;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Stat, fstat};
use rustix::io::{Errno, fcntl_dupfd_cloexec, pread};

use crate::columns::{Bytes, ColumnMut, wrong};
use crate::failures::{Code, Fault, MISSING, Outcome};
use crate::files::beneath::{open_beneath, retry};
use crate::files::folders::{TRIES, borrowed};

/// Distinguishes the states of a file: inode, size, time of change in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub inode: i64,
    pub size: i64,
    pub changed: i64,
}

impl Version {
    #[allow(clippy::unnecessary_cast)] // the types differ between systems
    pub fn of(stat: &Stat) -> Version {
        let changed = (stat.st_mtime as i64).wrapping_mul(1_000_000_000).wrapping_add(stat.st_mtime_nsec as i64);
        Version { inode: stat.st_ino as i64, size: stat.st_size as i64, changed }
    }

    /// From the 24 bytes that Python keeps: three little-endian int64.
    pub fn parse(bytes: &[u8]) -> Option<Version> {
        let ([inode, size, changed], []) = bytes.as_chunks::<8>() else { return None };
        let [inode, size, changed] = [inode, size, changed].map(|word| i64::from_le_bytes(*word));
        Some(Version { inode, size, changed })
    }
}

/// An open file and its state when it was opened.
pub struct Opened {
    pub file: OwnedFd,
    pub version: Version,
}

impl Opened {
    pub fn open(root: BorrowedFd<'_>, name: &str) -> Result<Opened, Errno> {
        let (file, stat) = open_beneath(root, name)?;
        Ok(Opened { file, version: Version::of(&stat) })
    }

    /// Its state now.
    pub fn version_now(&self) -> Result<Version, Errno> {
        Ok(Version::of(&fstat(&self.file)?))
    }

    /// Fills `into` from `start` on; fails with FAILED_RANGE if the file ends before.
    pub fn read_at(&self, start: u64, into: &mut [u8]) -> Outcome {
        let is_inside = start.checked_add(into.len() as u64).is_some_and(|end| end <= i64::MAX as u64);
        if is_inside && read_up_to(self.file.as_fd(), into, start).map_err(Fault::io)? == into.len() { Ok(()) } else { Err(beyond()) }
    }
}

/// Fills `into` from an offset on; returns how many bytes there were up to the end of the file.
pub fn read_up_to(file: BorrowedFd<'_>, into: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < into.len() {
        match retry(|| pread(file, &mut into[done..], at + done as u64))? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

#[cold]
fn beyond() -> Fault {
    Fault::new(Code::Range, "the bytes lie beyond the end of the object")
}

pub enum State {
    Open(Opened),
    Refused(Errno),
}

/// An open file: one that stays open, or one that was opened for this use only.
pub enum Handle<'a> {
    Kept(&'a Opened),
    Own(Opened),
}

impl Deref for Handle<'_> {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        match self {
            Handle::Kept(opened) => opened,
            Handle::Own(opened) => opened,
        }
    }
}

/// Objects named beneath a root folder, and the descriptors of the open ones, which are closed when it is dropped.
#[pyclass(frozen, module = "frazil._kernel")]
pub struct Files(Kept);

enum Kept {
    Open(Vec<State>),
    /// Each name is opened beneath this root when it is read.
    Root(OwnedFd, Vec<String>),
}

impl Files {
    /// Files that stay open.
    pub fn kept(states: Vec<State>) -> Files {
        Files(Kept::Open(states))
    }

    /// Files that are opened beneath a root when they are read.
    pub fn beneath(root: BorrowedFd<'_>, names: Vec<String>) -> Result<Files, Errno> {
        Ok(Files(Kept::Root(fcntl_dupfd_cloexec(root, 0)?, names)))
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::Open(states) => states.len(),
            Kept::Root(_, names) => names.len(),
        }
    }

    /// Opens a file that does not stay open.
    pub fn open(&self, number: usize) -> Result<Opened, Errno> {
        match &self.0 {
            Kept::Root(root, names) => Opened::open(root.as_fd(), &names[number]),
            Kept::Open(_) => Err(Errno::INVAL),
        }
    }

    /// The file of a number, opened now unless it stays open. None: it is missing, and files are opened when they are read.
    pub fn handle(&self, number: usize) -> Outcome<Option<Handle<'_>>> {
        match &self.0 {
            Kept::Open(states) => match &states[number] {
                State::Open(opened) => Ok(Some(Handle::Kept(opened))),
                State::Refused(error) => Err(Fault::io(*error)),
            },
            Kept::Root(..) => match self.open(number) {
                Ok(opened) => Ok(Some(Handle::Own(opened))),
                Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
                Err(error) => Err(Fault::io(error)),
            },
        }
    }

    /// Whether files stay open from `open_files` on.
    pub fn stays_open(&self) -> bool {
        matches!(self.0, Kept::Open(_))
    }
}

/// The files and buffers of one call.
pub struct Sources<'a> {
    pub files: Option<&'a Files>,
    pub buffers: Vec<&'a [u8]>,
}

/// The source of a row's bytes.
#[derive(Clone, Copy)]
pub enum Blob<'a> {
    Missing,
    Buffer(&'a [u8]),
    File(&'a Files, usize),
}

impl<'a> Sources<'a> {
    pub fn new(files: Option<&'a Files>, buffers: &'a [Bytes]) -> Sources<'a> {
        Sources { files, buffers: buffers.iter().map(Bytes::as_slice).collect() }
    }

    /// ValueError if a row names a missing blob.
    pub fn check(&self, rows: &[[i64; 3]]) -> PyResult<()> {
        match rows.iter().find(|row| self.blob(row[0]).is_none()) {
            Some(row) => Err(wrong(format!("rows: there is no blob {}", row[0]))),
            None => Ok(()),
        }
    }

    /// None: there is no such blob, an error of the engine.
    pub fn blob(&self, blob: i64) -> Option<Blob<'a>> {
        if blob == MISSING {
            Some(Blob::Missing)
        } else if blob < 0 {
            let number = usize::try_from(-1 - blob).ok()?;
            self.buffers.get(number).map(|bytes| Blob::Buffer(bytes))
        } else {
            let files = self.files?;
            let number = usize::try_from(blob).ok().filter(|&number| number < files.len())?;
            Some(Blob::File(files, number))
        }
    }
}

/// The bytes of (start, length) in an object of `size` bytes: start < 0 counts from the end, length < 0 means up to the end.
pub fn span(start: i64, length: i64, size: u64) -> Outcome<(u64, u64)> {
    let outside = || Fault::new(Code::Range, format!("({start}, {length}) reaches outside the object of {size} bytes"));
    let from = if start < 0 { size.checked_sub(start.unsigned_abs()) } else { Some(start as u64) };
    let from = from.filter(|&from| from <= size).ok_or_else(outside)?;
    let length = if length < 0 { size - from } else { length as u64 };
    if length > size - from {
        return Err(outside());
    }
    Ok((from, length))
}

/// An OSError with its errno, which pyo3's own conversion leaves out.
pub(crate) fn as_os_error(error: Errno) -> PyErr {
    PyOSError::new_err((error.raw_os_error(), std::io::Error::from(error).to_string()))
}

#[pyfunction]
#[pyo3(signature = (root, names, stat))]
pub fn open_files(py: Python<'_>, root: i32, names: Vec<String>, stat: Option<&Bound<'_, PyAny>>) -> PyResult<Files> {
    let root = borrowed(root)?;
    let stat = stat.map(|stat| ColumnMut::<4>::of(stat, "stat", names.len())).transpose()?;
    let Some(mut stat) = stat else {
        return Files::beneath(root, names).map_err(as_os_error);
    };
    let rows = stat.rows();
    let states = py.detach(|| {
        let opened = names.iter().zip(rows).map(|(name, row)| match Opened::open(root, name) {
            Ok(opened) => {
                *row = [0, opened.version.inode, opened.version.size, opened.version.changed];
                State::Open(opened)
            }
            Err(error) => {
                *row = [error.raw_os_error() as i64, 0, 0, 0];
                State::Refused(error)
            }
        });
        opened.collect()
    });
    Ok(Files::kept(states))
}

#[pyfunction]
pub fn read_files<'py>(py: Python<'py>, root: i32, names: Vec<String>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let root = borrowed(root)?;
    let values: Vec<Result<Vec<u8>, Errno>> = py.detach(|| names.iter().map(|name| read_file(root, name)).collect());
    let as_object = |value: Result<Vec<u8>, Errno>| match value {
        Ok(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        Err(error) => Ok(error.raw_os_error().into_pyobject(py)?.into_any()),
    };
    values.into_iter().map(as_object).collect()
}

/// The whole file, up to its end at the time of reading; again if another machine replaces it meanwhile, on a network file system.
fn read_file(root: BorrowedFd<'_>, name: &str) -> Result<Vec<u8>, Errno> {
    let mut tries = 0;
    loop {
        tries += 1;
        match read_once(root, name) {
            Err(Errno::STALE) if tries < TRIES => {}
            answer => return answer,
        }
    }
}

fn read_once(root: BorrowedFd<'_>, name: &str) -> Result<Vec<u8>, Errno> {
    let opened = Opened::open(root, name)?;
    let mut bytes = Vec::new();
    let size = usize::try_from(opened.version.size).map_err(|_| Errno::NOMEM)?;
    bytes.try_reserve_exact(size + 1).map_err(|_| Errno::NOMEM)?;
    loop {
        if bytes.len() == bytes.capacity() {
            bytes.try_reserve(bytes.len()).map_err(|_| Errno::NOMEM)?;
        }
        let at = bytes.len() as u64;
        let count = retry(|| pread(&opened.file, spare_capacity(&mut bytes), at))?;
        if count == 0 || bytes.len() == size {
            return Ok(bytes); // the end, or as many bytes as the file has, where one more had room
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_count_from_either_end() {
        assert_eq!(span(2, 3, 10).unwrap(), (2, 3));
        assert_eq!(span(-4, -1, 10).unwrap(), (6, 4));
        assert_eq!(span(10, 0, 10).unwrap(), (10, 0));
        for (start, length) in [(11, 0), (0, 11), (-11, 1), (i64::MAX, i64::MAX), (i64::MIN, i64::MIN), (-1, 2), (1, i64::MAX)] {
            assert_eq!(span(start, length, 10).unwrap_err().code, Code::Range, "{start} {length}");
        }
    }

    #[test]
    fn a_version_is_24_bytes() {
        assert_eq!(Version::parse(&[0; 23]), None);
        assert_eq!(Version::parse(&[0; 25]), None);
        let mut bytes = [0u8; 24];
        bytes[8] = 7;
        assert_eq!(Version::parse(&bytes), Some(Version { inode: 0, size: 7, changed: 0 }));
    }
}
