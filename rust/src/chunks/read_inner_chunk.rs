//! `read_inner_chunk`: elements of one inner chunk, of a shard in a file whose index is remembered: the shortest read. It has no error of its own; read_shards
//! reads what it does not, and finds the error.

use pyo3::prelude::*;

use crate::chunks::boxes::{Boxes, Entries};
use crate::chunks::decode::Chunks;
use crate::chunks::program::Program;
use crate::chunks::shard_index::{EMPTY, ShardIndex};
use crate::columns::{Column, Strided, wrong};
use crate::failures::MISSING;
use crate::fetch::{Watch, fetch};
use crate::files::folders::borrowed;
use crate::sources::{Files, Opened, Sources, State, Version};
use crate::threads::on_threads;

/// chunk, starts, counts, steps: for each dimension, as in the contract.
type SingleChunk = (Vec<i64>, Vec<i64>, Vec<i64>, Vec<i64>);

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's columns
pub fn read_inner_chunk(
    py: Python<'_>,
    program: &Bound<'_, Program>,
    index: &Bound<'_, ShardIndex>,
    names: (i32, String, String),
    single: SingleChunk,
    tables: &Bound<'_, PyAny>,
    versions: Option<&Bound<'_, PyAny>>,
    table: usize,
    out: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let (program, index, (root, mut name, separator)) = (program.get(), index.get(), names);
    let (root, rank) = (borrowed(root)?, program.shape.len());
    let out = program.check_items(Strided::writable(out, "out")?, "out")?;
    let (chunk, starts, counts, steps) = single;
    if [&chunk, &starts, &counts, &steps, &index.counts].iter().any(|along| along.len() != rank) {
        return Err(wrong(format!("chunk, starts, counts, steps: not of {rank} dimensions")));
    }
    let runs: Vec<_> = (0..rank).map(|axis| [starts[axis], counts[axis], steps[axis], 0]).collect();
    let (entries, axes): (Vec<_>, Vec<_>) = (0..rank as i64).map(|axis| ([axis, 1], axis)).unzip();
    let entries = Entries::new(&entries, &runs[..], &program.shape).map_err(wrong)?;
    let boxes = Boxes::new(1, &axes, &entries, &program.shape, &out.shape).map_err(wrong)?;
    let mut number = 0;
    for (axis, at) in chunk.iter().enumerate() {
        name += if axis > 0 { &separator } else { "" };
        name += &at.div_euclid(index.counts[axis]).to_string();
        number += at.rem_euclid(index.counts[axis]) * index.strides[axis];
    }
    let (tables, versions) =
        (Column::<2>::new(tables, "tables")?, versions.map(|versions| Column::<3>::new(versions, "versions")).transpose()?);
    let entry = table.checked_mul(index.total).and_then(|first| tables.get(first..)?.get(usize::try_from(number).ok()?));
    let entry = *entry.ok_or_else(|| wrong(format!("tables: there is no entry {number} in table {table}")))?;
    let version = versions.map(|versions| versions.get(table).copied().ok_or_else(|| wrong("versions: one for each table")));
    let version = version.transpose()?.map(|[inode, size, changed]| Version { inode, size, changed });
    let row = if entry == EMPTY { [MISSING, 0, 0] } else { [0, entry[0], entry[1]] };
    let chunks = Chunks::new(program, boxes, out.room(), &out.strides);
    on_threads(py, usize::MAX, 1, |threads| {
        let Ok(opened) = Opened::open(root, &name) else { return false };
        if version.is_some_and(|version| version != opened.version) {
            return false;
        }
        let watch = Watch::new(vec![Some(opened.version)]);
        let files = Files::kept(vec![State::Open(opened)]);
        let sources = Sources { files: Some(&files), buffers: Vec::new() };
        fetch(&sources, &[row], Some(&watch), threads, &&chunks).into_objects().is_empty()
    })
}
