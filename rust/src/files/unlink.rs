//! Removes files beneath a root without their locks, many in one call: for names that are written once and never again, so that no writer can interfere.

use std::collections::HashMap;

use pyo3::prelude::*;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::{Errno, Result as System};

use crate::columns::{ColumnMut, wrong};
use crate::files::beneath::retry;
use crate::files::folders::{Make, check_names, open_folder};
use crate::files::name_threads::carry_out;

const REMOVED: [i64; 1] = [0];
const ABSENT: [i64; 1] = [-1];

/// The folders that one thread has open.
#[derive(Default)]
struct OpenFolders(HashMap<String, OwnedFd>);

fn unlink_one(root: BorrowedFd<'_>, name: &str, folders: &mut OpenFolders) -> System<()> {
    let Some((path, base)) = name.rsplit_once('/') else { return retry(|| unlinkat(root, name, AtFlags::empty())) };
    if !folders.0.contains_key(path) {
        folders.0.clear(); // names are sorted by folder
        folders.0.insert(path.to_owned(), open_folder(root, path, Make::Nothing)?);
    }
    retry(|| unlinkat(folders.0[path].as_fd(), base, AtFlags::empty()))
}

#[pyfunction]
#[pyo3(signature = (root, names, result))]
fn unlink_files(py: Python<'_>, root: i32, names: Vec<String>, result: &Bound<'_, PyAny>) -> PyResult<()> {
    if root < 0 {
        return Err(wrong("root: it is no descriptor".to_owned()));
    }
    check_names(&names, "names")?;
    let mut result = ColumnMut::<1>::of(result, "result", names.len())?;
    // SAFETY: the descriptor is the caller's and stays open during the call; if it is not open, every use of it returns an error.
    let root = unsafe { BorrowedFd::borrow_raw(root) };
    let lost = [i64::from(Errno::IO.raw_os_error())];
    carry_out(py, 1, result.rows(), lost, |number, folders, _| match unlink_one(root, &names[number], folders) {
        Ok(()) => REMOVED,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => ABSENT,
        Err(error) => [i64::from(error.raw_os_error())],
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(unlink_files, module)?)
}
