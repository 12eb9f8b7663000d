//! `read_shards`: checking the arguments from Python. The work is in shard_batch.rs.

use pyo3::prelude::*;

use crate::chunks::program::Program;
use crate::chunks::selection::{BoxSelection, PointSelection, Selection};
use crate::chunks::shard_batch::{Answer, Call, Location, Tables};
use crate::chunks::shard_index::ShardIndex;
use crate::columns::{Bytes, Column, ColumnMut, Strided, Table, wrong};
use crate::files::folders::borrowed;
use crate::sources::{Files, Sources};
use crate::threads::on_threads;

/// The selected elements of an array: (axes, rows) of a box, or (shards, offsets, chunks, first, points).
#[derive(FromPyObject)]
pub enum Selected<'py> {
    Box(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>),
    Points(Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>),
}

/// Remembered indexes: many tables, and the version of the shard of each; None: they are always valid.
type Remembered<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's columns
pub fn read_shards(
    py: Python<'_>,
    program: &Bound<'_, Program>,
    levels: Vec<Bound<'_, ShardIndex>>,
    names: Option<(i32, String, String)>,
    files: Option<&Bound<'_, Files>>,
    buffers: &Bound<'_, PyAny>,
    objects: &Bound<'_, PyAny>,
    selected: Selected<'_>,
    remembered: Vec<Remembered<'_>>,
    slots: Option<&Bound<'_, PyAny>>,
    fresh: &Bound<'_, PyAny>,
    states: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    threads: isize,
) -> PyResult<Answer> {
    let (program, rank) = (program.get(), program.get().shape.len());
    let out = program.check_items(Strided::writable(out, "out")?, "out")?;
    let levels: Vec<&ShardIndex> = levels.iter().map(Bound::get).collect();
    if levels.iter().any(|level| !level.is_plain()) {
        return Err(wrong("levels: the codecs of an index are not the kernel's"));
    }
    let columns;
    let selection: Box<dyn Selection> = match selected {
        Selected::Box(axes, rows) => Box::new(BoxSelection::new(program, &levels, &axes, rows.as_ref(), out.view())?),
        Selected::Points(shards, offsets, chunks, first, points) => {
            let (shards, chunks) = (Table::new(&shards, "shards", rank)?, Table::new(&chunks, "chunks", rank)?);
            columns = (shards, Column::new(&offsets, "offsets")?, chunks, Column::new(&first, "first")?, Column::new(&points, "points")?);
            let (shards, offsets, chunks, first, points) = &columns;
            let (shards, chunks) = (shards.values(), chunks.values());
            Box::new(PointSelection::new(program, &levels, shards, offsets, chunks, first, points, out.view())?)
        }
    };
    let shards = selection.shards();
    let (buffers, objects) = (Bytes::all(buffers, "buffers")?, Column::<3>::new(objects, "objects")?);
    let Sources { files, buffers } = Sources::new(files.map(Bound::get), &buffers);
    let location = match &names {
        Some((root, lead, separator)) => Location::Named { root: borrowed(*root)?, lead, separator },
        None if objects.len() == shards => Location::Listed { files, rows: &objects },
        None => return Err(wrong(format!("objects: got {} for {shards} shards", objects.len()))),
    };
    if let Location::Listed { files, rows } = location {
        Sources { files, buffers: buffers.clone() }.check(rows)?;
    }
    let block = |(tables, versions): &Remembered<'_>| {
        let versions = versions.as_ref().map(|versions| Column::<3>::new(versions, "remembered")).transpose()?;
        PyResult::Ok((Column::<2>::new(tables, "remembered")?, versions))
    };
    let blocks: Vec<_> = remembered.iter().map(block).collect::<PyResult<_>>()?;
    let remembered: Vec<Tables<'_>> = blocks.iter().map(|(tables, versions)| (&**tables, versions.as_deref())).collect();
    let slots = slots.map(|slots| Column::<2>::of(slots, "slots", shards)).transpose()?;
    let (slots, total) = (slots.as_deref(), levels.first().map_or(0, |level| level.total));
    let fresh_tables = fresh_tables(slots, &remembered, shards, total)?;
    let mut fresh = ColumnMut::<2>::of(fresh, "fresh", fresh_tables.iter().flatten().count() * total)?;
    let mut states = ColumnMut::<4>::of(states, "states", shards)?;
    let (fresh, states, selection, levels) = (fresh.room(), states.rows(), &*selection, &levels[..]);
    on_threads(py, usize::MAX, threads, |threads| {
        Call { selection, levels, location, buffers: &buffers, remembered, slots, fresh_tables, fresh, threads }.run(states)
    })?
    .map_err(wrong)
}

/// For each shard its table among the fresh ones; None if slots has a remembered one, which is checked here.
fn fresh_tables(slots: Option<&[[i64; 2]]>, remembered: &[Tables<'_>], shards: usize, total: usize) -> PyResult<Vec<Option<usize>>> {
    let Some(slots) = slots else { return Ok((0..shards).map(Some).collect()) };
    let mut fresh = 0..shards;
    let tables_in = |(tables, versions): &Tables<'_>| versions.map_or(usize::MAX, <[_]>::len).min(tables.len() / total.max(1));
    let table = |slot: &[i64; 2]| {
        let block = usize::try_from(slot[0]).ok().and_then(|block| remembered.get(block));
        match (block, usize::try_from(slot[1])) {
            _ if slot[0] == -1 => Ok(fresh.next()),
            (Some(block), Ok(row)) if row < tables_in(block) => Ok(None),
            _ => Err(wrong(format!("slots: there is no table {slot:?}"))),
        }
    };
    slots.iter().map(table).collect()
}
