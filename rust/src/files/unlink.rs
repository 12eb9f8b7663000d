//! Removes files beneath a root without their locks, many in one call: for names that are written once and never again, so that no writer can interfere.

use pyo3::prelude::*;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::{Errno, Result as System};

use crate::columns::ColumnMut;
use crate::files::beneath::retry;
use crate::files::descriptor::borrowed;
use crate::files::folders::{LastFolder, Make, check_names};
use crate::files::name_threads::for_names;

const REMOVED: [i64; 1] = [0];
const ABSENT: [i64; 1] = [-1];

fn unlink_one(root: BorrowedFd<'_>, name: &str, last: &mut LastFolder) -> System<()> {
    let (folder, base) = last.enter(root, name, Make::Nothing)?;
    retry(|| unlinkat(folder, base, AtFlags::empty()))
}

#[pyfunction]
pub fn unlink_files(py: Python<'_>, root: i32, names: Vec<String>, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let root = borrowed(root)?;
    check_names(&names, "names")?;
    let mut result = ColumnMut::<1>::of(result, "result", names.len())?;
    for_names(py, 1, result.rows(), |number, last, _| match unlink_one(root, &names[number], last) {
        Ok(()) => REMOVED,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => ABSENT,
        Err(error) => [i64::from(error.raw_os_error())],
    })
}
