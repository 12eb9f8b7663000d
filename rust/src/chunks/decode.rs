//! `decode_chunks`: chunks decoded and scattered into a strided array.

use pyo3::prelude::*;

use crate::chunks::box_copies::{BoxCopier, CopyStrides, Direction};
use crate::chunks::boxes::{Boxes, Entries};
use crate::chunks::chain::Target;
use crate::chunks::copy::Item;
use crate::chunks::points::Points;
use crate::chunks::program::{Elements, Program};
use crate::columns::{Column, Room, Strided, Table, wrong};
use crate::failures::{FailureRows, Outcome};
use crate::fetch::{COST_OF_A_READ, ReadPart, Requested, Rows, Sink, parse_expect};
use crate::sources::Files;
use crate::threads::Worker;

/// Chunks of at most this many bytes are read whole, as one read includes several of them.
const SMALL: usize = 4 << 10;
/// Rows of at least this many bytes are read straight into the array.
const STRAIGHT: usize = 64 << 10;

/// Chunks that are decoded into their boxes of an array.
pub struct Chunks<'a> {
    program: &'a Program,
    boxes: Boxes<'a>,
    out: Room,
    out_strides: &'a [isize],
    // For missing chunks: the fill value as a chunk whose elements all have one address, already in memory order.
    no_strides: Vec<isize>,
    plain: Item,
}

/// BoxCopiers from a chunk, and from the fill value.
pub struct BoxCopiers<'a> {
    chunk: BoxCopier<'a>,
    fill: BoxCopier<'a>,
}

impl<'a> Chunks<'a> {
    pub fn new(program: &'a Program, boxes: Boxes<'a>, out: Room, out_strides: &'a [isize]) -> Chunks<'a> {
        let (no_strides, plain) = (vec![0; program.shape.len()], Item::Plain { size: program.itemsize });
        Chunks { program, boxes, out, out_strides, no_strides, plain }
    }

    fn box_copier(&'a self, item: &'a Item, chunk: &'a [isize]) -> BoxCopier<'a> {
        BoxCopier::new(&self.boxes, CopyStrides { direction: Direction::ToArray, item, chunk, array: self.out_strides })
    }

    /// How many dimensions are walked when parts of the box of a raw chunk are read one by one, and bytes of each read: as soon as
    /// the parts are small or dense. None if one read of the hull is cheaper.
    fn slabs(&self, inner_chunk: usize) -> Option<usize> {
        let (program, boxes) = (self.program, &self.boxes);
        let (all, hull) = boxes.hull(inner_chunk, 0, &program.strides, program.itemsize);
        if hull.len() < 64 * COST_OF_A_READ || !program.in_order {
            return None;
        }
        for walked in 1..=program.shape.len() {
            let (inner, part) = boxes.hull(inner_chunk, walked, &program.strides, program.itemsize);
            let dense = part.len() <= COST_OF_A_READ || part.len() / program.itemsize <= 4 * inner;
            if dense || walked == program.shape.len() {
                let cost = (all / inner.max(1)).saturating_mul(part.len() + COST_OF_A_READ);
                return (cost < hull.len()).then_some(walked);
            }
        }
        None
    }
}

impl<'a> Sink for &'a Chunks<'a> {
    type Local = BoxCopiers<'a>;

    fn local(&self) -> BoxCopiers<'a> {
        let chunks: &'a Chunks<'a> = self;
        BoxCopiers {
            chunk: chunks.box_copier(&chunks.program.item, &chunks.program.strides),
            fill: chunks.box_copier(&chunks.plain, &chunks.no_strides),
        }
    }

    fn weight(&self, _inner_chunk: usize) -> usize {
        self.program.size
    }

    fn is_slow(&self) -> bool {
        self.program.chain.is_slow()
    }

    fn check_length(&self, _inner_chunk: usize, length: u64) -> Outcome {
        self.program.check_length(length)
    }

    fn requested(&self, inner_chunk: usize) -> Requested {
        if self.boxes.is_empty(inner_chunk) {
            return Requested::Part(0..0);
        }
        if !self.program.chain.is_empty() || self.program.size <= SMALL {
            return Requested::All;
        }
        if self.slabs(inner_chunk).is_some() {
            return Requested::Scattered;
        }
        Requested::Part(self.boxes.hull(inner_chunk, 0, &self.program.strides, self.program.itemsize).1)
    }

    fn straight(&self, local: &mut BoxCopiers<'a>, inner_chunk: usize, length: usize) -> Option<&mut [u8]> {
        if !self.program.chain.is_empty() || length < STRAIGHT || self.boxes.is_empty(inner_chunk) {
            return None;
        }
        local.chunk.select(inner_chunk, 0);
        let (_, at, row) = local.chunk.one_row().filter(|row| row.2 == length)?;
        // SAFETY: the box is inside `out`, which is lent for the call, as `row` contiguous bytes from `at` on; the boxes of a call
        // do not overlap (the contract), so no other thread touches these.
        Some(unsafe { std::slice::from_raw_parts_mut(self.out.start().wrapping_offset(at), row) })
    }

