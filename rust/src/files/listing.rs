//! The names in one folder, of which there may be millions: those of one length in a sorted column, with the sizes of
//! their files if requested; and the few others that the caller needs.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::fd::BorrowedFd;
use rustix::fs::{Dir, FileType};
use rustix::io::{Errno, Result as System};

use crate::files::beneath::{kind_of, stat_in};
use crate::files::folders::borrowed;
use crate::sources::as_os_error;
use crate::threads::for_names;

const NAMES_BETWEEN_CHECKS: usize = 1 << 16; // names between two checks for Ctrl-C
const SIZES_AT_ONCE: usize = 1 << 16; // files whose sizes are read at once, which limits the memory of the threads
const REMOVED: i64 = -1;

struct Found {
    column: Vec<u8>,
    others: Vec<String>,
    interrupted: Option<PyErr>,
}

fn is_text(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_alphanumeric)
}

fn read_folder(folder: BorrowedFd<'_>, length: usize, suffix: &str) -> System<Found> {
    let mut found = Found { column: Vec::new(), others: Vec::new(), interrupted: None };
    for (number, entry) in Dir::read_from(folder)?.enumerate() {
        if number % NAMES_BETWEEN_CHECKS == NAMES_BETWEEN_CHECKS - 1
            && let Some(Err(error)) = Python::try_attach(|py| py.check_signals())
        {
            found.interrupted = Some(error);
            return Ok(found);
        }
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let fits = name.len() == length && is_text(name);
        let ends = name.ends_with(suffix.as_bytes());
        if !fits && !ends && entry.file_type() == FileType::RegularFile {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => stat_in(folder, entry.file_name())?.as_ref().map(kind_of), // the folder itself does not have it
            kind => Some(kind),
        };
        match kind {
            Some(FileType::RegularFile) if fits => found.column.extend_from_slice(name),
            Some(FileType::RegularFile) if ends => found.others.extend(std::str::from_utf8(name).map(str::to_owned)),
            Some(FileType::Directory) if name != b"." && name != b".." => {
                found.others.extend(std::str::from_utf8(name).map(|name| format!("{name}/")));
            }
            _ => {}
        }
    }
    found.column = sorted(&found.column, length);
    Ok(found)
}

/// The rows of a column in order. Most differ in their first bytes.
fn sorted(column: &[u8], length: usize) -> Vec<u8> {
    if length == 0 {
        return Vec::new();
    }
    let start = |row: &[u8]| row.iter().take(8).fold(0u64, |key, &byte| key << 8 | u64::from(byte));
    let mut rows: Vec<(u64, &[u8])> = column.chunks_exact(length).map(|row| (start(row), row)).collect();
    rows.sort_unstable();
    let mut all = Vec::with_capacity(column.len());
    for (_, row) in rows {
        all.extend_from_slice(row);
    }
    all
}

/// The size of a file; REMOVED if no regular file has this name any more; an error as REMOVED minus its code.
fn size_of(folder: BorrowedFd<'_>, name: &[u8]) -> i64 {
    match stat_in(folder, name) {
        Ok(Some(stat)) if kind_of(&stat) == FileType::RegularFile => stat.st_size,
        Ok(_) => REMOVED,
        Err(error) => REMOVED - i64::from(error.raw_os_error()),
    }
}

/// The sizes of the files in a column of names. Names of removed files are removed from the column.
fn sizes_of(py: Python<'_>, folder: BorrowedFd<'_>, column: &mut Vec<u8>, length: usize, threads: usize) -> PyResult<Vec<i64>> {
    if length == 0 {
        return Ok(Vec::new());
    }
    let mut found = vec![[REMOVED]; column.len() / length];
    for (names, sizes) in column.chunks(length * SIZES_AT_ONCE).zip(found.chunks_mut(SIZES_AT_ONCE)) {
        for_names(py, threads, sizes, |number, (): &mut (), _| [size_of(folder, &names[number * length..(number + 1) * length])])?;
        if let Some([size]) = sizes.iter().find(|[size]| *size < REMOVED) {
            return Err(as_os_error(Errno::from_raw_os_error((REMOVED - size) as i32)));
        }
    }
    let mut sizes = Vec::with_capacity(found.len());
    for (row, [size]) in found.into_iter().enumerate() {
        if size != REMOVED {
            column.copy_within(row * length..(row + 1) * length, sizes.len() * length);
            sizes.push(size);
        }
    }
    column.truncate(sizes.len() * length);
    Ok(sizes)
}

type Listing<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>, Vec<String>);

#[pyfunction]
pub fn list_folder<'py>(
    py: Python<'py>,
    folder: i32,
    length: usize,
    suffix: String,
    sizes: bool,
    threads: usize,
) -> PyResult<Listing<'py>> {
    let folder = borrowed(folder)?;
    let mut found = py.detach(|| read_folder(folder, length, &suffix)).map_err(as_os_error)?;
    if let Some(error) = found.interrupted {
        return Err(error);
    }
    let sizes = match sizes {
        true => Some(sizes_of(py, folder, &mut found.column, length, threads)?),
        false => None,
    };
    let sizes = sizes.map(|sizes| {
        PyBytes::new_with(py, sizes.len() * 8, |bytes| {
            for (bytes, size) in bytes.chunks_exact_mut(8).zip(sizes) {
                bytes.copy_from_slice(&size.to_ne_bytes());
            }
            Ok(())
        })
    });
    Ok((PyBytes::new(py, &found.column), sizes.transpose()?, found.others))
}
