//! `read_shards`: checking the arguments from Python. The work is in shard_batch.rs.

use pyo3::prelude::*;
use rustix::fd::BorrowedFd;

use crate::chunks::program::Program;
use crate::chunks::selection::{BoxSelection, PointSelection, Selection};
use crate::chunks::shard_batch::{Answer, Call, Location, Tables};
use crate::chunks::shard_index::ShardIndex;
use crate::columns::{Bytes, Column, ColumnMut, Strided, Table, wrong};
use crate::files::descriptor::borrowed;
use crate::sources::{Files, Sources};
use crate::threads::on_threads;

/// Remembered indexes: many tables, and the version of the shard of each; None: they are always valid.
struct Remembered {
    tables: Column<2>,
    versions: Option<Column<3>>,
}

/// The selected elements of an array: (axes, rows) of a box, or (shards, offsets, chunks, first, points).
#[derive(FromPyObject)]
pub enum Selected<'py> {
    Box(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>),
    Points(Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>),
}

type RememberedTuple<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

/// The other arguments, in Python's memory, which it holds during the call.
struct Arguments<'a> {
    levels: Vec<&'a ShardIndex>,
    named: Option<(BorrowedFd<'a>, String, String)>,
    files: Option<&'a Files>,
    buffers: Vec<Bytes>,
    objects: Column<3>,
    remembered: Vec<Remembered>,
    slots: Option<Column<2>>,
    fresh: ColumnMut<2>,
    states: ColumnMut<4>,
    threads: isize,
}

impl<'a> Arguments<'a> {
    fn run<S: Selection>(&mut self, py: Python<'_>, selection: &S) -> PyResult<Answer> {
        let (shards, total) = (selection.shards(), self.levels.first().map_or(0, |level| level.total));
        let location = match &self.named {
            Some((root, lead, separator)) => Location::Named { root: *root, lead, separator },
            None if self.objects.len() == shards => Location::Listed { files: self.files, rows: &self.objects },
            None => return Err(wrong(format!("objects: got {} for {shards} shards", self.objects.len()))),
        };
        let buffers: Vec<&[u8]> = self.buffers.iter().map(Bytes::as_slice).collect();
        if let Location::Listed { files, rows } = location {
            Sources { files, buffers: buffers.clone() }.check(rows)?;
        }
        let remembered: Vec<Tables<'_>> = self.remembered.iter().map(|block| (&*block.tables, block.versions.as_deref())).collect();
        let (mut fresh_tables, mut fresh) = (Vec::with_capacity(shards), 0);
        for shard in 0..shards {
            let slot = self.slots.as_ref().map_or([-1, 0], |slots| slots.get(shard).copied().unwrap_or([i64::MIN, 0]));
            let rows = usize::try_from(slot[0])
                .ok()
                .and_then(|block| remembered.get(block))
                .map(|(tables, versions)| versions.map_or(usize::MAX, <[_]>::len).min(tables.len() / total.max(1)));
            match rows {
                _ if slot[0] == -1 => fresh_tables.push(Some(fresh)),
                Some(rows) if usize::try_from(slot[1]).is_ok_and(|row| row < rows) => fresh_tables.push(None),
                _ => return Err(wrong(format!("slots: there is no table {slot:?}"))),
            }
            fresh += usize::from(slot[0] == -1);
        }
        if self.fresh.rows().len() != fresh * total {
            return Err(wrong(format!("fresh: expected room for {fresh} indexes")));
        }
        let fresh = self.fresh.room();
        let states = self.states.rows();
        if states.len() != shards {
            return Err(wrong(format!("states: expected {shards} rows, got {}", states.len())));
        }
        let slots = self.slots.as_deref();
        let levels = &self.levels[..];
        on_threads(py, usize::MAX, self.threads, |threads| {
            Call { selection, levels, location, buffers: &buffers, remembered, slots, fresh_tables, fresh, threads }.run(states)
        })?
        .map_err(wrong)
    }
}

impl<'a> Arguments<'a> {
    #[allow(clippy::too_many_arguments)] // the contract's columns
    fn new(
        levels: &'a [Bound<'_, ShardIndex>],
        names: Option<(i32, String, String)>,
        files: Option<&'a Bound<'_, Files>>,
        buffers: &Bound<'_, PyAny>,
        objects: &Bound<'_, PyAny>,
        remembered: Vec<RememberedTuple<'_>>,
        slots: Option<&Bound<'_, PyAny>>,
        fresh: &Bound<'_, PyAny>,
        states: &Bound<'_, PyAny>,
        shards: usize,
        threads: isize,
    ) -> PyResult<Arguments<'a>> {
        if levels.iter().any(|level| !level.get().is_plain()) {
            return Err(wrong("levels: the codecs of an index are not the kernel's"));
        }
        let named = names.map(|(root, lead, separator)| PyResult::Ok((borrowed(root)?, lead, separator))).transpose()?;
        let block = |(tables, versions): RememberedTuple<'_>| {
            let versions = versions.map(|versions| Column::<3>::new(&versions, "remembered")).transpose()?;
            PyResult::Ok(Remembered { tables: Column::new(&tables, "remembered")?, versions })
        };
        Ok(Arguments {
            levels: levels.iter().map(Bound::get).collect(),
            named,
            files: files.map(Bound::get),
            buffers: Bytes::all(buffers, "buffers")?,
            objects: Column::new(objects, "objects")?,
            remembered: remembered.into_iter().map(block).collect::<PyResult<_>>()?,
            slots: slots.map(|slots| Column::of(slots, "slots", shards)).transpose()?,
            fresh: ColumnMut::new(fresh, "fresh")?,
            states: ColumnMut::of(states, "states", shards)?,
            threads,
        })
    }
}

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
    remembered: Vec<RememberedTuple<'_>>,
    slots: Option<&Bound<'_, PyAny>>,
    fresh: &Bound<'_, PyAny>,
    states: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    threads: isize,
) -> PyResult<Answer> {
    let (program, rank) = (program.get(), program.get().shape.len());
    let out = program.check_items(Strided::writable(out, "out")?, "out")?;
    let of_levels: Vec<&ShardIndex> = levels.iter().map(Bound::get).collect();
    let arguments = |shards| Arguments::new(&levels, names, files, buffers, objects, remembered, slots, fresh, states, shards, threads);
    match selected {
        Selected::Box(axes, rows) => {
            let selection = BoxSelection::new(program, &of_levels, &axes, rows.as_ref(), out.view())?;
            arguments(selection.shards())?.run(py, &selection)
        }
        Selected::Points(shards, offsets, chunks, first, points) => {
            let (shards, offsets) = (Table::new(&shards, "shards", rank)?, Column::new(&offsets, "offsets")?);
            let chunks = Table::new(&chunks, "chunks", rank)?;
            let (first, points) = (Column::new(&first, "first")?, Column::new(&points, "points")?);
            let (shards, chunks) = (shards.values(), chunks.values());
            let selection = PointSelection::new(program, &of_levels, shards, &offsets, chunks, &first, &points, out.view())?;
            arguments(selection.shards())?.run(py, &selection)
        }
    }
}