    fn missing(&self, local: &mut BoxCopiers<'a>, _worker: &mut Worker, inner_chunk: usize) -> Outcome {
        if !self.boxes.is_empty(inner_chunk) {
            local.fill.select(inner_chunk, 0);
            // SAFETY: all strides of this side are 0, so it is read at one element, the fill value; `out` as in `straight`.
            unsafe { local.fill.copy(0, self.program.fill.as_ptr().cast_mut(), self.out.start()) };
        }
        Ok(())
    }

    fn take(&self, local: &mut BoxCopiers<'a>, worker: &mut Worker, inner_chunk: usize, bytes: &[u8], start: usize) -> Outcome {
        let program = self.program;
        if self.boxes.is_empty(inner_chunk) {
            return Ok(());
        }
        let box_copier = &mut local.chunk;
        box_copier.select(inner_chunk, 0);
        if let Some((_, at, row)) = box_copier.one_row()
            && row == program.size
            && program.chain.makes_bytes()
        {
            // SAFETY: as in `straight`.
            let out = unsafe { std::slice::from_raw_parts_mut(self.out.start().wrapping_offset(at), row) };
            program.chain.decode(&mut worker.tools, bytes, &program.sizes, Target::Slice(out))?;
            return Ok(());
        }
        let chunk = match program.chain.is_empty() {
            true => bytes,
            false => {
                let requested = self.boxes.hull(inner_chunk, 0, &program.strides, program.itemsize).1;
                program.chain.view(&mut worker.tools, bytes, &program.sizes, requested)?
            }
        };
        // SAFETY: `chunk` has the size of the whole chunk (checked), decoded at least in the hull of its box, or is that hull, from `start` on; `out` as in
        // `straight`.
        unsafe { box_copier.copy(0, chunk.as_ptr().wrapping_sub(start).cast_mut(), self.out.start()) };
        Ok(())
    }

    fn scattered(&self, local: &mut BoxCopiers<'a>, worker: &mut Worker, inner_chunk: usize, read: ReadPart<'_>) -> Outcome {
        let walked = self.slabs(inner_chunk).unwrap_or(0);
        local.chunk.select(inner_chunk, walked);
        let box_copier = &local.chunk;
        let hull = self.boxes.hull(inner_chunk, walked, &self.program.strides, self.program.itemsize).1;
        let bytes = worker.chunk.room(hull.len())?;
        box_copier.parts(walked, &mut |(chunk, array)| {
            read(chunk as usize + hull.start, bytes)?;
            let begin = bytes.as_mut_ptr().wrapping_sub(hull.start);
            // SAFETY: `bytes` is the hull of this part; `out` as in `straight`.
            unsafe { box_copier.copy(walked, begin, self.out.start().wrapping_offset(array)) };
            Ok(())
        })
    }
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's columns
pub fn decode_chunks(
    py: Python<'_>,
    program: &Bound<'_, Program>,
    files: Option<&Bound<'_, Files>>,
    buffers: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    expect: Option<&Bound<'_, PyAny>>,
    elements: Elements<'_>,
    out: &Bound<'_, PyAny>,
    threads: isize,
) -> PyResult<FailureRows> {
    let program = program.get();
    let rows = Rows::new(files, buffers, rows)?;
    let watch = parse_expect(expect, rows.files())?;
    let out = program.check_items(Strided::writable(out, "out")?, "out")?;
    match elements {
        Elements::Boxes(index, entries, runs) => {
            let index = Table::new(&index, "index", program.shape.len())?;
            let (entries, runs) = (Column::<2>::new(&entries, "entries")?, Column::<4>::new(&runs, "runs")?);
            if index.rows() != rows.len() {
                return Err(wrong(format!("index: expected {} rows, got {}", rows.len(), index.rows())));
            }
            let entries = Entries::new(&entries, &*runs, &program.shape).map_err(wrong)?;
            let boxes = Boxes::new(index.rows(), index.values(), &entries, &program.shape, &out.shape).map_err(wrong)?;
            let chunks = Chunks::new(program, boxes, out.room(), &out.strides);
            rows.fetch(py, watch.as_ref(), threads, &&chunks)
        }
        Elements::Points(first, points) => {
            let (first, points) = (Column::<1>::new(&first, "first")?, Column::<2>::new(&points, "points")?);
            let points = Points::new(program, &first, &points, out.view(), rows.len()).map_err(wrong)?;
            rows.fetch(py, watch.as_ref(), threads, &&points)
        }
    }
}
