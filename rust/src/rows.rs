//! The rows of one call with their files and buffers, held during the call. Rows are read in fetch.rs.

use std::ops::Deref;

use pyo3::prelude::*;

use crate::columns::{Bytes, Column};
use crate::failures::FailureRows;
use crate::fetch::{Sink, Watch, fetch};
use crate::sources::{Files, Sources};
use crate::threads::{FEW, on_threads};

pub struct Rows<'py> {
    files: Option<Bound<'py, Files>>,
    buffers: Vec<Bytes>,
    rows: Column<3>,
}

impl<'py> Rows<'py> {
    /// ValueError if a row names a missing blob.
    pub fn new(files: Option<&Bound<'py, Files>>, buffers: &Bound<'_, PyAny>, rows: &Bound<'_, PyAny>) -> PyResult<Self> {
        let rows = Rows { files: files.cloned(), buffers: Bytes::all(buffers, "buffers")?, rows: Column::new(rows, "rows")? };
        rows.sources().check(&rows)?;
        Ok(rows)
    }

    pub fn files(&self) -> Option<&Files> {
        self.files.as_ref().map(Bound::get)
    }

    pub fn sources(&self) -> Sources<'_> {
        Sources::new(self.files(), &self.buffers)
    }

    /// Reads all rows into `sink`; returns the failures.
    pub fn fetch<S: Sink>(&self, py: Python<'_>, watch: Option<&Watch>, threads: isize, sink: &S) -> PyResult<FailureRows> {
        let (sources, rows): (_, &[[i64; 3]]) = (self.sources(), self);
        let weight = |row: usize| sink.weight(row).saturating_add(rows[row][2].max(0) as usize);
        let bytes = match self.files {
            None if rows.len() <= FEW => (0..rows.len()).map(weight).fold(0, usize::saturating_add),
            _ => usize::MAX,
        };
        Ok(on_threads(py, bytes, threads, |threads| fetch(&sources, rows, watch, threads, sink))?.into_rows())
    }
}

impl Deref for Rows<'_> {
    type Target = [[i64; 3]];

    fn deref(&self) -> &[[i64; 3]] {
        &self.rows
    }
}
